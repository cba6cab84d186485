"""Tests the pass that recognizes attention: every form becomes one op with the same values, and
anything merely similar is left alone. No adapter is needed."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf, prod

import numpy as np
import pytest

from tests.support.evaluate import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, Graph, Shape, Target, verify
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.views import part
from tflgpu_plugin.passes.fuse.attention import fuse_attention
from tflgpu_plugin.passes.rewriter import Rewriter

LOWEST = float(np.finfo(np.float32).min)
Layer = Callable[["Spelled"], int]


class Spelled(ShapedNet):
    """Attention in the forms of models, by a seed: `draw` is asked at every choice. The attributes
    are the tensors at the end."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        pick = self.draw.choice
        self.batch, self.heads, self.shared = pick((1, 2)), pick((1, 2, 4)), pick((1, 1, 2))
        self.queries, self.keys = pick((1, 3, 4)), pick((2, 4, 5))
        self.depth, self.width = pick((4, 8, 3)), pick((4, 8, 3))
        self.spread = False  # a product has keys for all heads
        self.lead: Shape = (self.batch, self.heads * self.shared)

    def chance(self, share: float = 0.5) -> bool:
        return self.draw.random() < share

    def number(self, value: float) -> int:
        return self.constant(np.full(self.draw.choice(((), (1,))), value, np.float32))

    def scaled(self, x: int) -> int:
        """Returns x times a number, expressed in one of several ways."""
        factor = self.draw.choice((0.5, 3.0, -2.0))
        if self.chance():
            return self.same("div", x, self.number(factor))
        pair = (x, self.number(factor)) if self.chance() else (self.number(factor), x)
        return self.run("mul", *pair, shape=self.tensors[x].shape)

    def maybe_scaled(self, x: int) -> int:
        return self.scaled(x) if self.chance(0.4) else x

    def part(self, length: int, depth: int, turned: bool, shared: bool, scaled: bool) -> int:
        """Returns queries, keys or values with an axis of heads, which may be split from a tensor
        without one."""
        heads = self.heads * (1 if shared else self.shared)
        if self.chance(0.7):
            x = self.input((self.batch, length, heads * depth))
            x = self.maybe_scaled(x) if scaled else x
            x = self.reshape(x, (self.batch, length, heads, depth))
            once = turned and self.chance() and not (shared and self.shared > 1)
            x = self.turn(x, (0, 2, 3, 1) if once else (0, 2, 1, 3))
            turned = turned and not once
        else:
            x = self.input((self.batch, heads, length, depth))
        by_product = heads == 1 and len(self.lead) == 2 and self.chance()
        self.spread |= shared and by_product
        if shared and self.shared > 1 and not by_product:
            x = self.reshape(x, (self.batch, heads, 1, length, depth))
            many = (self.batch, heads, self.shared, length, depth)
            x = self.run("expand", x, self.constant(np.array(many, np.int32)), shape=many)
            x = self.reshape(x, (self.batch, heads * self.shared, length, depth))
        x = self.maybe_scaled(x) if scaled else x
        if len(self.lead) == 1:
            x = self.reshape(x, (*self.lead, *self.tensors[x].shape[2:]))
        rank = len(self.tensors[x].shape)
        return self.turn(x, (*range(rank - 2), rank - 1, rank - 2)) if turned else x

    def mask(self, scores: int) -> int:
        """Returns scores with a mask, which is added or selects values."""
        shape = self.tensors[scores].shape
        kept = [n if k == len(shape) - 1 or self.chance() else 1 for k, n in enumerate(shape)]
        own = tuple(kept[self.draw.randrange(len(kept)) :])
        if self.chance(0.4):
            mask = self.input(own)
        else:
            seen = np.random.default_rng(self.draw.random().__hash__() % 97).uniform(size=own) < 0.7
            seen[..., 0] |= self.chance(0.7)
            if self.chance():
                return self.chosen(scores, seen)
            mask = self.constant(np.where(seen, 0, self.draw.choice((-inf, -9.0))))
        pair = (scores, mask) if self.chance() else (mask, scores)
        return self.run("add", *pair, shape=shape)

    def chosen(self, scores: int, seen: Array) -> int:
        value = self.number(self.draw.choice((-inf, LOWEST)))
        kept = self.chance()
        condition = self.constant(seen if kept else ~seen)
        if self.chance(0.3):
            condition = self.same("greater", self.input(seen.shape), self.number(0.0))
        pair = (scores, value) if kept else (value, scores)
        return self.run("where", condition, *pair, shape=self.tensors[scores].shape)

    def axes_in_front(self, x: int, lead: Shape) -> int:
        self.lead = lead
        return self.reshape(x, (*lead, *self.tensors[x].shape[-2:]))

    def attention(self) -> int:
        every = prod(self.lead)
        if self.chance(0.4):
            self.lead = (every,)
        shared = self.chance(0.1) and self.shared > 1 and len(self.lead) == 2 and self.heads > 1
        q = self.part(self.queries, self.depth, False, shared, True)
        straight = self.chance(0.3)
        k = self.part(self.keys, self.depth, not straight, True, True)
        shape = (*self.lead, self.queries, self.keys)
        s = self.run("matmul", q, k, shape=shape, transpose_b=straight)
        if self.chance(0.3):
            s = self.same("tanh", self.same("div", s, self.number(2.0)))
            s = self.same("mul", s, self.number(2.0))
        elif self.chance():
            s = self.scaled(s)
        before = self.lead
        if len(before) == 1 and self.chance():
            s = self.axes_in_front(s, (self.batch, self.heads * self.shared))
        elif len(before) == 2 and self.chance(0.2):
            s = self.axes_in_front(s, (self.batch, 1, *before[1:]))
        for _ in range(self.draw.choice((0, 1, 1, 2))):
            s = self.mask(s)
        if self.lead != before and self.chance():
            s = self.axes_in_front(s, before)
        s = self.same("softmax", s, axis=-1, beta=1.0)
        if self.chance(0.3):
            s = self.run("where", self.same("is_nan", s), self.number(0.0), s,
                         shape=self.tensors[s].shape)  # fmt: skip
        if self.lead != before:
            s = self.axes_in_front(s, before)
        v = self.part(self.keys, self.width, False, self.spread or self.chance(0.8), False)
        y = self.run("matmul", s, v, shape=(*self.lead, self.queries, self.width))
        return self.joined(y) if self.chance(0.7) else y

    def joined(self, y: int) -> int:
        count = self.heads * self.shared
        if len(self.lead) == 1:
            y = self.reshape(y, (self.batch, count, self.queries, self.width))
        y = self.turn(y, (0, 2, 1, 3))
        front = (self.batch * self.queries,) if self.chance(0.3) else (self.batch, self.queries)
        return self.reshape(y, (*front, count * self.width))


