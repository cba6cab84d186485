"""Tests dense products without an adapter: transformed weights, tiles of vendors, eliminated
copies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.test_variants import DIRECT
from tests.compile.test_compiler import TARGET, check_sides, conv
from tests.ops.test_launches import lowered
from tests.ops.test_layer_refusals import SAME, held
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops import winograd
from tflgpu_plugin.ops.blocks import Blocks
from tflgpu_plugin.ops.product import LONG, LONG_PART, PART, STAGE
from tflgpu_plugin.ops.tiles import (
    STARTS,
    Tile,
    along_row,
    choose_tile,
    passes_weights,
    point_tile,
    waiting,
)

ROOT = 2.0**0.5
# The other two transforms of the points 0, +-1/ROOT, +-ROOT and infinity, as matrices.
B = np.array([
    [1, 0, -2.5, 0, 1, 0],
    [0, -ROOT, -2, ROOT / 2, 1, 0],
    [0, ROOT, -2, -ROOT / 2, 1, 0],
    [0, -ROOT / 2, -0.5, ROOT, 1, 0],
    [0, ROOT / 2, -0.5, -ROOT, 1, 0],
    [0, 1, 0, -2.5, 0, 1],
])  # fmt: skip
A = np.array([
    [1, 1, 1, 1, 1, 0],
    [0, ROOT / 2, -ROOT / 2, ROOT, -ROOT, 0],
    [0, 0.5, 0.5, 2, 2, 0],
    [0, ROOT / 4, -ROOT / 4, 2 * ROOT, -2 * ROOT, 1],
])  # fmt: skip


def test_the_three_transforms_make_a_convolution() -> None:
    random = np.random.default_rng(0)
    line, taps = random.standard_normal(6), random.standard_normal(3)
    found = A @ ((winograd.G @ taps) * (B @ line))
    np.testing.assert_allclose(found, np.correlate(line, taps, "valid"), atol=1e-12)


def test_weights_are_transformed_in_block_order() -> None:
    weights = np.random.default_rng(1).standard_normal((5, 3, 3, 6)).astype(np.float32)
    blocks = Blocks(5, 1, 6, 1, 2)
    planes = np.concatenate(list(winograd.transform(weights, blocks))).reshape(
        6, 6, blocks.count, 8, 2, 4
    )
    for output, channel in ((0, 0), (4, 5), (3, 2)):
        wanted = winograd.G @ weights[output, :, :, channel] @ winograd.G.T
        got = planes[:, :, 0, channel, output // 4, output % 4]
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert not planes[:, :, :, 6:].any() and not planes[..., 1, 1:].any()


@pytest.mark.parametrize(
    ("extent", "channels", "filters", "most"),
    [
        (24, 64, 64, 36 * 16 * 64 * 16),  # of weights: planes, slices of 4 channels, vec4
        (80, 64, 64, 36 * 16 * 400 * 16),  # of transformed input: planes, patches, slices
        (80, 64, 100, 36 * 16 * 400 * 25),  # of products
    ],
)
def test_transformed_products_stay_below_the_binding_limit(
    extent: int, channels: int, filters: int, most: int
) -> None:
    """Up to the limit they are used; beyond it the convolution has another form."""
    for limit, transformed in ((most, True), (most - 16, False)):
        b = Net()
        x = b.input((1, extent, extent, channels))
        w = np.ones((filters, 3, 3, channels), np.float32)
        y = b.op("conv_2d", x, b.constant(w), None, **WINDOW)
        target = replace(TARGET, tuning={"winograd_planes": "always"}, max_binding_bytes=limit)
        plan = compiler.compile(b.graph(y), target)
        labels = [dispatch.label for dispatch in plan.dispatches]
        assert ("winograd_input" in labels) == transformed, limit


@pytest.mark.parametrize(
    ("patches", "maps", "slices", "lanes", "tensors", "weights"),
    [
        # Two maps of 30 x 30 pixels: 29 groups of 32 lanes each, and 4
        (128, (2, 900), (16, 16), (2 * 29 * 32, 128), 36 * 128 * 32 * 16, 36 * 64 * 16 * 16),
        # A byte beyond 16 MB counts twice; 12 outputs take blocks of 2 slices.
        (4096, (1, 65_536), (12, 3), (65_536, 4096), None, 36 * 48 * 4 * 16),
    ],
)
def test_what_winograd_gains(
    patches: int, maps: tuple[int, int], slices: tuple[int, int], lanes: tuple[int, int],
    tensors: int | None, weights: int,
) -> None:  # fmt: skip
    """The numbers are computed by hand: multiply-adds of all lanes, and what moves bytes."""
    amd = Target(vendor="amd", subgroup_size=32)
    depth, outputs = slices[0], slices[1] + slices[1] % 2
    each = depth * outputs * 16
    moved = tensors or 36 * 4096 * 15 * 16 * 2 - (16 << 20)
    wanted = (9 * lanes[0] - 36 * lanes[1]) * each - 2 * moved * 4
    wanted -= weights * 3 // 4 * 12 + (2 << 23)
    assert winograd.gained(amd, patches, maps, slices) == wanted


@pytest.mark.parametrize(("vendor", "size"), [("nvidia", (2, 4)), ("qualcomm", (4, 2))])
def test_planes_of_winograd_fill_a_gpu_together(vendor: str, size: tuple[int, int]) -> None:
    """256 patches of 16 slices: 4,096 of the 8,192 threads, and 36 times as many."""
    target = Target(vendor=vendor, tuning={"winograd_planes": "always"})
    b = Net()
    x, w = b.input((1, 64, 64, 64)), b.constant(np.zeros((64, 3, 3, 64), np.float32))
    launches = compiler.lower(b.graph(b.op("conv_2d", x, w, None, **WINDOW)), target).launches
    (found,) = (each.variant for each in launches if each.kernel == "conv")
    assert (found["pixels"], found["slices"]) == size
    alone = choose_tile(target, 16, 256)
    assert (alone.pixels, alone.slices) == (1, 2)


@pytest.mark.parametrize(
    ("vendor", "more", "passed"),
    [
        ("amd", {}, False),  # whose global memory serves all lanes at once
        ("apple", {}, False),
        ("nvidia", {}, True),
        ("intel", {}, False),  # whose compiler makes one block read of a load of all lanes
        ("something new", {}, True),
        ("something new", {"subgroup_size": 4}, False),
        ("nvidia", {"subgroup_size": 0}, False),
        ("amd", {"software": True}, True),
        ("intel", {"tuning": {"weights": "shuffle"}}, True),
        ("nvidia", {"tuning": {"weights": "global"}}, False),
        ("amd", {"tuning": {"weights": "memory"}}, True),
    ],
)
def test_where_lanes_pass_weights_on(vendor: str, more: dict[str, Any], passed: bool) -> None:
    target = replace(Target(vendor=vendor, subgroup_size=32), **more)
    assert passes_weights(target) == passed
    weights = np.ones((1, 3, 3, 9), np.float32)
    b = Net()
    x = b.input((1, 9, 9, 9))
    y = b.op("depthwise_conv_2d", x, b.constant(weights), None, **WINDOW)
    launches = compiler.lower(b.graph(y), target).launches
    (shared,) = (each.variant["shared"] for each in launches if each.kernel == "depthwise")
    assert shared == passed


@pytest.mark.parametrize("vendor", [*STARTS, "something new"])
@pytest.mark.parametrize("size", [0, 32])
def test_every_vendor_has_tiles_that_the_kernel_can_make(vendor: str, size: int) -> None:
    target = Target(vendor=vendor, subgroup_size=size)
    for slices, pixels in ((1, 1), (2, 49), (8, 3136), (64, 12544), (300, 100_000)):
        tile = choose_tile(target, slices, pixels)
        assert tile.slices * tile.step % 8 == 0 and tile.lanes % 8 == 0
        assert tile.shared <= target.shuffles
        assert tile.ahead % (4 // tile.step) == 0 and STAGE % tile.ahead == 0


@pytest.mark.parametrize(
    ("driver", "step"), [("Mesa 22.3.6 (LLVM 15.0.6)", 4), ("Mesa 25.0.7", 2), ("", 2)]
)
def test_only_old_lavapipe_takes_whole_slices_in_large_tiles(driver: str, step: int) -> None:
    target = Target(vendor="software", software=True, subgroup_size=8, driver=driver)
    assert point_tile(target, choose_tile(target, 64, 12544)).step == step


def test_settings_can_be_forced() -> None:
    forced = replace(TARGET, tuning={"tile": "3x4", "weights": "memory", "ahead": "8"})
    tile = choose_tile(forced, 16, 1000)
    assert (tile.pixels, tile.slices, tile.weights, tile.ahead) == (3, 4, "memory", 8)


@pytest.mark.parametrize(
    ("pixels", "size", "least"),
    [
        (128, (2, 2), 64),  # 4 a thread would make 256 pixels of them
        (128, (4, 2), 32),
        (196, (4, 2), 64),  # 256 of either
        (222, (4, 2), 32),  # 256, 2 pixels make 256 as well, and 1 makes 224: 1.14
        (220, (4, 2), 32),
        (257, (2, 2), 32),  # 384, 320, 288: 1.11
        (190, (2, 2), 32),  # 256, 192
        (513, (2, 2), 32),  # 640, 576, 544: 1.18 and 1.06
    ],
)
def test_few_lanes_of_a_tile_are_idle(pixels: int, size: tuple[int, int], least: int) -> None:
    tile = choose_tile(Target(vendor="apple", least_subgroup=least), 4096, pixels)
    assert (tile.pixels, tile.slices) == size


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, (4, 2)),
        ({"least_subgroup": 63}, (4, 2)),
        ({"least_subgroup": 64}, (2, 2)),
        ({"least_subgroup": 64, "half": True, "native_half": True}, (2, 2)),
        ({"least_subgroup": 64, "vendor": "apple"}, (4, 2)),
    ],
)
def test_threads_of_wide_subgroups_make_less(given: dict[str, Any], size: tuple[int, int]) -> None:
    """This is estimated for AMD's GPUs before RDNA; nothing is known of others."""
    tile = choose_tile(Target(**{"vendor": "amd", **given}), 64, 12544)
    assert (tile.pixels, tile.slices) == size


