"""Every node case of every family, on the plans of several kinds of adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.node_cases import Finding, NodeCase, examine, family_nodes
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, REFUSED, Record
from conformance.test_variants import variant_targets
from tflgpu_plugin.ops import FAMILIES


@pytest.mark.adapter
@pytest.mark.parametrize("family", [f for f in FAMILIES if family_nodes(f)])
def test_nodes(family: str, options: Mapping[str, Any], book: Book) -> None:
    """There is one test per family, and one record for each of its cases."""
    wanted = options.get("adapter")
    targets = variant_targets(wanted)
    wrong = []
    for case in family_nodes(family):
        found = examine(case, targets, wanted)
        book.add(_record(book, family, case, found))
        if found.problem:
            wrong.append(f"{case.op} {case.name}: {found.problem}")
    assert not wrong, "\n".join(wrong)


def _record(book: Book, family: str, case: NodeCase, found: Finding) -> Record:
    outcome = FAIL if found.problem else REFUSED if found.refusal else PASS
    return Record(
        book.test,
        "control" if case.refused else "node",
        outcome,
        op=case.op,
        family=family,
        host="numpy",
        case=case.name,
        dtype=case.output_type,
        text=found.problem or found.refusal,
        share=found.share,
        ulp=found.ulp,
        expected_refusal=outcome == REFUSED,
        judge="float64",
    )
