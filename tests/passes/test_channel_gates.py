"""Tests the pass that moves the gates of channels into the convolution that reads them: where it
applies, and the results of every way to launch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from conformance import settings
from tests.support.harness import device_of
from tests.support.net import ShapedNet
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, EpilogueOp, Target, verify
from tflgpu_plugin.passes.fuse.channel_gates import fuse_channel_gates
from tflgpu_plugin.runtime.program import Instance, Program

PLAIN = {"strides": (1, 1), "dilations": (1, 1), "padding": "valid", "activation": "none"}
BIAS = EpilogueOp("add")


class Gated(ShapedNet):
    """A map times gates, and a convolution of the product."""

    def __init__(self, batch: int = 1, side: int = 5, channels: int = 8) -> None:
        super().__init__()
        self.x = self.input((batch, side, side, channels))
        self.raw = self.input((batch, 1, 1, channels))

    def drawn(self, *shape: int) -> int:
        chance = np.random.default_rng(len(self.tensors))
        return self.constant(chance.uniform(-1, 1, shape).astype("f4"))

    def times(self, *factors: int, **attributes: object) -> int:
        return self.run("mul", *factors, shape=self.tensors[self.x].shape, **attributes)

    def gates(self, op: str = "logistic") -> int:
        return self.same(op, self.raw)

    def conv(self, x: int, outputs: int = 12, kernel: int = 1, **more: object) -> int:
        shape = self.tensors[x].shape
        weights = self.drawn(outputs, kernel, kernel, shape[3])
        made = self.run("conv_2d", x, weights, shape=(*shape[:3], outputs), **PLAIN | more)
        step = replace(BIAS, tensor=self.drawn(outputs))
        self.nodes[-1] = replace(self.nodes[-1], epilogue=(step,))
        return made


def _other_reader(n: Gated) -> list[int]:
    product = n.times(n.x, n.gates())
    return [n.conv(product), n.same("sin", product)]


def _an_output(n: Gated) -> list[int]:
    product = n.times(n.x, n.gates())
    return [n.conv(product), product]


@pytest.mark.parametrize(
    ("build", "taken"),
    [
        (lambda n: [n.conv(n.times(n.x, n.gates()))], True),
        (lambda n: [n.conv(n.times(n.gates(), n.x))], True),
        (lambda n: [n.conv(n.times(n.x, n.gates("tanh")))], True),
        (lambda n: [n.conv(n.times(n.x, n.gates("exp")))], False),  # may be any number
        (lambda n: [n.conv(n.times(n.x, n.raw))], False),
        (lambda n: [n.conv(n.times(n.x, n.same("logistic", n.x)))], False),  # one per pixel
        (lambda n: [n.conv(n.times(n.x, n.gates(), activation="relu"))], False),
        (lambda n: [n.conv(n.times(n.x, n.gates()), kernel=3, padding="same")], False),
        (_other_reader, False),
        (_an_output, False),
    ],
)
def test_where_gates_are_taken(build: Callable[[Gated], list[int]], taken: bool) -> None:
    n = Gated()
    graph = n.graph(*build(n))
    rewritten = fuse_channel_gates(graph)
    verify(rewritten)
    assert ("mul" in [node.op for node in rewritten.nodes]) != taken
    assert (rewritten == graph) != taken
    kept = {s for node in rewritten.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}


def _answer(n: Gated, x: Array, raw: Array) -> Array:
    """Returns the answer in float64."""
    weights, bias = (
        n.tensors[t].data for t in (n.nodes[-1].inputs[1], n.nodes[-1].epilogue[0].tensor)
    )
    scaled = x.astype("f8") / (1 + np.exp(-raw.astype("f8")))
    return np.asarray(scaled @ weights[:, 0, 0].T.astype("f8") + bias)


@pytest.mark.adapter
@pytest.mark.parametrize(("batch", "side", "channels"), [(2, 5, 12), (1, 7, 64)])
def test_answers_of_every_setting(batch: int, side: int, channels: int) -> None:
    n = Gated(batch, side, channels)
    y = n.conv(n.times(n.x, n.gates()))
    graph, chance = n.graph(y), np.random.default_rng(1)
    x = chance.uniform(-1, 1, n.tensors[n.x].shape).astype("f4")
    raw = chance.uniform(-4, 4, n.tensors[n.raw].shape).astype("f4")
    expected, device = _answer(n, x, raw), device_of()
    plans = {
        name: compiler.compile(graph, target)
        for name, target in settings.targets(device.target).items()
    }
    different = {(plan.dispatches, *(each.wgsl for each in plan.pipelines)): (name, plan)
                 for name, plan in plans.items()}  # fmt: skip
    assert len(different) > 10
    for name, plan in different.values():
        assert "mul" not in {each.form for each in plan.dispatches}
        instance = Instance(Program(plan, device.handle, device.pipelines))
        found = dict(zip(graph.outputs, instance.run([x, raw], []), strict=True))[y]
        np.testing.assert_allclose(found, expected, atol=2e-5, err_msg=name)


def test_gates_stay_apart_where_no_form_is_left_that_takes_them() -> None:
    n = Gated(2, 5, 12)
    graph = n.graph(n.conv(n.times(n.x, n.gates())))
    for without, forms in (
        ((), {"logistic", "point"}),
        (("point",), {"logistic", "mul", "window"}),
    ):
        plan = compiler.compile(graph, Target(without=frozenset(without)))
        assert {each.form for each in plan.dispatches} == {"io_layout", *forms}


@pytest.mark.adapter
def test_answers_of_products_in_float16() -> None:
    device = device_of()
    if "shader-f16" not in device.target.features:
        pytest.skip("no shader-f16 here")
    n = Gated(side=48, channels=64)
    y = n.conv(n.times(n.same("sin", n.x), n.gates()), 64)
    graph, chance = fuse_channel_gates(n.graph(y)), np.random.default_rng(1)
    x = chance.uniform(-1, 1, n.tensors[n.x].shape).astype("f4")
    raw = chance.uniform(-4, 4, n.tensors[n.raw].shape).astype("f4")
    target = replace(device.target, software=False, vendor="amd", half=True, native_half=True)
    plan = compiler.compile(graph, target)
    assert any("half_x(" in each.wgsl and "load_gate(" in each.wgsl for each in plan.pipelines)
    (found,) = Instance(Program(plan, device.handle, device.pipelines)).run([x, raw], [])
    expected = _answer(n, np.sin(x), raw)
    assert np.abs(found - expected).max() < 5e-3 * np.abs(expected).max()
