"""Plans for an extent that may be 1: where launches for 1 differ from those for others, a plan has
both, and each run uses its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.ops.test_byte_products import BYTES, layer
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.compile.template import Template, template
from tflgpu_plugin.ir import Graph, Pipeline, Plan, Quantization, Target, heuristics
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.ir.heuristics import ExcludesOneError, heuristic

GPU = Target(vendor="amd", subgroup_size=64, least_subgroup=64)
SOFTWARE = Target(software=True, vendor="software", subgroup_size=8)


def network(net: Net, n: int) -> int:
    """Returns convolutions of small maps, which GPUs split for a batch of 1, and a residual."""
    x = net.op("relu", net.input((n, 7, 7, 256)))
    y = net.op("relu", net.conv(x, 256, 1))
    weights = net.constant(np.ones((64, 3, 3, 256), np.float32))
    return net.op("conv_2d", net.op("add", x, y), weights, None, **WINDOW)


def dense(net: Net, n: int) -> int:
    weights = net.constant(np.ones((40, 64), np.float32))
    made = net.op("fully_connected", net.input((n, 64)), weights, None,
                  activation="none", keep_num_dims=False)  # fmt: skip
    return net.op("softmax", made, beta=1.0)


def of_bytes(net: Net, n: int) -> int:
    """Returns a layer of bytes, which GPUs split for a batch of 1: the parts of sums are int32."""
    x = net.input((n, 7, 7, 256), "i8", Quantization((0.05,), (3,)))
    return layer(net, x, 64, 3, "i8", 5, 3.0)


GRAPHS: tuple[Callable[[Net, int], int], ...] = (network, dense)


def graph(build: Callable[[Net, int], int], n: int) -> Graph:
    net = Net()
    return net.graph(build(net, n))


def made(build: Callable[[Net, int], int], target: Target, now: int = 1) -> Template:
    trace = Trace()
    return template(graph(build, trace.unit(0, now)), target, trace)


def active(plan: Plan) -> list[tuple[Pipeline, tuple[int, int, int]]]:
    return [(plan.pipelines[d.pipeline], d.groups) for d in plan.dispatches if all(d.groups)]


def at(found: Template, n: int) -> Plan:
    return found.settled({0: n}, [{0: n}], [(1, 0)])


@pytest.mark.parametrize("target", [GPU, SOFTWARE], ids=["gpu", "software"])
@pytest.mark.parametrize("build", GRAPHS)
def test_launches_for_one_are_those_of_a_plan_for_one(
    build: Callable[[Net, int], int], target: Target
) -> None:
    for now in (1, 6):
        found = made(build, target, now)
        assert all(found.fits({0: n}) for n in (1, 2, 3, 17, 100))
        assert active(at(found, 1)) == active(compiler.compile(graph(build, 1), target))


def test_launches_for_others_are_those_of_a_plan_for_them() -> None:
    found = made(network, GPU, 6)
    assert active(at(found, 6)) == active(compiler.compile(graph(network, 6), GPU))
    assert len(active(at(found, 1))) > len(active(at(found, 6)))  # split


def test_parts_of_integer_sums_are_integers_for_one_too() -> None:
    target = replace(GPU, tuning=BYTES)
    for now in (1, 6):
        found = made(of_bytes, target, now)
        for n in (1, 6):
            alone = compiler.compile(graph(of_bytes, n), target)
            assert active(at(found, n)) == active(alone)
            assert ("sum_parts" in {d.label for d in alone.dispatches}) == (n == 1)


def test_a_plan_that_cannot_hold_for_one_is_refused() -> None:
    def pinned(net: Net, n: int) -> int:
        return net.op("add", net.input((n, 8)), net.input((5, 8)))

    with pytest.raises(ExcludesOneError):
        made(pinned, SOFTWARE)


def test_a_choice_by_a_quotient_that_1_does_not_have_ends_the_trace() -> None:
    trace = Trace()
    n = trace.unit(0, 4)
    with heuristics.assuming_one(), pytest.raises(ExcludesOneError):
        probe(12 // (n - 1))


@heuristic
def probe(extent: int) -> bool:
    return extent > 2
