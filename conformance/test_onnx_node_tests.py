"""ONNX's own node tests through our provider, in a few batches with a record for each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance import onnx_host
from conformance import onnx_node_tests as node_tests
from conformance.book import Book
from conformance.record import FAIL, NOT_CONVERTIBLE, PASS, REFUSED, Record

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

BATCHES = 16
# Where nothing of the case is ours the CPU provider answers, rightly or not: its sentence is shown.
OUTCOMES = {
    "PASS": PASS,
    "FAIL": FAIL,
    "CPU PASS": REFUSED,
    "CPU FAIL": NOT_CONVERTIBLE,
    "NOLOAD": NOT_CONVERTIBLE,
}


@cache
def _cases() -> list[Any]:
    return node_tests.cases()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_node_tests(batch: int, book: Book, pytestconfig: pytest.Config) -> None:
    wanted = pytestconfig.getoption("--adapter")
    options = {"adapter": wanted} if wanted else {}
    onnx_host.device(wanted)
    wrong = []
    for case in _cases()[batch::BATCHES]:
        found = node_tests.run_case(case, **options)
        outcome = OUTCOMES[found.verdict]
        book.add(Record(
            book.test, "node test", outcome, op=_operator(case), family="onnx node tests",
            host=onnx_host.label(), case=case.name, dtype="", text=found.reason,
            expected_refusal=outcome == REFUSED,
        ))  # fmt: skip
        wrong += [f"{case.name}: {found.reason}"] if outcome == FAIL else []
    assert not wrong, "\n".join(wrong)


def _operator(case: Any) -> str:
    """The operator a node test is about: the type of its last node."""
    import onnx

    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    return str(model.graph.node[-1].op_type) if model.graph.node else ""
