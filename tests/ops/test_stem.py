"""Tests convolutions of few channels whose windows share loads: when they are chosen, their
launches, and their results. Only the last tests need a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import check
from conformance.cases.conv import conv
from conformance.test_variants import ALONG_ROWS
from tests.ops.test_launches import lowered
from tests.ops.test_layer_refusals import SAME, held
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops import window
from tflgpu_plugin.ops.window import Span
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

FORCED = {"strided_window": "always", "stem": "always"}
AMD = Target(vendor="amd", subgroup_size=32)
X = (2, 13, 21, 3)


@pytest.mark.parametrize(
    ("s", "windows", "last", "wanted"),
    [
        (Span(112, 3, 2, 1, 0, 56), 4, 52, "........x"),  # which would begin beyond the input
        (Span(224, 7, 2, 1, 3, 112), 4, 108, "xxx........xx"),
        (Span(9, 3, 1, 1, 1, 9), 2, 7, "x..x"),
        (Span(9, 3, 1, 1, 0, 7), 2, 5, "...."),
        (Span(2, 3, 1, 1, 1, 2), 1, 1, "x.x"),
    ],
)
def test_which_elements_may_lie_outside(s: Span, windows: int, last: int, wanted: str) -> None:
    assert "".join(".x"[each] for each in window.edges(s, windows, last)) == wanted


def test_the_launch() -> None:
    """21 columns by 2 make 11, of which 4 share a thread: 3 threads per row, for 7 rows."""
    low = lowered(AMD, "conv_2d", X, held(64, 3, 3, 3), **SAME | {"strides": (2, 2)})
    (launch,) = low.launches
    assert launch.kernel == "stem"
    shape = {name: launch.variant[name] for name in ("pixels", "slices", "kernel", "stride")}
    assert shape == {"pixels": 1, "slices": 2, "kernel": 3, "stride": 2}  # too few for more
    given = launch.parameters
    assert (given["row_items"], given["items"], given["steps"]) == (11, 77, 3)
    assert [given[name] for name in ("x_batch", "x_row", "x_pixel", "x_slice")] == [
        4 * 13 * 21, 4 * 21, 4, 1,
    ]  # fmt: skip
    assert launch.workgroups == (3, 8, 2)


@pytest.mark.parametrize(
    ("kernel", "stride", "pixels", "slices"),
    [
        (3, 2, 4, 2),
        (7, 2, 4, 2),
        (7, 4, 3, 2),
        (11, 4, 2, 2),
        (16, 16, 1, 2),
        (3, 1, 4, 2),
        (14, 14, 1, 2),
    ],
)
def test_what_a_thread_loads_and_multiplies(
    kernel: int, stride: int, pixels: int, slices: int
) -> None:
    given = (4, 255, 255, 3), held(64, kernel, kernel, 3)
    (launch,) = lowered(AMD, "conv_2d", *given, **SAME | {"strides": (stride,) * 2}).launches
    assert (launch.variant["pixels"], launch.variant["slices"]) == (pixels, slices)
    assert len(launch.variant["edges"]) == kernel + (pixels - 1) * stride


@pytest.mark.parametrize(
    ("target", "filters", "more", "suits"),
    [
        (AMD, (8, 3, 3, 3), {}, True),
        (replace(AMD, vendor="apple"), (8, 3, 3, 3), {}, True),
        (replace(AMD, vendor="nvidia"), (8, 3, 3, 3), {}, False),  # weights in a workgroup's memory
        (replace(AMD, software=True), (8, 3, 3, 3), {}, False),
        (replace(AMD, software=True, tuning=FORCED), (8, 3, 3, 3), {}, True),
        (replace(AMD, tuning=FORCED | {"stem": "never"}), (8, 3, 3, 3), {}, False),
        (
            replace(AMD, tuning={"stem": "never", "strided_window": "never"}),
            (8, 3, 3, 3),
            {},
            False,
        ),
        (AMD, (8, 3, 1, 3), {}, False),  # nothing to share
        (AMD, (8, 1, 1, 3), {}, False),
        (AMD, (8, 3, 16, 3), {}, True),
        (AMD, (8, 3, 17, 3), {}, False),
        (AMD, (8, 3, 18, 3), {}, True),
        (AMD, (8, 3, 22, 3), {}, True),
        (AMD, (8, 3, 38, 3), {}, False),  # 19 parts of 2
        (AMD, (8, 3, 3, 3), {"dilations": (1, 2)}, False),
        (AMD, (8, 3, 3, 3), {"dilations": (2, 1)}, True),
        (AMD, (9, 3, 3, 1), {}, False),  # groups
    ],
)
def test_which_convolutions_it_suits(
    target: Target, filters: Any, more: dict[str, Any], suits: bool
) -> None:
    (launch,) = lowered(target, "conv_2d", X, held(*filters), **SAME | more).launches
    assert (launch.kernel == "stem") == suits


@pytest.mark.adapter
@pytest.mark.parametrize(
    "case",
    [
        conv("tall, far rows", (2, 13, 14, 3), (5, 5, 3, 3), stride=(2, 1)),
        conv("strides of both axes", (2, 13, 29, 2), (13, 3, 7, 2), stride=(1, 2)),
        conv("dilated rows", (1, 12, 13, 1), (4, 2, 3, 1), "VALID", dilation=(3, 1)),
        conv("a stride over the window", (1, 9, 23, 3), (9, 2, 2, 3), "VALID", stride=(3, 5)),
        conv("more columns than there are", (1, 4, 2, 3), (8, 3, 7, 3)),
        conv("one pixel", (3, 3, 3, 3), (20, 3, 3, 3), "VALID"),
        conv("long rows in parts", (1, 9, 41, 3), (6, 2, 20, 3), stride=(1, 5)),
        conv("parts of which one is all padding", (1, 3, 5, 1), (3, 1, 40, 1)),
        conv("a large patch", (1, 64, 64, 3), (6, 32, 32, 3), "VALID", stride=(32, 32)),
        conv("a whole patch at once", (1, 32, 32, 3), (6, 16, 16, 3), "VALID", stride=(16, 16)),
    ],
    ids=lambda case: case.name,
)
def test_answers(case: Any) -> None:
    own = adapter.open_device(adapter.select(None)).target
    software = replace(own, software=True, vendor="software", tuning=FORCED)
    plans = {"software": software, "GPU": replace(own, software=False, vendor="amd", tuning=FORCED)}
    plans["a tile of 4"] = replace(plans["GPU"], tuning=FORCED | {"tile": "4x2"})
    found = check.direct(case, plans, None)
    assert found.passed, found.text


@pytest.mark.adapter
def test_planes_of_the_hosts_buffer_are_read_in_place() -> None:
    """The input is NCHW: channels are far apart. Sums of small integers are exact."""
    random = np.random.default_rng(3)
    image = random.integers(-4, 5, (2, 3, 6, 9)).astype(np.float32)
    weights = random.integers(-4, 5, (5, 2, 3, 3)).astype(np.float32)
    b = Net()
    given = b.input(image.shape)
    x = b.op("transpose", given, perm=(0, 2, 3, 1))
    y = b.op("conv_2d", x, b.constant(weights), None, **WINDOW | {"padding": "valid"})
    device = adapter.open_device(adapter.select(None))
    target = replace(device.target, software=False, vendor="amd")
    plan = compiler.compile(b.graph(y), target)
    assert "stem" in [dispatch.label for dispatch in plan.dispatches]
    assert "transpose" not in [dispatch.label for dispatch in plan.dispatches]
    windows = np.lib.stride_tricks.sliding_window_view(image, (2, 3), (2, 3))
    wanted = np.einsum("bchwij,oijc->bhwo", windows, weights)
    (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([image], [])
    np.testing.assert_array_equal(got, wanted)


def test_windows_along_one_axis_lie_along_rows() -> None:
    """The windows are over [B, L, 1, C], as in ONNX's one-dimensional convolutions."""
    (launch,) = lowered(AMD, "conv_2d", (2, 40, 1, 1), held(8, 9, 1, 1), **SAME).launches
    assert launch.kernel == "stem" and launch.variant["kernel"] == 9
    given = launch.parameters
    assert (given["out_w"], given["in_h"], given["in_w"]) == (40, 1, 40)
    for shape, filters in (((2, 40, 1, 32), (8, 3, 1, 32)), ((2, 1, 40, 32), (8, 1, 3, 32))):
        (launch,) = lowered(
            replace(AMD, tuning=ALONG_ROWS), "conv_2d", shape, held(*filters), **SAME
        ).launches
        assert (launch.kernel, launch.parameters["row_items"]) == ("winograd_row", 10)


