"""Constant folding for every host: works out what operators mean (see `meanings`) on known values.

A frontend says of each of its operators which meaning it has, what its operands are to that, and
how its parameters become arguments: a `Step`. Worked out are small values that follow from shapes
(SHAPE -> STRIDED_SLICE -> MUL -> PACK), and whatever follows from constants alone, such as weights
that a model keeps sparse, in 16 bits, transposed or in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.frontend import meanings
from tflgpu_plugin.frontend.meanings import MAX_SHAPE_ELEMENTS, MEANINGS
from tflgpu_plugin.ir import bfloat16
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import FOLDED, NUMPY_DTYPES, Array, Graph, Node, Quantization, Tensor
from tflgpu_plugin.passes.quant.dequantize import dequantized

STEP = "step"  # attribute of a constant-folded node whose results follow from shapes: its Step
HELD = ("i32", "i64", "f32", "bool")  # dtypes of shape arithmetic
INTEGERS = ("i8", "u8", "i16")
WHOLE = {"i", "u"}  # numpy's kinds
MAX_FOLDED_ELEMENTS = 1 << 22  # of what constants make; beyond that, ...
TIMES = 16  # ... as many per element of the inputs
MAX_LIST_ELEMENTS = 64  # elements of an int64 constant that may be a list of paddings
FAILURES = (ArithmeticError, LookupError, TypeError, ValueError, MemoryError)
IDLE = ("raises", "rescales", "saturates")  # attributes that are no arguments


@dataclass(frozen=True)
class Step:
    """An operator on known values: its meaning, the names of its operands in order (none: as they
    come) and its other arguments. Of those in SHAPED the operands are shapes. With `results` the
    meaning is that of an op with views, which has so many.
    """

    meaning: str
    operands: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    results: int = 0

    @property
    def of_shapes(self) -> bool:
        return self.meaning in meanings.SHAPED

    @property
    def moves(self) -> bool:
        """Its results are elements of its operands, whatever they stand for."""
        return self.results > 0 or self.meaning in meanings.MOVEMENT

    @property
    def converts(self) -> bool:
        """Its results are its operand in another type."""
        row = ops.row(self.meaning)
        return row is not None and row.converts

    @property
    def rounded(self) -> bool:
        """What comes of floats depends on the host."""
        return self.meaning in meanings.ROUNDED


def of_op(op: str, attributes: Mapping[str, Any], outputs: Sequence[Tensor]) -> Step | None:
    """What an op of ours does, of operands in its own order; None where that is not known."""
    given = {name: value for name, value in attributes.items() if name not in IDLE}
    arguments = dict(item for item in given.items() if item != ("activation", "none"))
    row = ops.row(op)
    if row and row.converts:
        arguments["dtype"] = outputs[0].dtype
    if op in MEANINGS:
        return Step(op, (), arguments)
    return Step(op, (), arguments, len(outputs)) if row and row.views else None


def step_of(node: Node) -> Step | None:
    """What a constant-folded node of shape arithmetic does; None for any other."""
    return node.attributes.get(STEP) if node.op == FOLDED else None


def evaluate(
    step: Step, values: Sequence[Array | None], limit: int = MAX_SHAPE_ELEMENTS
) -> list[Array] | None:
    """The results, from operands that are known (None: absent). None when they do not follow or
    have more than `limit` elements, which is told before there is memory for them: whoever runs
    the operator says what is wrong with it.
    """
    try:
        with np.errstate(all="ignore"):
            found = _results(step, values, limit)
    except FAILURES:
        return None
    arrays = [np.asarray(one, order="C") for one in found]
    return arrays if all(array.size <= limit for array in arrays) else None


def _results(step: Step, values: Sequence[Array | None], limit: int) -> Sequence[Array]:
    listed: list[Array] = []
    named: dict[str, Any] = {}
    if step.operands:
        pairs = zip(step.operands, values, strict=False)
        named = {name: value for name, value in pairs if value is not None}
    else:
        listed = [value for value in values if value is not None]
    if not (named or listed) or any(v.size > limit for v in (*named.values(), *listed)):
        raise ValueError("operands that are not known, or too large")
    if step.results:
        return _views(step, listed, limit)
    named |= step.arguments
    count = meanings.size(step.meaning)
    if count and count(*listed, **named) > limit:
        raise ValueError("too many elements")
    found = MEANINGS[step.meaning](*listed, **named)
    return found if isinstance(found, list) else [found]


def _views(step: Step, values: Sequence[Array], limit: int) -> Sequence[Array]:
    """Of an op that moves elements of its first operand."""
    tensors = {k: Tensor("", value.shape, data=value) for k, value in enumerate(values)}
    made = range(len(values), len(values) + step.results)
    node = Node(0, step.meaning, (*tensors,), (*made,), step.arguments)
    row = ops.rows()[step.meaning]
    assert row.views is not None
    found = row.views(Graph.over(tensors), node)
    if any(prod(view.shape) > limit for view in found):
        raise ValueError("too many elements")
    return [view.of(values[0]) for view in found]


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
    if node.op == "quantize":
        made = quantized(inputs[0], outputs[0])
    elif node.op == "dequantize":
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
