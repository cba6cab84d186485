"""Tests 8-bit twins with random scales: what counts as wrong, and a run of one operator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import scales
from conformance.scales import Count
from conformance.variants.quantized import FIXED, same_quantization
from tflgpu_plugin import kernels


@pytest.mark.parametrize(
    ("op", "count", "ok"),
    [
        ("MUL", Count(1, 100, 0, 0), True),
        ("MUL", Count(1_000, 60_000_000, 1, 1), False),  # fixed point has no exceptions
        ("SOFTMAX", Count(1, 100, 1, 1), True),
        ("SOFTMAX", Count(1, 100, 2, 1), False),
        ("SOFTMAX", Count(1, 100, 1, 2), False),  # two levels
        ("SOFTMAX", Count(1, 198_147, 1, 1), True),
        ("SOFTMAX", Count(1, 198_147, 2, 1), False),
    ],
)
def test_a_level_now_and_then_is_let_pass(op: str, count: Count, ok: bool) -> None:
    assert scales.wrong({op: count}) == ([] if ok else [op])


@pytest.mark.parametrize(("off", "ok"), [(10, True), (11, False)])
def test_no_more_differ_than_the_page_says(off: int, ok: bool) -> None:
    """The page's number is for all operators in one run."""
    assert Count(1, 60_000_000, off, 1).ok(scales.MAX_TOTAL_RATE) == ok
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    assert "10 of 60 million values (`python -m conformance.scales" in page
    assert "RESIZE_BILINEAR (1 of 198,147)" in page


@pytest.mark.parametrize("op", ["MUL", "SOFTMAX", "MAXIMUM", "CONV_2D"])
def test_scales_change_where_hosts_take_any(op: str) -> None:
    case = next(iter(scales.twins([op])))
    made = scales.rescaled(case, np.random.default_rng(0))
    other = [a != b for a, b in zip(case.inputs, made.inputs, strict=True)]
    assert any(other) == (op in ("MUL", "SOFTMAX"))
    assert (case.output_quantization != made.output_quantization) == (
        op not in FIXED and not same_quantization(op)
    )


@pytest.mark.adapter
def test_products_are_the_very_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert scales.main(["--op", "MUL", "--seeds", "0", "1"]) == 0
    assert ", 0 differ" in capsys.readouterr().out


@pytest.mark.adapter
def test_another_rounding_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    true = kernels.render  # which keeps what it has rendered, so that no table may be changed

    def wrong(*given: Any) -> str:
        return re.sub(r"= (quantized_factor\(v, .*\));", r"= floor(\1 * 0.5) * 2.0;", true(*given))

    monkeypatch.setattr(kernels, "render", wrong)
    assert scales.main(["--op", "MUL", "--seeds", "0", "1"]) == 1
