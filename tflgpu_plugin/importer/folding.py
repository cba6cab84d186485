"""Constant folding: computes the results of nodes whose inputs are known before a run.

Ops are evaluated with numpy (`ops.evaluation`), operators without an op by the builders of
`importer.arithmetic`. Two kinds of results are folded: small values that follow from shapes
(SHAPE -> STRIDED_SLICE -> MUL -> PACK), and results that depend on constants alone, such as weights
that a model stores sparse, in 16 bits, transposed or in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.importer.model import Value
from tflgpu_plugin.ir import (
    BITS_ONLY,
    COUNTS,
    FLOAT8,
    INT32,
    NUMPY_DTYPES,
    Array,
    Node,
    Tensor,
    bfloat16,
    float8,
    quantization,
)
from tflgpu_plugin.ir.symbolic import in_range, symbolic
from tflgpu_plugin.ops import evaluation
from tflgpu_plugin.ops.table import Op
from tflgpu_plugin.passes.quant.dequantize import dequantized

HELD = ("i32", "i64", "f32", "bool")  # dtypes of shape arithmetic
INTEGERS = ("i8", "u8", "i16")
WHOLE = {"i", "u"}  # numpy's kinds
MAX_SHAPE_ELEMENTS = 4096  # elements of a tensor: larger ones are no shape arithmetic
MAX_FOLDED_ELEMENTS = 1 << 22  # elements of a folded constant; larger ones may have ...
TIMES = 16  # ... this many per element of the inputs
MAX_LIST_ELEMENTS = 64  # elements of an int64 constant that may be a list of paddings

Held = TypeVar("Held", Tensor, Value)
Compute = Callable[[Sequence[Array | None], int], Sequence[Array] | None]


@dataclass(frozen=True)
class Meaning:
    """A function that computes a node's results: `compute(values, limit)` returns them, or None
    where they cannot be computed or one has more than `limit` elements. `moves`: results are
    elements of the inputs, unchanged; `converts`: the result is the input in another type;
    `brings`: it concatenates inputs, whose stored numbers hosts may rescale; `fills`: it pads with
    zero points."""

    compute: Compute
    moves: bool = False
    converts: bool = False
    brings: bool = False
    fills: bool = False


def of_op(op: Op, attributes: Mapping[str, Any], dtype: str, results: int = 1) -> Meaning | None:
    """Returns the function that computes the `results` outputs of an op in numpy from its operands,
    in the op's order, or None if numpy cannot evaluate the op. A cast converts to `dtype`."""
    if not evaluation.known(op):
        return None
    arguments = {**attributes, "dtype": dtype} if op.converts else attributes
    return Meaning(
        lambda values, limit: evaluation.evaluate(op, values, arguments, results, limit),
        moves=op.views is not None or op.kind == "movement",
        converts=op.converts,
        brings=op.joins,
        fills=op.fills,
    )


