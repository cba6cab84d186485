"""Tests options of custom operators as a map of numbers: what another library writes is read back,
and damaged options are refused."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.support.refused import refused
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.providers.tflite import flexbuffers, params


def written(**given: Any) -> bytes:
    return bytes(import_module("flatbuffers.flexbuffers").Dumps(given))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"a": 1},
        {"a": -1, "b": 127, "c": 128, "d": -129, "e": 70_000, "f": -(2**40)},
        {"yes": True, "no": False, "half": 0.5, "tiny": 1e-8},
        {f"key {k}": k for k in range(300)},
        {"long name " * 30: 3, "b": 2.5},
    ],
)
def test_what_is_written_is_read(given: dict[str, Any]) -> None:
    assert flexbuffers.numbers(written(**given)) == given


def test_what_is_no_number_is_left_out() -> None:
    found = flexbuffers.numbers(written(a=1, b="text", c=[1, 2], d=None, e={"f": 1}))
    assert found == {"a": 1}


def test_numbers_that_are_pointed_to() -> None:
    builder = import_module("flatbuffers.flexbuffers").Builder()
    with builder.Map():
        for name, write, value in (
            ("i", builder.IndirectInt, -70_000), ("f", builder.IndirectFloat, 0.25),
            ("u", builder.IndirectUInt, 300), ("s", builder.Int, 1),
        ):  # fmt: skip
            builder.Key(name)
            write(value)
    assert flexbuffers.numbers(bytes(builder.Finish())) == {"i": -70_000, "f": 0.25, "u": 300,
                                                            "s": 1}  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\x24", b"abc", bytes(40), bytes([5, 0x24, 1]),
                                  bytes([0, 0x24, 3]), bytes([9] * 9 + [0x24, 1])])  # fmt: skip
def test_what_is_no_map_is_refused(data: bytes) -> None:
    with refused("attribute.invalid"):
        flexbuffers.numbers(data)


def test_damaged_bytes_never_do_more_than_be_refused() -> None:
    whole, random = written(a=1, b=0.5, long_name=70_000, yes=True), np.random.default_rng(3)
    for _ in range(2000):
        data = bytearray(whole)
        data[random.integers(len(data))] = random.integers(256)
        try:
            flexbuffers.numbers(bytes(data)[: random.integers(len(data) + 1) or None])
        except Unsupported:
            continue


USUAL = {
    "max_detections": 7, "max_classes_per_detection": 1, "num_classes": 9, "y_scale": 10.0,
    "x_scale": 20.0, "h_scale": 5.0, "w_scale": 2, "nms_score_threshold": 0.25,
    "nms_iou_threshold": 0.5,
}  # fmt: skip
READ = {"count": 7, "each": None, "classes": 9, "least": 0.25, "overlap": 0.5,
        "scales": (10.0, 20.0, 5.0, 2.0)}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "other"),
    [
        ({}, {}),
        ({"detections_per_class": 5}, {}),
        ({"use_regular_nms": False}, {}),
        ({"use_regular_nms": True}, {"each": 100}),
        ({"use_regular_nms": True, "detections_per_class": 5}, {"each": 5}),
        ({"max_classes_per_detection": 3}, {"several": 3}),
        ({"max_classes_per_detection": 0}, {}),
    ],
)
def test_options_of_detections(more: dict[str, Any], other: dict[str, Any]) -> None:
    assert params.detections(USUAL | more) == READ | other


def test_absent_options_of_detections_are_zeros() -> None:
    assert params.detections({"max_classes_per_detection": 1}) == {
        "count": 0, "each": None, "classes": 0, "least": 0.0, "overlap": 0.0,
        "scales": (0.0, 0.0, 0.0, 0.0),
    }  # fmt: skip
