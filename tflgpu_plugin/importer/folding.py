"""Constant folding: works out the results of nodes whose inputs are known before a run.

Ops say what they mean in numpy (`ops.evaluation`); what hosts have besides, without an op, stands
in `meanings`. Worked out are small values that follow from shapes
(SHAPE -> STRIDED_SLICE -> MUL -> PACK), and whatever follows from constants alone, such as weights
that a model keeps sparse, in 16 bits, transposed or in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.importer import meanings
from tflgpu_plugin.importer.meanings import MAX_SHAPE_ELEMENTS
from tflgpu_plugin.ir import bfloat16
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Node, Quantization, Tensor
from tflgpu_plugin.ops import evaluation
from tflgpu_plugin.ops.table import Op
from tflgpu_plugin.passes.quant.dequantize import dequantized

HELD = ("i32", "i64", "f32", "bool")  # dtypes of shape arithmetic
INTEGERS = ("i8", "u8", "i16")
WHOLE = {"i", "u"}  # numpy's kinds
MAX_FOLDED_ELEMENTS = 1 << 22  # of what constants make; beyond that, ...
TIMES = 16  # ... as many per element of the inputs
MAX_LIST_ELEMENTS = 64  # elements of an int64 constant that may be a list of paddings


@dataclass(frozen=True)
class Step:
    """What a node does to known values: the name of an op, or of an entry in `meanings`, the
    arguments besides its operands, and how many results it has."""

    meaning: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    results: int = 1

    @property
    def row(self) -> Op | None:
        return ops.row(self.meaning)

    @property
    def of_shapes(self) -> bool:
        """Its operands are shapes of tensors, not their values."""
        return self.meaning in meanings.OF_SHAPES

    @property
    def moves(self) -> bool:
        """Its results are elements of its operands, whatever they stand for."""
        row = self.row
        if row is None:
            return self.meaning == meanings.DENSE
        return row.views is not None or row.kind == "movement"

    @property
    def converts(self) -> bool:
        """Its results are its operand in another type."""
        return self.row is not None and self.row.converts

    @property
    def inexact(self) -> bool:
        """Results of floats depend on the host."""
        return self.meaning == "range" if self.row is None else self.row.inexact


def of_op(op: str, attributes: Mapping[str, Any], outputs: Sequence[Tensor]) -> Step | None:
    """What an op does, or an entry of `meanings`, of operands in its own order; None where it is
    not worked out."""
    row = ops.row(op)
    if row is None:
        return Step(op, attributes) if op in meanings.MEANINGS else None
    more = {"dtype": outputs[0].dtype} if row.converts else {}
    known = evaluation.known(row)
    return Step(op, {**attributes, **more}, len(outputs)) if known else None


def evaluate(
    step: Step, values: Sequence[Array | None], limit: int = MAX_SHAPE_ELEMENTS
) -> list[Array] | None:
    """The results, from operands that are known (None: absent). None where they do not follow, or
    an operand or a result has more than `limit` elements."""
    if step.row is not None:
        return evaluation.evaluate(step.row, values, step.arguments, step.results, limit)
    if any(value is None or value.size > limit for value in values):
        return None
    try:
        found = meanings.MEANINGS[step.meaning](*values, limit=limit, **step.arguments)
    except evaluation.FAILURES:
        return None
    return [np.asarray(found, order="C")]


def known(
    step: Step, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """Shape arithmetic: the outputs with values and shapes, from inputs whose values are known
    (for what reads shapes only: shapes). None when they do not follow, or their values cannot be
    held. Whole numbers are computed in 64 bits, so that nothing wraps around as in a host.
    """
    if step.of_shapes:
        values = [None if t is None else np.array(t.shape, np.int64) for t in inputs]
    elif any(t is not None and t.data is None for t in inputs):
        return None
    else:
        values = [None if t is None else operand(step, t) for t in inputs]
        values = [None if value is None else wide(value) for value in values]
    arrays = evaluate(step, values)
    if arrays is None or not all(np.all(np.isfinite(array)) for array in arrays):
        return None
    if any(t.dtype not in HELD or t.quantization is not None for t in outputs):
        return None
    found = _held(arrays, outputs, MAX_SHAPE_ELEMENTS)
    return None if found is None or any(t.dtype == "i64" for t in found) else found


def constants(
    node: Node, step: Step | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """The outputs with their values, from inputs that are all constants of any size; None when they
    do not follow here, or have other types than the model says.

    Elements that only change place keep their stored numbers, whatever these stand for. What is
    computed is computed as hosts do, where the same numbers come out everywhere: whole numbers that
    fit, and steps of float32 that round once.
    """
    if ops.quantizes(node) == "to":
        made = quantized(inputs[0], outputs[0])
    elif ops.quantizes(node) == "from":
        made = dequantized(inputs[0])
    else:
        return _held(_computed(step, inputs, outputs), outputs)
    return None if made is None else _held([made], outputs)


def _computed(
    step: Step | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Array] | None:
    if step is None or step.of_shapes or not _stored_alike(step, [*inputs, *outputs]):
        return None
    values = [value for t in inputs if (value := operand(step, t)) is not None]
    if not (step.moves or step.converts):
        if any(t.dtype in INTEGERS for t in inputs) or not all(map(_agreed, values)):
            return None
        values = [wide(value) for value in values]
    limit = max(MAX_FOLDED_ELEMENTS, TIMES * sum(v.size for v in values))
    return evaluate(step, values, limit)


def operand(step: Step, tensor: Tensor) -> Array | None:
    """A known operand as the step takes it: of bfloat16 bits are moved, and numbers computed."""
    data = tensor.data
    if data is None or step.moves or tensor.dtype != BFLOAT16:
        return data
    return bfloat16.values(data)


def _stored_alike(step: Step, tensors: Sequence[Tensor]) -> bool:
    """Stored numbers stand for the same, where hosts may rescale what they bring together."""
    held = {t.quantization for t in tensors if t.dtype in INTEGERS}
    row = ops.row(step.meaning)
    if held <= {None} or row is None or not (row.joins or row.fills):
        return True
    return len(held) < 2 and not row.fills  # hosts fill with their zero points


def _agreed(value: Array) -> bool:
    """Numbers that hosts agree about."""
    return value.dtype != np.uint64 and not (value.dtype.kind == "f" and np.isnan(value).any())


def wide(value: Array) -> Array:
    return value.astype(np.int64) if value.dtype.kind in WHOLE else value


def _held(
    arrays: Sequence[Array] | None, outputs: Sequence[Tensor], narrow: int = MAX_LIST_ELEMENTS
) -> list[Tensor] | None:
    """The tensors with these values, None when these are of other types, or too many or few."""
    if arrays is None or len(arrays) != len(outputs):
        return None
    found = []
    for array, tensor in zip(arrays, outputs, strict=True):
        if tensor.dtype not in NUMPY_DTYPES:
            return None
        data = array.astype(NUMPY_DTYPES[tensor.dtype])
        kinds = {data.dtype.kind, array.dtype.kind}
        alike = len(kinds) == 1 or kinds <= WHOLE
        if data.dtype != array.dtype and not (alike and np.array_equal(data, array)):
            return None
        found.append(narrowed(replace(tensor, shape=data.shape, data=data), narrow))
    return found


def narrowed(tensor: Tensor, most: int = MAX_LIST_ELEMENTS) -> Tensor:
    """A constant; a small one of int64 as int32: operands that tell shapes may be either."""
    data = tensor.data
    if tensor.dtype != "i64" or data is None or data.size > most:
        return tensor
    if np.any(data != data.astype(np.int32)):
        return tensor
    return replace(tensor, dtype="i32", data=data.astype(np.int32))


def quantized(source: Tensor, result: Tensor) -> Array | None:
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


def _along(numbers: Array, quantization: Quantization, rank: int) -> Array:
    if numbers.size == 1:
        return numbers.reshape(())
    shape = [1] * rank
    shape[quantization.axis] = numbers.size
    return numbers.reshape(shape)
