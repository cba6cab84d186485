"""Runs ONNX's own node tests with double in place of float, with the option double, and asks the
CPU provider for which operators it has kernels of double."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tflgpu_plugin  # noqa: E402
from conformance import onnx_node_tests  # noqa: E402
from tests.support.onnx_doubles import SINGLE, in_double  # noqa: E402
from tests.support.onnx_models import cpu, session  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS  # noqa: E402

pytestmark = pytest.mark.adapter
MOST = 3  # tests of an operator
# The standard tests functions that onnxruntime computes by other nodes, some without a kernel.
FUNCTIONS = {"Celu", "Gelu"}


@functools.cache
def cases() -> dict[str, list[Any]]:
    """Returns some node tests of each operator that has a row, float, in double."""
    found: dict[str, list[Any]] = {}
    for case in onnx_node_tests.cases():
        made = onnx_node_tests.load(case)
        (first, *more) = made.model.graph.node
        listed = found.setdefault(first.op_type, [])
        if not more and not first.domain and first.op_type in HOST_OPS and len(listed) < MOST:
            wide = in_double(made.model)
            if wide.SerializeToString() != made.model.SerializeToString():
                listed.append((made.model, wide, made.sets[0][0]))
    return {op: listed for op, listed in found.items() if listed}


def feeds(model: Any, inputs: Any) -> dict[str, Any]:
    """Returns the inputs of a test by name, floats as double where the model has double."""
    held = {one.name for one in model.graph.initializer}
    names = [one.name for one in model.graph.input if one.name not in held]
    double = onnx.TensorProto.DOUBLE
    types = [one.type.tensor_type.elem_type for one in model.graph.input if one.name not in held]
    if double not in types and not any(isinstance(one, list) for one in inputs):
        return dict(zip(names, inputs, strict=False))
    return {name: _wide(one) for name, one in zip(names, inputs, strict=False)}


def _wide(value: Any) -> Any:
    if isinstance(value, list):
        return [_wide(one) for one in value]
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def flat(results: Any) -> list[Any]:
    return [part for one in results for part in (one if isinstance(one, list) else [one])]


def lacks_kernel(model: Any, given: dict[str, Any]) -> bool:
    """Whether the CPU provider has no kernel for a model, or one that refuses double."""
    try:
        cpu(model.SerializeToString()).run(None, given)
    except Exception as error:
        return "NOT_IMPLEMENTED" in str(error) or "not support double" in str(error)
    return False


@pytest.mark.parametrize("op", sorted(name for name in HOST_OPS if ":" not in name))
def test_nodes_in_double(op: str) -> None:
    """Where the host has kernels of double, ours give their results as float32 does; where it has
    none, the row says so."""
    tried = 0
    for plain, wide, inputs in cases().get(op, []):
        data, given = wide.SerializeToString(), feeds(wide, inputs)
        if lacks_kernel(wide, given):
            if not lacks_kernel(plain, feeds(plain, inputs)):
                assert not HOST_OPS[op].double
                tried += 1
            continue
        try:
            wanted = flat(cpu(data).run(None, given))
        except Exception:  # the standard has no double there
            continue
        assert HOST_OPS[op].double or op in FUNCTIONS
        ours = session(data, optimize=False, force=1, **SINGLE)
        for got, right in zip(flat(ours.run(None, given)), wanted, strict=True):
            assert (got.dtype, got.shape) == (right.dtype, right.shape)
            np.testing.assert_allclose(got, right, rtol=2e-4, atol=1e-5)
        report = tflgpu_plugin.report(ours)
        assert not report.host_runs
        tried += any(one.where == "gpu" for one in report.nodes)
    if tried == 0:
        pytest.skip("onnxruntime runs no test of it in double, or ours takes none")
