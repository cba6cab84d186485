"""The benchmark of loops with changing shapes measures its rows, and detects wrong results."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import decoding
from benchmarks.decoding import CPU, OURS, WEBGPU, Row

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def _turn(*logits: float) -> list[Any]:
    return [{"steps": [{"ms": 1.0, "logits": logits}]}]


def test_the_table_has_a_column_for_each_engine_that_ran() -> None:
    rows = [Row("a: ms", {OURS: "3", CPU: "1"}, "2"), Row("b", {OURS: "4"})]
    assert decoding.table(rows).splitlines() == [
        f"| figure | {OURS} | {CPU} | target |",
        "| --- | --- | --- | --- |",
        "| a: ms | 3 | 1 | 2 |",
        "| b | 4 |  |  |",
    ]


@pytest.mark.parametrize("logits", [(4.1, -2.0), (float("nan"), -2.0)])
def test_other_logits_are_wrong(logits: tuple[float, ...]) -> None:
    spec = {"model": "gpt.onnx"}
    wanted = _turn(4.0, -2.0)
    (sentence,) = decoding.apart(WEBGPU, spec, _turn(*logits), wanted)
    assert sentence.startswith(f"{WEBGPU}, gpt: ")
    assert not [*decoding.apart(WEBGPU, spec, _turn(4.001, -2.0), wanted)]


@pytest.mark.adapter
def test_rows_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """It measures a decoder and two sessions, with few steps and without the peer."""
    given = ["--only", "genai", "sessions", "--part", "0.1", "--no-peer"]
    assert decoding.main(given) == 0
    table = capsys.readouterr().out
    assert "GroupQueryAttention" in table and "two sessions" in table and "WRONG" not in table