@pytest.mark.parametrize(("least", "lanes"), [(0, 32), (8, 32), (64, 64), (128, 64)])
def test_workgroups_fill_the_smallest_subgroup(least: int, lanes: int) -> None:
    target = Target(vendor="amd", least_subgroup=least)
    assert choose_tile(target, 64, 12544).lanes == lanes
    forced = replace(target, tuning={"tile": "4x2"})
    assert choose_tile(forced, 64, 12544).lanes == lanes


def test_gpus_load_several_iterations_ahead_and_software_adapters_one() -> None:
    """A software adapter has no latency to hide, and takes long to compile each load."""
    assert choose_tile(Target(vendor="amd"), 64, 12544).ahead == 4
    software = Target(vendor="software", software=True, subgroup_size=8)
    assert choose_tile(software, 64, 12544).ahead == 1
    assert choose_tile(software, 8, 12544, width=112).ahead == 1


@pytest.mark.parametrize(
    ("pixels", "width", "steps", "ahead", "across"),
    [
        (1, 3, 12, 4, 3),  # 12 vec4 of x
        (1, 3, 13, 8, 1),
        (2, 3, 12, 2, 3),
        (4, 3, 12, 8, 1),  # 24
        (1, 3, 3, 2, 3),
        (1, 3, 1, 2, 3),
        (1, 2, 8, 4, 2),
        (1, 5, 8, 2, 5),
        (1, 7, 8, 8, 1),
        (2, 1, 8, 8, 1),
    ],
)
def test_taps_of_a_row_are_loaded_together(
    pixels: int, width: int, steps: int, ahead: int, across: int
) -> None:
    tile = Tile(pixels, 2, 4, 32, "global", 8)
    found = along_row(Target(vendor="amd"), tile, width, steps)
    assert found == (replace(tile, ahead=ahead), across)
    for other in (replace(tile, weights="memory"), replace(tile, ahead=1)):
        assert along_row(Target(vendor="amd"), other, width, steps) == (other, 1)


