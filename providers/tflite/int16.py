"""The operators whose kernels in the hosts support quantized int16 ("16x8": with weights of int8),
and whose ops here compute exactly the same numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tflgpu_plugin.ir import HostOp

MOVES = """
BATCH_TO_SPACE_ND BROADCAST_TO CONCATENATION EXPAND_DIMS GATHER GATHER_ND MAXIMUM MAX_POOL_2D
MINIMUM MIRROR_PAD PACK PAD PADV2 REDUCE_MAX REDUCE_MIN RESHAPE RESIZE_NEAREST_NEIGHBOR REVERSE_V2
SLICE SPACE_TO_BATCH_ND SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK
"""
CONVERTS = "DEQUANTIZE QUANTIZE"
COMPUTES = (
    "ABS ADD AVERAGE_POOL_2D EXP LEAKY_RELU LOG LOGISTIC MEAN MUL RELU RELU6 RSQRT SOFTMAX SUB TANH"
)
MULTIPLIES = "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED TRANSPOSE_CONV"
OPERATORS = frozenset(f"{MOVES} {CONVERTS} {COMPUTES} {MULTIPLIES}".split())


def marked(rows: Iterable[HostOp]) -> tuple[HostOp, ...]:
    """Returns the rows, with `short` set for these operators."""
    return tuple(replace(row, short=True) if row.name in OPERATORS else row for row in rows)
