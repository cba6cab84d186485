"""The cases of the TFLite table as ONNX models (converted by tf2onnx, or a hand-built twin) through
our provider, against onnxruntime's CPU provider."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from conformance import check, converted, host, onnx_host
from conformance.cases import Case
from conformance.host import Outputs
from conformance.models import onnx_twins, tflite as models
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, REFUSED, Record
from conformance.test_ops import record_of
from tflgpu_plugin.ops import FAMILIES

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

VALUES = {"f32", "bool", "i32"}  # the last for shapes and axes


def _float_or_bool(case: Case) -> bool:
    """Whether all tensors are floats or bools; onnxruntime keeps quantized ones on the CPU."""
    dtypes = {value.dtype for value in case.inputs if value is not None}
    return {case.output_type, *dtypes} <= VALUES


CASES = [
    pytest.param(family, case, id=f"{family}-{case.op}-{case.name}")
    for family in FAMILIES
    for case in check.family_cases(family)
    if not case.refused and _float_or_bool(case)
]


def _name(case: Case) -> str:
    return f"{case.op} {case.name}"


@cache
def _family(family: str) -> dict[str, bytes | str]:
    """Returns all cases of a family as ONNX models, or why there is none; converts them in one
    batch."""
    cases = [c for c in check.family_cases(family) if not c.refused and _float_or_bool(c)]
    try:
        return converted.convert({_name(c): models.build(c) for c in cases})
    except converted.NoConverter as error:
        return {_name(c): str(error) for c in cases}


# Operators that become formulas whose roundings are those of their terms, not of the result.
ROUNDED = {"FLOOR_MOD": "x - floor(x / y) * y"}


@pytest.mark.parametrize(("family", "case"), CASES)
def test_converted(family: str, case: Case, book: Book, pytestconfig: pytest.Config) -> None:
    model = _family(family)[_name(case)]
    close(book, "converted", family, case, model, pytestconfig.getoption("--adapter"))


def close(
    book: Book, kind: str, family: str, case: Case, model: bytes | str, wanted: str | None
) -> None:
    """Runs an ONNX model with a case's inputs and records it; a text says why there is no model."""
    who: dict[str, Any] = {
        "test": "", "kind": kind, "family": family, "op": case.op,
        "case": case.name if kind == "converted" else f"{kind}: {case.name}",
        "dtype": case.output_type, "version": case.version, "host": onnx_host.label(),
    }  # fmt: skip
    if isinstance(model, str):
        twin = " (a hand-built twin runs)" if onnx_twins.build(case) is not None else ""
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=f"{model}{twin}"))
    feeds = host.case_feeds(case)
    try:
        expected = onnx_host.run_on_cpu(model, feeds)
    except Exception as error:  # onnxruntime has no common class for what it raises
        text = f"onnxruntime's CPU provider refuses the model: {' '.join(str(error).split())[:300]}"
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text), model)
    if kind == "converted" and (text := _unfaithful(case, feeds, expected)):
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text), model)
    run = onnx_host.run_on_gpu(model, feeds, wanted)
    place = run.placement
    if place.on_gpu != place.total or place.failures:
        text = " ".join(place.sentences) or str(place)
        outcome = REFUSED if place.sentences and not place.failures else FAIL
        outside = outcome == REFUSED and _outside_the_table(place)
        return book.close(
            Record(**who, outcome=outcome, text=text, expected_refusal=outside), model
        )
    if place.total and set(place.runs) != {len(feeds)}:
        text = f"onnxruntime's own kernels did runs of this case: {place}"
        return book.close(Record(**who, outcome=REFUSED, text=text), model)
    allowance = book.allowance(who)
    result = check.judge(case, feeds, expected, run.outputs, allowance, onnx_host.NAME)
    book.close(record_of(result, who, allowance), model)


def _unfaithful(case: Case, feeds: Sequence[host.Feed], outputs: Sequence[Outputs]) -> str:
    """Returns a sentence if the converted model has another result shape or meaning than the case:
    tf2onnx omits RELU_N1_TO_1, the beta of a softmax, and some biases."""
    if case.output_type == "f32" and (formula := ROUNDED.get(case.op)):
        return f"tf2onnx gives another model: {formula}"
    content = models.build(case)
    wanted = host.cached_on_cpu(content, host.case_feeds(case), *host.oracle(content))[0]
    found = [list(a.shape) for a in outputs[0]]
    if found != [list(a.shape) for a in wanted]:
        return f"tf2onnx gives another shape: {found}, not {[list(a.shape) for a in wanted]}"
    allowed = check.bounds(case, feeds, onnx_host.NAME)
    pairs = zip(outputs[0], allowed[0], strict=True)
    reasons = (check.unconfirmed(case, a, bound, onnx_host.NAME) for a, bound in pairs)
    return next((f"tf2onnx gives another model: {reason}" for reason in reasons if reason), "")


def _outside_the_table(place: host.Placement) -> bool:
    """Whether all nodes that stay on the CPU have a type without a row in the ONNX table, or one of
    them determines the extents of all others."""
    from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS
    from tflgpu_plugin.providers.onnxruntime.reader import LEFT

    left = {sentence.partition(":")[0] for sentence in place.sentences}
    return bool(left & set(LEFT)) or not left & set(HOST_OPS)
