"""Nodes that only move elements, tidied: constants moved now, consecutive ones joined, repeated and
idle ones dropped."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ops.movement import view_of
from tflgpu_plugin.ops.views import transposed
from tflgpu_plugin.passes.rewriter import Editor, Perm

MAX_MOVED = 1 << 24  # elements of a constant that is moved here rather than on the device


def is_plain(node: Node, op: str) -> bool:
    """Whether a node is a transpose or reshape that does nothing else."""
    return node.op == op and not node.epilogue and node.refusal is None


def keeps_order(shape: Shape, perm: Perm) -> bool:
    """Whether a transpose only moves axes of extent 1, so that it is a reshape."""
    return transposed(shape, perm).whole


def clean(e: Editor) -> None:
    """Tidy until nothing changes."""
    while _fold_constants(e) or _join(e) or _drop_repeated(e) or _drop_idle(e):
        e.drop_unused()
    e.drop_unused()


def reshapes_for_transposes(e: Editor) -> None:
    """A transpose that keeps the order of elements becomes a reshape."""
    for k, node in enumerate(e.nodes):
        source = node.inputs[0] if node.inputs else None
        if is_plain(node, "transpose") and source is not None:
            if keeps_order(e.shape(source), tuple(node.attributes["perm"])):
                shape = e.shape(node.outputs[0])
                e.nodes[k] = replace(node, op="reshape", attributes={"shape": shape})


def _fold_constants(e: Editor) -> bool:
    """Move constants here; what reads the result reads a new constant."""
    names: dict[int, int] = {}
    view = Graph(e.tensors, (), (), ())
    for node in e.nodes:
        source, output = (node.inputs[0] if node.inputs else None), node.outputs[0]
        data = e.data(source)
        if data is None or source is None or output in e.needed or data.size > MAX_MOVED:
            continue
        moved = None if node.epilogue else view_of(view, node)
        if moved is None or prod(moved.shape) > data.size:
            continue
        if e.tensors[output].dtype == e.tensors[source].dtype:
            names[output] = e.constant(moved.of(data), like=source)
    e.rename(names)
    return bool(names)


def _join(e: Editor) -> bool:
    """A transpose of a transpose, and a reshape of a reshape, read the first one's input."""
    producers, changed = e.producers(), False
    for k, node in enumerate(e.nodes):
        source = node.inputs[0] if node.inputs else None
        before = producers.get(source) if source is not None else None
        joined = None if before is None else _joined(e, before, node)
        if joined is not None:
            e.nodes[k] = producers[node.outputs[0]] = joined
            changed = True
    return changed


def _joined(e: Editor, before: Node, node: Node) -> Node | None:
    """One node for two of a kind."""
    if is_plain(before, "reshape") and is_plain(node, "reshape"):
        attributes = {"shape": e.shape(node.outputs[0])}
        return replace(node, inputs=(before.inputs[0], None), attributes=attributes)
    if not (is_plain(before, "transpose") and is_plain(node, "transpose")):
        return None
    perm = tuple(before.attributes["perm"][axis] for axis in node.attributes["perm"])
    return replace(node, inputs=before.inputs[:1], attributes={"perm": perm})


def _key(e: Editor, node: Node) -> tuple[object, ...] | None:
    if is_plain(node, "transpose"):
        return "transpose", node.inputs[0], tuple(node.attributes["perm"])
    if is_plain(node, "reshape"):
        output = e.tensors[node.outputs[0]]
        return "reshape", node.inputs[0], output.shape, output.dtype
    return None


def _drop_repeated(e: Editor) -> bool:
    """Of equal nodes over one input the first stays."""
    first: dict[tuple[object, ...], int] = {}
    names: dict[int, int] = {}
    for node in e.nodes:
        key, output = _key(e, node), node.outputs[0]
        if key is None:
            continue
        if key in first and output not in e.needed:
            names[output] = first[key]
        first.setdefault(key, output)
    e.rename(names)
    return bool(names)


def _idle(e: Editor, node: Node) -> bool:
    """Whether the result is the input under another name."""
    source = node.inputs[0] if node.inputs else None
    if source is None or e.tensors[source].dtype != e.tensors[node.outputs[0]].dtype:
        return False
    if is_plain(node, "transpose"):
        return tuple(node.attributes["perm"]) == tuple(range(len(node.attributes["perm"])))
    return is_plain(node, "reshape") and e.shape(source) == e.shape(node.outputs[0])


def _drop_idle(e: Editor) -> bool:
    names: dict[int, int] = {}
    for node in e.nodes:
        source, output = (node.inputs[0] if node.inputs else None), node.outputs[0]
        if source is not None and output not in e.needed and _idle(e, node):
            names[output] = names.get(source, source)
    if names:
        e.rename(names)
        return True
    for node in e.nodes:
        if _idle(e, node) and node.inputs[0] is not None and _take_over(e, node.inputs[0], node):
            return True
    return False


def _take_over(e: Editor, source: int, node: Node) -> bool:
    """The producer of `source` writes the graph's output itself."""
    if source in e.needed:
        return False
    for k, producer in enumerate(e.nodes):
        if source in producer.outputs:
            names = {source: node.outputs[0]}
            outputs = tuple(names.get(t, t) for t in producer.outputs)
            e.nodes[k] = replace(producer, outputs=outputs)
            e.nodes = [n for n in e.nodes if n.id != node.id]
            e.rename(names)
            e.credit([node])
            return True
    return False
