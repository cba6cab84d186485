"""Shape arithmetic against ONNX's node tests: whatever is worked out must be what ONNX says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from tflgpu_plugin.providers.onnxruntime import folding  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.snapshot import HostNode  # noqa: E402

from conformance import onnx_node_tests  # noqa: E402

OPS = {*folding.TABLE}


def _cases() -> dict[str, list[Any]]:
    """Tests of one node, by operator."""
    found: dict[str, list[Any]] = {op: [] for op in sorted(OPS)}
    for case in map(onnx_node_tests.load, onnx_node_tests.cases()):
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in OPS and not nodes[0].domain:
            found[nodes[0].op_type].append(case)
    return found


CASES = _cases()


def _attribute(attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value  # texts are bytes, as from the host


def _node(case: Any) -> HostNode:
    node = case.model.graph.node[0]
    opset = case.model.opset_import[0].version
    version = onnx.defs.get_schema(node.op_type, opset).since_version
    attributes = {one.name: _attribute(one) for one in node.attribute}
    names = [tuple(name or None for name in side) for side in (node.input, node.output)]
    return HostNode(0, node.op_type, "", version, "n", *names, (), attributes)


def _outcomes(case: Any) -> Counter[bool]:
    """How many data sets were worked out (True), and how many were left alone; wrong ones raise."""
    counted: Counter[bool] = Counter()
    node, names = _node(case), [value.name for value in case.model.graph.input]
    for inputs, outputs in case.sets:
        given = dict(zip(names, inputs, strict=True))
        if any(isinstance(value, list) for value in given.values()):  # sequences
            continue
        arrays = [None if name is None else np.asarray(given[name]) for name in node.inputs]
        shapes = [None if array is None else array.shape for array in arrays]
        found = folding.evaluate(node, arrays, shapes)
        counted[found is not None] += 1
        for got, wanted in zip(found or (), outputs, strict=False):
            if onnx_node_tests.of_bfloat16(wanted):
                assert np.array_equal(got, wanted.view(np.uint16)), case.name
                continue
            assert got.dtype == np.asarray(wanted).dtype, case.name
            np.testing.assert_allclose(got, wanted, rtol=1e-5, err_msg=case.name)
            assert got.shape == np.asarray(wanted).shape, case.name
    return counted


@pytest.mark.parametrize("op", CASES)
def test_what_is_worked_out_is_right(op: str) -> None:
    counted = sum((_outcomes(case) for case in CASES[op]), Counter[bool]())
    assert counted[True] > 0, f"no test of {op} is worked out"


@pytest.mark.parametrize(
    ("first", "end", "step", "count"),
    [(1 << 40, (1 << 40) + 7, 2, 4), (-5, 5, 1, 10), (5, -5, -3, 4), (5, 5, 1, 0), (9, 2, 4, 0),
     (-(1 << 40), 1 << 40, 1, None), (1 << 40, -(1 << 40), -1, None)],
)  # fmt: skip
def test_a_range_is_worked_out_where_it_is_short(
    first: int, end: int, step: int, count: int | None
) -> None:
    """Wherever it begins; no memory is taken for a long one."""
    node = HostNode(0, "Range", "", 11, "n", ("a", "b", "c"), ("y",), (), {})
    found = folding.evaluate(node, [np.array(n, np.int64) for n in (first, end, step)], [()] * 3)
    assert (None if found is None else len(found[0])) == count
    assert found is None or found[0].tolist() == list(range(first, end, step))
