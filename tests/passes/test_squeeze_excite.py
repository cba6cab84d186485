"""Tests the pass that merges a map's means and two small layers of them into one node: what is
merged, what is not, and the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.harness import run_graph
from tests.support.net import ShapedNet
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import EpilogueOp, Graph, Target, quirks, verify
from tflgpu_plugin.passes import pipeline
from tflgpu_plugin.passes.fuse.channel_gates import fuse_channel_gates
from tflgpu_plugin.passes.fuse.squeeze_excite import fuse_squeeze_excite

PLAIN = {"strides": (1, 1), "dilations": (1, 1), "padding": "valid", "activation": "none"}
CHANNELS, HIDDEN = 12, 6


class Excited(ShapedNet):
    """A graph of a map, its means, and layers of these."""

    side, batch = 5, 2

    def image(self, channels: int = CHANNELS) -> int:
        return self.input((self.batch, self.side, self.side, channels))

    def drawn(self, *shape: int) -> int:
        chance = np.random.default_rng(len(self.tensors))
        return self.constant(chance.uniform(-1, 1, shape).astype("f4"))

    def mean(self, x: int, **more: object) -> int:
        axes = self.constant(np.array([1, 2], np.int32))
        shape = (self.batch, 1, 1, self.tensors[x].shape[-1])
        return self.run("mean", x, axes, shape=shape, **{"keep_dims": True} | more)

    def pool(self, x: int, size: int) -> int:
        left = self.side - size + 1
        shape = (self.batch, left, left, self.tensors[x].shape[-1])
        return self.run("average_pool_2d", x, shape=shape, window=(size, size), **PLAIN)

    def layer(self, x: int, outputs: int, *steps: EpilogueOp, bias: bool = True) -> int:
        given = self.tensors[x].shape
        weights = self.drawn(outputs, 1, 1, given[-1])
        y = self.run("conv_2d", x, weights, shape=(*given[:3], outputs), **PLAIN)
        added = (EpilogueOp("add", self.drawn(outputs)),) if bias else ()
        self.nodes[-1] = replace(self.nodes[-1], epilogue=(*added, *steps))
        return y

    def gates(self, means: int, outputs: int = CHANNELS, *inner: EpilogueOp) -> int:
        steps = inner or (EpilogueOp("relu"),)
        return self.layer(self.layer(means, HIDDEN, *steps), outputs, EpilogueOp("logistic"))


def _usual(n: Excited) -> list[int]:
    return [n.gates(n.mean(n.image()))]


def _pooled(n: Excited) -> list[int]:
    return [n.gates(n.pool(n.image(), n.side))]


def _part_pooled(n: Excited) -> list[int]:
    return [n.gates(n.mean(n.pool(n.image(), 2)))]


def _no_bias(n: Excited) -> list[int]:
    hidden = n.layer(n.mean(n.image()), HIDDEN, EpilogueOp("hard_swish"), bias=False)
    return [n.layer(hidden, CHANNELS, bias=False)]


def _scaled(n: Excited) -> list[int]:
    """Adds a complete block: the gates, and the convolution whose input they scale."""
    x = n.image()
    product = n.same("mul", x, n.gates(n.mean(x)))
    return [n.layer(product, 8)]


def _read_means(n: Excited) -> list[int]:
    means = n.mean(n.image())
    return [n.gates(means), n.same("sin", means)]


def _read_hidden(n: Excited) -> list[int]:
    hidden = n.layer(n.mean(n.image()), HIDDEN)
    return [n.layer(hidden, CHANNELS), hidden]


def _other_operand(n: Excited) -> list[int]:
    """Adds a block in which an operand of the first layer is computed at run time."""
    raw = n.input((n.batch, 1, 1, HIDDEN))
    return [n.gates(n.mean(n.image()), CHANNELS, EpilogueOp("mul", raw))]


def _three(n: Excited) -> list[int]:
    return [n.layer(n.gates(n.mean(n.image())), 7)]


def _beside(n: Excited) -> list[int]:
    """Adds a block in which the only pixel of the result is in the padding."""
    y = n.gates(n.mean(n.image()))
    moved = {"strides": (3, 3), "padding": (1, 0, 0, 0)}
    n.nodes[-1] = replace(n.nodes[-1], attributes={**n.nodes[-1].attributes, **moved})
    return [y]


def _wide(n: Excited) -> list[int]:
    return [n.gates(n.mean(n.image(1032)))]


@pytest.mark.parametrize(
    ("build", "ops"),
    [
        (_usual, ["squeeze_excite"]),
        (_pooled, ["squeeze_excite"]),
        (_part_pooled, ["average_pool_2d", "squeeze_excite"]),
        (_no_bias, ["squeeze_excite"]),
        (_scaled, ["squeeze_excite", "conv_2d"]),
        (_read_means, ["mean", "squeeze_excite", "sin"]),
        (_read_hidden, ["mean", "conv_2d", "conv_2d"]),
        (_other_operand, ["mean", "conv_2d", "conv_2d"]),
        (_three, ["squeeze_excite", "conv_2d"]),
        (_beside, ["mean", "conv_2d", "conv_2d"]),
        (_wide, ["mean", "conv_2d", "conv_2d"]),
    ],
)
def test_what_is_joined(build: Callable[[Excited], list[int]], ops: list[str]) -> None:
    n = Excited()
    graph = n.graph(*build(n))
    rewritten = fuse_channel_gates(fuse_squeeze_excite(graph))
    verify(rewritten)
    assert sorted(node.op for node in rewritten.nodes) == sorted(ops)
    kept = {s for node in rewritten.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}


def test_larger_maps_are_averaged_by_a_launch_of_their_own() -> None:
    n = Excited()
    n.side, n.batch = 120, 1
    rewritten = fuse_squeeze_excite(n.graph(*_usual(n)))
    assert [node.op for node in rewritten.nodes] == ["mean", "squeeze_excite"]


def test_a_refused_op_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by the option or by a quirk: the layers run separately."""
    n = Excited()
    graph = n.graph(*_usual(n))
    refusing = Target(without=frozenset({"squeeze_excite"}))
    joined, apart = (compiler.compile(graph, each) for each in (Target(), refusing))
    assert "squeeze_excite" in {each.form for each in joined.dispatches}
    assert "squeeze_excite" not in {each.form for each in apart.dispatches}
    row = quirks.Quirk("", "squeeze_excite", "It goes wrong, see issue 1.")
    monkeypatch.setattr(quirks, "QUIRKS", [row])
    assert compiler.compile(graph, Target()) == apart


def _answers(graph: Graph) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    chance = np.random.default_rng(3)
    values = {t: chance.uniform(-1, 2, graph.shape(t)).astype("f4") for t in graph.inputs}
    return list(run_graph(graph, values).values())


@pytest.mark.adapter
@pytest.mark.parametrize(
    "build", [_usual, _pooled, _part_pooled, _no_bias, _scaled, _read_means, _three]
)
def test_answers(build: Callable[[Excited], list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The results equal those without both passes."""
    n = Excited()
    graph = n.graph(*build(n))
    rewritten = _answers(graph)
    left = tuple(
        each for each in pipeline.PASSES if each not in (fuse_squeeze_excite, fuse_channel_gates)
    )
    assert len(left) == len(pipeline.PASSES) - 2
    monkeypatch.setattr(pipeline, "PASSES", left)
    for found, expected in zip(rewritten, _answers(graph), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)
