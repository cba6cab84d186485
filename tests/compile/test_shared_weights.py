"""Shared weights have equal bytes: the identity of a weight includes all values on which its bytes
depend. No device is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from conformance import check, direct, node_cases
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Graph, Target

TARGET = Target(software=True, vendor="software", subgroup_size=8)
FAMILIES = sorted({row.family for row in ops.rows().values()})
LARGE = 1 << 16  # bytes of constants in a case; larger ones are slow to pack
EVERY = 4  # one case in this many is tried


def graphs(family: str) -> Iterator[Graph]:
    """Yields graphs of one node with constants."""
    cases = [case for case in check.family_cases(family) if not case.refused]
    nodes = [case for case in node_cases.family_nodes(family) if not case.refused]
    for graph in (*map(direct.graph, cases[::EVERY]), *map(node_cases.graph, nodes[::EVERY])):
        if 0 < sum(data.nbytes for data in constants(graph).values()) < LARGE:
            yield graph


def constants(graph: Graph) -> dict[int, Array]:
    held = {t: graph.constant(t) for t in graph.tensors}
    return {t: data for t, data in held.items() if data is not None}


def with_constant(graph: Graph, tensor: int, data: Array) -> Graph:
    changed = replace(graph.tensors[tensor], data=data)
    return replace(graph, tensors={**graph.tensors, tensor: changed})


def changed(graph: Graph) -> Iterator[Graph]:
    """Yields the graph with another number in one of its constants, once for each constant."""
    for tensor, data in constants(graph).items():
        other = np.array(data)
        if other.size and other.dtype != bool:
            other.flat[-1] = other.flat[-1] // 2 + 1 if other.dtype.kind in "iu" else 0.625
            yield with_constant(graph, tensor, other)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_that_are_identified_as_equal_are_equal(family: str) -> None:
    seen: dict[bytes, bytes] = {}
    for graph in graphs(family):
        for each in (graph, *changed(graph)):
            try:
                plan = compiler.compile(each, TARGET)
            except Exception:  # the number is a shape or an axis, for which it is invalid now
                continue
            for weight in plan.weights:
                image = weight.image().tobytes()
                assert seen.setdefault(weight.identity, image) == image, (graph.nodes, weight)


def test_integers_and_floats_of_equal_bits_are_not_one_weight() -> None:
    graph = next(g for g in graphs("binary"))
    tensor, data = next((t, d) for t, d in constants(graph).items() if d.dtype == np.float32)
    same = replace(graph.tensors[tensor], data=data.view(np.int32))
    bits = replace(graph, tensors={**graph.tensors, tensor: same})
    plans = [compiler.compile(each, TARGET) for each in (graph, bits)]
    first, second = ([weight.identity for weight in plan.weights] for plan in plans)
    assert first != second
