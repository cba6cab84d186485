"""Tests the judge of integer operators: ONNX's node tests exactly, onnxruntime's operators by hand,
and its other sources."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from conformance import onnx_node_tests  # noqa: E402
from conformance.references import integers  # noqa: E402
from conformance.variants import onnx_quantized  # noqa: E402

WORDS = ("qlinear", "matmulinteger", "convinteger", "quantizelinear")
FLOATS = ("e4m3", "e5m2", "float4", "float16", "e2m1")
PACKED = ("int4", "int2")
# The evaluator of ONNX wraps here what the operator's page has saturate: -128, not 20.
WRAPPED = ("test_qlinearmatmul_2D_int8_float32", "test_qlinearmatmul_3D_int8_float32")
CASES = [
    case for case in onnx_node_tests.cases()
    if any(word in case.name for word in WORDS) and "expanded" not in case.name
    and not any(word in case.name for word in (*FLOATS, *PACKED, *WRAPPED))
]  # fmt: skip
CONTRIBUTED = {name: (model, feed) for name, model, feed in onnx_quantized.contributed()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operators_give_onnx_answers(case: object) -> None:
    loaded = onnx_node_tests.load(case)
    for inputs, outputs in loaded.sets:
        names = [value.name for value in loaded.model.graph.input]
        fed = dict(zip(names, inputs, strict=True))
        found = integers.evaluate(loaded.model.SerializeToString(), fed)
        for got, wanted in zip(found, outputs, strict=True):
            np.testing.assert_array_equal(got.astype(wanted.dtype), wanted)


def test_there_are_cases() -> None:
    assert len(CASES) >= 20


def test_products_do_not_saturate() -> None:
    """The sum of two products of 255 * 127 does not fit into 16 bits, which the judge must
    handle."""
    model, feed = CONTRIBUTED["MatMulIntegerToFloat"]
    held = {
        value.name: onnx.numpy_helper.to_array(value)
        for value in onnx.ModelProto.FromString(model).graph.initializer
    }
    a = feed["a"].astype(np.int64) - int(held["az"])
    b = held["b"].astype(np.int64) - held["bz"].astype(np.int64)
    (got,) = integers.evaluate(model, feed)
    wanted = (a @ b) * held["as"].astype(np.float64) * held["bs"] + held["bias"]
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("exact", [True, False])
def test_a_host_that_saturates_is_no_witness(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feed = CONTRIBUTED["QGemm"]
    saturated = np.zeros((4, 5), np.float32)
    monkeypatch.setattr(integers, "host_is_exact", lambda: exact)
    host = SimpleNamespace(run=lambda *_: [saturated])
    found = list(integers.witnesses(model, feed, host))
    assert len(found) == 1 + exact and found[0][0].any()
    assert integers.judge() == ("exact integers + host" if exact else "exact integers")


def test_the_probe_sees_saturation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe detects AVX2 kernels that saturate sums of two products to 16 bits."""
    ort = pytest.importorskip("onnxruntime")

    class Saturating:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def run(self, _: object, fed: dict[str, np.ndarray]) -> list[np.ndarray]:
            a, b = (fed[name].astype(np.int64) for name in "ab")
            pairs = a[:, ::2, None] * b[::2] + a[:, 1::2, None] * b[1::2]
            return [np.clip(pairs, -(2**15), 2**15 - 1).sum(1).astype(np.int32)]

    assert isinstance(integers.host_is_exact(), bool)
    monkeypatch.setattr(ort, "InferenceSession", Saturating)
    integers.host_is_exact.cache_clear()
    assert not integers.host_is_exact()
    integers.host_is_exact.cache_clear()
