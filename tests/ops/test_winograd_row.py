"""Tests Winograd's F(4, 3) along rows: when it is chosen, its launches, and its results. Only the
last tests need a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import check
from conformance.cases.conv import conv
from conformance.test_variants import ALONG_ROWS
from tests.ops.test_launches import launched, lowered
from tests.ops.test_layer_refusals import PLANE, SAME, held
from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops import tiles, window, winograd, winograd_row
from tflgpu_plugin.ops.blocks import Blocks
from tflgpu_plugin.ops.convolution import Convolution
from tflgpu_plugin.ops.window import Span
from tflgpu_plugin.runtime import adapter

FORCED = Target(tuning=ALONG_ROWS)
AMD = Target(vendor="amd", subgroup_size=32)
X = (2, 20, 21, 36)
ALONG = ["winograd_row"]


def kinds(target: Target, *given: Any, **more: Any) -> list[str]:
    return [launch.kernel for launch in lowered(target, "conv_2d", *given, **more).launches]


def test_weights_of_each_row_are_transformed_in_block_order() -> None:
    weights = np.random.default_rng(1).standard_normal((13, 2, 3, 6)).astype(np.float32)
    blocks = Blocks(13, 2 * 6, 6, 1, 2)
    pieces = list(winograd_row.transform(weights, blocks))
    made = np.concatenate([piece.reshape(-1) for piece in pieces]).reshape(2, 2, 6, 8, 2, 4)
    for output, row, channel in ((0, 0, 0), (12, 1, 5), (3, 1, 2)):
        got = made[output // 8, row, :, channel, output % 8 // 4, output % 4]
        np.testing.assert_allclose(got, winograd.G @ weights[output, row, :, channel], rtol=1e-6)
    assert not made[:, :, :, 6:].any() and not made[1, ..., 1, 1:].any()


@pytest.mark.parametrize(
    ("extent", "before", "positions", "wanted"),
    [
        (16, 1, 16, "x....x"),
        (16, 0, 14, "....xx"),  # 14 results end within a patch
        (18, 0, 16, "......"),
        (15, 1, 15, "x...xx"),
        (5, 4, 11, "xxxxxx"),
        (18, 2, 20, "xx..xx"),
        (17, 1, 16, "x....."),
    ],
)
def test_which_neighbours_may_lie_outside(
    extent: int, before: int, positions: int, wanted: str
) -> None:
    last = (-(-positions // 4) - 1) * 4
    found = window.edges(Span(extent, 3, 1, 1, before, positions), 4, last)
    assert "".join(".x"[each] for each in found) == wanted


def test_the_launch() -> None:
    low = lowered(FORCED, "conv_2d", X, held(18, 3, 3, 36), **SAME)
    (launch,) = low.launches
    assert launch.workgroups == (4, 3, 2)  # 20 rows of 6 patches by 32 threads, 5 slices by 2
    assert (launch.variant["slices"], launch.variant["ahead"]) == (2, 1)
    given = launch.parameters
    assert (given["row_items"], given["items"], given["steps"]) == (6, 120, 9)
    assert (given["x_slice"], given["y_slice"], given["pixels"]) == (420, 420, 420)
    assert (given["tap_vectors"], given["block_vectors"]) == (36 * 2, 18 * 36 * 2)
    wide = replace(FORCED, least_subgroup=64)
    assert launched(wide, "conv_2d", X, held(4, 3, 3, 36), **SAME) == [(2, 1, 2)]


@pytest.mark.parametrize(
    ("x", "weights", "more", "suits"),
    [
        ((2, 20, 21, 16), held(18, 3, 3, 16), SAME, True),
        ((2, 20, 21, 15), held(18, 3, 3, 15), SAME, False),  # too few terms
        (X, held(18, 3, 3, 18), SAME, False),  # groups
        (X, held(18, 3, 5, 36), SAME, False),
        (X, held(18, 3, 2, 36), SAME, False),
        (X, held(18, 5, 3, 36), SAME, True),
        (X, held(18, 1, 3, 36), SAME, True),
        (X, (18, 3, 3, 36), SAME, False),  # weights that are known only in a run
        (X, held(18, 3, 3, 36), SAME | {"strides": (1, 2)}, False),
        (X, held(18, 3, 3, 36), SAME | {"strides": (2, 1)}, True),
        (X, held(18, 3, 3, 36), SAME | {"dilations": (2, 1)}, True),
        (X, held(18, 3, 3, 36), SAME | {"dilations": (1, 2)}, False),
        (X, held(18, 3, 3, 36), PLANE, True),
    ],
)
def test_which_convolutions_it_suits(
    x: Any, weights: Any, more: dict[str, Any], suits: bool
) -> None:
    assert (kinds(FORCED, x, weights, **more) == ALONG) == suits
    assert (kinds(replace(FORCED, software=True), x, weights, **more) == ALONG) == suits
    never = replace(FORCED, tuning={"winograd_rows": "never"})
    assert ALONG[0] not in kinds(never, x, weights, **more)


def test_whole_sums_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    low = lowered(FORCED, "conv_2d", X, held(18, 3, 3, 36), **SAME)
    (node,) = low.graph.nodes
    axes = (Span(20, 3, 1, 1, 1, 20), Span(21, 3, 1, 1, 1, 21))
    for op, suits in (("relu", True), (next(iter(kernels.ROWS)), False)):
        step = type("Step", (), {"op": op})()
        given = replace(node, epilogue=(step,))
        c = Convolution(low, given, X, (18, 3, 3, 36), axes)
        assert winograd_row.suits(c) is suits


def test_it_needs_room_for_its_weights() -> None:
    """There are 3 blocks of 18 taps, 36 channels and 2 slices, 16 bytes each."""
    most = 3 * 18 * 36 * 2 * 16
    for limit, wanted in ((most, True), (most - 1, False)):
        small = replace(FORCED, max_binding_bytes=limit)
        assert (kinds(small, X, held(18, 3, 3, 36), **SAME) == ALONG) == wanted


@pytest.mark.parametrize(
    ("target", "extent", "channels", "along"),
    [
        (AMD, 256, 16, True),
        (AMD, 256, 15, False),
        (replace(AMD, vendor="nvidia"), 256, 16, False),  # weights through a workgroup's memory
        (replace(AMD, vendor="apple"), 256, 16, True),
        (replace(AMD, software=True), 256, 16, False),
        (replace(AMD, tuning={"weights": "memory"}), 256, 16, False),
        (AMD, 181, 16, True),  # 181 x 46 patches, 2 blocks of slices: 16,652 threads
        (AMD, 179, 16, False),  # 16,110 threads
    ],
)
def test_where_it_pays(target: Target, extent: int, channels: int, along: bool) -> None:
    given = (1, extent, extent, channels), held(16, 3, 3, channels)
    assert (kinds(target, *given, **SAME) == ALONG) == along


def test_threads_of_all_images_count() -> None:
    given = (2, 128, 128, 16), held(16, 3, 3, 16)  # 2 x 128 x 32 patches, 2 blocks
    assert kinds(AMD, *given, **SAME) == ALONG
    assert kinds(AMD, (1, 128, 128, 16), given[1], **SAME) == ["conv"]
    assert tiles.WAITING_THREADS == 2 * 128 * 32 * 2


def test_what_is_gained() -> None:
    """The numbers are computed by hand: multiply-adds of all lanes, less 12 for each byte of the
    weights, of which there are twice as many."""
    found = winograd_row.gained(AMD, (2, 20, 22, 36), (24, 5, 3, 36), 20, 22)
    lanes = -(-20 * 6 // 32) * 32
    made = lanes * 3 * 9 * (2 * 6 * 16 + 48)  # 3 blocks of 2 slices, 9 slices of input
    direct = 3 * winograd.multiplied(AMD, 440, (9, 6))
    assert found == 5 * 2 * (direct - made) - 3 * 30 * 36 * 2 * 16 // 2 * 12
    wide = replace(AMD, least_subgroup=64)
    more = winograd_row.gained(wide, (1, 1, 4, 4), (4, 1, 3, 4), 1, 4)
    assert more == 3 * winograd.multiplied(wide, 4, (1, 1)) - 64 * (96 + 48) - 6 * 4 * 16 // 2 * 12
    assert winograd_row.gained(AMD, (1, 256, 256, 16), (16, 3, 3, 16), 256, 256) > 0
    assert winograd_row.gained(AMD, (1, 256, 1, 16), (16, 3, 3, 16), 256, 1) < 0


@pytest.mark.adapter
@pytest.mark.parametrize(
    "case",
    [
        conv("tall, far rows", (2, 13, 14, 17), (13, 5, 3, 17), stride=(2, 1), scale=0.2),
        conv("dilated rows", (1, 12, 13, 16), (4, 2, 3, 16), "VALID", dilation=(3, 1), scale=0.2),
        conv("one row", (1, 1, 3, 20), (21, 1, 3, 20), scale=0.2),
        conv("more rows than there are", (1, 2, 4, 16), (8, 7, 3, 16), scale=0.2),
    ],
    ids=lambda case: case.name,
)
def test_answers(case: Any) -> None:
    own = adapter.open_device(adapter.select(None)).target
    software = replace(own, software=True, vendor="software", tuning=ALONG_ROWS)
    plans = {
        "software": software,
        "GPU": replace(own, software=False, vendor="amd", tuning=ALONG_ROWS),
    }
    found = check.direct(case, plans, None)
    assert found.passed, found.text
