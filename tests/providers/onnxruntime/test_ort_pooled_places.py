"""Tests the places that MaxPool gives: equal to the CPU provider's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import compare, cpu, model, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "adjacent": ((2, 3, 6, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "overlapping": ((2, 3, 5, 7), {"kernel_shape": [3, 2]}),
    "padded": ((1, 5, 5, 6), {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [2, 1]}),
    "dilated": ((2, 2, 7, 8), {"kernel_shape": [2, 3], "dilations": [3, 2], "pads": [1, 1, 1, 1]}),
    "same": ((1, 2, 5, 6), {"kernel_shape": [2, 4], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "of a row": ((3, 4, 9), {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}),
    "of a volume": ((2, 3, 4, 5, 3), {"kernel_shape": [2, 3, 2], "pads": [1, 0, 1, 0, 1, 0]}),
}  # fmt: skip


def pooled(extents: tuple[Any, ...], opset: int, kind: type = np.float32, **how: Any) -> bytes:
    kinds = {"x": np.dtype(kind), "y": np.dtype(kind), "i": np.dtype(np.int64)}
    return model([node("MaxPool", ["x"], ["y", "i"], **how)], {"x": extents},
                 dict.fromkeys(("y", "i")), opset=opset, kinds=kinds)  # fmt: skip


def image(*shape: int) -> Any:
    """Returns numbers that are often equal."""
    return np.random.default_rng(6).integers(-4, 2, shape).astype(np.float32)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("opset", [8, 10, 12, 22])
@pytest.mark.parametrize("name", WINDOWS)
def test_places(name: str, opset: int, order: int) -> None:
    shape, how = WINDOWS[name]
    if opset < 10 and "dilations" in how:
        return
    data = pooled(shape, opset, storage_order=order, **how)
    ours = session(data)
    assert places(ours) == {"MaxPool": "gpu"}
    compare(ours, cpu(data), {"x": image(*shape)}, 0)


def test_extents_of_a_run() -> None:
    data = pooled(("n", 3, "h", "w"), 12, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    ours = session(data)
    for shape in ((2, 3, 6, 7), (1, 3, 9, 4), (2, 3, 6, 7)):
        compare(ours, cpu(data), {"x": image(*shape)}, 0)


@pytest.mark.parametrize(("kind", "more"), [(np.float32, {"ceil_mode": 1}), (np.int8, {})])
def test_what_is_left_to_the_host(kind: type, more: dict[str, Any]) -> None:
    data = pooled((1, 2, 5, 5), 12, kind, kernel_shape=[2, 2], strides=[2, 2], **more)
    assert places(session(data)) == {"MaxPool": "cpu"}
