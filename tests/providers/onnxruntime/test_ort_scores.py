"""Tests scores of Attention in float16, whose lowest number differs: each is the CPU kernel's
within steps of float16, and masked ones are equal bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import cpu, model, node, places, session

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
