"""Compiles our kernels with AMD's real compiler, without a GPU.

RADV, Mesa's driver for AMD, has null devices: its compiler (ACO) makes pipelines for a family of
GPUs, and nothing runs. `check` compiles every kernel of the conformance cases and reports registers
and waves of each; `estimates` predicts the time of networks by a model of a GPU (see cost.py).
`translated` checks what wgpu makes of the kernels for D3D12 and Metal."""
