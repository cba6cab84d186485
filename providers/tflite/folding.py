"""What operators of TFLite mean to the folder, and which of their results to trust: small values
that follow from shapes (SHAPE -> STRIDED_SLICE -> MUL -> PACK), and whatever follows from constants
alone, such as weights that a model keeps sparse, in 16 bits, transposed or in pieces.

Elements that only change place keep their stored numbers, whatever these stand for. What is
computed is computed as the host does, where the same numbers come out everywhere: whole numbers
that fit, and steps of float32 that round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.frontend import fold
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Quantization, Tensor
from tflgpu_plugin.passes.quant.dequantize import dequantized

from . import params
from .host_node import HostNode
from .tensors import narrowed

MAX_FOLDED_ELEMENTS = 1 << 22  # of a result; beyond that, ...
TIMES = 16  # ... as many per element of the inputs
RANDOM = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}  # of constants, yet none
INTEGERS = ("i8", "u8", "i16")
RESCALED = ("concat", "pad")  # hosts rescale what these bring together
NO_ACTIVATION = 0


@dataclass(frozen=True)
class Row(fold.Row):
    """`read` has the arguments that are parameters of the node. `whole`: what comes of floats
    depends on the order in which a host takes them."""

    read: Callable[[HostNode], dict[str, Any]]
    whole: bool


def step(node: HostNode, inputs: Sequence[Tensor]) -> fold.Step | None:
    """What the node means; None when that is not known, or not for inputs of these types."""
    row = TABLE.get(node.host_op)
    if row is None or (row.whole and any(t.dtype[0] == "f" for t in inputs)):
        return None
    try:
        return fold.Step(row.meaning, row.operands, row.read(node))
    except Unsupported:
        return None


def constants(
    node: HostNode, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """The outputs with their values, from inputs that are all constants; None when they do not
    follow here, or have other shapes or types than the model says.
    """
    found = _results(node, inputs, outputs)
    if found is None or len(found) != len(outputs):
        return None
    pairs = zip(found, outputs, strict=True)
    held = [made for array, tensor in pairs if (made := _held(array, tensor)) is not None]
    return held if len(held) == len(outputs) else None


def _results(
    node: HostNode, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Array] | None:
    if node.host_op in GRIDS:
        found = GRIDS[node.host_op](inputs[0], outputs[0])
        return None if found is None else [found]
    meant = step(node, inputs)
    if meant is None or meant.of_shapes or not _stored_alike(meant, [*inputs, *outputs]):
        return None
    values = [t.data for t in inputs if t.data is not None]
    if not (meant.moves or meant.meaning == "cast"):
        if any(t.dtype in INTEGERS for t in inputs) or not all(map(_agreed, values)):
            return None
        values = [fold.wide(value) for value in values]
    limit = max(MAX_FOLDED_ELEMENTS, TIMES * sum(v.size for v in values))
    return fold.evaluate(meant, values, limit)


def _stored_alike(meant: fold.Step, tensors: Sequence[Tensor]) -> bool:
    """Stored numbers stand for the same, where hosts would not just copy them."""
    grids = {t.quantization for t in tensors if t.dtype in INTEGERS}
    if meant.meaning not in RESCALED:
        return True
    return grids <= {None} or (len(grids) < 2 and meant.meaning != "pad")


def _agreed(value: Array) -> bool:
    """Numbers that hosts agree about."""
    return value.dtype != np.uint64 and not (value.dtype.kind == "f" and np.isnan(value).any())


def _held(array: Array, tensor: Tensor) -> Tensor | None:
    """The tensor with this value, None when it is of another type."""
    if tensor.dtype not in NUMPY_DTYPES:
        return None
    kind = np.dtype(NUMPY_DTYPES[tensor.dtype])
    data = array.astype(kind)
    if array.dtype != kind and not (
        array.dtype.kind in "iu" and kind.kind in "iu" and np.array_equal(data, array)
    ):
        return None
    return narrowed(Tensor(tensor.name, data.shape, tensor.dtype, data, tensor.quantization))


# ---- quantized numbers ---------------------------------------------------------------------------


def _quantized(source: Tensor, result: Tensor) -> Array | None:
    """float32 in steps: halves go away from zero."""
    if source.dtype != "f32" or result.dtype not in INTEGERS or result.quantization is None:
        return None
    assert source.data is not None
    scale, zero = (
        _along(np.asarray(numbers, kind), result.quantization, source.data.ndim)
        for numbers, kind in (
            (result.quantization.scale, np.float32),
            (result.quantization.zero_point, np.float64),
        )
    )
    with np.errstate(all="ignore"):
        steps = (source.data / scale).astype(np.float64)
        whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + zero
    if not np.all(np.isfinite(whole)):
        return None
    limits = np.iinfo(NUMPY_DTYPES[result.dtype])
    return np.clip(whole, limits.min, limits.max).astype(NUMPY_DTYPES[result.dtype])


def _along(numbers: Array, grid: Quantization, rank: int) -> Array:
    if numbers.size == 1:
        return numbers.reshape(())
    shape = [1] * rank
    shape[grid.axis] = numbers.size
    return numbers.reshape(shape)


GRIDS: dict[str, Callable[[Tensor, Tensor], Array | None]] = {
    "DEQUANTIZE": lambda source, result: dequantized(source),
    "QUANTIZE": _quantized,
}


# ---- the table -----------------------------------------------------------------------------------


def _row(
    meaning: str,
    operands: str = "",
    struct: str = "",
    *names: str,
    read: Callable[[HostNode], dict[str, Any]] | None = None,
    whole: bool = False,
    **fixed: Any,
) -> Row:
    """`names` are members of the node's `struct`, which has no fused activation."""

    def arguments(node: HostNode) -> dict[str, Any]:
        if not struct:
            return fixed
        if getattr(node.params(struct), "activation", NO_ACTIVATION) != NO_ACTIVATION:
            raise Unsupported("What is worked out here has no activation.")
        return fixed | params.members(struct, *names)(node)

    return Row(meaning, tuple(operands.split()), read or arguments, whole)


