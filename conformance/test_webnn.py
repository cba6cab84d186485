"""WebNN's conformance data through our provider, in a few batches with a record for each case.

Skips without the data (`webnn.ABSENT` says where it comes from)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from conformance import onnx_host, webnn
from conformance.onnx_node_tests import Case, Outcome
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, REFUSED, Record
from conformance.test_onnx_node_tests import OUTCOMES

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

BATCHES = 16
# What the host or the adapter has to leave out.
EXPECTED = ("CPU PASS", webnn.BEYOND, webnn.TOO_LARGE)


@cache
def _cases() -> list[Case | Outcome]:
    return [*webnn.cases(webnn.FOLDER)]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_webnn(batch: int, book: Book, pytestconfig: pytest.Config) -> None:
    if not _cases():
        pytest.skip(webnn.ABSENT)
    wanted = pytestconfig.getoption("--adapter")
    options = {"adapter": wanted} if wanted else {}
    onnx_host.device(wanted)
    wrong = []
    for case in _cases()[batch::BATCHES]:
        record, _ = book.judge(_record(book, case, options))
        book.add(record)
        wrong += [f"{record.case}: {record.text}"] if record.outcome == FAIL else []
    assert not wrong, "\n".join(wrong)


def _record(book: Book, case: Case | Outcome, options: dict[str, Any]) -> Record:
    found = webnn.run_case(case, **options)
    outcomes = OUTCOMES | dict.fromkeys((webnn.BEYOND, webnn.TOO_LARGE), REFUSED)
    return Record(
        book.test,
        "WebNN case",
        outcomes.get(found.verdict, NOT_CONVERTIBLE),
        op=webnn.operator(found.case),
        family="webnn",
        host=onnx_host.label(),
        case=found.case,
        dtype=found.dtype,
        text=found.reason,
        expected_refusal=found.verdict in EXPECTED,
        judge="web-platform-tests",
    )