def compared(graph: Graph) -> Graph:
    """Returns the result of the pass, after comparing values and the record of merged nodes."""
    made = fuse_attention(graph)
    verify(made)
    rng = np.random.default_rng(3)
    values = {t: rng.uniform(-1, 1, graph.shape(t)) for t in graph.inputs}
    with np.errstate(invalid="ignore"):
        before, after = evaluate(graph, values), evaluate(made, values)
    for tensor in graph.outputs:
        np.testing.assert_allclose(after[tensor], before[tensor], rtol=1e-5, atol=1e-6)
    merged = [s for node in made.nodes for s in (node.sources or (node.id,)) if not node.layout]
    assert set(merged) == {node.id for node in graph.nodes}
    for node in made.nodes:
        if node.op == "attention":
            row = ops.rows()["attention"]
            assert row.refuse(made, node, Target()) is None and row.decompose
            assert not row.decompose(Decomposition(Rewriter(made), node), node)  # too late for it
    return made


@pytest.mark.parametrize("seed", range(200))
def test_spellings(seed: int) -> None:
    n = Spelled(seed)
    graph = n.graph(n.attention())
    made = compared(graph)
    assert [node.op for node in made.nodes if node.op in ("softmax", "attention", "matmul")] == [
        "attention"
    ]


class Plain(ShapedNet):
    """Attention of two heads; `change` replaces something in one place."""

    def attention(self, change: str = "") -> int:
        q, k, v = (self.input((1, 2, n, 4)) for n in (3, 5, 5))
        shape = (1, 2, 3, 5)
        one = self.constant(np.float32(0.5))
        s = self.run("matmul", q, k, shape=shape, transpose_b=True)
        before = s
        if change == "twice":
            s = self.same("mul", s, s)
        mask = self.input((2, 3, 5))
        if change == "mask_of_scores":
            mask = self.same("neg", s)
        if change == "fewer_keys":
            mask = self.input((2, 3, 1))
        s = self.same("add", s, mask)
        if change == "scaled_with_mask":
            s = self.same("mul", s, one)
        if change in ("zero", "little"):
            value = self.constant(np.float32(0 if change == "zero" else -1e9))
            s = self.run("where", self.constant(np.eye(3, 5, dtype=bool)), s, value, shape=shape)
        if change in ("infinite", "divided"):
            number = self.constant(np.float32(inf))
            s = self.same("div" if change == "divided" else "mul", s, number)
        s = self.same("softmax", s, axis=2 if change == "axis" else 3, beta=2.0
                      if change == "beta" else 1.0)  # fmt: skip
        if change in ("ones", "not_nan", "other"):
            seen = self.same("is_nan" if change != "not_nan" else "is_inf", s)
            other = self.same("relu", s) if change == "other" else s
            s = self.run("where", seen, self.constant(np.float32(change == "ones")), other,
                         shape=shape)  # fmt: skip
        if change == "squared":
            return self.run("matmul", s, s, shape=(1, 2, 3, 3), transpose_b=True)
        y = self.run("matmul", s, v, shape=(1, 2, 3, 4))
        if change == "shares":
            y = self.run("concat", y, s, shape=(1, 2, 3, 9), axis=3)
        if change == "scores":
            y = self.run("concat", y, before, shape=(1, 2, 3, 9), axis=3)
        return y