def _reshaped(node: HostNode) -> dict[str, Any]:
    """Hosts go by the parameters where the shape is no vector."""
    if node.has_input(1, 1):
        return {}
    given = node.params("tgl_reshape_params")
    return {"shape": [int(given.shape[k]) for k in range(max(0, given.count))]}


def _squeezed(node: HostNode) -> dict[str, Any]:
    given = node.params("tgl_squeeze_params")
    return {"axes": tuple(int(given.dims[k]) for k in range(given.count)) or None}


def _reduction(meaning: str) -> Row:
    struct = ("tgl_reduce_params", "keep_dims")
    return _row(meaning, "data axes", *struct, whole=True, noop_without_axes=True)


TABLE: dict[str, Row] = {
    "ABS": _row("abs"),
    "ADD": _row("add", "", "tgl_add_params"),
    "BROADCAST_TO": _row("expand", "data shape"),
    "CAST": _row("cast", "data", read=lambda node: {"dtype": node.result()}),
    "CEIL": _row("ceil"),
    "CONCATENATION": _row("concat", "", "tgl_concatenation_params", "axis"),
    "DENSIFY": _row("identity"),  # sparse constants are read as dense ones
    "DIV": _row("div", "", "tgl_mul_params"),
    "EQUAL": _row("equal"),
    "EXPAND_DIMS": _row("expand_dims", "data axes"),
    "FILL": _row("fill", "shape value"),
    "FLOOR": _row("floor"),
    "FLOOR_DIV": _row("floor_div", whole=True),
    "FLOOR_MOD": _row("mod", whole=True),
    "GATHER": _row("gather", "data indices", "tgl_gather_params", "axis", "batch_dims"),
    "GREATER": _row("greater"),
    "GREATER_EQUAL": _row("greater_equal"),
    "LESS": _row("less"),
    "LESS_EQUAL": _row("less_equal"),
    "LOGICAL_AND": _row("logical_and"),
    "LOGICAL_NOT": _row("logical_not"),
    "LOGICAL_OR": _row("logical_or"),
    "MAXIMUM": _row("maximum"),
    "MINIMUM": _row("minimum"),
    "MUL": _row("mul", "", "tgl_mul_params"),
    "NEG": _row("neg"),
    "NOT_EQUAL": _row("not_equal"),
    "PACK": _row("stack", "", "tgl_pack_params", "axis"),
    "PAD": _row("pad", "data widths"),
    "RANGE": _row("range", "start limit delta", whole=True),
    "RANK": _row("rank", "shape"),
    "REDUCE_MAX": _reduction("reduce_max"),
    "REDUCE_MIN": _reduction("reduce_min"),
    "REDUCE_PROD": _reduction("reduce_prod"),
    "RESHAPE": _row("reshape", "data shape", read=_reshaped),
    "REVERSE_V2": _row("reverse", "data axes"),
    "ROUND": _row("round"),
    "SELECT_V2": _row("where"),
    "SHAPE": _row("shape", "shape"),
    "SLICE": _row("slice", "data begin size"),
    "SPLIT": _row("split", "axis data", "tgl_split_params", "count"),
    "SPLIT_V": _row("split", "data sizes axis"),
    "SQRT": _row("sqrt"),
    "SQUARE": _row("square"),
    "SQUEEZE": _row("squeeze", "data", read=_squeezed),
    "STRIDED_SLICE": _row(
        "strided_slice", "data begin end strides", "tgl_strided_slice_params", *params.MASKS
    ),
    "SUB": _row("sub", "", "tgl_add_params"),
    "SUM": _reduction("reduce_sum"),
    "TILE": _row("tile", "data times"),
    "TRANSPOSE": _row("transpose", "data perm"),
    "UNPACK": _row("unstack", "data", "tgl_pack_params", "axis"),
}
SEEDS = {name for name, row in TABLE.items() if row.meaning in fold.SHAPED}
