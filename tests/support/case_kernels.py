"""The kernels of all conformance cases, for three kinds of adapter and with values stored as
float16."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from conformance import node_cases
from conformance.cases import all_cases
from conformance.direct import graph
from conformance.planned import plans
from conformance.test_variants import ALONG_ROWS
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Pipeline, Target

TARGETS = (
    Target(name="software", vendor="software", software=True, subgroup_size=8,
           features=frozenset({"subgroup"})),
    Target(name="discrete", vendor="nvidia", subgroup_size=32, features=frozenset({"subgroup"})),
    Target(name="plain"),
    Target(name="pairs", vendor="software", software=True, subgroup_size=8, pairs=True),
    Target(name="half", half=True),
    Target(name="native", half=True, native_half=True),
    Target(name="along rows", tuning=ALONG_ROWS),
    Target(name="stem", vendor="amd", tuning={"strided_window": "always"}),
    Target(name="bytes", vendor="nvidia", subgroup_size=32, tuning={"byte_products": "always"}),
    Target(name="symbols", tuning={"resize_image": "never", "resize_places": "always"}),
)  # fmt: skip


@cache
def pipelines(family: str) -> dict[Pipeline, tuple[str, Target]]:
    """Returns the distinct pipelines of a family's cases, each with the first case and target that
    use it. Pipelines that software adapters use, too, are attributed to these."""
    found: dict[Pipeline, tuple[str, Target]] = {}
    for name, partition in _graphs(family):
        for target, plan in zip(TARGETS, plans(partition, TARGETS), strict=True):
            if isinstance(plan, Unsupported):
                pytest.fail(f"{name} is refused on {target.name}: {plan}")
            for pipeline in plan.pipelines:
                found.setdefault(pipeline, (name, target))
    return found


def _graphs(family: str) -> Iterator[tuple[str, Graph]]:
    """Yields the graph of each of a family's cases, with the case's name."""
    for case in all_cases()[family]:
        if not case.refused:
            yield f"{case.op} {case.name}", graph(case)
    for node in node_cases.family_nodes(family):
        if not node.refused:
            yield f"{node.op} {node.name}", node_cases.graph(node)