@pytest.mark.adapter
@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("tuning", [{}, {"winograd_rows": "always"}, FORCED])
@pytest.mark.parametrize("shape", [(2, 41, 1, 2), (2, 41, 1, 20)])
def test_answers_along_one_axis(shape: Any, tuning: dict[str, str], software: bool) -> None:
    """The input is NCHW and is read in place in the host's buffer. Sums of integers are exact."""
    random = np.random.default_rng(4)
    batch, length, _, channels = shape
    line = random.integers(-4, 5, (batch, channels, length)).astype(np.float32)
    weights = random.integers(-4, 5, (6, 3, 1, channels)).astype(np.float32)
    b = Net()
    given = b.input((batch, channels, length, 1))
    x = b.op("transpose", given, perm=(0, 2, 3, 1))
    y = b.op("conv_2d", x, b.constant(weights), None, **WINDOW | {"padding": "valid"})
    device = adapter.open_device(adapter.select(None))
    target = replace(device.target, software=software, vendor="amd", tuning=tuning)
    plan = compiler.compile(b.graph(y), target)
    (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([line[..., None]], [])
    windows = np.lib.stride_tricks.sliding_window_view(line, 3, 2)
    wanted = np.einsum("bcli,oic->blo", windows, weights[:, :, 0])
    np.testing.assert_allclose(got[:, :, 0], wanted, atol=2e-4)
