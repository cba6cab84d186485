"""Tests the pass that moves elementwise functions before reshapes. No adapter is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.passes.fuse.epilogue import fuse_epilogue
from tflgpu_plugin.passes.layout.compose_views import compose_views
from tflgpu_plugin.passes.layout.sink_reshapes import sink_reshapes

MAP, ROWS = (1, 5, 7, 8), (1, 35, 8)


def number(n: ShapedNet, *shape: int) -> int:
    return n.constant(np.random.default_rng(3).uniform(0.5, 2, shape).astype("f4"))


def joined(build: Callable[[ShapedNet, int], list[int]]) -> list[str]:
    """Returns the nodes, with their epilogues, that remain of a tanh, a reshape and its reader."""
    n = ShapedNet()
    moved = n.reshape(n.same("tanh", n.input(MAP)), ROWS)
    graph = n.graph(*build(n, moved))
    later = sink_reshapes(graph)
    evaluate.compared(graph, later)
    fused = fuse_epilogue(compose_views(later))
    return [".".join((node.op, *(each.op for each in node.epilogue))) for node in fused.nodes]


def test_steps_go_in_front() -> None:
    assert joined(lambda n, x: [n.same("neg", n.same("relu", x))]) == ["tanh.relu.neg", "reshape"]


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 1, 8), (1,), ()])
@pytest.mark.parametrize("swapped", [False, True])
def test_so_do_constants_per_channel(shape: tuple[int, ...], swapped: bool) -> None:
    def build(n: ShapedNet, x: int) -> list[int]:
        reads = (number(n, *shape), x) if swapped else (x, number(n, *shape))
        return [n.run("sub", *reads, shape=ROWS, activation="none")]

    found = joined(build)
    assert found[1:] == ["reshape"] and found[0].startswith("tanh.")


def test_reshapes_meet() -> None:
    """Two reshapes are inverse, with a function between them; rows of several batches are in
    another order."""
    n = ShapedNet()
    rows = n.reshape(n.same("tanh", n.input((2, 35, 8))), (70, 8))
    graph = n.graph(n.same("neg", n.reshape(n.same("mul", rows, number(n, 8)), (2, 35, 8))))
    evaluate.compared(graph, sink_reshapes(graph))
    labels = [each.label for each in compiler.compile(graph, Target()).dispatches]
    assert len(labels) == 3 and "gather" not in labels


def test_channels_that_are_parted_stay() -> None:
    n = ShapedNet()
    moved = n.reshape(n.same("tanh", n.input(MAP)), (1, 35, 2, 4))
    graph = n.graph(n.same("mul", moved, number(n, 4)))
    assert sink_reshapes(graph) == graph


@pytest.mark.parametrize(
    "build",
    [
        lambda n, x: [n.same("relu", x), n.same("neg", x)],  # two readers
        lambda n, x: [n.same("relu", x), x],  # an output
        lambda n, x: [n.same("add", x, n.input(ROWS))],  # of another tensor
        lambda n, x: [n.same("add", x, number(n, *ROWS))],
        lambda n, x: [n.same("mul", x, x)],
        lambda n, x: [n.run("add", x, number(n, 3, 1, 8), shape=(3, 35, 8))],  # spread over more
    ],
)
def test_others_stay(build: Callable[[ShapedNet, int], list[int]]) -> None:
    n = ShapedNet()
    moved = n.reshape(n.same("tanh", n.input(MAP)), ROWS)
    graph = n.graph(*build(n, moved))
    assert sink_reshapes(graph) == graph


def test_what_is_read_before_the_reshape_stays() -> None:
    n = ShapedNet()
    made = n.same("tanh", n.input(MAP))
    graph = n.graph(n.same("relu", n.reshape(made, ROWS)), n.same("neg", made))
    assert sink_reshapes(graph) == graph


def test_what_follows_a_movement_stays() -> None:
    """A transpose and a reshape are one launch, which includes the function as an epilogue."""
    n = ShapedNet()
    turned = n.turn(n.same("tanh", n.input(MAP)), (0, 2, 1, 3))
    graph = n.graph(n.same("relu", n.reshape(turned, ROWS)))
    assert sink_reshapes(graph) == graph


def test_names_stay_with_their_nodes() -> None:
    n = ShapedNet()
    moved = n.reshape(n.same("tanh", n.input(MAP)), ROWS)
    y = n.same("relu", moved)
    n.nodes[-1] = replace(n.nodes[-1], name="after")
    early, late = sink_reshapes(n.graph(y)).nodes[1:]
    assert (early.op, early.name, late.op, late.outputs) == ("relu", "after", "reshape", (y,))
