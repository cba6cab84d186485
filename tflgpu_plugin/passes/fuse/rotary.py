"""Replaces rotary position embeddings written as several nodes by the op: x * cos + y * sin, where
y swaps pairs of values of x and negates one of each, or each half of the result separately. Heads
that lie side by side in memory are read there, and are moved to a separate axis after the op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.elementwise import spreads
from tflgpu_plugin.ops.rotary import even
from tflgpu_plugin.ops.views import View, axis_of, part, region, transposed
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.fuse.head_layout import head_sources, read_heads
from tflgpu_plugin.passes.pattern import (
    Match,
    Pattern,
    Replacement,
    Rule,
    ViewCondition,
    moved,
    named,
    op,
    rewrite,
)  # fmt: skip
from tflgpu_plugin.passes.rewriter import Rewriter


def fuse_rotary(graph: Graph) -> Graph:
    """Replaces rotary embeddings written as several nodes by single ops that read heads in
    place."""
    return rewrite(graph, RULES, _finish)


def _finish(e: Rewriter) -> None:
    uses = DefUse(e)
    for node in [node for node in e.nodes if node.op == "rotary"]:
        _read_in_place(uses, node)
    e.drop_unused()


def _read_in_place(uses: DefUse, node: Node) -> None:
    """Lets the op read side-by-side heads from the tensor before they are moved to a separate
    axis."""
    e, x = uses.e, node.operand()
    batch, heads, length, depth = e.shape(x)
    beside = head_sources(uses, x, (batch, heads, length, depth))
    found = next((h for h in beside if h.heads == heads and len(h.shape) == 3), None)
    if found is None:
        return
    made = list[Node]()
    source = read_heads(e, made, found, node)
    result = e.tensor(e.shape(source), like=node.outputs[0])
    given = {**node.attributes, "heads": heads, "joined": True}
    inputs = (source, *node.inputs[1:])
    made.append(replace(node, inputs=inputs, outputs=(result,), attributes=given))
    apart = heads_of(e.shape(node.outputs[0]))
    made.append(e.layout("view", result, node.outputs[0], node, view=apart))
    e.put(made, node)


def _rotary(*, paired: bool = False, together: bool = False, partial: bool = False) -> Replacement:
    """Returns a replacement by the op. `paired`: one angle per pair, so half as many as values;
    `together`: a pair is two adjacent values, instead of one of each half; `partial`: only the
    first values of each head are rotated."""

    def replacement(node: Node, match: Match) -> Sequence[Node] | None:
        e, t = match.uses.e, match.tensors
        inputs = t["x"], t["cos"], t["sin"]
        shape, cos, sin = (e.shape(t) for t in inputs)
        if len(shape) != 4 or cos != sin or not 0 < len(cos) <= 4:
            return None
        width = cos[-1] * (2 if paired else 1)
        wide = width < shape[3] if partial else width == shape[3]
        fits = wide and even(width, together) and spreads(cos[:-1], shape[:3])
        if not fits or e.shape(node.outputs[0]) != shape:
            return None
        given = {"paired": paired, "together": together, "joined": False}
        return [e.node("rotary", inputs, node.outputs, (node, *match.nodes), **given)]

    return replacement


def _partly(node: Node, match: Match) -> Sequence[Node] | None:
    """Returns the nodes that rotate only the first values of each head and copy the others."""
    made = next(each for each in match.nodes if each.op == "rotary")
    paired, together = (bool(made.attributes[name]) for name in ("paired", "together"))
    return _rotary(paired=paired, together=together, partial=True)(node, match)


def heads_of(shape: Shape) -> View:
    """Returns the view [batch, heads, length, depth] of [batch, length, heads * depth]."""
    batch, heads, length, depth = shape
    return transposed((batch, length, heads, depth), (0, 2, 1, 3))


def _is(wanted: Callable[[View, Shape], View]) -> ViewCondition:
    """Returns a condition on a match: the view of heads is the wanted one."""
    return lambda view, shape: len(shape) == 4 and view.key == wanted(view, shape).key


def _half(number: int) -> ViewCondition:
    """Returns a condition on a match: the view is half 0 or 1 of the last axis."""
    return _is(lambda _, shape: part(shape, 3, number * (shape[3] // 2), shape[3] // 2))


def _every_other(number: int) -> ViewCondition:
    """Returns a condition on a match: the view is every other value of the last axis, from `number`
    on, with an axis of extent 1 added."""

    def wanted(_: View, shape: Shape) -> View:
        extents = (*shape[:3], shape[3] // 2)
        found = region(shape, (0, 0, 0, number), extents, (1, 1, 1, 2))
        return replace(found, shape=(*extents, 1))

    return _is(wanted)


def _joins_two(uses: DefUse, node: Node) -> bool:
    """Whether a node concatenates two tensors along the last axis."""
    rank = len(uses.e.shape(node.outputs[0]))
    return len(node.inputs) == 2 and axis_of(node.attributes["axis"], rank) == rank - 1


def _joined(first: Pattern, second: Pattern) -> Pattern:
    return op("concat", first, second, where=_joins_two)


FIRST = _is(lambda view, shape: part(shape, 3, 0, view.shape[-1]))
LAST = _is(lambda view, shape: part(shape, 3, shape[3] - view.shape[-1], view.shape[-1]))
X, COS, SIN = named("x"), named("cos"), named("sin")
A, B = named("a", moved(X, _half(0))), named("b", moved(X, _half(1)))


def _crossed(first: ViewCondition, second: ViewCondition) -> Pattern:
    """Returns a pattern that concatenates the second values of pairs, negated, and the first ones,
    with an optional reshape of the result."""
    joined = _joined(moved(X, second, factor=-1), moved(X, first))
    return moved(joined, View.reshapes)


RULES = (
    Rule("rotary embedding of halves", X * COS + _crossed(_half(0), _half(1)) * SIN, _rotary(),
         "torch.onnx of Llama and its kin (rotate_half)"),
    Rule("rotary embedding of neighbours",
         X * COS + _crossed(_every_other(0), _every_other(1)) * SIN, _rotary(together=True),
         "torch.onnx of GPT-J, Cohere (rotate_every_two)"),
    Rule("rotary embedding of each half", _joined(A * COS - B * SIN, B * COS + A * SIN),
         _rotary(paired=True), "torch.onnx of GPT-OSS, the function body of ONNX RotaryEmbedding"),
    Rule("rotary embedding of the first values",
         _joined(op("rotary", moved(X, FIRST), COS, SIN), moved(X, LAST)), _partly,
         "torch.onnx of GPT-NeoX, Phi (partial rotary)"),
)  # fmt: skip
