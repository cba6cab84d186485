"""Tests that no work is proportional to an attribute: if an integer of a case is far beyond all
extents, the plan and its run stay within the extents of inputs, constants and outputs, or a
sentence refuses it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import prod

import numpy as np
import pytest

from conformance import check, host, node_cases
from conformance.cases import Case
from conformance.models import tflite as models
from tests.support import raised
from tests.support.harness import device_of, run_graph
from tests.support.measured import measured
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import support
from tflgpu_plugin.ir import Array, Graph, Plan, Target
from tflgpu_plugin.ops import FAMILIES

TARGETS = (
    Target(name="software", vendor="software", software=True, subgroup_size=8),
    Target(name="hardware", vendor="nvidia", subgroup_size=32),
)
# Cases without a result in float32, in hosts neither: powers exceed its range.
# The constants of `wide_total` are data, not sizes; attributes of floats of 8 bits tell their type.
EXCEPT = ("lp_pool p", "wide_total input 0", "to_float8 ", "from_float8 ")
SMALL = 1 << 20  # elements of all tensors of a case that is run


@contextmanager
def bounded_by(elements: int, what: str) -> Iterator[None]:
    """Fails when the block takes more CPU time than this many elements explain."""
    start = time.process_time()
    yield
    taken = time.process_time() - start
    assert taken < 0.4 + 2e-6 * elements, f"{what}: {taken:.2f} s for {elements:,} elements"


def elements_of(graph: Graph) -> int:
    return sum(max(prod(tensor.shape), 0) for tensor in graph.tensors.values())


@cache
def built(family: str) -> list[tuple[str, raised.AnyCase, raised.AnyCase, Graph]]:
    """Returns for each raised number the case with a near and with the far value, and its graph;
    without those that the host, or the row's shape function, refuses."""
    found = []
    pairs = zip(raised.raised(raised.NEAR)[family], raised.raised(raised.FAR)[family], strict=True)
    for (_, near), (what, far) in pairs:
        try:
            found.append((what, near, far, raised.graph(far)))
        except (ValueError, IndexError, MemoryError):
            continue
    return found


def planned(graph: Graph, target: Target) -> Plan | None:
    """Returns the plan, or None if the node is refused with a sentence."""
    if support.support(graph, graph.nodes[0], target):
        return None
    try:
        return compiler.compile(graph, target)
    except Unsupported:
        return None


@pytest.mark.parametrize("family", FAMILIES)
@measured
def test_plans(family: str) -> None:
    """Planning time depends only on the extents, and no more threads are launched."""
    for what, _, _, graph in built(family):
        elements = elements_of(graph)
        for target in TARGETS:
            with bounded_by(elements, f"{what} for {target.name}"):
                plan = planned(graph, target)
            groups = sum(prod(step.groups) for step in plan.dispatches) if plan else 0
            assert groups <= 16 + elements, f"{what}: {groups:,} groups for {elements:,} elements"


@pytest.mark.adapter
@pytest.mark.parametrize("family", FAMILIES)
def test_runs(family: str) -> None:
    """There is one case for each integer: if a host has the operator, it takes as little time with
    the large value and gives the same result; with the small one, the CPU kernels' result."""
    seen = set()
    for what, near, far, graph in built(family):
        number = what.split(" of ")[0]
        if number in seen or number.startswith(EXCEPT) or not (0 < elements_of(graph) < SMALL):
            continue
        if planned(graph, TARGETS[0]) is None or not _alike(raised.graph(near), graph):
            continue
        if (problem := _problem(near)) is None:
            continue
        seen.add(number)
        assert not problem, f"{what}: {problem}"
        expected = _run(near)
        with bounded_by(elements_of(graph), what):
            got = _run(far)
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b, what)


def _alike(near: Graph, far: Graph) -> bool:
    """Whether results have the same extents; those of a padding may be larger."""
    return [near.shape(t) for t in near.outputs] == [far.shape(t) for t in far.outputs]


def _problem(case: raised.AnyCase) -> str | None:
    """Returns the fault of the answer; empty where it is right, None where the host has none."""
    if not isinstance(case, Case):
        return node_cases.check(case, {"": device_of().target}) or ""
    try:
        result = check.through_host(case)
    except check.HostRefuses:
        return None
    return "" if result.passed or result.sentence else result.text


def _run(case: raised.AnyCase) -> list[Array]:
    """Returns the outputs for inputs that do not depend on the raised attribute."""
    graph = raised.graph(case)
    if not isinstance(case, Case):
        fed = dict(zip(graph.inputs, node_cases.feeds(case), strict=True))
        return list(run_graph(graph, fed).values())
    (feed,) = host.case_feeds(case, 1)
    model = models.build(case)
    name, kernels = host.oracle(model, None)  # one that has the operator
    return host.run_on_gpu(model, [feed], name, {"force": 1}, kernels).outputs[0]