@pytest.mark.parametrize(("width", "ahead", "across"), [(3, 2, 3), (2, 2, 2), (5, 8, 1)])
def test_intel_loads_fewer_at_once(width: int, ahead: int, across: int) -> None:
    tile = Tile(1, 2, 4, 32, "global", 8)
    found = along_row(Target(vendor="intel"), tile, width, 12)
    assert found == (replace(tile, ahead=ahead), across)


@pytest.mark.parametrize(
    ("filters", "more", "across"),
    [
        ((16, 3, 3, 32), {}, 3),
        ((16, 1, 1, 32), {}, 1),
        ((16, 3, 3, 32), {"dilations": (2, 3)}, 3),
        ((16, 3, 1, 32), {}, 1),
    ],
)
def test_windows_of_gpus_go_row_by_row(filters: Any, more: dict[str, Any], across: int) -> None:
    for tuning in (DIRECT, {**DIRECT, "split_k": "always"}):
        amd = Target(vendor="amd", tuning=tuning)
        b = Net()
        x, w = b.input((1, 9, 9, filters[3])), b.constant(np.zeros(filters, np.float32))
        how = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", "activation": "none"}
        y = b.op("conv_2d", x, w, None, **how | more)
        low = compiler.lower(b.graph(y), amd)
        (launch,) = (each for each in low.launches if each.kernel == "conv")
        assert launch.variant["across"] == across


