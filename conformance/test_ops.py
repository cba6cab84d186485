"""Every case of every family, through the delegate in each chosen host, against that host's
reference kernels.

A case passes when its node ran on the adapter (counted by native code) and every value is within
tolerance; a control case is refused: its node stayed on the CPU with a sentence that says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance import check, host
from conformance.cases import Case, all_cases
from conformance.models import tflite as models
from conformance.plugin import selection
from conformance.plugin.book import Book
from conformance.plugin.record import NOT_CONVERTIBLE, Record

CASES = [
    pytest.param(family, case, id=f"{family}-{case.op}-{case.name}")
    for family, cases in all_cases().items()
    for case in cases
]


@pytest.mark.adapter
@pytest.mark.parametrize(("family", "case"), CASES)
def test_case(
    family: str, case: Case, host_name: str, options: Mapping[str, Any], book: Book
) -> None:
    kind = "control" if case.refused else "op"
    who = describe(kind, family, case, host_name)
    allowance = book.allowance(who)
    try:
        result = check.through_host(case, host_name, options, allowance)
    except check.HostRefuses as refusal:
        if host.oracle(models.build(case))[0] == host_name:
            raise  # a case has to be a model that some host runs
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=str(refusal)))
    again = f"python -m conformance.try_case {family} '{case.name}' --host {host_name}"
    book.close(record_of(result, who, allowance), models.build(case), again)


def describe(kind: str, family: str, case: Case, host_name: str) -> dict[str, Any]:
    """Returns the fields of a record that say what is tested, and where."""
    return {
        "test": "",
        "kind": kind,
        "family": family,
        "op": case.op,
        "case": case.name,
        "dtype": selection.dtype(case),
        "version": case.version,
        "host": f"{host_name} {host.version(host_name)}",
    }


def record_of(result: check.Result, who: Mapping[str, Any], allowance: float = 1.0) -> Record:
    """Returns the record of a result; for a failure it includes attributes and shapes."""
    case, text = result.case, result.text
    if not result.passed:
        shapes = [None if i is None else list(i.shape) for i in case.inputs]
        text = f"{text}; attributes {dict(case.options)}, inputs {shapes}"
    return Record(
        **who,
        outcome=result.outcome,
        text=text,
        share=result.share,
        ulp=result.ulp,
        expected_refusal=case.refused and bool(result.sentence),
        allowed=allowance,
    )
