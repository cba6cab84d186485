"""Measures the delegate, the hosts' CPU kernels and ncnn's Vulkan backend on the same model,
interleaved in one run."""
