"""Tests values at the limits of what rows accept against the CPU provider: integer masks, vectors
with nearly zero squares, quotients that are halves."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tflgpu_plugin import ops
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]
TINY = (1e-12, 1e-13, 1e-20, 1e-25, 1e-30, 0.0, 1.0, 1e30, np.nan, np.inf)


@pytest.mark.parametrize("kind", ["int32", "int64", "bool", "float32"])
@pytest.mark.parametrize("constant", [False, True])
def test_attention_with_a_mask_of_any_type(kind: str, constant: bool) -> None:
    """Integers are added to the scores unchanged."""
    from onnx import TensorProto, helper, numpy_helper

    mask = (m.values(5, 5) > 0).astype(kind)
    given = {"q": m.values(1, 2, 5, 8), "m": mask}
    kinds = {"int32": 6, "int64": 7, "bool": 9, "float32": 1}
    inputs = [helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 2, 5, 8])]
    if not constant:
        inputs.append(helper.make_tensor_value_info("m", kinds[kind], [5, 5]))
    graph = helper.make_graph(
        [m.node("Attention", ["q", "q", "q", "m"], ["y"])], "g", inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(mask, "m")] if constant else [],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 23)]
    data = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    feeds = {name: value for name, value in given.items() if name == "q" or not constant}
    session, reference = m.session(data), m.cpu(data)
    (wanted,), (found,) = reference.run(None, feeds), session.run(None, feeds)
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert tflgpu_plugin.report(session).count("cpu") == 0


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("size", TINY)
def test_vectors_of_any_length(size: float, power: int) -> None:
    data = m.model(
        [m.node("LpNormalization", ["x"], ["y"], axis=1, p=power)], {"x": [2, 3]}, {"y": [2, 3]}
    )
    x = np.array([[1, 2, 3], [0, -size, size]], np.float32) * np.array([[size], [1]], np.float32)
    with np.errstate(all="ignore"):
        (wanted,) = m.cpu(data).run(None, {"x": x})
    (found,) = m.session(data).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_quotients_on_halves() -> None:
    """The zero point is -least / scale, which is a half for each of these ranges."""
    from onnx import TensorProto, helper

    outputs = {"y": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8}
    graph = helper.make_graph(
        [m.node("DynamicQuantizeLinear", ["x"], [*outputs])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    session, reference = m.session(data), m.cpu(data)
    for step in (1.0, 0.5, 0.1, 0.3, 1 / 3, 0.7, 3.0):
        for low in np.arange(0.5, 255.0, 5.0):
            x = np.array([-low, 255 - low, 1.5, -0.5], np.float32) * np.float32(step)
            for a, b in zip(
                reference.run(None, {"x": x}), session.run(None, {"x": x}), strict=True
            ):
                np.testing.assert_array_equal(b, a, err_msg=f"{step} {low}")


SPECIAL = (
    np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1, -1, 0.5, -0.5, 2.5, -2.5, 3.5, 65504, -65504,
    6e-8, -6e-8, 1e-4, 30, -30, 88, -88, 100, -100,
)  # fmt: skip
OF_ONE_VALUE = sorted(
    name for name, row in HOST_OPS.items()
    if row.op and ops.rows()[row.op].kind == "elementwise" and len(row.operands) == 1
    and ":" not in name
)  # fmt: skip


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("op", OF_ONE_VALUE)
def test_special_values(op: str, kind: type[np.floating[Any]]) -> None:
    """Results are NaN and infinite where the host's are: its kernels of float16 are others."""
    x, reference = np.array(SPECIAL, kind), None
    for made in (kind, np.bool_):
        nodes, kinds = [m.node(op, ["x"], ["y"])], {"x": kind, "y": made}
        data = m.model(nodes, {"x": x.shape}, {"y": x.shape}, opset=22, kinds=kinds)
        try:
            reference = m.cpu(data, optimize=False)
        except Exception:  # the result has another type, or the host has no such kernel
            continue
        session = m.session(data, optimize=False, force=1)
        (wanted,), (found,) = (one.run(None, {"x": x}) for one in (reference, session))
        assert tflgpu_plugin.report(session).count("gpu") == 1
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-6)
    if reference is None:
        pytest.skip(f"onnxruntime has no kernel of {op} for {kind.__name__}")
