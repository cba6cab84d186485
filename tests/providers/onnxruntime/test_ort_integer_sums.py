"""ConvInteger and MatMulInteger: sums of products of integers are exact, whichever form computes
them. Forms that transform or round on the way, as Winograd's do, are for real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import cpu, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

KINDS = {"x": np.uint8, "y": np.int32}
CHANCE = np.random.default_rng(7)
DEEP = (48, 3, 3)  # as Winograd's forms require, with sums below 2^24
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "planes": ((1, 48, 32, 32), (64, *DEEP), {"pads": [1] * 4}),
    "several images": ((3, 48, 12, 11), (40, *DEEP), {"pads": [1] * 4}),
    "rows": ((1, 48, 20, 30), (36, *DEEP), {"pads": [1] * 4, "strides": [2, 1]}),
    "points": ((1, 96, 9, 9), (64, 96, 1, 1), {}),
    "stem": ((1, 3, 40, 40), (32, 3, 7, 7), {"strides": [2, 2]}),
    "one row": ((1, 48, 300), (64, 48, 3), {}),
    "groups": ((1, 48, 14, 14), (48, 1, 5, 5), {"group": 48}),
    "volume": ((1, 16, 6, 7, 8), (24, 16, 3, 3, 3), {"pads": [1] * 6}),
}


def numbers(kind: str, *shape: int) -> Any:
    least, most = (0, 256) if kind == "uint8" else (-128, 128)
    return CHANCE.integers(least, most, shape).astype(kind)


def assert_exact(data: bytes, feed: dict[str, Any]) -> None:
    ours, theirs = session(data), cpu(data)
    (found,), (wanted,) = (each.run(None, feed) for each in (ours, theirs))
    np.testing.assert_array_equal(found, wanted)
    assert [each.where for each in tflgpu_plugin.report(ours).nodes] == ["gpu"]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    shape, weights, how = CONVOLUTIONS[name]
    constants = {"w": numbers("int8", *weights), "zero": np.uint8(117)}
    nodes = [node("ConvInteger", ["x", "w", "zero"], ["y"], **how)]
    data = model(nodes, {"x": shape}, {"y": None}, constants, kinds=KINDS)
    assert_exact(data, {"x": numbers("uint8", *shape)})


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 500, 64), (40, 500, 96), (7, 33, 5)])
def test_products(rows: int, inner: int, columns: int) -> None:
    constants = {"w": numbers("int8", inner, columns), "zero": np.uint8(117)}
    nodes = [node("MatMulInteger", ["x", "w", "zero"], ["y"])]
    data = model(nodes, {"x": (rows, inner)}, {"y": None}, constants, kinds=KINDS)
    assert_exact(data, {"x": numbers("uint8", rows, inner)})
