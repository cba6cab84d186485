"""Tests constant weights that kernels read eight vec4 at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance.test_variants import ALONG_ROWS, DIRECT
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

AMD = Target(vendor="amd", subgroup_size=32, tuning=DIRECT)


@pytest.mark.parametrize(
    ("target", "constant", "found"),
    [
        (AMD, True, True),
        (AMD, False, False),  # packed on the device, where the memory has room
        (replace(AMD, half=True, native_half=True), True, True),
        (replace(AMD, half=True), True, True),  # small weights stay float32
        (replace(AMD, software=True), True, False),
        (replace(AMD, vendor="nvidia"), True, False),  # through a workgroup's memory
    ],
)
def test_weights_that_lanes_share_are_read_in_eights(
    target: Target, constant: bool, found: bool
) -> None:
    """They begin at a multiple of eight vec4, and an iteration reads as many."""
    b = Net()
    x = b.input((1, 6, 6, 16))
    data = np.ones((16, 3, 3, 16), np.float32)
    weights = b.constant(data) if constant else b.input(data.shape)
    bias = b.constant(np.ones(16, np.float32))
    first = b.op("add", x, bias, activation="none")
    y = b.op("conv_2d", first, weights, bias, **WINDOW)
    plan = compiler.compile(b.graph(y), target)
    texts = [p.wgsl for p in plan.pipelines if p.label == "conv"]
    assert [("eight_w(" in text) for text in texts] == [found]
    if found:
        assert "array<array<vec4" in texts[0] and all(w.offset % 128 == 0 for w in plan.weights)


@pytest.mark.adapter
@pytest.mark.parametrize("half", [False, True])
def test_eights_behind_a_smaller_constant(half: bool) -> None:
    """Convolutions (also along rows) are planned as for a GPU and run on this device."""
    device = adapter.open_device(adapter.select(None))
    if half and "shader-f16" not in device.target.features:
        pytest.skip("no shader-f16 here")
    rng = np.random.default_rng(5)
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in
            ((1, 9, 16, 32), (24, 3, 3, 32)))  # fmt: skip
    padded = np.pad(x + 1, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    wanted = np.einsum("byxcij,oijc->byxo", windows, w)
    for form in (DIRECT, ALONG_ROWS):
        b = Net()
        given, one = b.input(x.shape), b.constant(np.ones(1, np.float32))
        moved = b.op("add", given, one, activation="none")
        y = b.op("conv_2d", moved, b.constant(w), None, **WINDOW)
        target = replace(device.target, software=False, vendor="amd", half=half, native_half=half,
                         tuning=form)  # fmt: skip
        plan = compiler.compile(b.graph(y), target)
        assert any("load_eight_w(" in p.wgsl for p in plan.pipelines)
        (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([x])
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-3)
