"""Twins of 8 and 16 bits of the float32 cases, through the delegate, against the host's reference
kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conformance import host
from conformance.cases import Case
from conformance.models import tflite as models
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, PASS, REFUSED, Record
from conformance.test_ops import describe
from conformance.variants import quantized as quantized_cases
from tflgpu_plugin.ir import INT16

CASES = [
    pytest.param(
        family,
        case,
        id=f"{family}-{case.op}-{case.name}",
        marks=pytest.mark.dtype(quantized_cases.dtype_of(case)),
    )
    for family, case in quantized_cases.twins()
]


@pytest.mark.adapter
@pytest.mark.parametrize(("family", "case"), CASES)
def test_case(
    family: str, case: Case, host_name: str, options: Mapping[str, Any], book: Book
) -> None:
    dtype = quantized_cases.dtype_of(case)
    kind = "16 bits" if dtype == INT16 else "8 bits"
    who = describe(kind, family, case, host_name) | {"dtype": dtype}
    unknown = Record(**who, outcome=NOT_CONVERTIBLE)
    try:
        twin = quantized_cases.quantize(case)
        model = models.build(twin)
    except ValueError as reason:
        return book.close(replace(unknown, text=f"no twin: {reason}"))
    name, kernels = host.oracle(model, host_name)
    feeds = host.case_feeds(twin, 1)
    try:
        expected = host.cached_on_cpu(model, feeds, name, kernels)
    except (RuntimeError, ValueError) as reason:
        return book.close(replace(unknown, text=f"the host refuses this model: {reason}"))
    run = host.run_on_gpu(model, feeds, name, options, kernels)
    place = run.placement
    if place.on_gpu != place.total or place.failures:
        outcome = FAIL if place.failures else REFUSED
        text = " ".join(place.sentences)
        return book.close(Record(**who, outcome=outcome, text=text), model)
    verdict = quantized_cases.judge(twin, expected[0], run.outputs[0])
    outcome = PASS if verdict.passed else FAIL
    book.close(Record(**who, outcome=outcome, share=verdict.share, text=str(verdict)), model)
