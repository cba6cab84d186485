"""Tests weights over an adapter's binding limit: they are split by output channels, and every part
of the result is right, for constants and run-time values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.harness import device_of
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array
from tflgpu_plugin.runtime.program import Instance, Program

pytestmark = pytest.mark.adapter


def run_split(b: Net, values: dict[int, Array], y: int, label: str) -> Array:
    """Returns the output on a device whose binding limit is less than half the size of the weights;
    asserts that several launches compute it."""
    device, graph = device_of(), b.graph(y)
    small = replace(device.target, tuning={"tile": "1x2", "winograd_planes": "never"})
    whole = compiler.compile(graph, small)
    largest = max(buffer.bytes for buffer in whole.buffers if buffer.role in ("weights", "pool"))
    plan = compiler.compile(graph, replace(small, max_binding_bytes=largest * 2 // 5))
    labels = [dispatch.label for dispatch in plan.dispatches]
    assert labels.count(label) > [dispatch.label for dispatch in whole.dispatches].count(label)
    return Instance(Program(plan, device.handle, device.pipelines)).run(list(values.values()), [])[
        0
    ]


def random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("depth", "groups", "filters", "fixed"),
    [
        (40, 1, 40, True),
        (40, 1, 75, True),
        (8, 5, 75, True),
        (3, 5, 25, True),
        (3, 5, 25, False),  # groups become one, with zeros: more than the host's tensor
        (3, 3, 39, False),
    ],
)
def test_convolutions(depth: int, groups: int, filters: int, fixed: bool) -> None:
    b, channels = Net(), depth * groups
    x, w, bias = random(2, 4, 5, channels), random(filters, 3, 3, depth), random(filters)
    given = b.input(x.shape)
    values = {given: x}
    weights = b.constant(w) if fixed else b.input(w.shape)
    if not fixed:
        values[weights] = w
    y = b.op("conv_2d", given, weights, b.constant(bias), **WINDOW | {"padding": "valid"})
    got = run_split(b, values, y, "conv")
    wanted = np.zeros(got.shape)
    for row, column in np.ndindex(2, 3):
        patch = x[:, row : row + 3, column : column + 3].astype(np.float64)
        for o in range(filters):
            first = o // (filters // groups) * depth
            wanted[:, row, column, o] = (patch[..., first : first + depth] * w[o]).sum((1, 2, 3))
    np.testing.assert_allclose(got, wanted + bias, atol=2e-5)


@pytest.mark.parametrize("inner", [(8,), (3, 8), (2, 3, 5)])
def test_tables(inner: tuple[int, ...]) -> None:
    b = Net()
    table, places = random(90, *inner), np.int32([0, 89, 3, 44, 45, 17, 88])
    given = b.input(places.shape, "i32")
    inputs = (b.constant(table), given)
    y = b.op("gather", *inputs, axis=0)
    got = run_split(b, {given: places}, y, "pick")
    np.testing.assert_array_equal(got, table[places])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("fused", [False, True])
def test_tables_of_blocks(bits: int, fused: bool) -> None:
    """Each row is in one part, and the epilogue is applied once."""
    b, draw, places = Net(), np.random.default_rng(bits), np.int32([0, -1, 3, 94, 75, 17, 188])
    numbers, scales = draw.integers(0, 2**bits, (190, 2, 16)), random(190, 2)
    shifts = np.arange(0, 32, bits)
    parts = numbers.reshape(190, 2, -1, len(shifts)) << shifts
    words = parts.sum(-1).astype(np.uint32).view(np.int32)
    given = b.input(places.shape, "i32")
    inputs = (given, b.constant(words, "i32"), b.constant(scales))
    y = b.op("gather_blocks", *inputs, bits=bits, block=16, width=30)
    if fused:
        y = b.op("abs", y)
    got = run_split(b, {given: places}, y, "gather_blocks")
    wide = ((numbers - 2 ** (bits - 1)).astype(np.float32) * scales[..., None]).reshape(190, -1)
    wanted = wide[places, :30]
    np.testing.assert_array_equal(got, np.abs(wanted) if fused else wanted)


@pytest.mark.parametrize("outputs", [128, 131])
def test_layers(outputs: int) -> None:
    b = Net()
    x, w, bias = random(3, 70), random(outputs, 70), random(outputs)
    given = b.input(x.shape)
    inputs: tuple[Any, ...] = (given, b.constant(w), b.constant(bias))
    y = b.op("fully_connected", *inputs, keep_num_dims=False, activation="none")
    got = run_split(b, {given: x}, y, "fully_connected")
    np.testing.assert_allclose(got, x.astype(np.float64) @ w.T + bias, atol=1e-5)
