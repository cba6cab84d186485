"""Compiles our kernels with the real compilers of GPUs that are not there.

Mesa's driver for AMD, RADV, has null devices: its compiler (ACO) makes pipelines for a family of
GPUs, and nothing runs. Mesa's drivers for Intel, NVIDIA, Apple and Qualcomm open a render node that
we emulate (shim.py, devices.py). `check` compiles every kernel of the conformance cases and reports
registers and waves of each; `estimates` predicts the time of networks by a model of the GPU (see
cost.py). `translated` checks what wgpu makes of the kernels for D3D12 and Metal."""
