"""Evaluates a node with constant inputs in numpy: by `Op.meaning`, or by the views of an op that
only moves data. Conformance has reference implementations of its own (`conformance.references`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Tensor
from tflgpu_plugin.ir.symbolic import is_symbolic
from tflgpu_plugin.ops.table import Op

FAILURES = (ArithmeticError, LookupError, TypeError, ValueError, MemoryError)
IGNORED = ("nan", "raises", "rescales", "saturates")  # attributes that do not change results


def known(op: Op) -> bool:
    """Whether the op can be evaluated."""
    return op.meaning is not None or op.views is not None


def evaluate(
    op: Op, values: Sequence[Array | None], attributes: Mapping[str, Any], results: int, limit: int
) -> list[Array] | None:
    """Returns the results of an op for these inputs (None: absent) and attributes; None if the op
    cannot be evaluated, or a tensor has more than `limit` elements (checked by shape before any
    memory is allocated)."""
    try:
        with np.errstate(all="ignore"):
            found = _results(op, values, attributes, results, limit)
    except FAILURES:
        return None
    return [np.asarray(one, order="C") for one in found]


def _results(
    op: Op, values: Sequence[Array | None], attributes: Mapping[str, Any], results: int, limit: int
) -> Sequence[Array]:
    there = [value for value in values if value is not None]
    if not there or any(value.size > limit for value in there):
        raise ValueError("no input, or one that is too large")
    tensors = {k: Tensor("", v.shape, data=v) for k, v in enumerate(values) if v is not None}
    inputs = tuple(k if k in tensors else None for k in range(len(values)))
    made = tuple(range(len(values), len(values) + results))
    graph, node = Graph.over(tensors), Node(0, op.name, inputs, made, attributes)
    views = op.views(graph, node) if op.views and op.meaning is None else ()
    shapes = [view.shape for view in views] or op.shapes(graph, node)
    if any(map(is_symbolic, shapes)):
        raise ValueError("a symbolic number of elements")
    if any(prod(shape) > limit for shape in shapes):
        raise ValueError("too many elements")
    if views:
        return [view.of(there[0]) for view in views]
    if op.meaning is None:
        raise ValueError(f"{op.name} is not worked out before a run")
    return [op.meaning(*values, **_arguments(attributes))]


def _arguments(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes that `Op.meaning` takes as keyword arguments."""
    given = {name: value for name, value in attributes.items() if name not in IGNORED}
    if given.get("activation") == "none":
        del given["activation"]
    return given
