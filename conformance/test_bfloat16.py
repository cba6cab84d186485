"""bfloat16 in ONNX Runtime: the float32 cases of operators that move and cast as models of bfloat16
tensors. The answers are those of the CPU provider, to the bit."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from conformance import check, host, onnx_host
from conformance.cases import Case
from conformance.host import Feed
from conformance.models import onnx_twins
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, PASS, Record
from tflgpu_plugin.ir import bfloat16
from tflgpu_plugin.ops import FAMILIES
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

pytestmark = [pytest.mark.adapter, pytest.mark.dtype("bf16"), pytest.mark.onnxruntime]
BITS = 1 << 16


def _cases() -> list[Any]:
    """Returns cases whose twins have only operators that the table lists with bfloat16."""
    found = []
    for family in FAMILIES:
        for case in check.family_cases(family):
            content = None if case.refused else onnx_twins.build(case)
            if content and "f32" in (*case.types, *(i.dtype for i in case.inputs if i)):
                if all(op in HOST_OPS and HOST_OPS[op].bfloat16 for op in _operators(content)):
                    found.append(pytest.param(family, case, id=f"{case.op}-{case.name}"))
    return found


def _operators(content: bytes) -> set[str]:
    import onnx

    return {str(node.op_type) for node in onnx.load_from_string(content).graph.node}


@pytest.mark.parametrize(("family", "case"), _cases())
def test_tensors(family: str, case: Case, book: Book, pytestconfig: pytest.Config) -> None:
    """Inputs, constants and outputs are bfloat16."""
    who: dict[str, Any] = {
        "test": "", "kind": "bfloat16 tensors", "family": family, "op": case.op,
        "case": f"bf16: {case.name}", "dtype": "bf16", "version": case.version,
        "host": onnx_host.label(),
    }  # fmt: skip
    content = onnx_twins.build(case)
    assert content is not None
    model, computes = _as_bfloat16(content), "Cast" in _operators(content)
    feeds = [_fed(case, feed, computes) for feed in host.case_feeds(case)]
    try:
        expected = onnx_host.run_on_cpu(model, feeds)
    except Exception as error:  # onnxruntime has no common class for what it raises
        text = " ".join(str(error).split())[:300]
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text))
    run = onnx_host.run_on_gpu(model, feeds, pytestconfig.getoption("--adapter"))
    place = run.placement
    text = " ".join(place.sentences) or str(place)
    if place.on_gpu == place.total and not place.failures:
        text = _difference(expected, run.outputs)
    book.close(Record(**who, outcome=FAIL if text else PASS, text=text), model)


def _difference(expected: Any, found: Any) -> str:
    for wanted, got in zip(expected, found, strict=True):
        for k, (right, answer) in enumerate(zip(wanted, got, strict=True)):
            if (right.dtype, right.shape) != (answer.dtype, answer.shape):
                return f"output {k} is {answer.dtype} {answer.shape}"
            if right.tobytes() != answer.tobytes():
                return f"output {k}: other bits than on the CPU"
    return ""


def _fed(case: Case, feed: Feed, computes: bool) -> Feed:
    """Returns the case's values for casts, and any bits for data movement."""
    chance = np.random.default_rng(zlib.crc32(case.name.encode()))
    return [
        a if a.dtype != np.float32
        else bfloat16.bits(a) if computes
        else chance.integers(0, BITS, a.shape).astype(np.uint16)
        for a in feed
    ]  # fmt: skip


def _as_bfloat16(content: bytes) -> bytes:
    """Returns the model with bfloat16 in place of float32."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    proto = onnx.load_from_string(content)
    for value in (*proto.graph.input, *proto.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    for held in proto.graph.initializer:
        if held.data_type == TensorProto.FLOAT:
            bits = bfloat16.bits(numpy_helper.to_array(held))
            made = helper.make_tensor(
                held.name, TensorProto.BFLOAT16, held.dims, bits.tobytes(), raw=True
            )
            held.CopyFrom(made)
    for node in proto.graph.node:
        for given in node.attribute if node.op_type == "Cast" else ():
            given.i = TensorProto.BFLOAT16 if given.i == TensorProto.FLOAT else given.i
    return bytes(proto.SerializeToString())