def known(
    meaning: Meaning, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """Returns the outputs of shape arithmetic with their values and shapes, computed from inputs
    with known values. Returns None when they cannot be computed, or one has more than 4,096
    elements. Integers are computed in 64 bits, so that they do not wrap around as in a host."""
    values = [operand(meaning, t) for t in inputs]
    if any(value is None for value in values):
        return None
    wide = [None if value is None else widened(value) for value in values]
    return held(meaning.compute(wide, MAX_SHAPE_ELEMENTS), outputs)


def held(arrays: Sequence[Array] | None, outputs: Sequence[Tensor]) -> list[Tensor] | None:
    """Returns the outputs with the values `arrays`, or None if an array is not shape arithmetic:
    too large, not finite, or of a type that is not in HELD."""
    if arrays is None or not all(symbolic(a) or np.all(np.isfinite(a)) for a in arrays):
        return None
    if any(t.dtype not in HELD or t.quantization is not None for t in outputs):
        return None
    found = _held(arrays, outputs, MAX_SHAPE_ELEMENTS)
    return None if found is None or any(t.dtype == "i64" for t in found) else found


def constants(
    node: Node, meaning: Meaning | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """Returns the outputs with their values, computed from inputs that are all constants, of any
    size. Returns None when they cannot be computed, or have other types than the model states.

    Stored numbers that only move to other positions stay as they are. Computed results are folded
    only where every host computes the same numbers: integers in range, and float32 operations that
    round once."""
    if ops.quantizes(node) == "to":
        made = quantized(inputs[0], outputs[0])
    elif ops.quantizes(node) == "from":
        made = dequantized(inputs[0])
    else:
        return _held(_computed(meaning, inputs, outputs), outputs)
    return None if made is None else _held([made], outputs)


def _computed(
    meaning: Meaning | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Sequence[Array] | None:
    if meaning is None or not _stored_alike(meaning, [*inputs, *outputs]):
        return None
    values = [value for t in inputs if (value := operand(meaning, t)) is not None]
    if not (meaning.moves or meaning.converts):
        if any(t.dtype in INTEGERS for t in inputs) or not all(map(_agreed, values)):
            return None
        values = [widened(value) for value in values]
    limit = max(MAX_FOLDED_ELEMENTS, TIMES * sum(v.size for v in values))
    return meaning.compute(values, limit)


def operand(meaning: Meaning, tensor: Tensor) -> Array | None:
    """Returns the value of an operand, or None if it is not known. bfloat16 and floats of 8 bits
    become float32, unless the operation only moves their bits."""
    data = tensor.data
    if data is None or meaning.moves or tensor.dtype not in BITS_ONLY:
        return data
    if tensor.dtype in FLOAT8:
        return float8.values(data, tensor.dtype)
    return bfloat16.values(data)


def _stored_alike(meaning: Meaning, tensors: Sequence[Tensor]) -> bool:
    """Whether the op may move the stored integers of these operands unchanged. A concatenation may
    not if their quantizations differ, because hosts may rescale them; a padding may not, because
    hosts fill with zero points."""
    held = {t.quantization for t in tensors if t.dtype in INTEGERS}
    if held <= {None} or not (meaning.brings or meaning.fills):
        return True
    return len(held) < 2 and not meaning.fills


def _agreed(value: Array) -> bool:
    """Whether all hosts compute the same results from these numbers: they are not uint64 and
    contain no NaN."""
    return value.dtype != np.uint64 and not (value.dtype.kind == "f" and np.isnan(value).any())


def widened(value: Array) -> Array:
    return value.astype(np.int64) if value.dtype.kind in WHOLE else value  # symbols stay


def _held(
    arrays: Sequence[Array] | None, outputs: Sequence[Tensor], narrow: int = MAX_LIST_ELEMENTS
) -> list[Tensor] | None:
    """Returns the outputs with the values `arrays`, or None when a type cannot hold its values.
    Constants of int64 with up to `narrow` elements become int32."""
    if arrays is None or len(arrays) != len(outputs):
        return None
    found = []
    for array, tensor in zip(arrays, outputs, strict=True):
        if tensor.dtype not in NUMPY_DTYPES:
            return None
        if may_wrap(array, tensor.dtype):
            return None
        if symbolic(array) and tensor.dtype in COUNTS:
            found.append(narrowed(replace(tensor, shape=array.shape, data=array), narrow))
            continue
        data = array.astype(NUMPY_DTYPES[tensor.dtype])
        kinds = {data.dtype.kind, array.dtype.kind}
        alike = len(kinds) == 1 or kinds <= WHOLE
        if data.dtype != array.dtype and not (alike and np.array_equal(data, array)):
            return None
        found.append(narrowed(replace(tensor, shape=data.shape, data=data), narrow))
    return found


def may_wrap(numbers: Array, dtype: str) -> bool:
    """Whether symbolic numbers of int32 are beyond it, where hosts wrap around; if they are not,
    leaves guards that they stay in it."""
    return dtype == "i32" and symbolic(numbers) and not in_range(numbers, INT32.min, INT32.max)


def narrowed(tensor: Held, most: int = MAX_LIST_ELEMENTS) -> Held:
    """Returns the tensor; a constant of int64 with up to `most` elements, all in the range of
    int32, becomes int32, since ops read shapes, axes and paddings as int32."""
    data = tensor.data
    if tensor.dtype != "i64" or data is None or data.size > most:
        return tensor
    if symbolic(data):
        return replace(tensor, dtype="i32")
    if np.any(data != data.astype(np.int32)):
        return tensor
    return replace(tensor, dtype="i32", data=data.astype(np.int32))


def quantized(source: Tensor, result: Tensor) -> Array | None:
    """Returns the constant `source` quantized as `result`, halves rounded away from zero, or None
    unless it is float32 and the numbers are finite."""
    if source.dtype != "f32" or result.dtype not in INTEGERS or result.quantization is None:
        return None
    assert source.data is not None
    axis, rank = result.quantization.axis, source.data.ndim
    scale = quantization.along(result.quantization.scale, axis, rank)
    zero = quantization.along(result.quantization.zero_point, axis, rank)
    with np.errstate(all="ignore"):
        steps = (source.data / scale.astype(np.float32)).astype(np.float64)
        whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + zero
    if not np.all(np.isfinite(whole)):
        return None
    limits = np.iinfo(NUMPY_DTYPES[result.dtype])
    return np.clip(whole, limits.min, limits.max).astype(NUMPY_DTYPES[result.dtype])
