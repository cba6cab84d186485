"""Recognizes DynamicQuantizeLinear, written as ten nodes, before a product of integers: its numbers
minus the zero point, its scale, and the scale times that of the weights are made by one node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tflgpu_plugin import ops
from tflgpu_plugin.ir import NUMBERS, Graph, Node
from tflgpu_plugin.ops.reduce_forms import reduced_axes
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.pattern import Match, Pattern, named, op
from tflgpu_plugin.passes.rewriter import Rewriter


def fuse_dynamic_quantization(graph: Graph) -> Graph:
    """Replaces the nodes that quantize a tensor over the range of its values, and subtract the zero
    point again, by one."""
    e = Rewriter(graph)
    uses = DefUse(e)
    found: dict[int, _Found] = {}  # by scale
    names: dict[int, int] = {}
    for node in graph.nodes:
        match = next(_differences(uses, node), None)
        if match is None:
            continue
        same = found.setdefault(match.tensors["scale"], _Found(match, node))
        if same.root is not node and node.outputs[0] not in e.needed:
            names[node.outputs[0]] = same.root.outputs[0]
    if not found:
        return graph
    gone: set[int] = set()
    for scale, each in found.items():
        factor = _factor(uses, scale)
        joined = [each.root, *([factor] if factor else [])]
        e.put([_made(uses, each, factor)], uses.producer[scale])
        gone |= {node.id for node in joined}
    e.nodes = [node for node in e.nodes if node.id not in gone]
    e.rename(names)
    e.drop_unused()
    return e.finish()


class _Found(NamedTuple):
    """A match, and the node whose result are the differences from the zero point."""

    match: Match
    root: Node


def _differences(uses: DefUse, node: Node) -> Iterator[Match]:
    if node.op in DIFFERENCES.roots:
        yield from DIFFERENCES.matches(node.outputs[0], Match(uses))


def _factor(uses: DefUse, scale: int) -> Node | None:
    """Returns a node that multiplies the scale by a constant of the product's shape."""
    for node in uses.readers.get(scale, []):
        if uses.made_by(node.outputs[0], "mul") and _constant(uses, node, scale) is not None:
            return node
    return None


def _constant(uses: DefUse, node: Node, scale: int) -> int | None:
    """Returns the constant by which a node multiplies the scale, if it has the result's shape."""
    e = uses.e
    for tensor in node.inputs:
        if tensor is None or tensor == scale or e.data(tensor) is None:
            continue
        if e.shape(tensor) == e.shape(node.outputs[0]):
            return tensor
    return None


def _made(uses: DefUse, found: _Found, factor: Node | None) -> Node:
    scale = found.match.tensors["scale"]
    inputs, outputs = [found.match.tensors["x"]], [found.root.outputs[0], scale]
    if factor is not None and (constant := _constant(uses, factor, scale)) is not None:
        inputs, outputs = [*inputs, constant], [*outputs, factor.outputs[0]]
    origin = [found.root, *found.match.nodes, *([factor] if factor else [])]
    return uses.e.node("dynamic_quantize", tuple(inputs), tuple(outputs), origin)


# ---- the formula ---------------------------------------------------------------------------------


def _of_all(uses: DefUse, node: Node) -> bool:
    """Whether a reduction is over all axes."""
    axes = reduced_axes(uses.e.graph, node)
    return axes == set(range(len(uses.e.shape(node.operand()))))


def _stored(source: Pattern) -> Pattern:
    """Returns a pattern of a tensor that is stored in 8 bits as it is, and dequantized."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        last = found.uses.producer.get(tensor)
        if last is None or not _is(last, "from"):
            return
        first = found.uses.producer.get(last.operand())
        if first is None or not _is(first, "to"):
            return
        held = found.uses.e.tensors[first.outputs[0]]
        if held.dtype == "u8" and held.quantization in (None, NUMBERS):
            yield from source.matches(first.operand(), found)

    return Pattern(matches)


def _is(node: Node, direction: str) -> bool:
    return not node.epilogue and ops.quantizes(node) == direction


X = named("x")
LOW = named("low", op("minimum", op("reduce_min", X, where=_of_all), 0.0))
HIGH = op("maximum", op("reduce_max", X, where=_of_all), 0.0)
WIDTH = named("width", (HIGH - LOW) / 255.0)
SCALE = named("scale", op("where", op("equal", WIDTH, 0.0), 1.0, WIDTH))
ZERO = named("zero", op("round", -LOW / SCALE))
DIFFERENCES = _stored(op("round", X / SCALE) + ZERO) - _stored(ZERO)
