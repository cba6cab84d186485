"""Tests scores of Attention, in float16, whose lowest number differs, too: each is the CPU kernel's
within steps of float16, and masked ones are equal bit by bit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import assert_same, cpu, model, node, places, session
from tests.support.onnx_nodes import Node

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

HALF, LOWEST = np.float16, np.finfo(np.float16).min
DRAW = np.random.default_rng(3)


def halves(*shape: int) -> Any:
    return DRAW.standard_normal(shape).astype(HALF)


MASKS = {"none": None, "bools": DRAW.uniform(0, 1, (3, 5)) > 0.4, "floats": halves(3, 5)}


@pytest.mark.adapter
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
def test_scores_in_float16(mode: int, kind: str, causal: int) -> None:
    mask = MASKS[kind]
    feeds = {"q": halves(1, 2, 3, 4), "k": halves(1, 1, 5, 4), "v": halves(1, 1, 5, 4)}
    feeds |= {} if mask is None else {"m": mask}
    more = {"qk_matmul_output_mode": mode, "softcap": 0.7, "is_causal": causal}
    data = model(
        [node("Attention", [*feeds], ["y", "", "", "s"], **more)],
        {name: x.shape for name, x in feeds.items()}, {"y": None, "s": None}, opset=23,
        kinds={"y": HALF, "s": HALF, **{name: x.dtype for name, x in feeds.items()}},
    )  # fmt: skip
    ours = session(data)
    assert places(ours) == {"Attention": "gpu"}
    hidden = False
    for got, wanted in zip(ours.run(None, feeds), cpu(data).run(None, feeds), strict=True):
        low = wanted == LOWEST
        hidden |= bool(low.any())
        np.testing.assert_array_equal(got == LOWEST, low)
        np.testing.assert_allclose(got[~low].astype("f"), wanted[~low].astype("f"), atol=2e-3)
    assert hidden == (mode == 2 and (causal == 1 or kind == "bools"))


@pytest.mark.adapter
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("causal", [0, 1])
def test_scores_of_keys_that_a_run_counts(mode: int, causal: int) -> None:
    feeds = {"q": halves(2, 2, 3, 4), "k": halves(2, 1, 5, 4), "v": halves(2, 1, 5, 4)}
    feeds = {name: x.astype(np.float32) for name, x in feeds.items()} | {"n": np.array([4, 5])}
    inputs, more = ["q", "k", "v", "", "", "", "n"], {"is_causal": causal}
    data = model(
        [node("Attention", inputs, ["y", "", "", "s"], qk_matmul_output_mode=mode, **more)],
        {name: x.shape for name, x in feeds.items()}, {"y": None, "s": None}, opset=24,
        kinds={"n": np.int64},
    )  # fmt: skip
    ours = assert_same(data, feeds)
    assert places(ours) == {"Attention": "gpu"}


def test_scores_of_many_keys_take_no_memory_to_plan() -> None:
    """Whether a query sees a key is compared on the device, not listed for all pairs."""
    shapes = [(1, 1, 1 << 14, 2)] * 3
    scored = Node("Attention", *shapes, outputs=("y", None, None, "s"), is_causal=1,
                  qk_matmul_output_mode=2)  # fmt: skip
    tracemalloc.start()
    scored.read()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 24
