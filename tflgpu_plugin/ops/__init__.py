"""The op table: every internal op, one file per family; `conv.py` here, `kernels/conv.wgsl` and
`conformance/cases/conv.py` go together. This module is the only list of families.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module

from tflgpu_plugin.ops.table import Op

FAMILIES = (
    "conv",
    "depthwise",
    "transpose_conv",
    "conv_3d",
    "fully_connected",
    "pool",
    "unpool",
    "binary",
    "unary",
    "prelu",
    "softmax",
    "reduce",
    "reshape",
    "transpose",
    "rearrange",
    "strided_slice",
    "split",
    "pad",
    "concat",
    "resize",
    "resample",
    "lstm",
    "recurrent",
    "normalization",
    "lrn",
    "matmul",
    "quantization",
    "pick",
    "arg",
)


@cache
def rows() -> dict[str, Op]:
    """All ops by name; each family module has a tuple `OPS`."""
    found: dict[str, Op] = {}
    for family in FAMILIES:
        for op in import_module(f"tflgpu_plugin.ops.{family}").OPS:
            if op.name in found:
                raise ValueError(
                    f"op {op.name} is in two families, {found[op.name].family} and {family}"
                )
            found[op.name] = replace(op, family=family)
    return found
