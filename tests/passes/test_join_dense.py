"""Tests the pass that merges several dense layers of one input. No adapter is needed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.passes.fuse.join_dense import join_dense

ROWS, WIDTH = 5, 8


class Attending(ShapedNet):
    """A graph of attention over the results of layers."""

    batch = 1

    def drawn(self, *shape: int) -> int:
        self.seed = getattr(self, "seed", 0) + 1
        return self.constant(
            np.random.default_rng(self.seed)
            .uniform(
                -1,
                1,
                shape,
            )
            .astype("f4")
        )

    def layer(self, x: int, width: int = WIDTH, form: str = "") -> int:
        """Adds a layer with a bias of its own, with a bias added after it (`after`, `before`), with
        both, or with none."""
        bias = self.drawn(width) if form in ("own", "both") else None
        y = self.run("fully_connected", x, self.drawn(width, self.tensors[x].shape[-1]), bias,
                     shape=(self.batch, ROWS, width), keep_num_dims=True,
                     activation="none")  # fmt: skip
        if form in ("after", "both"):
            y = self.same("add", y, self.drawn(width))
        if form == "before":
            y = self.run("add", self.drawn(1), y, shape=self.tensors[y].shape)
        return self.same("relu", y) if form == "active" else y

    def attention(self, q: int, k: int, v: int, heads: int = 2) -> int:
        shape = (*self.tensors[q].shape[:2], self.tensors[v].shape[-1])
        return self.run("attention", q, k, v, None, shape=shape, heads=heads, scale=0.5)


def joined(graph: Graph) -> list[str]:
    """Returns the ops that are left."""
    return evaluate.compared(graph, join_dense(graph), rtol=1e-5)


@pytest.mark.parametrize(
    "forms", [("", "", ""), ("own", "own", "own"), ("after", "", "before"), ("both", "own", "")]
)
def test_one_product(forms: tuple[str, ...]) -> None:
    n = Attending()
    x = n.input((1, ROWS, 6))
    q, k, v = (n.layer(x, width, form) for width, form in zip((8, 8, 16), forms, strict=True))
    assert joined(n.graph(n.attention(q, k, v))) == [
        "fully_connected", "view", "view", "view", "attention",
    ]  # fmt: skip


def test_two_of_three() -> None:
    """Keys and values come from another tensor."""
    n = Attending()
    x, z = n.input((1, ROWS, 6)), n.input((1, ROWS, 6))
    y = n.attention(n.layer(x), n.layer(z, form="after"), n.layer(z))
    assert joined(n.graph(y)).count("fully_connected") == 2


@pytest.mark.parametrize("form", ["active", "batches", "uneven", "read", "output", "large"])
def test_others_stay(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = Attending()
    n.batch = 2 if form == "batches" else 1
    if form == "large":
        monkeypatch.setattr("tflgpu_plugin.passes.fuse.join_dense.MAX_JOINED", 3 * 6 * WIDTH - 1)
    x = n.input((n.batch, ROWS, 6))
    width, kind = (6 if form == "uneven" else WIDTH), ("active" if form == "active" else "own")
    q, k, v = (n.layer(x, width, kind) for _ in range(3))
    y = n.attention(q, k, v, heads=1)
    more = {"read": lambda: [n.same("relu", t) for t in (q, k, v)], "output": lambda: [q, k, v]}
    graph = n.graph(y, *more.get(form, list)())
    assert join_dense(graph) == graph


def single(n: Attending, widths: tuple[int, ...], batch: int = 1) -> Graph:
    """Returns a graph of layers of single rows, whose results are added to pictures."""
    x = n.input((batch, 6))
    made = [
        n.run("fully_connected", x, n.drawn(width, 6), n.drawn(width), shape=(batch, width),
              activation="none")
        for width in widths
    ]  # fmt: skip
    pictures = [n.input((batch, 2, 3, width)) for width in widths]
    moved = [n.reshape(t, (batch, 1, 1, width)) for t, width in zip(made, widths, strict=True)]
    return n.graph(*(n.same("add", x, t) for x, t in zip(pictures, moved, strict=True)))


def test_single_rows_are_read_by_anything() -> None:
    found = joined(single(Attending(), (8, 4, 12)))
    assert found.count("fully_connected") == 1 and found.count("view") == 3


def test_rows_that_an_elementwise_op_reads_stay() -> None:
    """A function of a part is a launch; that of a layer is its epilogue."""
    n = Attending()
    x = n.input((1, 1, 64))
    gate, up = (
        n.run("fully_connected", x, n.drawn(32, 64), None, shape=(1, 1, 32), activation="none",
              keep_num_dims=True)
        for _ in range(2)
    )  # fmt: skip
    gated = n.same("mul", n.same("swish", gate, beta=1.0), up)
    graph = n.graph(n.same("neg", gated))
    assert join_dense(graph) == graph


@pytest.mark.parametrize(("widths", "batch", "left"), [((8, 6), 1, 2), ((8, 4), 2, 2)])
def test_other_rows_stay(widths: tuple[int, ...], batch: int, left: int) -> None:
    graph = single(Attending(), widths, batch)
    assert join_dense(graph) == graph


def test_a_row_that_is_flattened_first_stays() -> None:
    """The layer reads [1, 6] from [1, 3, 2], and its result has another shape."""
    n = Attending()
    x = n.input((1, 3, 2))
    made = [n.run("fully_connected", x, n.drawn(8, 6), None, shape=(1, 8), activation="none")
            for _ in range(2)]  # fmt: skip
    graph = n.graph(*(n.same("relu", y) for y in made))
    assert join_dense(graph) == graph


def blocks(
    n: Attending, x: int, width: int, bits: int = 4, block: int = 32, zeros: bool = False
) -> int:
    """Adds a layer whose weights are stored in blocks."""
    inputs, rng = n.tensors[x].shape[-1], np.random.default_rng(width + bits)
    count = -(-inputs // block)
    words = rng.integers(-(2**31), 2**31, (width, count, block * bits // 32), np.int32)
    points = n.constant(rng.integers(0, 1 << bits, (width, count)).astype("f4")) if zeros else None
    return n.run("matmul_blocks", x, n.constant(words, "i32"), n.drawn(width, count), points,
                 shape=(*n.tensors[x].shape[:-1], width), bits=bits, block=block)  # fmt: skip


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_layers_with_weights_in_blocks(zeros: bool, rows: int) -> None:
    n = Attending()
    x = n.input((1, rows, 70))
    parts = [blocks(n, x, width, zeros=zeros) for width in (16, 8, 8)]
    parts[1] = n.same("add", parts[1], n.drawn(8))
    y = n.run("attention", *parts, None, shape=(1, rows, 16), heads=2, kv_heads=1, scale=0.5)
    assert joined(n.graph(y)) == [
        "matmul_blocks", "add", "view", "view", "view", "attention",
    ]  # fmt: skip


@pytest.mark.parametrize("other", [{"bits": 8}, {"block": 16}, {"zeros": True}])
def test_blocks_of_several_kinds_stay(other: dict[str, int]) -> None:
    n = Attending()
    x = n.input((1, ROWS, 64))
    q, k = blocks(n, x, 8), blocks(n, x, 8, **other)
    v = n.layer(x)
    graph = n.graph(n.attention(q, k, v))
    assert join_dense(graph) == graph
