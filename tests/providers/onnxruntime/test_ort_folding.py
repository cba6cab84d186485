"""Tests shape arithmetic against ONNX's node tests: every folded value must be the expected one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from conformance import onnx_host, onnx_node_tests  # noqa: E402
from tests.support.onnx_arithmetic import dtype, worked_out  # noqa: E402
from tflgpu_plugin.importer.model import HostNode  # noqa: E402
from tflgpu_plugin.ir import NUMPY_DTYPES  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.ops import CPU_OPS, HOST_OPS  # noqa: E402

OPS = {*HOST_OPS, *CPU_OPS}
# Operators of shape arithmetic, as exporters write it: each must be worked out somewhere.
NEEDED = """Abs Add And Cast Ceil Clip Concat ConstantOfShape CumSum Div Equal Expand Flatten Floor
Gather GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg NonZero Not Or
Pad Pow Range ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round ScatterND Shape Sign
Size Slice Split Sqrt Squeeze Sub Sum Tile Transpose Unsqueeze Where Xor""".split()


def _cases() -> dict[str, list[Any]]:
    """Returns ONNX's tests of single nodes, by operator."""
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
    """Returns how many data sets were folded (True) and how many were not; raises if a folded value
    is wrong."""
    counted: Counter[bool] = Counter()
    node, names = _node(case), [value.name for value in case.model.graph.input]
    for inputs, outputs in case.sets:
        given = dict(zip(names, inputs, strict=True))
        if any(isinstance(value, list) for value in (*given.values(), *outputs)):  # sequences
            continue
        arrays = [None if name is None else np.asarray(given[name]) for name in node.inputs]
        there = [array for array in arrays if array is not None]
        if not all(dtype(np.asarray(array)) for array in (*there, *outputs)):  # texts, 4 bits
            continue
        found = worked_out(node, arrays, [dtype(np.asarray(wanted)) for wanted in outputs])
        counted[found is not None] += 1
        for got, wanted in zip(found or (), outputs, strict=False):
            _compare(got, np.asarray(wanted), case.name)
    return counted


def _compare(got: Any, wanted: Any, name: str) -> None:
    """Compares values; float16 constants are held as float32."""
    if onnx_node_tests.of_bfloat16(wanted):
        assert np.array_equal(got, wanted.view(np.uint16)), name
        return
    assert got.dtype == (np.float32 if wanted.dtype == np.float16 else wanted.dtype), name
    np.testing.assert_allclose(got, wanted, rtol=1e-5, err_msg=name)
    assert got.shape == wanted.shape, name


@pytest.mark.parametrize("op", CASES)
def test_what_is_worked_out_is_right(op: str) -> None:
    counted = sum((_outcomes(case) for case in CASES[op]), Counter[bool]())
    assert counted[True] > 0 or op not in NEEDED, f"no test of {op} is worked out"


def test_what_shape_arithmetic_needs_has_a_test() -> None:
    assert {op for op in NEEDED if not CASES.get(op)} == set()


@pytest.mark.parametrize(
    ("first", "end", "step", "count"),
    [(1 << 40, (1 << 40) + 7, 2, 4), (-5, 5, 1, 10), (5, -5, -3, 4), (5, 5, 1, 0), (9, 2, 4, 0),
     (-(1 << 40), 1 << 40, 1, None), (1 << 40, -(1 << 40), -1, None)],
)  # fmt: skip
def test_a_range_is_worked_out_where_it_is_short(
    first: int, end: int, step: int, count: int | None
) -> None:
    """This holds wherever the range begins; no memory is allocated for a long one."""
    node = HostNode(0, "Range", "", 11, "n", ("a", "b", "c"), ("y",), (), {})
    found = worked_out(node, [np.array(n, np.int64) for n in (first, end, step)])
    assert (None if found is None else len(found[0])) == count
    assert found is None or found[0].tolist() == list(range(first, end, step))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    "ends", [(0, 1, 0.1), (0, 0.3, 0.1), (0, 100, 0.1), (-3, 50, 0.37), (5, -5, -0.3), (5, 1, 1)]
)
def test_a_range_of_floats_is_the_hosts(ends: tuple[float, float, float], kind: str) -> None:
    """It adds steps one after the other, so that later ones are off by their rounding errors."""
    given = [np.array(one, NUMPY_DTYPES[kind]) for one in ends]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Range", ["a", "b", "c"], ["y"])], "ranged", [],
        [onnx.helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(one, name) for one, name in zip(given, "abc", strict=True)],
    )  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 11)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    (wanted,) = onnx_host.session(model.SerializeToString(), cpu=True).run(None, {})
    node = HostNode(0, "Range", "", 11, "n", ("a", "b", "c"), ("y",), (), {})
    (found,) = worked_out(node, given, [kind]) or [None]
    np.testing.assert_array_equal(found, wanted)


def test_bits_of_numbers_are_not_taken_for_numbers() -> None:
    """A range of bfloat16 is the host's: here it would be computed from the bits of its ends."""
    node = HostNode(0, "Range", "", 27, "n", ("a", "b", "c"), ("y",), (), {})
    held = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    given = [one.view(held) for one in np.array([0x3F80, 0x40A0, 0x4000], np.uint16)]
    assert worked_out(node, given, ["bf16"]) is None
