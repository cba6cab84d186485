"""Tests arrays that a program passes to a run of a partition: numbers that its plan cannot
represent are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.third_party import partition
from tflgpu_plugin.importer.model import Value
from tflgpu_plugin.ir import Quantization

pytestmark = pytest.mark.usefixtures("not_debugging")


def ran(dtype: str, value: Any, op: str = "add", takes: str = "value value", **more: Any) -> Any:
    """Returns the result of a partition of one op for this value, as both inputs."""
    values = {"a": replace(Value("a", dtype, (2,)), **more)}
    values["c"] = Value("c", dtype if op == "add" else "f32", None)
    made = partition(op, takes, ("a", "a")[: len(takes.split())], values)
    return made.run([value])[0].tolist()


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("i32", [1.9, 1]), ("i32", [1 << 40, 1]), ("f32", [1j, 1]), ("i32", [np.nan, 1]),
        *[("f32", np.array([kind, 1], object)) for kind in (None, 1, 1 << 70)],
        ("f32", np.ones(2, "m8[s]")), ("f32", ["1", "1"]), ("i32", np.zeros(2, "V4")),
        ("f32", [np.finfo(np.float64).min, 0]),  # minus infinity would be another mask
    ],
)  # fmt: skip
def test_a_run_takes_no_numbers_that_its_plan_does_not(dtype: str, value: Any) -> None:
    with pytest.raises(ValueError, match="does not represent"):
        ran(dtype, value)
    assert ran(dtype, [1, 2]) == ran(dtype, [1.0, 2.0]) == [2, 4]
    assert ran("f32", [-np.inf, 1e-60]) == [-np.inf, 0]


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("dtype", "op", "numbers"),
    [
        ("u8", "dequantize", [0, 255]),
        ("i8", "dequantize", [0, 127]),
        ("bf16", "from_bfloat16", [0, 0x3F80]),
    ],
)
def test_stored_numbers_are_never_floats(dtype: str, op: str, numbers: list[int]) -> None:
    """Interpreted as stored numbers, 0.0 and 1.0 would be other values; 0.5 is refused."""
    scale = Quantization((1 / numbers[1],), (0,), 0) if op == "dequantize" else None

    def run(value: Any) -> Any:
        return ran(dtype, value, op, "value", quantization=scale)

    for kind in (np.float32, np.float64, bool):
        with pytest.raises(ValueError, match="does not represent"):
            run(np.array([0, 1], kind))
    assert run(np.array(numbers)) == [0.0, 1.0]
