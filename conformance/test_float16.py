"""float16 models, operator by operator, in both hosts: constants in 16 bits before a DEQUANTIZE
through the delegate, and ONNX models of float16 tensors.

Every row of the ONNX table that supports float32 must support float16, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import check, host, onnx_host
from conformance.cases import Case
from conformance.host import Feed
from conformance.models import onnx_twins
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, REFUSED, Record
from conformance.test_ops import describe, record_of
from conformance.variants import float16 as float16_cases, half as half_cases
from tflgpu_plugin.ops import FAMILIES

pytestmark = [pytest.mark.adapter, pytest.mark.dtype("f16")]
A_FEW = 4  # cases of each operator in ONNX Runtime

CONSTANTS = [
    pytest.param(family, case, id=f"{family}-{case.op}-{case.name}")
    for family, case in float16_cases.cases()
]


@pytest.mark.parametrize(("family", "case"), CONSTANTS)
def test_constants(
    family: str, case: Case, host_name: str, options: Mapping[str, Any], book: Book
) -> None:
    """No node is left on the CPU, and the error is that of float32."""
    who = describe("float16 constants", family, case, host_name) | {"dtype": "f16"}
    feeds = host.case_feeds(case)
    try:
        model = float16_cases.build(case)
        name, kernels = host.oracle(model, host_name)
        expected = host.cached_on_cpu(model, feeds, name, kernels)
    except (RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text))
    run = host.run_on_gpu(model, feeds, name, options, kernels)
    place = run.placement
    if place.on_gpu != place.total or place.runs != (len(feeds),) or place.failures:
        text = f"nodes were left on the CPU: {' '.join(place.sentences) or place}"
        return book.close(Record(**who, outcome=FAIL, text=text), model)
    allowance = book.allowance(who)
    result = check.judge(case, feeds, expected, run.outputs, allowance, host_name)
    book.close(record_of(result, who, allowance), model)


def _few() -> list[Any]:
    found, seen = [], dict[str, int]()
    for family in FAMILIES:
        for case in check.family_cases(family):
            if case.refused or case.output_type != "f32" or onnx_twins.build(case) is None:
                continue
            seen[case.op] = seen.get(case.op, 0) + 1
            if seen[case.op] <= A_FEW:
                found.append(pytest.param(family, case, id=f"{case.op}-{case.name}"))
    return found


@pytest.mark.onnxruntime
@pytest.mark.parametrize(("family", "case"), _few())
def test_tensors(family: str, case: Case, book: Book, pytestconfig: pytest.Config) -> None:
    """Inputs, constants and outputs are float16."""
    from conformance import advertised

    who: dict[str, Any] = {
        "test": "", "kind": "float16 tensors", "family": family, "op": case.op,
        "case": f"f16: {case.name}", "dtype": "f16", "version": case.version,
        "host": onnx_host.label(),
    }  # fmt: skip
    proto = _half(onnx_twins.build(case))
    model = bytes(proto.SerializeToString())
    feeds: list[Feed] = [[_narrow(a) for a in feed] for feed in host.case_feeds(case)]
    try:
        expected = onnx_host.run_on_cpu(model, feeds)
    except Exception as error:  # onnxruntime has no common class for what it raises
        text = " ".join(str(error).split())[:300]
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text))
    run = onnx_host.run_on_gpu(model, feeds, pytestconfig.getoption("--adapter"))
    place = run.placement
    if place.on_gpu != place.total or place.failures:
        limits = [node.outside for node in advertised.judge(proto)]
        outcome = FAIL if place.failures else REFUSED
        text = " ".join(place.sentences)
        outside = bool(limits) and all(limits)
        return book.close(Record(**who, outcome=outcome, text=text, expected_refusal=outside))
    allowance = book.allowance(who)
    held = half_cases.representable(case)
    result = check.judge(held, feeds, expected, run.outputs, allowance, onnx_host.NAME)
    book.close(record_of(result, who, allowance), model)


def _narrow(array: Any) -> Any:
    return array.astype(np.float16) if array.dtype == np.float32 else array


def _half(content: bytes | None) -> Any:
    """Returns the model with float16 in place of float32."""
    import onnx
    from onnx import TensorProto, numpy_helper

    proto = onnx.load_from_string(content or b"")
    for value in (*proto.graph.input, *proto.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for held in proto.graph.initializer:
        if held.data_type == TensorProto.FLOAT:
            narrow = numpy_helper.to_array(held).astype(np.float16)
            held.CopyFrom(numpy_helper.from_array(narrow, held.name))
    return proto
