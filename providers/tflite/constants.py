"""Nodes whose results follow from constants alone, worked out before a run: weights that a model
keeps sparse, in 16 bits, transposed or in pieces.

Elements that only change place keep their stored numbers, whatever these stand for. What is
computed is computed as the host does, where the same numbers come out everywhere: whole numbers
that fit, and steps of float32 that round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Quantization, Tensor
from tflgpu_plugin.passes.quant.dequantize import dequantized

from . import arithmetic
from .arithmetic import HostNode
from .tensors import narrowed

LARGEST, TIMES = 1 << 22, 16  # elements that a result may have, and beyond that, as many per input
RANDOM = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}  # of constants, yet none
INTEGERS = ("i8", "u8", "i16")

Values = Sequence[Array]


def evaluate(
    node: HostNode, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """The outputs with their values, from inputs that all have values; None when they do not
    follow here, or have other shapes or types than the model says. Raises Unsupported where the
    model is damaged.
    """
    values = [tensor.data for tensor in inputs]
    try:
        with np.errstate(all="ignore"):
            found = _results(node, [v for v in values if v is not None], inputs, outputs)
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
        return None  # whoever runs the node will say what is wrong with it
    if found is None or len(found) != len(outputs):
        return None
    pairs = zip(found, outputs, strict=True)
    held = [made for array, tensor in pairs if (made := _held(array, tensor)) is not None]
    return held if len(held) == len(outputs) else None


def _results(
    node: HostNode, values: Values, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Array] | None:
    name = node.host_op
    if name in CONVERSIONS:
        return [CONVERSIONS[name](inputs[0], outputs[0])]
    if name in MOVES and _stored_alike(name, inputs, outputs):
        return _listed(MOVES[name](node, values))
    if name in COMPUTED and not any(t.dtype in INTEGERS for t in inputs):
        given = arithmetic.attributes(node) if name in arithmetic.TABLE else {}
        return None if given is None else _listed(COMPUTED[name](values, given))
    return None


def _listed(found: Array | list[Array]) -> list[Array]:
    return [np.asarray(array) for array in (found if isinstance(found, list) else [found])]


def _few(shape: Sequence[int], values: Values) -> None:
    """Raise ValueError when a result of this shape is far larger than what it is made of."""
    if prod(int(extent) for extent in shape) > max(LARGEST, TIMES * sum(v.size for v in values)):
        raise ValueError("too many elements")


def _stored_alike(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
    """Stored numbers stand for the same, where hosts would not just copy them."""
    grids = {t.quantization for t in (*inputs, *outputs) if t.dtype in INTEGERS}
    return name not in ADDED or (len(grids) < 2 and (grids <= {None} or name != "PAD"))


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


# ---- other types ---------------------------------------------------------------------------------


def _dense(source: Tensor, result: Tensor) -> Array:
    assert source.data is not None  # sparse constants were read as dense ones
    return source.data


def _real(source: Tensor, result: Tensor) -> Array:
    found = dequantized(source)
    if found is None:
        raise ValueError("no such numbers")
    return found


def _steps(source: Tensor, result: Tensor) -> Array:
    """float32 on a grid: halves go away from zero."""
    if source.dtype != "f32" or result.dtype not in INTEGERS or result.quantization is None:
        raise ValueError("only float32 is quantized here")
    assert source.data is not None
    scale, zero = (_along(numbers, result.quantization, source.data.ndim) for numbers in (
        np.asarray(result.quantization.scale, np.float32),
        np.asarray(result.quantization.zero_point, np.float64),
    ))  # fmt: skip
    steps = (source.data / scale).astype(np.float64)
    limits = np.iinfo(NUMPY_DTYPES[result.dtype])
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + zero
    if not np.all(np.isfinite(whole)):
        raise ValueError("what is no number has no step")
    return np.clip(whole, limits.min, limits.max).astype(NUMPY_DTYPES[result.dtype])


def _along(numbers: Array, grid: Quantization, rank: int) -> Array:
    if numbers.size == 1:
        return numbers.reshape(())
    shape = [1] * rank
    shape[grid.axis] = numbers.size
    return numbers.reshape(shape)


def _cast(source: Tensor, result: Tensor) -> Array:
    assert source.data is not None
    kind, data = np.dtype(NUMPY_DTYPES[result.dtype]), source.data
    if kind.kind in "iu" and data.dtype.kind == "f":
        limits, whole = np.iinfo(kind), np.trunc(data.astype(np.float64))
        if not np.all((whole >= limits.min) & (whole <= limits.max)):
            raise ValueError("numbers that the type cannot hold become any")
    return data != 0 if kind.kind == "b" else data.astype(kind)


CONVERSIONS: dict[str, Callable[[Tensor, Tensor], Array]] = {
    "DENSIFY": _dense, "DEQUANTIZE": _real, "QUANTIZE": _steps, "CAST": _cast,
}  # fmt: skip


# ---- other places --------------------------------------------------------------------------------


_Move = Callable[[HostNode, Values], Array | list[Array]]


def _by_arithmetic(name: str) -> _Move:
    def run(node: HostNode, values: Values) -> Array | list[Array]:
        given = arithmetic.attributes(node)
        if given is None:
            raise ValueError("parameters that are not supported")
        moved: Array | list[Array] = arithmetic.TABLE[name][1](values, given)
        return moved

    return run


def _reshaped(node: HostNode, values: Values) -> Array:
    if len(values) > 1 and values[1].ndim == 1:
        return values[0].reshape(_whole(values[1]))
    params = node.params("tgl_reshape_params")
    return values[0].reshape([int(params.shape[k]) for k in range(max(0, params.count))])


def _split(node: HostNode, values: Values) -> list[Array]:
    data, sizes, axis = values
    counts, at = list(_whole(sizes)), int(axis.reshape(-1)[0])
    if counts.count(-1) == 1:
        counts[counts.index(-1)] = data.shape[at] - sum(counts) - 1
    if min(counts, default=0) < 0 or sum(counts) != data.shape[at]:
        raise ValueError("such parts are none of the whole")
    return list(np.split(data, np.cumsum(counts)[:-1], axis=at))


def _padded(node: HostNode, values: Values) -> Array:
    data, widths = values
    if np.any(widths < 0):
        raise ValueError("a padding takes nothing away")
    _few([n + sum(_whole(row)) for n, row in zip(data.shape, widths, strict=True)], values)
    return np.pad(data, [_whole(row) for row in widths])


def _spread(node: HostNode, values: Values) -> Array:
    data, shape = values
    _few(_whole(shape), values)
    return np.broadcast_to(data, _whole(shape)).copy()


def _tiled(node: HostNode, values: Values) -> Array:
    data, times = values
    if np.any(times < 0):
        raise ValueError("nothing repeats less than never")
    _few([n * int(k) for n, k in zip(data.shape, times, strict=True)], values)
    return np.tile(data, _whole(times))


def _taken(node: HostNode, values: Values) -> Array | list[Array]:
    data, indices = values
    _few([*data.shape, indices.size], values)  # at most
    return _by_arithmetic("GATHER")(node, values)


def _whole(values: Array) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


MOVES: dict[str, _Move] = {
    "BROADCAST_TO": _spread,
    "CONCATENATION": _by_arithmetic("CONCATENATION"),
    "EXPAND_DIMS": _by_arithmetic("EXPAND_DIMS"),
    "GATHER": _taken,
    "PACK": _by_arithmetic("PACK"),
    "PAD": _padded,
    "RESHAPE": _reshaped,
    "REVERSE_V2": lambda node, v: np.flip(v[0], _whole(v[1].reshape(-1))).copy(),
    "SLICE": _by_arithmetic("SLICE"),
    "SPLIT": _by_arithmetic("SPLIT"),
    "SPLIT_V": _split,
    "SQUEEZE": _by_arithmetic("SQUEEZE"),
    "STRIDED_SLICE": _by_arithmetic("STRIDED_SLICE"),
    "TILE": _tiled,
    "TRANSPOSE": lambda node, v: np.ascontiguousarray(np.transpose(v[0], _whole(v[1]))),
    "UNPACK": _by_arithmetic("UNPACK"),
}
ADDED = {"CONCATENATION", "PAD"}  # hosts rescale what these bring together


# ---- other values --------------------------------------------------------------------------------


_Rule = Callable[[Values, arithmetic.Attributes], Array | list[Array]]


def _by_table(name: str) -> _Rule:
    def run(values: Values, given: arithmetic.Attributes) -> Array | list[Array]:
        if any(v.dtype == np.uint64 or (v.dtype.kind == "f" and np.isnan(v).any()) for v in values):
            raise ValueError("numbers that hosts do not agree about")
        _few(np.broadcast_shapes(*(v.shape for v in values)), values)
        found: Array | list[Array] = arithmetic.TABLE[name][1](
            [arithmetic.wide(v) for v in values], given
        )
        return found

    return run


def _of_few(name: str) -> _Rule:
    """As in shape arithmetic, for as few numbers."""

    def run(values: Values, given: arithmetic.Attributes) -> Array | list[Array]:
        if any(v.size > arithmetic.LARGEST for v in values):
            raise ValueError("too many numbers")
        found: Array | list[Array] = arithmetic.TABLE[name][1](
            [arithmetic.wide(v) for v in values], given
        )
        return found

    return run


def _filled(values: Values, given: arithmetic.Attributes) -> Array:
    dims, value = values
    _few(_whole(dims), values)
    return np.full(_whole(dims), value.reshape(())[()], value.dtype)


def _logical(function: Callable[[Array, Array], Array]) -> _Rule:
    def run(values: Values, given: arithmetic.Attributes) -> Array:
        _few(np.broadcast_shapes(*(v.shape for v in values)), values)
        return function(*values)

    return run


def _unary(function: Callable[[Array], Array]) -> _Rule:
    def run(values: Values, given: arithmetic.Attributes) -> Array:
        (value,) = values
        if value.dtype != np.float32:
            raise ValueError("of float32 only")
        return function(value)

    return run


# Of the table of shape arithmetic, those whose operands have one shape after broadcasting.
_ALIKE = (
    "ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "NEG", "ABS",
    "FLOOR", "CEIL", "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL",
    "SELECT_V2",
)  # fmt: skip
COMPUTED: dict[str, _Rule] = {name: _by_table(name) for name in _ALIKE} | {
    "FILL": _filled,
    "RANGE": _of_few("RANGE"),
    "REDUCE_MAX": _of_few("REDUCE_MAX"),
    "REDUCE_MIN": _of_few("REDUCE_MIN"),
    "REDUCE_PROD": _of_few("REDUCE_PROD"),
    "SUM": _of_few("SUM"),
    "SQRT": _unary(np.sqrt),
    "SQUARE": _unary(np.square),
    "ROUND": _unary(np.rint),
    "LOGICAL_AND": _logical(np.logical_and),
    "LOGICAL_OR": _logical(np.logical_or),
    "LOGICAL_NOT": lambda values, given: np.logical_not(values[0]),
}
