"""Tests sequences of tensors whose number is known before a run. Every comparison is with the CPU
provider on the same model and input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_control_flow import info, steps
from tests.support import onnx_models as m

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
ROWS, SHAPE = 4, [8, 16]
NUMBERS = {"zero": np.array(0), "one": np.array(1), "two": np.array(2), "last": np.array(-1)}
GPU, CPU = "gpu", "cpu"


def listed(name: str) -> Any:
    """Returns the description of a sequence of float32 tensors."""
    from onnx import TensorProto, helper

    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)


def placed(
    nodes: Sequence[Any], inputs: dict[str, Any], *outputs: Any, more: Any = None, **options: Any
) -> dict[str, str]:
    """Runs the model twice on random numbers; returns where the nodes of each operator run."""
    from onnx import helper, numpy_helper

    read = {name for node in nodes for name in node.input}
    read |= {n for node in nodes for a in node.attribute for one in a.g.node for n in one.input}
    held = {k: v for k, v in (NUMBERS | (more or {})).items() if k in read}
    given = [info(name, shape) for name, shape in inputs.items()]
    made = [info(one, None) if isinstance(one, str) else one for one in outputs]
    graph = helper.make_graph(
        nodes, "model", given, made, [numpy_helper.from_array(v, k) for k, v in held.items()]
    )
    opsets = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    ours, theirs = m.session(data, **options), m.cpu(data)
    for count in (ROWS, ROWS + 3):
        sizes = {k: [count if n == "n" else n for n in shape] for k, shape in inputs.items()}
        feed = {name: m.values(*shape) for name, shape in sizes.items()}
        for mine, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            pairs = zip(mine, wanted, strict=True) if isinstance(wanted, list) else [(mine, wanted)]
            for one, other in pairs:
                assert one.shape == other.shape
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    report = tflgpu_plugin.report(ours)
    assert not report.host_runs
    return {node.op: node.where for node in report.nodes}


@pytest.mark.parametrize(
    ("size", "keeps"), [("two", 1), ("", 0), ("", 1), ("some", 0), ("some", 1)]
)
def test_parts(size: str, keeps: int) -> None:
    """The last part is smaller than others; parts of given sizes differ."""
    nodes = [
        m.node("SplitToSequence", ["x", size], ["s"], axis=1, keepdims=keeps),
        m.node("SequenceAt", ["s", "last"], ["a"]), m.node("Relu", ["a"], ["b"]),
        m.node("SequenceInsert", ["s", "b", "one"], ["t"]),
        m.node("SequenceErase", ["t", "two"], ["u"]), m.node("SequenceErase", ["u"], ["v"]),
        m.node("ConcatFromSequence", ["v"], ["y"], axis=-1, new_axis=int(not (size or keeps))),
    ]  # fmt: skip
    more = {"some": np.array([1, 4, 2, 2])}
    assert {*placed(nodes, {"x": [3, 9]}, "y", more=more, force=1).values()} == {GPU}


def test_one_size_without_the_axis_is_the_hosts() -> None:
    """onnxruntime removes the axis of parts of size 1, and fails for others."""
    nodes = [
        m.node("SplitToSequence", ["x", "one"], ["s"], keepdims=0),
        m.node("SequenceAt", ["s", "two"], ["a"]), m.node("Relu", ["a"], ["y"]),
    ]  # fmt: skip
    assert placed(nodes, {"x": [3, 9]}, "y", force=1)["SplitToSequence"] == CPU


@pytest.mark.parametrize(("rows", "where"), [(512, GPU), (513, CPU)])
def test_many_parts_are_the_hosts(rows: int, where: str) -> None:
    """Planning takes the square of their number."""
    nodes = [
        m.node("SplitToSequence", ["x"], ["s"], axis=0),
        m.node("SequenceAt", ["s", "last"], ["a"]), m.node("Relu", ["a"], ["y"]),
    ]  # fmt: skip
    assert placed(nodes, {"x": [rows, 2]}, "y", force=1)["SplitToSequence"] == where


def test_a_number_of_parts_that_a_run_decides() -> None:
    nodes = [
        m.node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0),
        m.node("SequenceLength", ["s"], ["k"]), m.node("Cast", ["k"], ["f"], to=1),
        m.node("SequenceAt", ["s", "last"], ["a"]),
        m.node("ConcatFromSequence", ["s"], ["b"], axis=0, new_axis=1),
        m.node("Sub", ["b", "a"], ["c"]), m.node("Mul", ["c", "f"], ["y"]),
    ]  # fmt: skip
    assert {*placed(nodes, {"x": ["n", 9]}, "y", force=1).values()} == {GPU}


@pytest.mark.parametrize("outside", ["output", "place"])
def test_a_sequence_that_the_cpu_needs(outside: str) -> None:
    """It stays there with all nodes that read it; what its tensors come from does not."""
    nodes = [
        m.node("Relu", ["x"], ["a"]), m.node("Exp", ["x"], ["b"]),
        m.node("SequenceConstruct", ["a", "b", "a"], ["s"]),
        m.node("SequenceAt", ["s", "one"], ["c"]), m.node("Neg", ["c"], ["y"]),
    ]  # fmt: skip
    if outside == "output":
        found = placed(nodes, {"x": SHAPE}, "y", listed("s"), force=1)
    else:
        nodes += [
            m.node("ArgMax", ["p"], ["q"], axis=0, keepdims=0),
            m.node("SequenceAt", ["s", "q"], ["z"]),
        ]
        found = placed(nodes, {"x": SHAPE, "p": [3]}, "y", "z", force=1)
    assert [found[op] for op in ("Relu", "Exp", "Neg")] == [GPU, GPU, GPU]
    assert [found[op] for op in ("SequenceConstruct", "SequenceAt")] == [CPU, CPU]


W = {"w": np.eye(256, dtype=np.float32)[::-1] * 0.5}


def appending(place: str = "", scan: bool = False) -> Any:
    """Returns the body of a Loop that adds a product to a sequence in each step."""
    nodes = [
        m.node("SequenceAt", ["s", "i"], ["r"]) if scan else m.node("Gather", ["x", "i"], ["r"]),
        m.node("MatMul", ["r", "w"], ["q"]), m.node("Relu", ["q"], ["v"]),
        m.node("SequenceInsert", ["l", "v", *([place] if place else [])], ["l2"]),
    ]  # fmt: skip
    return steps(nodes, [listed("l")], [listed("l2")])


@pytest.mark.parametrize("place", ["", "zero"])
@pytest.mark.parametrize("scan", [False, True])
def test_a_loop_that_adds_to_a_sequence(place: str, scan: bool) -> None:
    body = appending(place, scan)
    nodes = [m.node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0)] if scan else []
    nodes += [
        m.node("SequenceEmpty", [], ["e"], dtype=1),
        m.node("Loop", ["m", "", "e"], ["l"], body=body),
        m.node("ConcatFromSequence", ["l"], ["y"], axis=0, new_axis=1),
    ]
    found = placed(nodes, {"x": [ROWS, 64, 256]}, "y", more=W | {"m": np.array(ROWS)})
    assert {*found.values()} == {GPU}


def test_a_loop_that_adds_a_constant() -> None:
    body = steps([m.node("SequenceInsert", ["l", "w"], ["l2"])], [listed("l")], [listed("l2")])
    nodes = [
        m.node("SequenceConstruct", ["x"], ["e"]), m.node("Loop", ["m", "", "e"], ["l"], body=body),
        m.node("ConcatFromSequence", ["l"], ["t"], axis=0), m.node("MatMul", ["t", "w"], ["y"]),
    ]  # fmt: skip
    assert placed(nodes, {"x": [64, 256]}, "y", more=W | {"m": np.array(2)})["MatMul"] == GPU


@pytest.mark.parametrize("place", [3, -4])
def test_a_place_outside_of_a_sequence_fails(place: int) -> None:
    nodes = [
        m.node("SequenceConstruct", ["x", "x", "x"], ["s"]), m.node("SequenceAt", ["s", "p"], ["y"])
    ]  # fmt: skip
    data = m.model(nodes, {"x": SHAPE}, {"y": SHAPE}, {"p": np.array(place)})
    for make in (m.session, m.cpu):
        with pytest.raises(Exception, match="Invalid sequence index"):
            make(data).run(None, {"x": m.values(*SHAPE)})
