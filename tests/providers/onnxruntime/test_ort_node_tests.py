"""Reads and runs ONNX's own node tests without onnxruntime: shapes and values of the standard, and
omitted attributes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from conformance import onnx_node_tests  # noqa: E402
from tests.support.harness import device_of, run_graph  # noqa: E402
from tflgpu_plugin.importer.imported import Imported  # noqa: E402
from tflgpu_plugin.importer.model import HostNode, Value  # noqa: E402
from tflgpu_plugin.importer.support import support  # noqa: E402
from tflgpu_plugin.ir import BFLOAT16, NUMPY_NAMES, Array, Graph, counts  # noqa: E402
from tflgpu_plugin.providers.onnxruntime import ops  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.reader import read  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.snapshot import Snapshot  # noqa: E402

# Tests from which onnxruntime differs, and so do we.
OTHERWISE = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
    *(f"test_qlinearmatmul_{n}D_int8_float{bits}" for n in (2, 3) for bits in (16, 32)),
    # Scores without the causal mask, where the standard has it.
    *(f"test_attention_4d_with_past_and_present_qk_matmul_bias_{n}d_mask_causal" for n in (3, 4)),
}  # fmt: skip


@functools.cache
def _cases() -> dict[str, list[Any]]:
    """Returns ONNX's tests of single nodes for which our table has a row, by operator."""
    found: dict[str, list[Any]] = {}
    for case in map(onnx_node_tests.load, onnx_node_tests.cases()):
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in ops.HOST_OPS and not nodes[0].domain:
            found.setdefault(nodes[0].op_type, []).append(case)
    return found


def _readable(op: str) -> Iterator[tuple[Any, dict[str, Any], Snapshot]]:
    """Yields the cases of an operator, each with its inputs and snapshot; inputs that rows require
    to be constant are constants."""
    for case in _cases()[op]:
        for one in filter(None, (case, onnx_node_tests.with_constants(case))):
            graph, (given, made) = one.model.graph, one.sets[0]
            held = {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}
            feed = dict(
                zip([v.name for v in graph.input if v.name not in held], given, strict=False)
            )
            results = dict(zip([v.name for v in graph.output], made, strict=False))
            arrays = [a for a in (feed | held | results).values() if a is not None]
            if all(isinstance(a, np.ndarray | np.generic) and _kind(a) and a.size for a in arrays):
                fed = {name: _plain(array) for name, array in feed.items()}
                yield one, fed, _snapshot(one, feed, held, results)


def _kind(array: Any) -> str:
    """Returns the dtype of an array, or "" if the plugin has no such type."""
    if onnx_node_tests.of_bfloat16(array):
        return BFLOAT16
    return NUMPY_NAMES.get(np.asarray(array).dtype.name, "")


def _plain(array: Any) -> Any:
    """Returns the array, or the bits that stand for it."""
    return array.view(np.uint16) if _kind(array) == BFLOAT16 else array


def _snapshot(
    case: Any, feed: dict[str, Any], held: dict[str, Any], results: dict[str, Any]
) -> Snapshot:
    (node,), values = case.model.graph.node, dict[str, Value]()
    for name, array in (feed | held).items():
        values[name] = Value(name, _kind(array), array.shape, held.get(name))
    for name, array in results.items():
        values[name] = Value(name, _kind(array), None)
    version = onnx.defs.get_schema(node.op_type, case.model.opset_import[0].version).since_version
    sides = [tuple(name or None for name in side) for side in (node.input, node.output)]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    host = HostNode(0, node.op_type, "", version, "n", *sides, (), attributes)
    return Snapshot((host,), values, tuple(results))


def _single(value: Any) -> str:
    """Returns the numbers as text with the precision of float32, in which a file stores them."""
    return str(np.float32(value) if isinstance(value, float) else value)


def _form(reading: Imported) -> Any:
    """Returns a graph's contents, for comparison."""
    graph = reading.graph
    tensors = {k: (t.shape, t.dtype, None if t.data is None else t.data.tobytes())
               for k, t in graph.tensors.items()}  # fmt: skip
    nodes = [
        (
            n.op,
            n.inputs,
            n.outputs,
            reading.refusals.get(n.id),
            {k: _single(v) for k, v in n.attributes.items()},
        )
        for n in graph.nodes
    ]
    return tensors, nodes, graph.inputs, graph.outputs


def _schemas(host: HostNode) -> dict[str, Any]:
    """Returns the default values that the ONNX standard gives attributes."""
    schema = onnx.defs.get_schema(host.op, host.version)
    return {name: onnx.helper.get_attribute_value(a.default_value)
            for name, a in schema.attributes.items() if a.default_value.name}  # fmt: skip


@pytest.mark.parametrize("op", sorted(ops.HOST_OPS))
def test_attributes_that_are_left_out_are_those_of_the_standard(op: str) -> None:
    if op not in _cases():
        pytest.skip("ONNX has no test of it alone")
    for case, _, snapshot in _readable(op):
        (host,) = snapshot.nodes
        usual = _schemas(host)
        some = {name: v for name, v in host.attributes.items() if usual.get(name) != v}
        others = {name: v for name, v in host.attributes.items() if name not in usual}
        forms = [
            _form(read(replace(snapshot, nodes=(replace(host, attributes=given),)), {}))
            for given in (host.attributes, usual | host.attributes, some, others, others | usual)
        ]
        assert forms[0] == forms[1] == forms[2] and forms[3] == forms[4], case.name


def _meant(graph: Graph, tensor: int, found: dict[int, Array]) -> Array:
    """Returns as much of an output as the run has counted."""
    axis, told = graph.tensors[tensor].counted or (0, None)
    size = found[tensor].shape[axis] if told is None and found[tensor].shape else None
    wanted = size if told is None else int(found[told])
    return found[tensor] if wanted is None else found[tensor].take(range(wanted), axis)


@pytest.mark.adapter
@pytest.mark.parametrize("op", sorted(ops.HOST_OPS))
def test_values_and_shapes_are_those_of_the_standard(op: str) -> None:
    if op not in _cases():
        pytest.skip("ONNX has no test of it alone")
    for case, feed, snapshot in _readable(op):
        guessed = read(snapshot, {}).run_values
        reading = read(snapshot, {}, run_values={name: feed[name] for name in guessed})
        name = case.name.removesuffix(onnx_node_tests.SUFFIX)
        graph, target = reading.graph, device_of().target
        if not graph.nodes or name in OTHERWISE:
            continue
        if any(support(graph, node, target) for node in graph.nodes):
            continue
        names = {tensor: name for name, tensor in reading.ids.items()}
        told = counts(graph.tensors, graph.outputs)
        whole = replace(graph, outputs=(*graph.outputs, *told))
        found = run_graph(whole, {t: feed[names[t]] for t in graph.inputs})
        for name, wanted in zip(snapshot.outputs, case.sets[0][1], strict=False):
            if reading.ids.get(name) in found:
                got = _meant(graph, reading.ids[name], found)
                assert got.shape == np.asarray(wanted).shape, case.name
                if _kind(wanted) == BFLOAT16:
                    assert np.array_equal(got, _plain(wanted)), case.name
                    continue
                np.testing.assert_allclose(got, wanted, case.rtol, 1e-5, err_msg=case.name)
