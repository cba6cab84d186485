"""Cleans up nodes that only move elements: folds them into constants, joins consecutive ones, and
drops duplicates and those without effect."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Node, Tensor
from tflgpu_plugin.ir.symbolic import equal_by_example
from tflgpu_plugin.ops.views import View, through
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_MOVED = 1 << 24  # elements of a constant that is moved here rather than on the device


def clean(e: Rewriter) -> None:
    """Joins, folds and drops movements until nothing changes any more."""
    while _fold_constants(e) or _join(e) or _drop(e):
        e.drop_unused()
    e.drop_unused()


def reshapes_for_transposes(e: Rewriter) -> None:
    """Replaces transposes that keep the order of elements by reshapes."""
    for k, node in enumerate(e.nodes):
        view = e.view(node) if ops.arranges(node) == "order" else None
        if view is not None and view.reshapes(e.shape(node.operand())):
            e.nodes[k] = e.moving(node, node.operand(), node.outputs, view)


def _fold_constants(e: Rewriter) -> bool:
    """Folds movements of constants. Returns whether there were any."""
    names: dict[int, int] = {}
    for node in e.nodes:
        source, output = (node.inputs[0] if node.inputs else None), node.outputs[0]
        data = e.data(source)
        if data is None or source is None or output in e.needed or data.size > MAX_MOVED:
            continue
        moved = e.view(node)
        if moved is None or moved.symbolic or prod(moved.shape) > data.size:
            continue
        if e.tensors[output].dtype != e.tensors[source].dtype:
            continue
        if (made := e.moved(source, moved.of)) is not None:
            names[output] = made
    e.rename(names)
    return bool(names)


def _join(e: Rewriter) -> bool:
    """Joins consecutive transposes, and two movements that together are a reshape. Returns whether
    there were any."""
    producers, changed = e.producers(), False
    for k, node in enumerate(e.nodes):
        source = node.inputs[0] if node.inputs else None
        before = producers.get(source) if source is not None else None
        joined = None if before is None else _joined(e, before, node)
        if joined is not None:
            e.nodes[k] = producers[node.outputs[0]] = joined
            changed = True
    return changed


def _joined(e: Rewriter, before: Node, node: Node) -> Node | None:
    """Returns one node for two consecutive movements. Transposes are joined with transposes only,
    because later steps still move them."""
    if (ops.arranges(before) == "order") != (ops.arranges(node) == "order"):
        return None
    view = e.view(node)
    first = e.view(before) if view else None
    if view is None or first is None:
        return None
    if ops.arranges(node) == "order":
        perm = tuple(before.attributes["perm"][axis] for axis in node.attributes["perm"])
        return replace(node, inputs=before.inputs[:1], attributes={"perm": perm})
    given = e.shape(before.operand())
    if first.reshapes(given) != view.reshapes(first.shape) or prod(view.shape) != prod(given):
        return None  # a cheap test that is nearly always sufficient
    joined = through(first, view)
    if joined is None or not joined.contiguous:
        return None
    return e.moving(node, before.operand(), node.outputs, joined)


def _drop(e: Rewriter) -> bool:
    """Drops duplicate movements of a tensor and movements without effect. Returns whether there
    were any."""
    first: dict[tuple[object, ...], int] = {}
    names: dict[int, int] = {}
    idle: list[Node] = []
    for node in e.nodes:
        if (view := e.view(node)) is None:
            continue
        source, output = node.operand(), node.outputs[0]
        key = source, _facts(e.tensors[output]), view.key, node.attributes.get("perm")
        same = first.setdefault(key, output)
        if _idle(e, node, view):
            idle.append(node)
            same = source
        if same != output and output not in e.needed:
            names[output] = names.get(same, same)
    e.rename(names)
    return bool(names) or any(_take_over(e, node) for node in idle)


def _idle(e: Rewriter, node: Node, view: View) -> bool:
    """Whether the result of a movement has the same elements and properties as its input."""
    perm = list(node.attributes.get("perm", ()))
    if (
        perm != sorted(perm)
        or not view.contiguous
        or not equal_by_example(view.shape, e.shape(node.operand()))
    ):
        return False
    return _facts(e.tensors[node.operand()])[:2] == _facts(e.tensors[node.outputs[0]])[:2]


def _facts(tensor: Tensor) -> tuple[object, ...]:
    """Returns the properties in which a tensor must equal the one that it replaces."""
    return tensor.dtype, tensor.quantization, tensor.keep_f32


def _take_over(e: Rewriter, node: Node) -> bool:
    """Makes the producer of an idle node's input write the graph's output directly. Returns whether
    that is possible."""
    source = node.operand()
    if source in e.needed:
        return False
    for k, producer in enumerate(e.nodes):
        if source in producer.outputs:
            names = {source: node.outputs[0]}
            made = e.tensors[node.outputs[0]]
            wide = made.keep_f32 or e.tensors[source].keep_f32
            e.tensors[node.outputs[0]] = replace(made, keep_f32=wide)
            outputs = tuple(names.get(t, t) for t in producer.outputs)
            e.nodes[k] = replace(producer, outputs=outputs)
            e.nodes = [n for n in e.nodes if n.id != node.id]
            e.rename(names)
            e.credit([node])
            return True
    return False
