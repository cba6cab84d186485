"""Tests which convolutions are computed by Winograd's transforms, and their launches. No device is
needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance import direct
from conformance.cases.conv import WINOGRAD
from conformance.test_variants import DIRECT, PLANES
from tests.ops.test_launches import CPU, GPU, launched, lowered
from tests.ops.test_layer_refusals import PLANE, SAME, held
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops.tiles import STARTS

ALWAYS = replace(GPU, tuning=PLANES)
DEEP = (2, 20, 21, 36)  # 5 x 6 patches of 4 x 4 pixels, 9 slices


def test_the_launches_of_winograd() -> None:
    low = lowered(ALWAYS, "conv_2d", DEEP, held(18, 3, 3, 36), **SAME)
    assert [launch.workgroups for launch in low.launches] == [
        (1, 18, 3),  # 30 patches by 32 threads; 2 images of 9 slices; 3 pairs of rows
        (2, 3, 36),  # 60 patches by 32 threads; 5 slices by 2; 36 products
        (1, 10, 2),  # 30 patches; 2 images of 5 slices; 2 pairs of rows
    ]
    assert list(low.sizes.values()) == [36 * 9 * 60, 36 * 5 * 60]
    low = lowered(replace(CPU, tuning=ALWAYS.tuning), "conv_2d", DEEP, held(18, 3, 3, 36), **SAME)
    assert [launch.workgroups for launch in low.launches] == [
        (8, 18, 1),  # 20 lines of 6 patches by 16 threads; 2 images of 9 slices
        (2, 18, 6),  # 30 patches, likewise, of 6 columns
        (1, 2, 36),  # 60 patches, 8 by each of 8 threads; 5 slices by 4; 36 products
        (113, 1, 1),  # 6 of 5 slices of 60 patches, by 16 threads
        (8, 10, 1),  # 20 lines of 6 patches; 2 images of 5 slices
    ]
    wanted = [36 * 9 * 60, 36 * 5 * 60, 6 * 9 * 2 * 20 * 6, 6 * 4 * 5 * 60]
    assert list(low.sizes.values()) == wanted


@pytest.mark.parametrize(
    ("extent", "channels", "filters", "weights", "launches"),
    [
        (128, 32, 32, True, 3),
        (64, 32, 32, True, 1),  # too little is saved for two launches
        (256, 32, 32, True, 1),  # what is moved fits no cache
        (14, 256, 256, True, 2),  # its weights are read four times as long
        (20, 256, 256, True, 3),
        (32, 704, 656, True, 3),
        (32, 704, 660, True, 1),  # over 64 MiB
    ],
)
def test_where_winograd_pays_on_a_gpu(
    extent: int, channels: int, filters: int, weights: bool, launches: int
) -> None:
    given = (1, extent, extent, channels), held(filters, 3, 3, channels)
    amd = Target(vendor="amd", subgroup_size=32)
    assert len(launched(amd, "conv_2d", *given, **SAME)) == launches


@pytest.mark.parametrize(
    ("x", "weights", "more", "launches"),
    [
        ((2, 20, 21, 32), held(18, 3, 3, 32), SAME, 3),
        ((2, 20, 21, 31), held(18, 3, 3, 31), SAME, 1),  # too few terms
        ((2, 20, 21, 36), held(18, 3, 3, 18), SAME, 1),  # groups
        ((2, 20, 21, 36), held(18, 3, 5, 36), SAME, 1),
        ((2, 20, 21, 36), held(18, 5, 3, 36), SAME, 1),
        ((2, 20, 21, 36), (18, 3, 3, 36), SAME, 2),  # weights that are known only in a run
        ((2, 20, 21, 36), held(18, 3, 3, 36), SAME | {"strides": (1, 2)}, 1),
        ((2, 20, 21, 36), held(18, 3, 3, 36), SAME | {"strides": (2, 1)}, 1),
        ((2, 20, 21, 36), held(18, 3, 3, 36), SAME | {"dilations": (2, 1)}, 1),
        ((2, 20, 21, 36), held(18, 3, 3, 36), SAME | {"dilations": (1, 2)}, 1),
        ((2, 20, 21, 36), held(18, 3, 3, 36), PLANE, 3),
    ],
)
def test_which_convolutions_winograd_suits(
    x: Any, weights: Any, more: dict[str, Any], launches: int
) -> None:
    assert len(launched(ALWAYS, "conv_2d", x, weights, **more)) == launches
    never = replace(ALWAYS, tuning=DIRECT)
    assert len(launched(never, "conv_2d", x, weights, **more)) == 1 + (launches == 2)


@pytest.mark.parametrize("vendor", STARTS)
@pytest.mark.parametrize("least", [0, 64])
def test_cases_of_conformance_take_winograd(vendor: str, least: int) -> None:
    for software in (False, True):
        target = Target(vendor=vendor, software=software, subgroup_size=8, least_subgroup=least)
        for case in WINOGRAD:
            plan = compiler.compile(direct.graph(case), target)
            assert "winograd_output" in [each.label for each in plan.dispatches], case.name


def test_winograd_needs_room_for_its_tensors() -> None:
    """The transformed input has 36 planes of 9 slices of 60 patches, 16 bytes each."""
    most, given = 36 * 9 * 60 * 16, (DEEP, held(18, 3, 3, 36))
    for limit, launches in ((most, 3), (most - 1, 1)):
        small = replace(ALWAYS, max_binding_bytes=limit)
        assert len(launched(small, "conv_2d", *given, **SAME)) == launches
