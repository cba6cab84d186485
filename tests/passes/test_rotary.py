"""Tests the pass that recognizes rotary position embedding: every form becomes one op with the same
values, and anything merely similar is left alone. No adapter is needed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph, Shape
from tflgpu_plugin.ops.views import part, region
from tflgpu_plugin.passes.fuse.rotary import fuse_rotary

HEADS, LENGTH, DEPTH = 3, 5, 16


class Spelled(ShapedNet):
    """Rotary position embedding in the forms of models."""

    def cut(self, x: int, start: int, extent: int, step: int = 1) -> int:
        """Adds a slice of the last axis."""
        *outer, _ = self.tensors[x].shape
        starts, extents = (*[0] * len(outer), start), (*outer, extent)
        view = region(self.tensors[x].shape, starts, extents, (*[1] * len(outer), step))
        return self.run("view", x, shape=extents, view=view)

    def join(self, *parts: int) -> int:
        *outer, _ = self.tensors[parts[0]].shape
        shape = (*outer, sum(self.tensors[t].shape[-1] for t in parts))
        return self.run("concat", *parts, shape=shape, axis=-1, activation="none")

    def times(self, a: int, b: int) -> int:
        return self.run("mul", a, b, shape=self.tensors[a].shape)

    def negated(self, x: int, by_number: bool) -> int:
        if by_number:
            return self.same("mul", x, self.constant(np.full((), -1, np.float32)))
        return self.same("neg", x)

    def heads(self, packed: bool, batch: int = 1) -> int:
        if not packed:
            return self.input((batch, HEADS, LENGTH, DEPTH))
        x = self.input((batch, LENGTH, HEADS * DEPTH))
        return self.turn(self.reshape(x, (batch, LENGTH, HEADS, DEPTH)), (0, 2, 1, 3))

    def crossed(self, x: int, early: bool = False, by_number: bool = False) -> int:
        """Adds (-b, a) for the halves (a, b) of x; the negation is before or after the slice."""
        half = self.tensors[x].shape[-1] // 2
        if early:
            return self.join(self.cut(self.negated(x, by_number), half, half), self.cut(x, 0, half))
        return self.join(self.negated(self.cut(x, half, half), by_number), self.cut(x, 0, half))

    def crossed_neighbours(self, x: int) -> int:
        shape = self.tensors[x].shape
        half = shape[-1] // 2
        a, b = (self.cut(x, k, half, 2) for k in (0, 1))
        pairs = [self.reshape(t, (*shape[:-1], half, 1)) for t in (self.same("neg", b), a)]
        return self.reshape(self.join(*pairs), shape)

    def angles(self, *shape: int) -> int:
        return self.input(shape or (1, 1, LENGTH, DEPTH))

    def whole(self, x: int, y: int, *angles: int, swapped: bool = False) -> int:
        cos, sin = (self.angles(*angles) for _ in range(2))
        a, b = self.times(x, cos), self.times(y, sin)
        return self.run("add", *((b, a) if swapped else (a, b)), shape=self.tensors[x].shape)


def turned(graph: Graph) -> list[str]:
    """Returns the ops that are left."""
    return evaluate.compared(graph, fuse_rotary(graph), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_halves(packed: bool, batch: int, early: bool, swapped: bool) -> None:
    n = Spelled()
    x = n.heads(packed, batch)
    y = n.whole(x, n.crossed(x, early, by_number=swapped), swapped=swapped)
    assert turned(n.graph(y)) == (["rotary", "view"] if packed else ["rotary"])


def test_neighbours() -> None:
    n = Spelled()
    x = n.heads(False)
    assert turned(n.graph(n.whole(x, n.crossed_neighbours(x)))) == ["rotary"]


@pytest.mark.parametrize("swapped", [False, True])
def test_each_half_by_itself(swapped: bool) -> None:
    n = Spelled()
    x, half = n.heads(False), DEPTH // 2
    a, b = n.cut(x, 0, half), n.cut(x, half, half)
    cos, sin = n.angles(1, 1, LENGTH, half), n.angles(1, 1, LENGTH, half)
    first = n.same("sub", n.times(a, cos), n.times(b, sin))
    pair = (n.times(b, cos), n.times(a, sin))
    second = n.same("add", *(pair[::-1] if swapped else pair))
    assert turned(n.graph(n.join(first, second))) == ["rotary"]


def test_the_first_values_of_a_head() -> None:
    n = Spelled()
    x = n.heads(False)
    part, rest = n.cut(x, 0, 8), n.cut(x, 8, DEPTH - 8)
    y = n.whole(part, n.crossed(part), 1, 1, LENGTH, 8)
    assert turned(n.graph(n.join(y, rest))) == ["rotary"]


@pytest.mark.parametrize("batch", [1, 2])
def test_heads_of_one_product(batch: int) -> None:
    """Queries, keys and values are adjacent in a row."""
    n = Spelled()
    x = n.input((batch, LENGTH, 3 * HEADS * DEPTH))
    x = n.turn(n.reshape(x, (batch, LENGTH, 3, HEADS, DEPTH)), (2, 0, 3, 1, 4))
    made = []
    for k in range(3):
        view = part(n.tensors[x].shape, 0, k, 1)
        heads = n.reshape(n.run("view", x, shape=view.shape, view=view),
                          (batch, HEADS, LENGTH, DEPTH))  # fmt: skip
        made.append(n.whole(heads, n.crossed(heads)))
    left = turned(n.graph(*made))
    assert ("transpose" in left) == (batch > 1)


def test_what_is_read_in_between_stays_beside_it() -> None:
    n = Spelled()
    x = n.heads(False)
    y = n.crossed(x)
    assert "concat" in turned(n.graph(n.whole(x, y), y))


def other(n: Spelled, form: str) -> int:
    """Returns a graph that only looks like a rotary embedding."""
    x = n.heads(False)
    half = DEPTH // 2
    a, b = n.cut(x, 0, half), n.cut(x, half, half)
    minus = n.same("neg", b)
    if form == "of another":
        return n.whole(x, n.crossed(n.heads(False)))
    if form == "a place off":
        return n.whole(x, n.join(n.same("neg", n.cut(x, half - 1, half)), a))
    if form == "wide":
        return n.whole(x, n.crossed(x), 1, 1, LENGTH, 1)
    if form == "rest of another":
        y = n.whole(a, n.crossed(a), 1, 1, LENGTH, half)
        return n.join(y, n.cut(n.heads(False), half, half))
    if form == "odd":
        x = n.input((1, HEADS, LENGTH, 12))
        return n.whole(x, n.crossed(x), 1, 1, LENGTH, 12)
    parts = {"plus": (b, a), "in order": (n.same("neg", a), b), "both": (minus, n.same("neg", a)),
             "first again": (minus, b)}  # fmt: skip
    return n.whole(x, n.join(*parts[form]))


OTHERS = ("of another", "a place off", "wide", "odd", "plus", "in order", "both", "first again")


@pytest.mark.parametrize("form", OTHERS)
def test_others_stay(form: str) -> None:
    n = Spelled()
    graph = n.graph(other(n, form))
    assert fuse_rotary(graph) == graph


def test_the_rest_of_something_else_stays_beside_it() -> None:
    n = Spelled()
    assert turned(n.graph(other(n, "rest of another")))[-1] == "concat"


@pytest.mark.parametrize("changed", ["sub", "angle", "order"])
def test_other_halves_stay(changed: str) -> None:
    n = Spelled()
    x, half = n.heads(False), DEPTH // 2
    shape: Shape = (1, 1, LENGTH, half)
    a, b = n.cut(x, 0, half), n.cut(x, half, half)
    cos, sin, third = (n.angles(*shape) for _ in range(3))
    first = n.same("sub", n.times(a, cos), n.times(b, sin))
    second = n.times(b, third if changed == "angle" else cos), n.times(a, sin)
    y = n.same("sub" if changed == "sub" else "add", *second)
    graph = n.graph(n.join(*((y, first) if changed == "order" else (first, y))))
    assert fuse_rotary(graph) == graph
