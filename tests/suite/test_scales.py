"""8-bit twins at scales by chance: what counts as wrong, and a run of one operator."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import scales
from conformance.scales import Count
from conformance.variants.quantized import FIXED, same_quantization
from tflgpu_plugin import kernels


@pytest.mark.parametrize(
    ("count", "ok"),
    [
        (Count(1, 100, 0, 0), True),
        (Count(1, 100, 1, 1), True),
        (Count(1, 100, 2, 1), False),  # more than one of a model, and than one in a thousand
        (Count(1, 9_000, 9, 1), True),
        (Count(1, 9_000, 1, 2), False),  # two levels
    ],
)
def test_a_level_now_and_then_is_let_pass(count: Count, ok: bool) -> None:
    assert count.ok == ok


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
    monkeypatch.setitem(kernels.EPILOGUE_OPS, "quantized_factor", "floor(v / $4) * $4")
    assert scales.main(["--op", "MUL", "--seeds", "0", "1"]) == 1
