"""Tests convolutions that are split along their channels: when, into how many parts, and with which
tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance.test_variants import DIRECT
from tests.compile.test_compiler import TARGET
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops.tiles import choose_tile, larger
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo
from tflgpu_plugin.runtime.program import Instance, Program


@pytest.mark.parametrize(
    ("x", "filters", "parts"),
    [
        ((1, 7, 7, 512), (512, 3, 3, 512), 8),  # 3,136 threads of 1,152 iterations
        ((1, 14, 14, 256), (256, 3, 3, 256), 4),
        ((1, 7, 7, 1024), (1024, 1, 1, 1024), 8),  # 4, and 2 pixels a thread
        ((1, 9, 9, 1024), (512, 1, 1, 1024), 4),  # but 2 pixels leave 47 of 128 lanes idle
        ((1, 3, 3, 1024), (8, 1, 1, 1024), 16),  # few threads: 16 iterations are left
        ((1, 56, 56, 256), (256, 1, 1, 256), 1),  # enough threads
        ((1, 7, 7, 512), (512, 1, 1, 512), 8),
        ((1, 7, 7, 256), (1024, 1, 1, 256), 1),  # few iterations
        ((2, 7, 7, 512), (512, 3, 3, 512), 1),
        ((1, 7, 7, 516), (512, 3, 3, 516), 1),  # channels that make no whole slices
    ],
)
def test_small_maps_are_split_by_channels(
    x: tuple[int, ...], filters: tuple[int, ...], parts: int
) -> None:
    b = Net()
    source, weights = b.input(x), b.constant(np.zeros(filters, np.float32))
    y = b.op("conv_2d", source, weights, None, **WINDOW)
    graph = b.graph(y)
    plan = compiler.compile(graph, Target(vendor="amd", tuning=DIRECT))
    assert [d.groups[2] for d in plan.dispatches if d.label == "conv"] == [x[0] * parts]
    assert [d.label for d in plan.dispatches].count("sum_parts") == (parts > 1)
    for target in (TARGET, Target(vendor="amd", tuning={**DIRECT, "split_k": "never"})):
        labels = [d.label for d in compiler.compile(graph, target).dispatches]
        assert "sum_parts" not in labels


def test_discrete_adapters_take_more_parts() -> None:
    """12,544 threads of 128 iterations nearly fill an integrated adapter. A discrete one holds
    65,536: eight parts, the least that are not fewer, and 16 where a thread has two pixels."""
    b = Net()
    source, weights = b.input((1, 14, 14, 512)), b.constant(np.zeros((512, 1, 1, 512), np.float32))
    graph = b.graph(b.op("conv_2d", source, weights, None, **WINDOW))
    found = []
    for kind in ("integrated", "discrete"):
        info = AdapterInfo("GPU", "nvidia", "driver", "Vulkan", kind, 1, 2, assumed=True)
        with adapter.assumed(info):
            plan = compiler.compile(graph, adapter.open_device(info).target)
        found += [d.groups[2] for d in plan.dispatches if d.label == "conv"]
    assert found == [1, 16]


@pytest.mark.parametrize(("lanes", "pixels", "parts"), [(32, 14, 1), (64, 14, 4), (64, 28, 1)])
def test_wide_subgroups_count_as_few_threads_sooner(lanes: int, pixels: int, parts: int) -> None:
    """12,544 threads of 128 iterations: 196 waves of 64, of which most SIMDs have one or none. Two
    parts, and each thread makes two pixels, of which four parts have as many threads."""
    b = Net()
    source = b.input((1, pixels, pixels, 512))
    weights = b.constant(np.zeros((512, 1, 1, 512), np.float32))
    y = b.op("conv_2d", source, weights, None, **WINDOW)
    target = Target(vendor="amd", subgroup_size=lanes, least_subgroup=lanes)
    plan = compiler.compile(b.graph(y), target)
    assert [d.groups[2] for d in plan.dispatches if d.label == "conv"] == [parts]


@pytest.mark.parametrize(
    ("x", "inputs", "parts"),
    [
        ((1, 128, 3072), 3072, 8),  # 128 pixels of one plane: 2, and 4 pixels a thread
        ((128, 3072), 3072, 8),
        ((1, 96, 3072), 3072, 2),  # 2 or 4 pixels leave 32 of 128 lanes idle
        ((2, 128, 3072), 3072, 1),  # two planes
        ((1, 128, 768), 768, 1),
    ],
)
def test_few_rows_are_split_by_inputs(x: tuple[int, ...], inputs: int, parts: int) -> None:
    b = Net()
    source, weights = b.input(x), b.constant(np.zeros((768, inputs), np.float32))
    given = {"keep_num_dims": True, "activation": "none"}
    y = b.op("fully_connected", source, weights, None, **given)
    plan = compiler.compile(b.graph(y), Target(vendor="amd"))
    planes = x[0] if len(x) == 3 else 1
    assert [d.groups[2] for d in plan.dispatches if d.label == "conv"] == [planes * parts]
    assert [d.label for d in plan.dispatches].count("sum_parts") == (parts > 1)


@pytest.mark.parametrize("norms", [False, True])
def test_parts_that_a_normalization_adds_up_cost_no_launch(norms: bool) -> None:
    """They pay from 64 iterations on, however many threads there are without them."""
    b = Net()
    source, weights = (
        b.input((1, 128, 768)),
        b.constant(np.zeros((768, 768), np.float32)),
    )
    how = {"keep_num_dims": True, "activation": "none"}
    made = b.op("fully_connected", source, weights, None, **how)
    y = b.op("standardize", made, epsilon=1e-5) if norms else made
    plan = compiler.compile(b.graph(y), Target(vendor="amd"))
    assert [d.groups[2] for d in plan.dispatches if d.label == "conv"] == [8 if norms else 1]
    assert "sum_parts" not in [d.label for d in plan.dispatches]


@pytest.mark.parametrize("target", [
    Target(vendor="amd", tuning={"tile": "1x2", "weights": "global"}),
    Target(vendor="nvidia", subgroup_size=32, tuning={"weights": "shuffle"}),
    Target(vendor="amd", software=True),
])  # fmt: skip
def test_no_larger_tile(target: Target) -> None:
    """The tile is forced, or lanes share weights by shuffle, or the adapter is a software
    adapter."""
    assert larger(target, choose_tile(target, 64, 64), 64) == []


def test_larger_tiles_may_have_smaller_workgroups() -> None:
    """49 pixels leave 15 of 64 lanes idle, with two pixels a thread 7 of 32."""
    nvidia = Target(vendor="nvidia")
    small = choose_tile(nvidia, 64, 49)
    assert (small.pixels, small.lanes) == (1, 64)
    assert [(t.pixels, t.lanes) for t in larger(nvidia, small, 49)] == [(2, 32)]
    assert [(t.pixels, t.lanes) for t in larger(nvidia, small, 196)] == [(2, 64), (2, 32)]


NVIDIA = Target(vendor="nvidia", threads=1 << 16)


@pytest.mark.parametrize(
    ("x", "kernel", "target", "wanted"),
    [
        ((1, 14, 14, 512), 1, NVIDIA, (16, 2)),  # eight parts of one pixel a thread
        ((1, 14, 14, 512), 1, replace(NVIDIA, threads=1 << 19), (8, 1)),  # too few are left
        ((1, 7, 7, 512), 3, NVIDIA, (16, 2)),  # 32,768 lanes, half of those that fill the GPU
        ((1, 7, 7, 512), 3, replace(NVIDIA, half=True, native_half=True), (16, 1)),
        # eight parts would not be whole stages
        ((1, 14, 14, 64), 3, replace(NVIDIA, threads=1 << 13), (4, 2)),
    ],
)
def test_parts_with_weights_in_workgroup_memory_take_more_pixels(
    x: tuple[int, ...], kernel: int, target: Target, wanted: tuple[int, int]
) -> None:
    b = Net()
    filters = np.zeros((x[3], kernel, kernel, x[3]), np.float32)
    y = b.op("conv_2d", b.input(x), b.constant(filters), None, **WINDOW)
    tuned = replace(target, tuning=DIRECT)
    launches = compiler.lower(b.graph(y), tuned).launches
    ((variant, parts),) = [(e.variant, e.workgroups[2]) for e in launches if e.kernel == "conv"]
    assert (parts, variant["pixels"]) == wanted


@pytest.mark.adapter
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("pixels", [49, 60])
def test_parts_of_more_pixels_are_right(kernel: int, pixels: int) -> None:
    own = adapter.open_device(adapter.select(None)).target
    b = Net()
    x = b.input((1, 1, pixels, 64))
    filters = b.random.standard_normal((16, 1, kernel, 64)).astype(np.float32)
    graph = b.graph(b.op("conv_2d", x, b.constant(filters), None, **WINDOW))
    value = b.random.standard_normal((1, 1, pixels, 64)).astype(np.float32)
    target = replace(own, software=False, vendor="nvidia", threads=1 << 8, subgroup_size=0)
    target = replace(target, tuning={**DIRECT, "split_k": "always"})
    launches = compiler.lower(graph, target).launches
    (variant,) = (each.variant for each in launches if each.kernel == "conv")
    assert variant["memory"] and variant["pixels"] == 2
    device = adapter.open_device(adapter.select(None))
    plans = [compiler.compile(graph, each) for each in (target, own)]
    found, expected = (
        Instance(Program(plan, device.handle, device.pipelines)).run([value])[0] for plan in plans
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_larger_tiles_have_as_few_idle_lanes_and_as_many_slices() -> None:
    amd = Target(vendor="amd")
    small = choose_tile(amd, 16, 128)
    assert (small.pixels, small.slices) == (1, 2)
    assert [t.pixels for t in larger(amd, small, 128)] == [4, 2]
    assert [t.pixels for t in larger(amd, small, 192)] == [2]  # 4 leave 64 of 256 idle
    assert [t.pixels for t in larger(amd, small, 96)] == []
    assert larger(amd, replace(small, slices=4), 128) == []


def test_weights_of_parts_lie_one_after_another() -> None:
    weights = np.random.default_rng(2).standard_normal((5, 3, 1, 32)).astype(np.float32)
    b = Net()
    x = b.input((1, 6, 6, 32))
    y = b.op("conv_2d", x, b.constant(weights), None, **WINDOW)
    target = Target(vendor="amd", tuning={"split_k": "always"})
    plan = compiler.compile(b.graph(y), target)
    (packed,) = (w.image().view(np.float32) for w in plan.weights if "split" in w.key)
    found = packed.reshape(8, 1, 3, 4, 2, 4)  # part, block, tap, channel, slice, output
    assert found[5, 0, 1, 3, 1, 0] == weights[4, 1, 0, 4 * 5 + 3]
    assert found[0, 0, 2, 2, 0, 3] == weights[3, 2, 0, 2]
