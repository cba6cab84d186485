"""Hand-built ONNX twins of the table's cases through our provider: all of those that tf2onnx cannot
convert, and a few of every operator, so that both frontends are seen without tensorflow."""

from __future__ import annotations

from typing import Any

import pytest

from conformance import check
from conformance.cases import Case
from conformance.models import onnx_twins
from conformance.plugin.book import Book
from conformance.test_onnx_converted import close
from tflgpu_plugin.ops import FAMILIES

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

# All cases of what tf2onnx does not know, and those with an activation that it does not know.
UNCONVERTIBLE = ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "RELU_N1_TO_1")
A_FEW = 12  # cases of each other operator


def _cases() -> list[Any]:
    found, seen = [], dict[str, int]()
    for family in FAMILIES:
        for case in check.family_cases(family):
            if case.refused or case.op not in onnx_twins.RULES:
                continue
            seen[case.op] = seen.get(case.op, 0) + 1
            chosen = {case.op, case.options.get("fusedActivationFunction")}
            if chosen & set(UNCONVERTIBLE) or seen[case.op] <= A_FEW:
                found.append(pytest.param(family, case, id=f"{case.op}-{case.name}"))
    return found


@pytest.mark.parametrize(("family", "case"), _cases())
def test_twin(family: str, case: Case, book: Book, pytestconfig: pytest.Config) -> None:
    model = onnx_twins.build(case)
    if model is None:
        pytest.skip("this case has no twin")
    close(book, "twin", family, case, model, pytestconfig.getoption("--adapter"))
