"""Constant folding for every host: works out what operators mean (see `meanings`) on known values.

A frontend says of each of its operators which meaning it has, what its operands are to that, and
how its parameters become arguments: a `Step`. What of that to trust (which types, how many
elements) is the folder's caller to say.
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
from tflgpu_plugin.ir.graph import FOLDED, Array, Graph, Node, Tensor

STEP = "step"  # attribute of a constant-folded node whose results follow from shapes: its Step
HELD = {"i32": "int32", "i64": "int32", "f32": "float32", "bool": "bool"}  # of shape arithmetic
FAILURES = (ArithmeticError, LookupError, TypeError, ValueError, MemoryError)
IDLE = ("activation", "none")  # an attribute that says nothing


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
    def rounded(self) -> bool:
        """What comes of floats depends on the host."""
        return self.meaning in meanings.ROUNDED


def of_op(op: str, attributes: Mapping[str, Any], outputs: Sequence[Tensor]) -> Step | None:
    """What an op of ours does, of operands in its own order; None where that is not known."""
    arguments = dict(item for item in attributes.items() if item != IDLE)
    if op == "cast":
        arguments["dtype"] = outputs[0].dtype
    if op in MEANINGS:
        return Step(op, (), arguments)
    row = ops.rows().get(op)
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
    found = row.views(Graph(tensors, (), (), ()), node)
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
        values = [None if t is None or t.data is None else wide(t.data) for t in inputs]
    arrays = evaluate(step, values)
    if arrays is None or len(arrays) != len(outputs):
        return None
    pairs = zip(arrays, outputs, strict=True)
    held = [found for array, tensor in pairs if (found := _held(array, tensor)) is not None]
    return held if len(held) == len(outputs) else None


def wide(value: Array) -> Array:
    return value.astype(np.int64) if value.dtype.kind in "iu" else value


def _held(array: Array, tensor: Tensor) -> Tensor | None:
    """The tensor with this value. int64 becomes int32, as in what readers make of constants."""
    kind = HELD.get(tensor.dtype)
    if kind is None or tensor.quantization is not None:
        return None
    data = array.astype(kind)
    exact = data.dtype.kind == array.dtype.kind and bool(np.array_equal(data, array))
    if not exact or not np.all(np.isfinite(data)):
        return None
    dtype = "i32" if kind == "int32" else tensor.dtype
    return replace(tensor, shape=data.shape, dtype=dtype, data=data)
