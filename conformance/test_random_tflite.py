"""Single TFLite operators by chance through our delegate, against the host's CPU kernels. What the
host does not run is passed over; of the rest nearly all must run here, and all that do must agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance import check, host
from conformance.cases import Case
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import mixed
from conformance.random.tflite import GROUPS, Chance

pytestmark = pytest.mark.adapter
DRAWS, MIN_SUPPORTED = 24, 0.9
MIXED, MIN_SUPPORTED_MIXED = 48, 0.4  # seeds of a group; different quantizations are mostly refused


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_draws(group: Any, host_name: str, options: Mapping[str, Any], book: Book) -> None:
    cases = [replace(group(Chance(seed)), name=f"draw {seed}") for seed in range(DRAWS)]
    _agree(cases, MIN_SUPPORTED, group.__name__, host_name, options, book)


@pytest.mark.parametrize("group", range(4))
def test_mixed(group: int, host_name: str, options: Mapping[str, Any], book: Book) -> None:
    """Operators that move elements, over tensors of several quantizations."""
    cases = [mixed.build(group * MIXED + seed) for seed in range(MIXED)]
    _agree(cases, MIN_SUPPORTED_MIXED, f"mixed {group}", host_name, options, book)


def _agree(
    cases: Sequence[Case], least: float, name: str, host_name: str, options: Any, book: Book
) -> None:
    tried, ran, wrong, worst = 0, 0, [], 0.0
    for case in cases:
        try:
            result = check.through_host(case, host_name, options)
        except (check.HostRefuses, ValueError):
            continue
        tried += 1
        if result.sentence:
            continue
        ran, worst = ran + 1, max(worst, result.share)
        if not result.passed:
            shapes = [None if value is None else value.shape for value in case.inputs]
            given = f"{case.op} {case.name} of {shapes} with {dict(case.options)}"
            wrong.append(f"{given}: {result.text}")
    text = f"{ran} of {tried} ran on the GPU"
    outcome = FAIL if wrong or ran < least * tried else PASS
    book.add(Record(book.test, "random operators", outcome, case=name, share=worst,
                    host=f"{host_name} {host.version(host_name)}",
                    text="; ".join(wrong)[:400] or text))  # fmt: skip
    assert not wrong, "\n".join(wrong)
    assert tried and ran >= least * tried, text