def test_plain() -> None:
    n = Plain()
    made = compared(n.graph(n.attention()))
    assert [node.op for node in made.nodes] == ["attention"]


@pytest.mark.parametrize(
    "change",
    ["twice", "mask_of_scores", "fewer_keys", "scaled_with_mask", "zero", "little", "infinite",
     "divided", "axis", "beta", "ones", "not_nan", "other", "squared", "shares", "scores"],
)  # fmt: skip
def test_what_is_no_attention_stays(change: str) -> None:
    n = Plain()
    graph = n.graph(n.attention(change))
    assert fuse_attention(graph) == graph


@pytest.mark.parametrize(("value", "leaves_nothing"), [(-1.005e37, True), (-0.995e37, False)])
def test_a_number_that_leaves_nothing_of_a_score(value: float, leaves_nothing: bool) -> None:
    n = ShapedNet()
    q, k, v = (n.input((1, 2, length, 4)) for length in (3, 5, 5))
    s = n.run("matmul", q, k, shape=(1, 2, 3, 5), transpose_b=True)
    chosen = n.constant(np.eye(3, 5, dtype=bool)), s, n.constant(np.float32(value))
    s = n.run("where", *chosen, shape=(1, 2, 3, 5))
    y = n.run("matmul", n.same("softmax", s, axis=-1, beta=1.0), v, shape=(1, 2, 3, 4))
    made = fuse_attention(n.graph(y))
    assert any(node.op == "attention" for node in made.nodes) == leaves_nothing


def test_keys_without_batches() -> None:
    """Keys have as many heads as there are batches, but no batches."""
    n = ShapedNet()
    q, k, v = (n.input(shape) for shape in ((2, 2, 3, 4), (2, 5, 4), (2, 2, 5, 4)))
    s = n.run("matmul", q, k, shape=(2, 2, 3, 5), transpose_b=True)
    compared(n.graph(n.run("matmul", n.same("softmax", s, beta=1.0), v, shape=(2, 2, 3, 4))))


def test_scores_that_are_an_output_stay() -> None:
    n = Plain()
    n.attention()
    shares = n.nodes[-2].outputs[0]
    graph = n.graph(n.nodes[-1].outputs[0], shares)
    assert fuse_attention(graph) == graph


def test_masks_in_their_order() -> None:
    """The lowest number in place of -inf only matters where nothing else is visible."""
    n = ShapedNet()
    q, k, v = (n.input((1, 2, length, 4)) for length in (3, 5, 5))
    s = n.run("matmul", q, k, shape=(1, 2, 3, 5), transpose_b=True)
    s = n.same("add", s, n.constant(np.full((3, 5), -inf)))
    chosen = n.constant(np.eye(3, 5, dtype=bool)), n.constant(np.float32(LOWEST))
    s = n.run("where", *chosen, s, shape=(1, 2, 3, 5))
    y = n.run("matmul", n.same("softmax", s, axis=-1, beta=1.0), v, shape=(1, 2, 3, 4))
    assert [node.op for node in compared(n.graph(y)).nodes] == ["attention"]


