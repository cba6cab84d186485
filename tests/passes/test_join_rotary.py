"""Tests the pass that rotates queries and keys together, and records where rotated heads are. No
adapter is needed."""

from __future__ import annotations

import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.ops.views import part
from tflgpu_plugin.passes.fuse.join_rotary import join_rotary
from tflgpu_plugin.passes.fuse.rotary import heads_of

LENGTH, DEPTH, BEFORE = 5, 8, 3


class Decoder(ShapedNet):
    """A graph of queries, keys and values from one product, with this many heads each."""

    batch = 1

    def product(self, heads: tuple[int, ...]) -> list[int]:
        whole = (self.batch, LENGTH, DEPTH * sum(heads))
        x, start, made = self.input(whole), 0, []
        for count in heads:
            view = part(whole, 2, start, count * DEPTH)
            made.append(self.run("view", x, shape=view.shape, view=view))
            start += count * DEPTH
        return made

    def angles(self) -> tuple[int, int]:
        return self.input((1, 1, LENGTH, DEPTH)), self.input((1, 1, LENGTH, DEPTH))

    def turned(self, x: int, angles: tuple[int, int]) -> int:
        heads = self.tensors[x].shape[2] // DEPTH
        return self.run("rotary", x, *angles, shape=self.tensors[x].shape, heads=heads, joined=True)

    def apart(self, x: int, heads: int = 0) -> int:
        batch, length, width = self.tensors[x].shape
        heads = heads or width // DEPTH
        shape = (batch, heads, length * width // DEPTH // heads, DEPTH)
        return self.run("view", x, shape=shape, view=heads_of(shape))

    def cached(self, x: int) -> int:
        """Adds keys to those of a cache, which is an input."""
        batch, heads, length, depth = self.tensors[x].shape
        past = self.input((batch, heads, BEFORE, depth))
        shape = (batch, heads, BEFORE + length, depth)
        return self.run("concat", past, x, shape=shape, axis=2, activation="none")

    def attention(self, q: int, k: int, v: int, heads: int, **more: bool) -> int:
        shape = self.tensors[q].shape
        kv_heads = self.tensors[v].shape[1]
        return self.run("attention", q, k, v, None, shape=shape, heads=heads, kv_heads=kv_heads,
                        scale=0.5, **more)  # fmt: skip


def joined(graph: Graph) -> list[str]:
    """Returns the ops that are left."""
    return evaluate.compared(graph, join_rotary(graph))


@pytest.mark.parametrize("form", ["", "batches", "other angles", "apart"])
def test_queries_and_keys_turn_together(form: str) -> None:
    n = Decoder()
    n.batch = 2 if form == "batches" else 1
    q, between, k, v = n.product((4, 1, 2, 2) if form == "apart" else (4, 0, 2, 2))
    angles = n.angles()
    q = n.turned(q, angles)
    k = n.turned(k, n.angles() if form == "other angles" else angles)
    keys, values = n.cached(n.apart(k)), n.cached(n.apart(v))
    y = n.attention(q, keys, values, 4, joined=True)
    made = joined(n.graph(y, keys, values, between))
    assert made.count("rotary") == (2 if form else 1)


def test_three_parts_in_any_order() -> None:
    n = Decoder()
    angles, parts = n.angles(), n.product((2, 2, 2))
    made = [n.turned(parts[k], angles) for k in (2, 0, 1)]
    assert joined(n.graph(*made)).count("rotary") == 1


@pytest.mark.parametrize("read", ["output", "elsewhere", "attention", "packed"])
def test_heads_that_others_read_get_an_axis_of_their_own(read: str) -> None:
    n = Decoder()
    (k,) = n.product((2,))
    turned = n.turned(k, n.angles())
    apart = n.apart(turned)
    read_by = [apart] if read == "output" else [n.same("relu", apart)]
    if read == "attention":
        read_by.append(n.attention(turned, apart, apart, 2, joined=True))
    if read == "packed":
        read_by.append(n.same("relu", turned))
    left = joined(n.graph(*read_by))
    assert left.count("view") == (2 if read == "packed" else 1)  # the part of the product


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_of_one_position_are_read_as_several_positions(heads: int) -> None:
    """The values lie in the same order, but only one shape is that of heads on their own axis."""
    n = Decoder()
    x, angles = n.input((1, 1, 2 * DEPTH)), [n.input((1, 1, 1, DEPTH)) for _ in range(2)]
    turned = n.run("rotary", x, *angles, shape=(1, 1, 2 * DEPTH), heads=2, joined=True)
    left = joined(n.graph(n.same("relu", n.apart(turned, heads))))
    assert left.count("view") == 2 - heads


def test_heads_that_are_only_joined_to_others_stay_beside_each_other() -> None:
    n = Decoder()
    (k,) = n.product((2,))
    graph = n.graph(n.cached(n.apart(n.turned(k, n.angles()))))
    assert join_rotary(graph) == graph
