"""The table of TFLite operators: what each becomes, its version ranges, and which reader of
`params` its parameters have.

`versions` go to the last one that the converter of TensorFlow 2.21 writes: a version is a superset
of the ones before, and all nodes of an operator have the highest that one of them needs, so that a
float32 node may have that of int4. Types are judged by themselves. The documented ranges are the
two editions of the GPU delegate documentation, and "quantized": up to the version that carries int8
and per-channel tensors by the converter's rules ("enabling quantization allows the appropriate
versions").

A custom operator is a row like any other: its host operator is named `CUSTOM <its name>`, its
parameters are bytes of the model that `HostNode.options` reads as a struct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.host_op import HostOp

from . import params
from .params import HostNode

# MediaPipe's operators.
CONV_TRANSPOSE, POOL_PLACES, UNPOOL = (
    "CUSTOM Convolution2DTransposeBias",
    "CUSTOM MaxPoolingWithArgmax2D",
    "CUSTOM MaxUnpooling2D",
)
CUSTOM: Mapping[str, Any] = {"edition_2019": None, "current": None, "types": ("f32",)}
FLOATS, TRUTHS, WHOLE = ("f32",), ("bool",), ("i32", "i64")
NUMBERS = (*FLOATS, *WHOLE)


def _row(
    host_op: str,
    op: str,
    last: int,
    attributes: Callable[[HostNode], dict[str, Any]] | None = None,
    *,
    edition_2019: int | None = 1,
    current: int | None = 1,
    quantized: int | None = None,
    first: int = 1,
    types: tuple[str, ...] = (),
) -> HostOp:
    """A row whose ranges all begin at `first`; None leaves an edition out. `types`: all that a node
    may read and write, where quantized forms of these are not among it."""
    documented = {"2019": edition_2019, "current": current, "quantized": quantized or current}
    return HostOp(
        host_op,
        op,
        (1, last),
        {edition: (first, end) for edition, end in documented.items() if end is not None},
        attributes,
        types=types,
    )


def _rows() -> tuple[HostOp, ...]:
    since: Mapping[str, Any] = {"edition_2019": None}
    ours: Mapping[str, Any] = {"edition_2019": None, "current": None}
    add, mul = params.with_activation("tgl_add_params"), params.with_activation("tgl_mul_params")
    return (
        _row("ADD", "add", 6, add, quantized=2),
        _row("AVERAGE_POOL_2D", "average_pool_2d", 3, params.pool, quantized=2),
        _row("CONCATENATION", "concat", 5, params.concatenation, quantized=2),
        _row("CONV_2D", "conv_2d", 8, params.convolution, quantized=3),
        _row(
            "DEPTHWISE_CONV_2D",
            "depthwise_conv_2d",
            7,
            params.depthwise,
            edition_2019=2,
            current=2,
            quantized=3,
        ),
        _row("EXP", "exp", 2, **since, quantized=2),
        _row("FULLY_CONNECTED", "fully_connected", 14, params.fully_connected, quantized=4),
        _row("LOGICAL_AND", "logical_and", 1, **since),
        _row("LOGISTIC", "logistic", 3, quantized=2),
        _row("LSTM", "lstm_basic", 5, params.lstm, **since, first=2, current=2),
        _row("MAXIMUM", "maximum", 4, **since, quantized=2),
        _row("MAX_POOL_2D", "max_pool_2d", 3, params.pool, quantized=2),
        _row("MINIMUM", "minimum", 4, **since, quantized=2),
        _row("MUL", "mul", 8, mul, quantized=2),
        _row("PAD", "pad", 5, quantized=2),
        _row("PRELU", "prelu", 1),
        _row("RELU", "relu", 3, quantized=2),
        _row("RELU6", "relu6", 3, quantized=2),
        _row("RESHAPE", "reshape", 1, params.reshape),
        _row("RESIZE_BILINEAR", "resize_bilinear", 4, params.resize, current=3),
        _row("SOFTMAX", "softmax", 3, params.softmax, quantized=2),
        _row("STRIDED_SLICE", "strided_slice", 8, params.strided_slice, quantized=2),
        _row("SUB", "sub", 5, add, quantized=2),
        _row("TRANSPOSE_CONV", "transpose_conv", 5, params.transposed, quantized=2),
        _row("MEAN", "mean", 3, params.reduction, **ours),
        _row("PADV2", "pad", 5, **ours),
        _row("RELU_N1_TO_1", "relu_n1_to_1", 1, **ours),
        _row("SQUEEZE", "reshape", 2, params.squeeze, **ours),
        _row("TANH", "tanh", 3, **ours),
        _row("ABS", "abs", 5, **ours),
        _row("DEQUANTIZE", "dequantize", 8, **ours),
        _row("ELU", "elu", 1, **ours),
        _row("HARD_SWISH", "hard_swish", 1, **ours),
        _row("LEAKY_RELU", "leaky_relu", 2, params.leaky_relu, **ours),
        _row("DEPTH_TO_SPACE", "depth_to_space", 2, params.block, **ours),
        _row("GATHER", "gather", 7, params.gather, **ours),
        _row("LOG", "log", 2, **ours),
        _row("MIRROR_PAD", "pad", 3, params.mirror_pad, **ours),
        _row("RESIZE_NEAREST_NEIGHBOR", "resize_nearest", 4, params.resize, **ours),
        _row("SPACE_TO_DEPTH", "space_to_depth", 2, params.block, **ours),
        _row("SPLIT", "split", 4, params.parts, **ours),
        _row("SPLIT_V", "split", 2, params.parts, **ours),
        _row("UNIDIRECTIONAL_SEQUENCE_LSTM", "lstm_full", 5, params.sequence_lstm, **ours),
        _row("QUANTIZE", "quantize", 5, **ours),
        _row("RSQRT", "rsqrt", 3, **ours),
        _row("SQRT", "sqrt", 2, **ours),
        _row("TRANSPOSE", "transpose", 8, params.transpose, **ours),
        _row("ARG_MAX", "arg_max", 3, params.argument, **ours),
        _row("ARG_MIN", "arg_min", 3, params.argument, **ours),
        _row("CAST", "cast", 8, **ours),
        _row("DIV", "div", 2, mul, **ours),
        _row("GATHER_ND", "gather_nd", 5, **ours),
        _row("PACK", "stack", 4, params.axis, **ours),
        _row("UNPACK", "unstack", 5, params.axis, **ours),
        _row("BATCH_MATMUL", "matmul", 4, params.batch_matmul, **ours),
        _row("BATCH_TO_SPACE_ND", "batch_to_space", 4, **ours),
        _row("CEIL", "ceil", 1, **ours, types=FLOATS),
        _row("CONV_3D", "conv_3d", 1, params.conv_3d, **ours, types=FLOATS),
        _row("COS", "cos", 2, **ours, types=FLOATS),
        _row("EQUAL", "equal", 5, **ours, types=(*NUMBERS, "bool")),
        _row("EXPAND_DIMS", "reshape", 1, params.expand_dims, **ours),
        _row("FLOOR", "floor", 1, **ours, types=FLOATS),
        _row("GELU", "gelu", 2, params.gelu, **ours),
        _row("GREATER", "greater", 2, **ours, types=(*NUMBERS, "bool")),
        _row("GREATER_EQUAL", "greater_equal", 3, **ours, types=(*NUMBERS, "bool")),
        _row("LESS", "less", 3, **ours, types=(*NUMBERS, "bool")),
        _row("LESS_EQUAL", "less_equal", 2, **ours, types=(*NUMBERS, "bool")),
        _row("LOGICAL_NOT", "logical_not", 1, **ours),
        _row("LOGICAL_OR", "logical_or", 1, **ours),
        _row("LOG_SOFTMAX", "log_softmax", 2, **ours),
        _row("NEG", "neg", 1, **ours, types=NUMBERS),
        _row("NOT_EQUAL", "not_equal", 4, **ours, types=(*NUMBERS, "bool")),
        _row("POW", "pow", 1, **ours, types=FLOATS),
        _row("REDUCE_MAX", "reduce_max", 3, params.reduction, **ours),
        _row("REDUCE_MIN", "reduce_min", 3, params.reduction, **ours),
        _row("REDUCE_PROD", "reduce_prod", 2, params.reduction, **ours, types=NUMBERS),
        _row("ROUND", "round", 1, **ours, types=FLOATS),
        _row("SELECT_V2", "where", 2, **ours, types=(*NUMBERS, "bool")),
        _row("SIGN", "sign", 2, **ours, types=FLOATS),
        _row("SIN", "sin", 2, **ours, types=FLOATS),
        _row("SLICE", "slice", 7, **ours),
        _row("SPACE_TO_BATCH_ND", "space_to_batch", 4, **ours),
        _row("SQUARE", "square", 1, **ours, types=FLOATS),
        _row("SQUARED_DIFFERENCE", "squared_difference", 2, **ours),
        # The hosts' reference kernels make one number of all sums of int8.
        _row("SUM", "reduce_sum", 2, params.reduction, **ours, types=NUMBERS),
        _row("TILE", "tile", 3, **ours),
        _row(CONV_TRANSPOSE, "transpose_conv", 1, params.custom_transposed, **CUSTOM),
    )


HOST_OPS: dict[str, HostOp] = {row.name: row for row in _rows()}

# The LSTM of many inputs; the documentation lists the basic one only.
FULL_LSTM = _row("LSTM", "lstm_full", 5, params.full_lstm, edition_2019=None, current=None)
# Of integers that nodes before it make, so that no model of one operator shows it (counts.py).
FLOOR_DIV = _row("FLOOR_DIV", "floor_div", 2, edition_2019=None, current=None)
# Of places in windows, which hosts number each in its own way: the one needs the other (places.py).
MAX_POOL = _row(POOL_PLACES, "max_pool_places", 1, params.custom_pool, **CUSTOM)
MAX_UNPOOL = _row(UNPOOL, "max_unpool", 1, params.custom_pool, **CUSTOM)
# Rows beside the first one of an operator, and those that need others, by what the table of
# operators calls them.
VARIANTS: dict[str, HostOp] = {"LSTM (full)": FULL_LSTM} | {
    row.name: row for row in (FLOOR_DIV, MAX_POOL, MAX_UNPOOL)
}


def row_of(host_op: str, node: HostNode) -> HostOp | None:
    """The row of a node: that of its operator, or of its kind of LSTM."""
    if host_op == "LSTM" and node.params("tgl_lstm_params").kernel == params.LSTM_FULL:
        return FULL_LSTM
    return HOST_OPS.get(host_op) or VARIANTS.get(host_op)


# Host input positions in the order of the internal op, "?" marking an optional one. Ops that are
# not listed read all of the host's inputs as they come.
_OPERANDS: dict[str, str] = {
    "CONV_2D": "0 1 2?",
    "DEPTHWISE_CONV_2D": "0 1 2?",
    "FULLY_CONNECTED": "0 1 2?",
    "CONV_3D": "0 1 2?",
    "TRANSPOSE_CONV": "2 1 3? 0",
    CONV_TRANSPOSE: "0 1 2",
    "PAD": "0 1",
    "PADV2": "0 1 2",
    "RESHAPE": "0 1?",
    "SQUEEZE": "0",
    "MEAN": "0 1",
    "RESIZE_BILINEAR": "0 1",
    "STRIDED_SLICE": "0 1 2 3",
    "PRELU": "0 1",
    "TRANSPOSE": "0 1",
    "GATHER": "0 1",
    "MIRROR_PAD": "0 1",
    "RESIZE_NEAREST_NEIGHBOR": "0 1",
    "SPLIT": "1 0",
    "SPLIT_V": "0 2 1",
    "lstm_basic": "0 1 2 3 4",
    "lstm_full": " ".join(f"{k}?" for k in range(24)),
} | dict.fromkeys(
    ("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "MAXIMUM", "MINIMUM", "LOGICAL_AND", "LOGICAL_OR",
     "ARG_MAX", "ARG_MIN", "GATHER_ND", "SQUARED_DIFFERENCE", "POW", "BATCH_MATMUL", "SUM",
     "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "EXPAND_DIMS", "TILE", "EQUAL", "NOT_EQUAL",
     "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", UNPOOL), "0 1",
) | dict.fromkeys(
    ("SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), "0 1 2",
)  # fmt: skip
_UNARY = "0"


def operands(row: HostOp, inputs: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """A node's inputs in the order of the internal op. Raises Unsupported when one is absent or too
    many are there.
    """
    if row.op in ("concat", "stack"):
        wanted = " ".join(str(k) for k in range(len(inputs)))
    else:
        wanted = _OPERANDS.get(row.op if "lstm" in row.op else row.name, _UNARY)
    if len(inputs) > len(wanted.split()):
        raise Unsupported(
            f"{len(inputs)} inputs are more than the {len(wanted.split())} that are supported."
        )
    found: list[int | None] = []
    for item in wanted.split():
        position = int(item.rstrip("?"))
        tensor = inputs[position] if position < len(inputs) else None
        if tensor is None and not item.endswith("?"):
            raise Unsupported(f"Input {position} is absent.")
        found.append(tensor)
    if not found:
        raise Unsupported("There are no inputs.")
    return tuple(found)


def check_outputs(row: HostOp, count: int) -> None:
    """Raise Unsupported when a node does not have the outputs that its op has."""
    several = {"lstm_basic": params.BASIC_OUTPUTS, "max_pool_places": 2}
    expected = (several | {"split": count, "unstack": count}).get(row.op, 1)
    if count != expected:
        raise Unsupported(f"{count} outputs instead of {expected} are not supported.")
