"""Dynamic-range twins of the float32 cases, through the delegate, against the host's reference
kernels over the same weights in float32. The tolerance is that of float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance import check, host
from conformance.cases import Case
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, Record
from conformance.test_ops import describe, record_of
from conformance.variants import hybrid as hybrid_cases

pytestmark = [pytest.mark.adapter, pytest.mark.dtype("i8")]

CASES = [
    pytest.param(family, case, id=f"{family}-{case.op}-{case.name}")
    for family, case in hybrid_cases.twins()
]


@pytest.mark.parametrize(("family", "case"), CASES)
def test_case(
    family: str, case: Case, host_name: str, options: Mapping[str, Any], book: Book
) -> None:
    """The node runs on the GPU, and the error is that of float32."""
    who = describe("8-bit weights", family, case, host_name) | {"dtype": "i8"}
    feeds = host.case_feeds(case)
    try:
        model, wide = hybrid_cases.build(case)
        name, kernels = host.oracle(wide, host_name)
        expected = host.cached_on_cpu(wide, feeds, name, kernels)
    except (RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text))
    run = host.run_on_gpu(model, feeds, name, options, kernels)
    place = run.placement
    if place.on_gpu != 1 or place.runs != (len(feeds),) or place.failures:
        text = f"the node was left on the CPU: {' '.join(place.sentences) or place}"
        return book.close(Record(**who, outcome=FAIL, text=text), model)
    allowance = book.allowance(who)
    result = check.judge(case, feeds, expected, run.outputs, allowance, host_name)
    book.close(record_of(result, who, allowance), model)
