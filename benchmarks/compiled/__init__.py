"""Our kernels through AMD's real compiler, without a GPU.

RADV, Mesa's driver for AMD, has null devices: its compiler (ACO) makes pipelines for a family of
GPUs, and nothing runs. `check` compiles every kernel of the conformance cases and tells registers
and waves of each; `estimates` says what networks would take by a model of a GPU (see cost.py).
"""