def test_few_threads_load_twice_as_much_ahead_if_nothing_more_is_left_over() -> None:
    gpu = Target(vendor="amd")
    tile = choose_tile(gpu, 64, 196)
    assert (tile.pixels, tile.ahead) == (1, 4)
    assert waiting(gpu, tile, 16_383, 128).ahead == waiting(gpu, tile, 1, 11).ahead == 8
    for other, threads, steps in ((tile, 16_384, 128), (tile, 1, 12), (tile, 1, 7)):
        assert waiting(gpu, other, threads, steps).ahead == 4
    assert waiting(gpu, replace(tile, pixels=4), 1, 128).ahead == 4
    assert waiting(gpu, replace(tile, ahead=1), 1, 128).ahead == 1
    forced = replace(gpu, tuning={"ahead": "4"})
    assert waiting(forced, tile, 1, 128).ahead == 4


def _joined(first: int, second: int, batch: int = 1) -> tuple[list[str], int]:
    b = Net()
    x = b.input((batch, 6, 6, 8))
    parts = conv(b, x, first), conv(b, x, second)
    y = b.op("concat", *parts, axis=3)
    plan = compiler.compile(b.graph(y), TARGET)
    check_sides(plan)
    return [dispatch.label for dispatch in plan.dispatches], plan.bytes_of("pool")


def test_whole_slices_are_written_into_place() -> None:
    labels, _ = _joined(8, 5)
    assert labels == ["pack", "conv", "conv", "unpack"]


def test_broken_slices_and_batches_are_copied() -> None:
    assert _joined(5, 8)[0].count("concat") == 2
    assert _joined(8, 8, batch=2)[0].count("concat") == 1  # of both


def test_a_tensor_is_not_put_beside_what_its_writer_reads() -> None:
    b = Net()
    x = b.input((1, 6, 6, 8))
    first = conv(b, x, 8)
    second = conv(b, first, 8)  # reads one part while it writes the other
    y = b.op("concat", first, second, axis=3)
    plan = compiler.compile(b.graph(y), TARGET)
    check_sides(plan)
    assert [d.label for d in plan.dispatches].count("concat") == 1


def test_a_tensor_in_two_joins_is_copied_once() -> None:
    b = Net()
    x = b.input((1, 6, 6, 8))
    first, second = conv(b, x, 8), conv(b, x, 8)
    y = b.op("concat", first, second, axis=3)
    z = b.op("concat", second, first, axis=3)
    plan = compiler.compile(b.graph(y, z), TARGET)
    check_sides(plan)
    assert [d.label for d in plan.dispatches].count("concat") == 2


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel", "apple", "arm", "qualcomm", "mesa"])
def test_long_sums_of_winograd_are_of_parts_of_one_length(vendor: str) -> None:
    """The length does not depend on the adapter's tile, so that errors measured on one adapter hold
    for all."""
    target = Target(vendor=vendor, software=vendor == "mesa", tuning={"winograd_planes": "always"})
    for channels in (32, 48, 96, 512):
        weights = held(64, 3, 3, channels)
        low = lowered(target, "conv_2d", (1, 28, 28, channels), weights, **SAME)
        (launch,) = (each for each in low.launches if each.kernel == "conv")
        assert launch.variant["parts"]
        stage = launch.parameters["stage"]
        assert stage * launch.variant["step"] == (PART if channels < LONG else LONG_PART)
        assert stage <= STAGE or not launch.variant["memory"]  # what workgroup memory holds
