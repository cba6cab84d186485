"""Tests integers of a run that differ by a number known before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tflgpu_plugin import ops
from tflgpu_plugin.importer import offsets
from tflgpu_plugin.importer.tensors import Tensors
from tflgpu_plugin.ir import Node, Tensor


def noted(
    op: str, *inputs: Any, shape: tuple[int, ...] = (), dtype: str = "i64", **attributes: Any
) -> int | None:
    """Returns how far the result of a node is from its input "x"; numbers are constants."""
    tensors = Tensors()
    x = tensors.add(Tensor("x", shape, "i64"))
    made = {"x": x, "other": tensors.add(Tensor("other", shape, "i64")),
            "real": tensors.add(Tensor("real", shape, "f32"))}  # fmt: skip
    reads = tuple(
        made[one] if isinstance(one, str)
        else tensors.add(Tensor("", shape, "i64", np.full(shape, one, np.int64)))
        for one in inputs
    )  # fmt: skip
    result = tensors.add(Tensor("y", shape, dtype))
    offsets.note(tensors, Node(0, op, reads, (result,), attributes), ops.rows()[op])
    return offsets.distance(tensors, x, result)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (noted("add", "x", 3), 3),
        (noted("add", 3, "x"), 3),
        (noted("add", "x", 3, shape=(1,)), 3),
        (noted("sub", "x", 3), -3),
        (noted("cast", "x", dtype="i32"), 0),
        (noted("reshape", "x", shape=(1, 1)), 0),
        (noted("add", "x", 3, activation="none"), 3),
        (noted("sub", 3, "x"), None),
        (noted("add", "x", "other"), None),
        (noted("add", "x", "x"), None),
        (noted("sub", "x", "x"), None),
        (noted("add", "other", 3), None),
        (noted("mul", "x", 1), None),
        (noted("neg", "x"), None),
        (noted("add", "x", 3, shape=(2,)), None),
        (noted("add", "x", 3, activation="relu"), None),
        (noted("cast", "x", dtype="f32"), None),
        (noted("cast", "real"), None),
    ],
)
def test_a_sum_with_a_constant_is_an_offset(found: int | None, wanted: int | None) -> None:
    assert found == wanted


def test_offsets_add_up() -> None:
    tensors, add = Tensors(), ops.rows()["add"]
    x, four = tensors.add(Tensor("x", (), "i64")), np.array(4)
    last = x
    for _ in range(3):
        constant = tensors.add(Tensor("", (), "i64", four))
        made = tensors.add(Tensor("", (), "i64"))
        offsets.note(tensors, Node(0, "add", (last, constant), (made,)), add)
        last = made
    assert offsets.distance(tensors, x, last) == 12
    assert offsets.distance(tensors, last, x) == -12
