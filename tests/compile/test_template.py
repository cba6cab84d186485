"""A plan with symbols equals, for each shape that its guards accept, the plan made for that
shape."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from conformance import check, direct, node_cases
from tflgpu_plugin import ops
from tflgpu_plugin.cache import codec
from tflgpu_plugin.compile import compiler, memory, stored_template
from tflgpu_plugin.compile.template import Template, template
from tflgpu_plugin.ir import Graph, Plan, Target
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.kernels import UNIFORM_BYTES

TARGETS = {
    "software": Target(software=True, vendor="software", subgroup_size=8),
    "gpu": Target(vendor="amd", subgroup_size=64, least_subgroup=64),
}
FAMILIES = sorted({row.family for row in ops.rows().values()})
# Families whose kernels take a number of rows or rounds per thread, chosen by the example.
CHOSEN = ("depthwise", "group_moments", "normalization", "reduce")
EVERY, FEW = 15, 20  # one case in this many is tried; of few results no share counts
CHANGES = (lambda n: n + 1, lambda n: 2 * n, lambda n: n + 4)


def graphs(family: str) -> Iterator[Graph]:
    """Yields graphs of one node whose inputs have extents above 1."""
    cases = [case for case in check.family_cases(family) if not case.refused][::EVERY]
    nodes = [case for case in node_cases.family_nodes(family) if not case.refused][::EVERY]
    for case in (*map(direct.graph, cases), *map(node_cases.graph, nodes)):
        scales = (case.tensors[t].quantization for t in case.inputs)
        if len(case.nodes) == 1 and all(s is None or len(s.scale) == 1 for s in scales):
            if extents(case):
                yield case


def extents(graph: Graph) -> list[int]:
    return sorted({n for t in graph.inputs for n in graph.shape(t) if n >= 2})


def resized(graph: Graph, sizes: Mapping[int, int]) -> Graph:
    """Returns the graph with other extents of its inputs; `sizes` maps present extents to new
    ones."""
    (node,), tensors = graph.nodes, dict(graph.tensors)
    for t in graph.inputs:
        shape = tuple(sizes.get(n, n) for n in graph.shape(t))
        tensors[t] = replace(tensors[t], shape=shape)
    changed = replace(graph, tensors=tensors)
    made = ops.rows()[node.op].shapes(changed, node)
    for t, shape in zip(node.outputs, made, strict=True):
        tensors[t] = replace(tensors[t], shape=tuple(shape))
    return replace(graph, tensors=tensors)


def numbers(plan: Plan, words: bool) -> list[Any]:
    """Returns what is equal in plans that run alike; uniforms, groups and buffers if `words`."""
    ports = (*plan.inputs, *plan.outputs, *plan.states)
    dispatches = [(made.label, made.pipeline, made.nodes) for made in plan.dispatches]
    found = [plan.pipelines, dispatches, [(port.shape, port.bytes) for port in ports]]
    if words:
        found += [plan.uniforms, plan.buffers, [(d.groups, d.buffers) for d in plan.dispatches]]
    return found


def has_symbolic_constants(plan: Plan) -> bool:
    """Whether constants that follow from shapes are behind the uniforms, and not with weights."""
    return len(plan.uniforms) > UNIFORM_BYTES * len(plan.dispatches)


def packs(plan: Plan) -> int:
    """Returns how many inputs are converted: rows of any width are, those of whole vec4 need not
    be."""
    return sum(made.label == "pack" for made in plan.dispatches)


def planned(graph: Graph, target: Target, pools: Mapping[int, int] | None = None) -> Plan | None:
    """Returns the plan with tensors in these pools, or None if it cannot be made."""

    def assign(
        alive: Mapping[int, memory.Life], *others: Any
    ) -> tuple[dict[int, memory.Allocation], list[int]]:
        if pools is None or alive.keys() != pools.keys():
            return usual(alive, *others)
        offsets, sizes = memory.offsets_in_pools(alive, pools)
        found = {t: memory.Allocation(pools[t], offset) for t, offset in offsets.items()}
        return found, sizes

    usual = memory.assign
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "assign", assign)
        try:
            return compiler.compile(graph, target)
        except Exception:
            return None


def compared(graph: Graph, target: Target, seen: Counter[str]) -> None:
    """Compares the plans of a template with those for the same shapes."""
    sizes = extents(graph)
    trace = Trace()
    symbols = {n: trace.symbol(k, n) for k, n in enumerate(sizes)}
    try:
        made: Template = template(resized(graph, symbols), target, trace)
    except Exception:  # then there is a plan for each shape
        seen["untraced"] += 1
        return
    places = [(1 + k, k) for k in range(len(sizes))]
    for change in (lambda n: n, *CHANGES):
        other = {n: change(n) for n in sizes}
        values = {k: other[n] for k, n in enumerate(sizes)}
        if not made.fits(values):
            seen["guarded"] += 1
            continue
        plan = planned(resized(graph, other), target, made.pools)
        assert plan is not None, "its guards accept shapes that cannot be planned"
        found = made.settled(values, [values], places)
        assert stored_and_restored(made, found).settled(values, [values], places) == found
        if found.pipelines != plan.pipelines or packs(found) != packs(plan):
            seen["another form"] += 1  # it is right, too
            continue
        chosen = ops.rows()[graph.nodes[0].op].family in CHOSEN or has_symbolic_constants(found)
        assert numbers(found, not chosen) == numbers(plan, not chosen)
        seen["equal"] += 1


def stored_and_restored(made: Template, settled: Plan) -> Template:
    """The template as another process gets it, from a plan that was settled."""
    text = json.dumps(codec.encode(stored_template.numbers(made)))
    numbers = codec.decode(stored_template.Numbers, json.loads(text))
    return stored_template.restored(numbers, replace(settled, symbols=None))


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_op(family: str, kind: str) -> None:
    seen = Counter[str]()
    for graph in graphs(family):
        if planned(graph, TARGETS[kind]) is not None:
            compared(graph, TARGETS[kind], seen)
    if sum(seen.values()) > FEW:
        assert seen["untraced"] <= (seen["equal"] + seen["guarded"]) // 3
