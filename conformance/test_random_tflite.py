"""Single TFLite operators by chance through our delegate, against the host's CPU kernels. What the
host does not run is passed over; of the rest nearly all must run here, and all that do must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conformance import check, host
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random.tflite import GROUPS, Chance

pytestmark = pytest.mark.adapter
DRAWS, LEAST = 24, 0.9


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_draws(group: Any, host_name: str, options: Mapping[str, Any], book: Book) -> None:
    tried, ran, wrong, worst = 0, 0, [], 0.0
    for seed in range(DRAWS):
        case = replace(group(Chance(seed)), name=f"draw {seed}")
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
            wrong.append(f"{case.op} {seed} of {shapes} with {dict(case.options)}: {result.text}")
    text = f"{ran} of {tried} ran on the GPU"
    outcome = FAIL if wrong or ran < LEAST * tried else PASS
    book.add(Record(book.test, "random operators", outcome, case=group.__name__, share=worst,
                    host=f"{host_name} {host.version(host_name)}",
                    text="; ".join(wrong)[:400] or text))  # fmt: skip
    assert not wrong, "\n".join(wrong)
    assert tried and ran >= LEAST * tried, text
