"""Tests the pass that keeps rows of dense layers in place. No adapter is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph, Quantization, Shape
from tflgpu_plugin.passes.layout.dense_rows import keep_dense_rows


def dense(n: ShapedNet, x: int, outputs: int, keep: bool = False) -> int:
    shape = n.tensors[x].shape
    weights = n.constant(np.random.default_rng(outputs).uniform(-1, 1, (outputs, shape[-1])))
    return n.run("fully_connected", x, weights, None, shape=(*shape[:-1], outputs),
                 keep_num_dims=keep, activation="none")  # fmt: skip


def kept(graph: Graph) -> list[str]:
    """Returns the ops that are left."""
    return evaluate.compared(graph, keep_dense_rows(graph), rtol=1e-12)


def layers(shape: Shape, rows: int, *, back: Shape | None = None) -> list[str]:
    """Returns the result of the pass for two layers, each between reshapes."""
    n = ShapedNet()
    x = n.input(shape)
    back = back or shape[:-1]
    y = n.reshape(dense(n, n.reshape(x, (rows, shape[-1])), 6), (*back, 6))
    y = n.same("relu", y)
    y = n.reshape(dense(n, n.reshape(y, (rows, 6)), 5), (*back, 5))
    return kept(n.graph(n.same("relu", y)))


@pytest.mark.parametrize("shape", [(1, 16, 4), (2, 8, 4), (2, 2, 4, 4), (16, 1, 4), (3, 2, 4)])
def test_rows_stay(shape: Shape) -> None:
    rows = int(np.prod(shape[:-1]))
    assert layers(shape, rows) == ["fully_connected", "relu"] * 2


def test_rows_that_turn_in_one_batch_stay() -> None:
    """With a batch of one, sequence-first is the same order of rows."""
    for batch, expected in ((1, ["fully_connected", "relu"]), (2, None)):
        n = ShapedNet()
        x = n.turn(n.input((batch, 16, 4)), (1, 0, 2))
        y = dense(n, n.reshape(x, (16 * batch, 4)), 6)
        y = n.turn(n.reshape(y, (16, batch, 6)), (1, 0, 2))
        ops = kept(n.graph(n.same("relu", y)))
        assert ops == expected or (expected is None and ops.count("transpose") == 2)


@pytest.mark.parametrize("first", [True, False])
def test_rows_in_another_order_move(first: bool) -> None:
    """The transpose is on one side only: equal extents do not imply equal order."""
    n = ShapedNet()
    x = n.input((2, 16, 4))
    y = dense(n, n.reshape(n.turn(x, (1, 0, 2)) if first else x, (32, 4)), 6)
    y = n.reshape(y, (2, 16, 6)) if first else n.turn(n.reshape(y, (16, 2, 6)), (1, 0, 2))
    assert "transpose" in kept(n.graph(n.same("relu", y)))


@pytest.mark.parametrize("turned", [False, True])
def test_rows_that_are_outputs(turned: bool) -> None:
    n = ShapedNet()
    y = dense(n, n.reshape(n.input((1, 16, 4)), (16, 4)), 6)
    y = n.turn(n.reshape(y, (16, 1, 6)), (1, 0, 2)) if turned else n.reshape(y, (1, 16, 6))
    between = n.nodes[-2].outputs[0] if turned else n.nodes[-1].outputs[0]
    assert kept(n.graph(y, n.same("relu", y), *([between] if turned else [])))


def test_rows_that_would_be_slow_move() -> None:
    """Few rows of many batches are faster on one axis."""
    assert "reshape" in layers((4, 5, 4), 20)


@pytest.mark.parametrize(
    ("shape", "rows", "back"),
    [((1, 16, 4), 16, (2, 8)), ((1, 1, 2, 8, 4), 16, (1, 1, 2, 8)), ((2, 8, 4), 16, (16, 1))],
)
def test_rows_that_come_back_otherwise_move(shape: Shape, rows: int, back: Shape) -> None:
    assert layers(shape, rows, back=back).count("reshape") >= 2


def test_other_inputs_move() -> None:
    """The reshape changes the last axis."""
    n = ShapedNet()
    x = n.input((1, 16, 4))
    y = n.reshape(dense(n, n.reshape(x, (32, 2)), 4), (1, 32, 4))
    assert kept(n.graph(y)) == ["reshape", "fully_connected", "reshape"]


@pytest.mark.parametrize("reader", ["another", "output"])
def test_rows_that_others_read_stay_together(reader: str) -> None:
    n = ShapedNet()
    y = dense(n, n.reshape(n.input((1, 16, 4)), (16, 4)), 5)
    apart = n.reshape(y, (1, 16, 5))
    graph = n.graph(apart, n.same("relu", y) if reader == "another" else y)
    assert keep_dense_rows(graph) == graph

    assert keep_dense_rows(graph) == graph


def test_layers_share_rows() -> None:
    """One reshape precedes several layers."""
    n = ShapedNet()
    x = n.reshape(n.input((1, 16, 4)), (16, 4))
    made = [n.reshape(dense(n, x, size), (1, 16, size)) for size in (3, 4, 8)]
    assert kept(n.graph(*made)) == ["fully_connected"] * 3


def test_rows_of_weights_with_scales_stay() -> None:
    """The weights are constants that were dequantized."""
    n = ShapedNet()
    y = dense(n, n.reshape(n.input((2, 8, 4)), (16, 4)), 6)
    weights = n.nodes[-1].inputs[1]
    held = Quantization((1.0,), (3,))
    n.tensors[weights] = replace(n.tensors[weights], quantization=held)
    assert kept(n.graph(n.same("relu", n.reshape(y, (2, 8, 6))))) == ["fully_connected", "relu"]
