"""Tests reductions of many elements on GPUs: in parts, with several elements loaded at once.
Results are integers, whose sums are exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.test_launches import CPU, GPU, lowered
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target, Tensor
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

SPATIAL = {"keep_dims": True}
IMAGE = Tensor("axes", (2,), "i32", np.array([1, 2], np.int32))


def parts(target: Target, shape: Any, op: str = "mean") -> list[tuple[bool, int]]:
    """Returns for each launch whether it makes parts, and its workgroups."""
    low = lowered(target, op, shape, IMAGE, **SPATIAL)
    return [(bool(each.variant["parts"]), each.workgroups[0]) for each in low.launches]


@pytest.mark.parametrize(
    ("target", "shape", "wanted"),
    [
        (GPU, (1, 128, 63, 32), [(False, 8)]),  # 126 elements of a thread
        (GPU, (1, 128, 64, 32), [(True, 8 * 8), (False, 1)]),
        (GPU, (1, 128, 128, 32), [(True, 8 * 16), (False, 1)]),  # 16 are left of 256
        (GPU, (1, 1024, 512, 32), [(True, 8 * 32), (False, 2)]),  # 2 ** 14 threads
        (GPU, (4, 256, 256, 32), [(True, 32 * 8), (False, 1)]),
        (GPU, (16, 256, 256, 64), [(False, 256)]),  # enough without
        (replace(GPU, tuning={"reduce_parts": "never"}), (1, 1024, 512, 32), [(False, 8)]),
        (replace(GPU, tuning={"reduce_parts": "always"}), (1, 1, 2, 4), [(True, 1), (False, 1)]),
        (CPU, (1, 1024, 512, 32), [(False, 8)]),
    ],
)
def test_few_results_of_many_elements_are_made_in_parts(
    target: Target, shape: Any, wanted: list[tuple[bool, int]]
) -> None:
    assert parts(target, shape) == wanted


def test_a_mean_of_parts_is_divided_once() -> None:
    low = lowered(GPU, "mean", (1, 300, 300, 4), IMAGE, **SPATIAL)
    first, second = low.launches
    assert [first.variant[n] for n in ("spatial", "ahead", "each", "finish")] == [
        True, 8, "v", "a",
    ]  # fmt: skip
    given = first.parameters
    assert (given["parts"], given["chunk"], given["count"]) == (59, 1536, 90_000)
    assert (second.parameters["count"], second.parameters["divisor"]) == (59, 90_000.0)
    squares = lowered(GPU, "reduce_sum_square", (1, 300, 300, 4), IMAGE, **SPATIAL)
    assert [each.variant["each"] for each in squares.launches] == ["v * v", "v"]


@pytest.mark.adapter
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_min", "reduce_sum_square"])
@pytest.mark.parametrize("axes", [(1, 2), (0, 2), (1, 3), (3,)])
@pytest.mark.parametrize("extents", [(2, 31, 57, 6), (1, 173, 211, 3)])
def test_answers(op: str, axes: tuple[int, ...], extents: tuple[int, ...]) -> None:
    values = np.random.default_rng(5).integers(-3, 4, extents).astype(np.float32)
    values[0, 5, 7, 1] = 90.0
    b = Net()
    given = b.input(values.shape)
    made = np.array(axes, np.int32)
    y = b.op(op, given, b.constant(made), keep_dims=True)
    device = adapter.open_device(adapter.select(None))
    numpy: dict[str, Any] = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min}
    wanted = numpy.get(op, lambda v, **more: np.sum(v * v, **more))(
        values, axis=axes, keepdims=True
    )
    for tuning in ({}, {"reduce_parts": "always"}):
        target = replace(device.target, software=False, vendor="amd", tuning=tuning)
        plan = compiler.compile(b.graph(y), target)
        (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([values], [])
        np.testing.assert_array_equal(got, wanted)
