"""ONNX's own node tests through our provider, in a few batches with a record for each.

A refused case is right where a limit of its operator's row says so; inside the row it fails, unless
`expect/` lists it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from conformance import onnx_host, onnx_node_tests as node_tests
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, PASS, REFUSED, Record

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

BATCHES = 16
# Where nothing of the case is ours the CPU provider answers, rightly or not.
OUTCOMES = {
    "PASS": PASS,
    "FAIL": FAIL,
    "UNCLAIMED": REFUSED,
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
        for variant in node_tests.variants(case):
            record, _ = book.judge(_record(book, variant, options))
            book.add(record)
            wrong += [f"{record.case}: {record.text}"] if record.outcome == FAIL else []
    assert not wrong, "\n".join(wrong)


def _record(book: Book, case: node_tests.Case, options: dict[str, Any]) -> Record:
    found = node_tests.run_case(case, **options)
    constants = case.name.endswith(node_tests.SUFFIX)
    return Record(
        book.test,
        "node test, constants" if constants else "node test",
        OUTCOMES[found.verdict],
        op=_operator(case),
        family="onnx node tests",
        host=onnx_host.label(),
        case=case.name,
        dtype=found.dtype,
        text=found.reason,
        expected_refusal=found.verdict == "CPU PASS",
        judge="onnx",
    )


def _operator(case: node_tests.Case) -> str:
    """Returns the operator that a node test is about: the type of its last node."""
    nodes = case.model.graph.node
    return str(nodes[-1].op_type) if nodes else ""
