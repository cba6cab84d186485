"""Rewrites ops to work on tensors stored with permuted axes.

A tensor is stored permuted by p if `stored = transpose(logical, p)`: axis k of the stored tensor is
axis p[k] of the logical one. For each op that is independent of the order of axes, `spread` returns
the permutations of its other tensors that follow from the permutation of one, and `relabelled` the
node that works on the permuted tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Node, Shape
from tflgpu_plugin.ir.symbolic import always_at_most, always_equal
from tflgpu_plugin.ops.views import row_strides, through, transposed
from tflgpu_plugin.passes.rewriter import Perm, Rewriter

Held = dict[int, Perm]
AXES = 1  # their position among the inputs of a reduction; one value for each result may follow


def inverse(perm: Perm) -> Perm:
    return tuple(int(k) for k in np.argsort(perm))


def permuted(shape: Shape, perm: Perm) -> Shape:
    """Returns the shape of a transpose by `perm`; for a permutation, the composition of both."""
    return tuple(shape[axis] for axis in perm)


def spread(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    """Returns the permutations of all tensors of `node` that follow when `tensor`, one of them, is
    permuted by `perm`; None if the node cannot work on permuted tensors."""
    if node.epilogue:
        return None
    row = ops.traits(node.op)
    rule = _moved if row.views else _SPREAD.get(row.follows)
    return rule(e, node, tensor, perm) if rule else None


def relabelled(e: Rewriter, node: Node, held: Mapping[int, Perm], names: Mapping[int, int]) -> Node:
    """Returns the node that works on the permuted tensors, whose ids are `names`. `held` has the
    permutation of each."""
    source, result = node.operand(), node.outputs[0]
    outputs = tuple(names.get(t, t) for t in node.outputs)
    perm = held[source if source in held else result]
    if (view := e.view(node)) is not None:
        logical = transposed(permuted(e.shape(source), perm), inverse(perm))
        view = through(logical, view, transposed(view.shape, held[result]))
        assert view is not None
        return e.moving(node, names.get(source, source), outputs, view)
    attributes: dict[str, Any] = dict(node.attributes)
    follows = ops.rows()[node.op].follows
    axes = AXES if follows == "reduced" else None
    inputs = [
        _axes(e, node, perm) if k == axes else _operand(e, t, perm, names)
        for k, t in enumerate(node.inputs)
    ]
    if follows == "axis":
        attributes["axis"] = perm.index(int(attributes["axis"]) % len(perm))
    return replace(node, inputs=tuple(inputs), outputs=outputs, attributes=attributes)


def _axes(e: Rewriter, node: Node, perm: Perm) -> int:
    """Returns a constant with the axes of a reduction in the permuted tensor."""
    data = e.data(node.inputs[AXES])
    assert data is not None
    return e.indices(sorted(perm.index(int(axis) % len(perm)) for axis in {*data.reshape(-1)}))


def _operand(e: Rewriter, tensor: int | None, perm: Perm, names: Mapping[int, int]) -> int | None:
    """Returns an operand of an elementwise node on permuted tensors: the permuted tensor, a
    permuted constant, or a single value."""
    if tensor is None or tensor in names:
        return None if tensor is None else names[tensor]
    data = e.data(tensor)
    if data is None or data.size == 1:
        return tensor
    before = (1,) * (len(perm) - data.ndim)
    made = e.moved(tensor, lambda each: each.reshape(before + each.shape).transpose(perm))
    assert made is not None  # only axes are permuted, and the axis of scales with them
    return made


def _elementwise(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    output = node.outputs[0]
    rank = len(e.shape(output))
    if len(perm) != rank:
        return None
    held = {output: perm}
    for operand in node.inputs:
        if operand is None:
            return None
        if e.data(operand) is not None or (prod(e.shape(operand)) == 1 and operand != tensor):
            continue
        if len(e.shape(operand)) != rank:
            return None
        held[operand] = perm
    return held


def _concat(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    values = [t for t in node.inputs if t is not None and e.data(t) is None]
    return dict.fromkeys([*values, node.outputs[0]], perm)


def _along(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    """Returns the permutations of input and output, for an op with one of each, of equal rank, that
    works with any order of axes."""
    first = node.inputs[0]
    if first is None or tensor not in (first, node.outputs[0]):
        return None
    return {first: perm, node.outputs[0]: perm}


def _softmax(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    return _along(e, node, tensor, perm) if perm[-1] == len(perm) - 1 else None


def _reduction(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    first, axes = node.inputs[0], e.data(node.inputs[1])
    if first is None or axes is None or tensor in node.inputs[AXES : AXES + 1]:
        return None
    centres = [t for t in node.inputs[AXES + 1 :] if t is not None]
    if node.attributes["keep_dims"]:
        if any(e.shape(t) != e.shape(node.outputs[0]) for t in centres):
            return None
        varied = [t for t in centres if e.data(t) is None]
        return dict.fromkeys([first, node.outputs[0], *varied], perm)
    if tensor != first or centres:
        return None
    gone = {int(axis) % len(perm) for axis in axes.reshape(-1)}
    left = [axis for axis in perm if axis not in gone]
    return {first: perm, node.outputs[0]: tuple(sorted(left).index(axis) for axis in left)}


def _moved(e: Rewriter, node: Node, tensor: int, perm: Perm) -> Held | None:
    """Returns the permutations of input and output of a movement, if it treats each axis separately
    or is a reshape that only joins and splits adjacent axes."""
    first, output, view = node.operand(), node.outputs[0], e.view(node)
    if view is None or ops.arranges(node) == "order" or tensor not in (first, output):
        return None
    if view.by_axis(e.shape(first)):
        return {first: perm, output: perm}
    other = output if tensor == first else first
    found = (
        regrouped(e.shape(tensor), e.shape(other), perm) if view.reshapes(e.shape(first)) else None
    )
    return None if found is None else {tensor: perm, other: found}


def regrouped(shape: Shape, other: Shape, perm: Perm) -> Perm | None:
    """Returns the permutation of `other`, a reshape of `shape`, when `shape` is permuted by `perm`:
    blocks of axes of equal size move together. Returns None if a block would be split. Axes of
    extent 1 come first."""
    strides = row_strides(other)
    result = [axis for axis, extent in enumerate(other) if always_equal(extent, 1)]
    for run in transposed(shape, perm).simple.axes:
        end = run.stride * run.extent
        inside = [
            k
            for k, n in enumerate(other)
            if not always_equal(n, 1) and run.stride <= strides[k] and _ends(strides[k], n, end)
        ]
        if inside and (
            strides[inside[-1]] != run.stride or prod(other[k] for k in inside) != run.extent
        ):
            return None
        result += inside
    return tuple(result) if len(result) == len(other) else None


def _ends(stride: int, extent: int, end: int) -> bool:
    """Whether an axis that begins before `end` ends there, too, in elements. A symbolic extent may
    be 1."""
    return always_at_most(stride * extent, end) or stride < end


# By the trait `follows` of a row.
_SPREAD: dict[str, Callable[[Rewriter, Node, int, Perm], Held | None]] = {
    "elementwise": _elementwise,
    "axis": _concat,  # the axis is an attribute
    "last": _softmax,  # works along the last axis only
    "reduced": _reduction,
}