@pytest.mark.parametrize("keys", [8192, 16384])
def test_keys_over_the_rounds_of_a_driver_stay(keys: int) -> None:
    n = ShapedNet()
    q, k, v = (n.input((1, 1, length, 512)) for length in (3, keys, keys))
    s = n.run("matmul", q, k, shape=(1, 1, 3, keys), transpose_b=True)
    y = n.run("matmul", n.same("softmax", s, axis=-1, beta=1.0), v, shape=(1, 1, 3, 512))
    found = {node.op for node in fuse_attention(n.graph(y)).nodes}
    assert ("attention" in found, "softmax" in found) == (keys == 8192, keys != 8192)


@pytest.mark.parametrize(("keys", "software"), [(8192, True), (16384, True), (16384, False)])
def test_the_op_is_refused_where_a_driver_would_end_its_loops(keys: int, software: bool) -> None:
    n = ShapedNet()
    q, k, v = (n.input((1, 1, length, 512)) for length in (3, keys, keys))
    graph = n.graph(n.run("attention", q, k, v, None, shape=(1, 1, 3, 512), scale=1.0))
    reason = ops.rows()["attention"].refuse(graph, graph.nodes[0], Target(software=software))
    assert bool(reason) == (software and keys == 16384)


def test_layers_share_a_mask() -> None:
    """A mask that is computed from a condition is computed once."""
    n = ShapedNet()
    seen = n.input((3, 5))
    value = n.constant(np.float32(-inf))
    made = []
    for _ in range(2):
        q, k, v = (n.input((1, 2, length, 4)) for length in (3, 5, 5))
        s = n.run("matmul", q, k, shape=(1, 2, 3, 5), transpose_b=True)
        s = n.run("where", seen, s, value, shape=(1, 2, 3, 5))
        made.append(n.run("matmul", n.same("softmax", s, axis=-1, beta=1.0), v, shape=(1, 2, 3, 4)))
    found = fuse_attention(n.graph(*made))
    verify(found)
    assert [node.op for node in found.nodes] == ["where", "attention", "attention"]


@pytest.mark.parametrize(
    ("batch", "depth", "shared", "parts"),
    [(1, 8, 1, 3), (1, 8, 2, 2), (1, 8, 4, 2), (2, 8, 1, 0), (1, 6, 1, 0)],
)
def test_heads_of_one_product(batch: int, depth: int, shared: int, parts: int) -> None:
    """Queries, keys and values, or keys and values shared by queries, are slices of one product, as
    torch's layers write them: they are read in place, for a batch of one, from a multiple of four
    channels on."""
    n, heads, length = ShapedNet(), 4, 5
    count = heads // shared
    together = 3 if shared == 1 else 2
    x = n.input((batch, length, together * count * depth))
    y = n.reshape(x, (batch, length, together, count * depth))
    y = n.turn(y, (2, 0, 1, 3))
    found = []
    if shared > 1:
        q = n.reshape(n.input((batch, length, heads * depth)), (batch, length, heads, depth))
        found = [n.reshape(n.turn(q, (0, 2, 1, 3)), (batch * heads, length, depth))]
    for k in range(together):
        view = part((together, batch, length, count * depth), 0, k, 1)
        one = n.run("view", y, shape=view.shape, view=view)
        one = n.turn(n.reshape(one, (batch, length, count, depth)), (0, 2, 1, 3))
        if shared > 1:
            one = n.reshape(one, (batch, count, 1, length, depth))
            many = (batch, count, shared, length, depth)
            one = n.run("expand", one, n.constant(np.array(many, np.int32)), shape=many)
        found.append(n.reshape(one, (batch * heads, length, depth)))
    s = n.run("matmul", *found[:2], shape=(batch * heads, length, length), transpose_b=True)
    s = n.same("softmax", s, axis=-1, beta=1.0)
    made = compared(n.graph(n.run("matmul", s, found[2], shape=(batch * heads, length, depth))))
    cut = [node.attributes["view"].key for node in made.nodes if node.op == "view"]
    width = count * depth
    wanted = [part(made.shape(x), 2, k * width, width).key for k in range(together)]
    assert sum(key in cut for key in wanted) == parts
    assert any(node.op == "transpose" for node in made.nodes) == (parts == 0)
