"""Tests nodes without kernel whose bodies onnxruntime inlines later: SequenceMap of ONNX, and
functions of a model that contain control flow. Sessions are created and give the CPU provider's
results, whatever the host optimizes."""

from __future__ import annotations

import importlib.util
from itertools import product
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
LEVELS = (0, 1, 99)  # of optimization: none, basic, all
AHEAD = ("0", "1")  # functions are inlined ahead of everything else, unless that is off


def value(name: str, shape: Any = SHAPE, kind: int = 1) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, kind, shape)


def mapped(prefix: str, out: str) -> list[Any]:
    """Returns the nodes that put both values in a sequence, change its elements with SequenceMap,
    and join them."""
    from onnx import helper

    names = [f"{prefix}{k}" for k in range(5)]
    nodes = [m.node("Add", names[:1] * 2, names[1:2]), m.node("Mul", names[:2], names[2:3])]
    body = helper.make_graph(nodes, "body", [value(names[0])], [value(names[2])])
    return [
        m.node("SequenceConstruct", ["a", "b"], names[3:4]),
        m.node("SequenceMap", names[3:4], names[4:5], body=body),
        m.node("ConcatFromSequence", names[4:5], [out], axis=0),
    ]


def chosen(prefix: str, out: str) -> list[Any]:
    """Returns an If whose branches contain the nodes of which SequenceMap consists."""
    from onnx import helper

    branches = {
        name: helper.make_graph(mapped(f"{prefix}{name}", name), name, [], [value(name, [128, 64])])
        for name in ("then_branch", "else_branch")
    }
    return [m.node("If", ["c"], [out], **branches)]


def repeated(prefix: str, out: str) -> list[Any]:
    """Returns a Loop over a sum, followed by an If of both values."""
    from onnx import helper

    n = {name: f"{prefix}{name}" for name in ("i", "k", "v", "k2", "s", "w", "all", "t", "e", "l")}
    body = helper.make_graph(
        [
            m.node("Identity", [n["k"]], [n["k2"]]),
            m.node("Add", [n["v"], "b"], [n["s"]]),
            m.node("Tanh", [n["s"]], [n["w"]]),
        ],
        "body",
        [value(n["i"], [], 7), value(n["k"], [], 9), value(n["v"])],
        [value(n["k2"], [], 9), value(n["w"])],
    )
    count = m.node("Constant", [], [n["l"]], value_int=3)
    branches = {
        "then_branch": helper.make_graph(
            [m.node("Mul", [n["all"], "b"], [n["t"]])], "then", [], [value(n["t"])]
        ),
        "else_branch": helper.make_graph(
            [m.node("Exp", [n["all"]], [n["e"]])], "else", [], [value(n["e"])]
        ),
    }
    made = f"{prefix}one"
    return [
        count,
        m.node("Loop", [n["l"], "c", "a"], [n["all"]], body=body),
        m.node("If", ["c"], [made], **branches),
        m.node("Concat", [made, "a"], [out], axis=0),
    ]


def network(parts: Any, function: bool) -> bytes:
    """Returns the nodes followed by an Exp, or a function of the model that consists of them."""
    from onnx import helper

    nodes, functions = parts("p_", "z"), []
    imports = [helper.make_opsetid("", 17)]
    if function:
        functions = [helper.make_function("own", "F", ["a", "b", "c"], ["z"], nodes, imports)]
        nodes = [helper.make_node("F", ["a", "b", "c"], ["z"], domain="own")]
        imports = [*imports, helper.make_opsetid("own", 1)]
    graph = helper.make_graph(
        [*nodes, m.node("Exp", ["z"], ["y"])], "g",
        [value("a"), value("b"), value("c", [], 9)], [value("y", [128, 64])],
    )  # fmt: skip
    made = helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("function", [False, True])
@pytest.mark.parametrize("parts", [mapped, chosen, repeated])
def test_what_the_host_inlines(parts: Any, function: bool) -> None:
    import onnxruntime as ort

    content = network(parts, function)
    feeds = {"a": m.values(64, 64), "b": m.values(64, 64) * 0.5, "c": np.array(True)}
    for level, ahead in product(LEVELS, AHEAD):
        settings = host.settings(logs=host.FATAL, session__disable_aot_function_inlining=ahead)
        settings.graph_optimization_level = ort.GraphOptimizationLevel(level)
        (wanted,) = host.opened(content, settings).run(None, feeds)
        session = host.opened(content, settings, {"force": "1"})
        (found,) = session.run(None, feeds)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert tflgpu_plugin.report(session).count("gpu")
