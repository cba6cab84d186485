"""Tests that no work is proportional to an attribute: one of onnx's node tests for each integer
attribute of each operator with a row, raised far beyond every extent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.measured import measured
from tests.support.raised import FAR

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed"),
    pytest.mark.skipif(find_spec("onnx") is None, reason="onnx is not installed"),
]
PARTS = 2


@cache
def raised() -> list[tuple[str, Any, Any]]:
    """Returns the attributes to raise, each with its case and the model in which it is raised."""
    from conformance import onnx_node_tests
    from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

    found: dict[str, tuple[str, Any, Any]] = {}
    for one in onnx_node_tests.cases():
        for case in onnx_node_tests.variants(one):
            nodes = case.model.graph.node
            if len(nodes) == 1 and nodes[0].op_type in HOST_OPS:
                for number, change in _changes(case.model):
                    what = f"{nodes[0].op_type} {number}"
                    if what not in found:
                        found[what] = (f"{what} of {case.name}", case, change())
    return list(found.values())


def _changes(model: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields the names of the node's integer attributes, and functions that return the model with
    one of them raised."""
    import onnx
    from onnx import numpy_helper

    for attribute in model.graph.node[0].attribute:
        if attribute.type == onnx.AttributeProto.INT:
            yield attribute.name, partial(_with_attribute, model, attribute.name, None)
        for k in _ends(len(attribute.ints)):
            yield f"{attribute.name}[{k}]", partial(_with_attribute, model, attribute.name, k)
    for n, constant in enumerate(model.graph.initializer):
        values = numpy_helper.to_array(constant)
        for k in _ends(values.size if values.dtype == np.int64 and values.size <= 16 else 0):
            yield f"{constant.name}[{k}]", partial(_with_constant, model, n, k)


def _ends(count: int) -> list[int]:
    """Returns the first and the last of so many indices: the others behave in the same way."""
    return sorted({0, count - 1}) if count else []


def _with_attribute(model: Any, name: str, k: int | None) -> Any:
    changed = _copy(model)
    attribute = next(a for a in changed.graph.node[0].attribute if a.name == name)
    if k is None:
        attribute.i = FAR
    else:
        attribute.ints[k] = FAR
    return changed


def _with_constant(model: Any, n: int, k: int) -> Any:
    from onnx import numpy_helper

    changed = _copy(model)
    constant = changed.graph.initializer[n]
    values = numpy_helper.to_array(constant).copy()
    values.reshape(-1)[k] = FAR
    constant.CopyFrom(numpy_helper.from_array(values, constant.name))
    return changed


def _copy(model: Any) -> Any:
    """Returns a copy of the model that states no shapes of its outputs."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("part", range(PARTS))
@measured
def test_sessions_and_runs(part: int) -> None:
    """A session is created quickly, and its node runs quickly if it is ours."""
    from conformance import onnx_node_tests

    tflgpu_plugin.register()
    for what, case, model in raised()[part::PARTS]:
        start, elements = time.process_time(), 0
        try:
            session = onnx_node_tests.make_session(model.SerializeToString(), force=1)
        except Exception as error:  # onnxruntime has a class of its own for each kind
            assert "tflgpu" not in str(error), f"{what}: {error}"
            session = None
        if session and tflgpu_plugin.report(session).count("gpu"):
            names = [value.name for value in session.get_inputs()]
            feeds = dict(zip(names, map(np.asarray, case.sets[0][0]), strict=False))
            try:
                elements = sum(value.size for value in session.run(None, feeds))
            except Exception as error:
                assert "report" not in str(error), f"{what}: {error}"
        taken = time.process_time() - start
        assert taken < 0.4 + 2e-6 * elements, f"{what}: {taken:.2f} s for {elements:,} elements"
