"""GroupQueryAttention with a cache of fixed length, of which an input says how many keys are
valid."""

from __future__ import annotations

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, cpu, model, node, session, values

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

HEADS, SHARED, DEPTH = 4, 2, 8  # of queries, of keys, and their size


def fed(batch: int, length: int, room: int) -> dict[str, Array]:
    """Returns the inputs for `length` new positions and a cache of `room` positions, without the
    numbers of keys."""
    widths = {"q": HEADS, "k": SHARED, "v": SHARED}
    new = {name: values(batch, length, count * DEPTH) for name, count in widths.items()}
    return new | {name: values(batch, SHARED, room, DEPTH) for name in ("past_k", "past_v")}


def counted(batch: int, total: int) -> dict[str, Array]:
    """Returns the inputs that tell how many keys each batch has in this run."""
    return {"last": np.full(batch, total - 1, np.int32), "total": np.array(total, np.int32)}


@pytest.mark.parametrize(
    ("batch", "length", "room", "totals"),
    [
        (1, 1, 9, (1, 2, 9, 5)), (2, 1, 9, (1, 4, 9)), (1, 4, 9, (4, 5, 9)), (1, 4, 4, (4,)),
        (1, 4, 0, (4,)), (1, 2, 1, (3,)),
    ],
)  # fmt: skip
def test_each_number_of_keys(batch: int, length: int, room: int, totals: tuple[int, ...]) -> None:
    """The first plan is made for a number that fits the cache, and holds for others."""
    outputs, first = ["y", "k2", "v2"], fed(batch, length, room) | counted(batch, totals[0])
    made = node("GroupQueryAttention", [*first], outputs, domain="com.microsoft",
                num_heads=HEADS, kv_num_heads=SHARED)  # fmt: skip
    shapes = {name: x.shape for name, x in first.items()}
    kinds = {"last": np.int32, "total": np.int32}
    data = model([made], shapes, dict.fromkeys(outputs), kinds=kinds)
    ours, theirs = session(data), cpu(data)
    tflgpu_plugin.assert_used(ours)
    for total in totals:
        feeds = fed(batch, length, room) | counted(batch, total)
        for got, wanted in zip(ours.run(None, feeds), theirs.run(None, feeds), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    assert not tflgpu_plugin.report(ours).host_runs
