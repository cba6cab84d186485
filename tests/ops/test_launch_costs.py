"""Costs of launches. Too few threads give wrong answers, which the cases see; too many only cost
time, which no comparison sees. No device is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import pytest

from conformance import node_cases
from conformance.cases import all_cases
from conformance.direct import graph as graph_of
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Plan, Shape, Target
from tflgpu_plugin.ops import FAMILIES

TARGET = Target(name="plain")
MOST, FREE = 8, 64  # threads for each element of a graph, and elements that are free
SIZE = re.compile(r"@workgroup_size\(([^)]*)\)")


def _graphs(family: str) -> Iterator[tuple[str, Graph]]:
    for case in all_cases()[family]:
        if not case.refused:
            yield f"{case.op} {case.name}", graph_of(case)
    for node in node_cases.family_nodes(family):
        if not node.refused:
            yield f"{node.op} {node.name}", node_cases.graph(node)


def threads(plan: Plan) -> list[int]:
    """Returns the threads of each launch."""
    found = []
    for dispatch in plan.dispatches:
        size = SIZE.search(plan.pipelines[dispatch.pipeline].wgsl)
        assert size
        lanes = [int(n.strip().rstrip("u")) for n in size[1].split(",") if n.strip()]
        found.append(prod(lanes) * prod(dispatch.groups))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_there_are_not_many_more_threads_than_elements(family: str) -> None:
    for name, graph in _graphs(family):
        elements = sum(prod(tensor.shape) for tensor in graph.tensors.values())
        for each in threads(compiler.compile(graph, TARGET)):
            assert each <= MOST * (elements + FREE), name


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ((2, 3), (3, 4), 64),
        ((2, 2, 3), (2, 3, 4), 128),
        ((3, 2, 2, 3), (3, 2, 3, 4), 384),
        ((40, 3), (3, 32), 128),  # 80 threads of 4 rows and 4 columns
    ],
)
def test_threads_of_a_product_of_matrices(left: Shape, right: Shape, wanted: int) -> None:
    n = Net()
    plan = compiler.compile(n.graph(n.op("matmul", n.input(left), n.input(right))), TARGET)
    (found,) = [
        count
        for count, each in zip(threads(plan), plan.dispatches, strict=True)
        if each.label == "matmul"
    ]
    assert found == wanted


def test_the_square_norm_of_a_window_takes_no_powers() -> None:
    for p, powers in ((2.0, False), (3.0, True)):
        n, attributes = Net(), {"window": (2, 2), "strides": (2, 2), "padding": "valid"}
        graph = n.graph(n.op("lp_pool", n.input((1, 4, 4, 4)), p=p, **attributes))
        plan = compiler.compile(graph, TARGET)
        (kernel,) = [p for p in plan.pipelines if "pool" in p.label]
        body = kernel.wgsl[kernel.wgsl.index("fn main") :]
        assert ("pow" in body) == powers
