"""Rotary positions that a model spells out become the op: x * cos + y * sin, where y is made of
parts of x, one of them negated, or each half of the result by itself. Heads that are read beside
each other, where they lie, are left so, and get an axis of their own after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.elementwise import spreads
from tflgpu_plugin.ops.rotary import even
from tflgpu_plugin.ops.views import View, axis_of, part, region, through, transposed, whole
from tflgpu_plugin.passes.fuse.heads import held, put_together
from tflgpu_plugin.passes.makers import Makers, either
from tflgpu_plugin.passes.rewriter import Rewriter


@dataclass(frozen=True)
class _Found:
    """What turns, its angles, and the nodes that the op stands for."""

    x: int
    cos: int
    sin: int
    nodes: tuple[Node, ...]
    paired: bool = False
    together: bool = False


def turn(graph: Graph) -> Graph:
    """The op in place of the last node of each."""
    if not any(node.op == "concat" for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    turning = _Turning(e)
    for node in graph.nodes:
        if not node.epilogue and turning.plain(node):
            turning.replace(node)
    if e.nodes == list(graph.nodes):
        return graph
    for node in [node for node in e.nodes if node.op == "rotary"]:
        turning.read_in_place(node)
    e.drop_unused()
    return e.finish()


class _Turning(Makers):
    """Who makes what of what turns."""

    def replace(self, node: Node) -> None:
        """By the op, where the node is the last of those that turn something."""
        if node.attributes.get("activation", "none") != "none":
            return
        if node.op == "add":
            found = self._sum(node)
        else:
            found = self._sides(node) or self._rest(node) if node.op == "concat" else None
        if found is None or not self._fits(node, found):
            return
        given = {"paired": found.paired, "together": found.together, "joined": False}
        inputs, origin = (found.x, found.cos, found.sin), (node, *found.nodes)
        made = self.e.node("rotary", inputs, node.outputs, origin, **given)
        self.e.nodes = [made if each.id == node.id else each for each in self.e.nodes]
        self.producer[node.outputs[0]] = made

    def read_in_place(self, node: Node) -> None:
        """Heads that are beside each other before they get an axis of their own."""
        x = node.operand()
        batch, heads, length, depth = self.e.shape(x)
        beside = held(self, x, (batch, heads, length, depth))
        found = next((h for h in beside if h.heads == heads and len(h.shape) == 3), None)
        if found is None:
            return
        made = list[Node]()
        source = put_together(self.e, made, found, node)
        turned = self.e.tensor(self.e.shape(source), like=node.outputs[0])
        given = {**node.attributes, "heads": heads, "joined": True}
        inputs = (source, *node.inputs[1:])
        made.append(replace(node, inputs=inputs, outputs=(turned,), attributes=given))
        apart = heads_of(self.e.shape(node.outputs[0]))
        made.append(self.e.layout("view", turned, node.outputs[0], node, view=apart))
        self.e.put(made, node)

    def _fits(self, node: Node, found: _Found) -> bool:
        """Whether the op takes these angles."""
        shape, cos, sin = (self.e.shape(t) for t in (found.x, found.cos, found.sin))
        if len(shape) != 4 or cos != sin or not 0 < len(cos) <= 4:
            return False
        width = cos[-1] * (2 if found.paired else 1)
        turns = even(width, found.together) and width <= shape[3]
        same = self.e.shape(node.outputs[0]) == shape
        return turns and same and spreads(cos[:-1], shape[:3])

    def _sum(self, node: Node) -> _Found | None:
        """x * cos + y * sin."""
        for first, second in either(node):
            straight, crossed = self.made_by(first, "mul"), self.made_by(second, "mul")
            for x, cos in either(straight):
                for y, sin in either(crossed):
                    together = self._turned(y, x)
                    whole_width = self.e.shape(cos)[-1:] == self.e.shape(x)[-1:]
                    if together is not None and straight and crossed and whole_width:
                        return _Found(x, cos, sin, (straight, crossed), together=together)
        return None

    def _turned(self, tensor: int, x: int) -> bool | None:
        """Whether a tensor is x with each pair (a, b) as (-b, a), pairs being neighbours (true) or
        one of each half; None where it is not."""
        shape, joined = self.e.shape(x), self.producer.get(tensor)
        if self.e.shape(tensor) != shape or len(shape) < 2 or shape[-1] % 2:
            return None
        if joined is not None and joined.op != "concat":
            view = self.e.view(joined)
            same = view and view.reshapes(self.e.shape(joined.operand()))
            joined = self.producer.get(joined.operand()) if same else None
        parts = self._parts(joined)
        if parts is None:
            return None
        found = [self._part(tensor, x) for tensor in parts]
        half, given = shape[-1] // 2, [each and each[0].key for each in found]
        if None in given or [each and each[1] for each in found] != [-1, 1]:
            return None
        if given == [each.key for each in _halves(shape)[::-1]]:
            return False
        single = (*shape[:-1], half, 1)
        near = [replace(each, shape=single).key for each in _neighbours(shape)]
        return True if given == near[::-1] else None

    def _parts(self, node: Node | None) -> tuple[int, int] | None:
        """The two tensors that a node joins along the last axis."""
        if node is None or node.op != "concat" or node.epilogue or not self.plain(node):
            return None
        last = len(self.e.shape(node.outputs[0])) - 1
        if len(node.inputs) != 2 or axis_of(node.attributes["axis"], last + 1) != last:
            return None
        return node.operand(), node.operand(1)

    def _part(self, tensor: int, x: int) -> tuple[View, int] | None:
        """A tensor as a view of x, and its sign."""
        view, sign = whole(self.e.shape(tensor)), 1
        while tensor != x:
            node = self.producer.get(tensor)
            if node is None or node.epilogue or not self.plain(node):
                return None
            scaled = self.scaling(node)
            if node.op == "neg" or (scaled and scaled[1] == -1):
                tensor, sign = scaled[0] if scaled else node.operand(), -sign
                continue
            further = through(self.e.view(node), view)
            if further is None:
                return None
            view, tensor = further, node.operand()
        return view, sign

    def _sides(self, node: Node) -> _Found | None:
        """a * cos - b * sin beside b * cos + a * sin, where a and b are the halves of x."""
        parts = self._parts(node)
        first = self.made_by(parts[0], "sub") if parts else None
        second = self.made_by(parts[1], "add") if parts else None
        if first is None or second is None:
            return None
        left, right = (self.made_by(t, "mul") for t in first.inputs[:2])
        for a, cos in either(left):
            for b, sin in either(right):
                x = self._whole_of(a, b)
                products = {frozenset((a, sin)), frozenset((b, cos))}
                made = [self.made_by(t, "mul") for t in second.inputs[:2]]
                if x is not None and {frozenset(n.inputs[:2]) for n in made if n} == products:
                    nodes = [n for n in (first, second, left, right, *made) if n is not None]
                    return _Found(x, cos, sin, tuple(nodes), paired=True)
        return None

    def _whole_of(self, a: int, b: int) -> int | None:
        """The tensor whose halves these are."""
        makers = [self.producer.get(t) for t in (a, b)]
        views = [node and self.e.view(node) for node in makers]
        if None in views or makers[0] is None or makers[1] is None:
            return None
        x = makers[0].operand()
        given = [view.key for view in views if view]
        fits = makers[1].operand() == x and self.e.shape(x)[-1] % 2 == 0
        return x if fits and given == [v.key for v in _halves(self.e.shape(x))] else None

    def _rest(self, node: Node) -> _Found | None:
        """The first values of x, which turn, and the others as they are."""
        parts = self._parts(node)
        turns = self.made_by(parts[0], "rotary") if parts else None
        cut = self.producer.get(turns.operand()) if turns else None
        if parts is None or turns is None or cut is None or self.e.view(cut) is None:
            return None
        x, width = cut.operand(), self.e.shape(parts[0])[-1]
        shape = self.e.shape(x)
        found = [self._part(tensor, x) for tensor in (turns.operand(), parts[1])]
        last = len(shape) - 1
        wanted = part(shape, last, 0, width), part(shape, last, width, shape[-1] - width)
        if [each and (each[0].key, each[1]) for each in found] != [(v.key, 1) for v in wanted]:
            return None
        flags = {name: bool(turns.attributes[name]) for name in ("paired", "together")}
        return _Found(x, turns.operand(1), turns.operand(2), (turns, cut), **flags)


def heads_of(shape: Shape) -> View:
    """[batch, heads, length, depth] of [batch, length, heads * depth]."""
    batch, heads, length, depth = shape
    return transposed((batch, length, heads, depth), (0, 2, 1, 3))


def _halves(shape: Shape) -> list[View]:
    """Of the last axis."""
    half = shape[-1] // 2
    return [part(shape, len(shape) - 1, start, half) for start in (0, half)]


def _neighbours(shape: Shape) -> list[View]:
    """Every other value of the last axis."""
    *outer, width = shape
    steps = (*[1] * len(outer), 2)
    return [region(shape, (*[0] * len(outer), k), (*outer, width // 2), steps) for k in (0, 1)]
