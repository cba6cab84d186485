"""The places that a resized axis reads, against the hosts' arithmetic step by step, over many
extents: few of them meet a rounding. No device is needed."""

from __future__ import annotations

from itertools import product
from math import ceil, floor

import numpy as np
import pytest

from tflgpu_plugin.ops import interpolation

EXTENTS = [*product(range(1, 12), range(1, 24)), (100, 7), (33, 257), (257, 33)]
SETTINGS = [(False, False), (True, False), (False, True)]  # align_corners, half_pixel_centers
FLOAT = np.float32


def towards_zero(a: int, b: int) -> int:
    return int(a / b)


def whole(extent: int, out: int, corners: bool, centers: bool) -> list[tuple[int, int, float]]:
    """Returns the lower and the upper index and the fraction, with ten fractional bits."""
    scale = (1024 * extent + out // 2) // out
    if corners and out > 1:
        scale = (1024 * (extent - 1) + (out - 1) // 2) // (out - 1)
    found = []
    for k in range(out):
        at = k * scale + (scale // 2 - 512 if centers else 0)
        lower = min(max(towards_zero(at, 1024), 0), extent - 1)
        upper = min(towards_zero(at + 1023, 1024), extent - 1)
        found.append((lower, upper, at / 1024 - lower))
    return found


def step(extent: int, out: int, corners: bool) -> np.float32:
    return FLOAT(extent - 1) / FLOAT(out - 1) if corners and out > 1 else FLOAT(extent) / FLOAT(out)


def linear(extent: int, out: int, corners: bool, centers: bool) -> list[tuple[int, int, float]]:
    """Returns the same in float32."""
    scale, found = step(extent, out, corners), []
    for k in range(out):
        at = (FLOAT(k) + FLOAT(0.5)) * scale - FLOAT(0.5) if centers else FLOAT(k) * scale
        lower, upper = max(floor(at), 0), min(ceil(at), extent - 1)
        found.append((lower, upper, at - FLOAT(lower)))
    return found


@pytest.mark.parametrize(("corners", "centers"), SETTINGS)
def test_ten_bits(corners: bool, centers: bool) -> None:
    for extent, out in EXTENTS:
        given = extent, out, corners, centers
        step, start = interpolation.ten_bits(*given)
        for k, (lower, _, part) in enumerate(whole(*given)):
            assert k * step + start == round(1024 * (lower + part)), given


@pytest.mark.parametrize(("corners", "centers"), [*SETTINGS, (True, True)])
def test_the_nearest(corners: bool, centers: bool) -> None:
    for extent, out in EXTENTS:
        wanted = []
        for k in range(out):
            at = (FLOAT(k) + FLOAT(0.5 if centers else 0.0)) * step(extent, out, corners)
            place = floor(at + FLOAT(0.5)) if corners else floor(at)
            wanted.append(min(max(place, 0), extent - 1))
        found = interpolation.nearest(extent, out, corners, centers)
        np.testing.assert_array_equal(found, wanted, str((extent, out)))


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("floor", [0, 1, 1, 2, 2]),
        ("ceil", [1, 1, 2, 2, 3]),
        ("round_prefer_floor", [0, 1, 1, 2, 2]),
        ("round_prefer_ceil", [1, 1, 2, 2, 3]),
    ],
)
def test_ties(how: str, wanted: list[int]) -> None:
    """Places at 0.5, 1, 1.5, 2 and 2.5, and a rounding beside them."""
    attributes = {"coordinates": "asymmetric", "nearest": how, "scales": (2.0,)}
    found = interpolation.resized(4, 6, 0, attributes)[1:]
    np.testing.assert_array_equal(found[:, 0], [[place, 1] for place in wanted])
    if how.startswith("round"):
        for beside in (-4e-7, 4e-7):  # counted as ties
            attributes = {**attributes, "scales": (2.0 * (1 + beside),)}
            beside = interpolation.resized(4, 6, 0, attributes)[1:]
            np.testing.assert_array_equal(beside, found)


def test_one_place_of_a_region_is_its_middle() -> None:
    attributes = {"coordinates": "tf_crop_and_resize", "mode": "linear", "roi": (0.25, 0.75)}
    one = interpolation.resized(9, 1, 0, attributes)
    np.testing.assert_array_equal(one, [[[4, 1], [5, 0]]])
    three = interpolation.resized(9, 3, 0, attributes)
    np.testing.assert_array_equal(three[:, 0], [[2, 1], [4, 1], [6, 1]])
    wide = interpolation.resized(9, 3, 0, {**attributes, "roi": (-0.125, 1.125)})
    np.testing.assert_array_equal(wide[[0, 2], :, 0], [[-1, -1], [-1, -1]])
    ends = interpolation.resized(9, 2, 0, {**attributes, "roi": (0.0, 1.0)})
    np.testing.assert_array_equal(ends[:, 0], [[0, 1], [8, 1]])
