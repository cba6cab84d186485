"""Tests that the report of a session has the nodes of its last graph, each once, also where
onnxruntime passes a model several times because it has functions."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tflgpu_plugin.harness import onnx as host

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]
SHAPE = [64, 64]
AHEAD = pytest.mark.parametrize("ahead", ["0", "1"])  # whether that is switched off
FORCE = pytest.mark.parametrize("options", [{}, {"force": "1"}])
Function = tuple[str, Sequence[Any]]


def call(op: str, read: str, write: str) -> Any:
    from onnx import helper

    return helper.make_node(op, [read], [write], domain="own")


def model(nodes: Sequence[Any], functions: Sequence[Function]) -> bytes:
    """Returns a model from a [64, 64] "x" to "y"; each function is one from "a" to "b"."""
    from onnx import helper

    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = [
        helper.make_function("own", name, ["a"], ["b"], inside, imports)
        for name, inside in functions
    ]
    ports = ([helper.make_tensor_value_info(name, 1, SHAPE)] for name in "xy")
    graph = helper.make_graph(nodes, "g", *ports)
    whole = helper.make_model(graph, functions=made, opset_imports=imports, ir_version=8)
    return bytes(whole.SerializeToString())


def opened(content: bytes, ahead: str, options: dict[str, str]) -> Any:
    """Returns a session whose graph onnxruntime does not optimize, and which has run."""
    import onnxruntime as ort

    settings = host.settings(logs=host.FATAL, session__disable_aot_function_inlining=ahead)
    settings.graph_optimization_level = ort.GraphOptimizationLevel(0)
    feeds = {"x": m.values(64, 64)}
    (wanted,) = host.opened(content, settings).run(None, feeds)
    session = host.opened(content, settings, options)
    np.testing.assert_allclose(session.run(None, feeds)[0], wanted, rtol=1e-5, atol=1e-6)
    return session


def check(session: Any, wanted: str) -> dict[str, str]:
    """Tests that the report has these operators and that its partitions have run; returns where
    nodes are, by operator."""
    report = tflgpu_plugin.report(session)
    assert Counter(node.op for node in report.nodes) == Counter(wanted.split())
    placed = Counter((one.graph, node) for one in report.partitions for node in one.nodes)
    assert placed == Counter((n.graph, n.id) for n in report.nodes if n.where == "gpu")
    assert all(one.live and one.runs == 1 for one in report.partitions)
    return {node.op: node.where for node in report.nodes}


TWICE = [call("F", "x", "p"), m.node("Relu", ["p"], ["q"]), call("F", "q", "y")]
PRODUCT = [m.node("MatMul", ["a", "a"], ["s"]), m.node("Tanh", ["s"], ["b"])]


@AHEAD
@FORCE
def test_a_function_and_nodes_outside_of_it(ahead: str, options: dict[str, str]) -> None:
    session = opened(model(TWICE, [("F", PRODUCT)]), ahead, options)
    where = check(session, "MatMul Tanh Relu MatMul Tanh")
    assert where["MatMul"] == "gpu"
    assert set(where.values()) == {"gpu"} or (ahead, options) == ("1", {})


@AHEAD
def test_what_was_refused_first_keeps_its_reason(ahead: str) -> None:
    options = {"force": "1", "exclude": "Relu"}
    session = opened(model(TWICE, [("F", PRODUCT)]), ahead, options)
    assert check(session, "MatMul Tanh Relu MatMul Tanh")["Relu"] == "cpu"
    (relu,) = (node for node in tflgpu_plugin.report(session).nodes if node.op == "Relu")
    assert "exclude" in str(relu.reason)


@AHEAD
@FORCE
def test_nested_functions(ahead: str, options: dict[str, str]) -> None:
    outer = [call("F", "a", "t"), m.node("Exp", ["t"], ["u"]), call("F", "u", "b")]
    nodes = [call("G", "x", "r"), m.node("Sigmoid", ["r"], ["y"])]
    session = opened(model(nodes, [("F", PRODUCT), ("G", outer)]), ahead, options)
    check(session, "MatMul Tanh Exp MatMul Tanh Sigmoid")


@AHEAD
def test_a_function_that_is_in_part_refused(ahead: str) -> None:
    options = {"force": "1", "exclude": "Tanh"}
    session = opened(model(TWICE, [("F", PRODUCT)]), ahead, options)
    where = check(session, "MatMul Tanh Relu MatMul Tanh")
    assert where == {"MatMul": "gpu", "Tanh": "cpu", "Relu": "gpu"}


@AHEAD
@FORCE
def test_functions_around_and_in_the_branches_of_an_if(ahead: str, options: dict[str, str]) -> None:
    from onnx import helper

    def branch(name: str) -> Any:
        inside = [m.node("Exp", ["a"], [f"{name}e"]), call("F", f"{name}e", name)]
        return helper.make_graph(inside, name, [], [helper.make_tensor_value_info(name, 1, SHAPE)])

    chosen = [
        m.node("ReduceSum", ["a"], ["n"], keepdims=0),
        m.node("Cast", ["n"], ["c"], to=9),
        m.node("If", ["c"], ["b"], then_branch=branch("t"), else_branch=branch("e")),
    ]
    nodes = [call("G", "x", "r"), m.node("Sigmoid", ["r"], ["y"])]
    session = opened(model(nodes, [("F", PRODUCT), ("G", chosen)]), ahead, options)
    report = tflgpu_plugin.report(session)
    inside = Counter("Exp MatMul Tanh Exp MatMul Tanh".split())
    outside = Counter("ReduceSum Cast If Sigmoid".split())
    assert Counter(node.op for node in report.nodes) == inside + outside
    assert all(one.live for one in report.partitions)


@AHEAD
def test_nodes_of_functions_whose_types_are_not_known_yet(
    ahead: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime passes a graph in whose branch it has just replaced a call."""
    from onnx import helper

    def branch(name: str, *inside: Any) -> Any:
        return helper.make_graph(inside, name, [], [helper.make_tensor_value_info(name, 1, SHAPE)])

    nodes = [
        call("F", "x", "r"),
        m.node("ReduceSum", ["r"], ["n"], keepdims=0),
        m.node("Cast", ["n"], ["c"], to=9),
        m.node(
            "If", ["c"], ["y"],
            then_branch=branch("t", call("F", "r", "t")),
            else_branch=branch("e", m.node("Relu", ["r"], ["e"])),
        ),
    ]  # fmt: skip
    small = [m.node("Sigmoid", ["a"], ["s"]), m.node("Tanh", ["s"], ["b"])]
    session = opened(model(nodes, [("F", small)]), ahead, {"force": "1"})
    assert "nothing of this model" not in capfd.readouterr().err
    report = tflgpu_plugin.report(session)
    wanted = "Sigmoid Tanh ReduceSum Cast If Sigmoid Tanh Relu"
    assert Counter(node.op for node in report.nodes) == Counter(wanted.split())


def test_partitions_of_earlier_rounds_hold_no_memory() -> None:
    session = opened(model(TWICE, [("F", PRODUCT)]), "0", {"force": "1"})
    report = tflgpu_plugin.report(session)
    assert report.memory == report.partitions[0].memory and len(report.partitions) == 1
