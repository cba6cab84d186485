"""Estimates for entire networks: each dispatch of a plan by the model of cost.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeVar

from benchmarks.compiled.blocks import BLOCKS
from benchmarks.compiled.cost import FAMILIES, GHZ, UNITS, Cost, Made, cost
from benchmarks.compiled.driver import compiled
from benchmarks.compiled.kernels import AMD
from benchmarks.compiled.rounds import loops
from benchmarks.networks import NETWORKS, Network
from benchmarks.to_graph import to_graph
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Pipeline, Plan, Target

Key = TypeVar("Key")


@dataclass(frozen=True)
class Estimate:
    """The estimate of a network on a family: (label, pipeline, cost) of every dispatch."""

    family: str
    dispatches: Sequence[tuple[str, Made, Cost]]

    @property
    def us(self) -> float:
        return sum(each.us for _, _, each in self.dispatches)

    @property
    def share(self) -> float:
        """The share of the arithmetic that the GPU could do in this time: 64 multiply-adds per
        unit and cycle."""
        products = sum(each.products for _, _, each in self.dispatches)
        return products / (64 * UNITS * GHZ * 1e3 * self.us)

    @property
    def spills(self) -> int:
        return sum(made.spills for _, made, _ in self.dispatches)

    @property
    def few(self) -> int:
        """Returns the number of dispatches with fewer waves than the GPU has SIMDs."""
        simds = UNITS * FAMILIES[self.family].simds
        return sum(each.waves < simds for _, _, each in self.dispatches)

    @property
    def unsure(self) -> int:
        return sum(not each.sure for _, _, each in self.dispatches)


def target(family: str) -> Target:
    """Returns the target that kernels are planned for."""
    model = FAMILIES[family]
    return replace(AMD, least_subgroup=min(model.issue), native_half=model.halves)


def estimates(
    names: Sequence[str], family: str, settings: Sequence[Mapping[str, object]]
) -> dict[tuple[str, int], Estimate]:
    """Returns estimates by network and the number of the settings, which replace fields of the
    target. Raises Unavailable, and RuntimeError where a kernel does not compile."""
    plans = {
        (name, k): compiler.compile(GRAPHS[name](), replace(target(family), **given))  # type: ignore[arg-type]
        for name in names
        for k, given in enumerate(settings)
    }
    return of_plans(plans, family)


def of_plans(plans: Mapping[Key, Plan], family: str) -> dict[Key, Estimate]:
    """Returns the estimate of each plan for a family. Raises what `estimates` raises."""
    wanted = list(dict.fromkeys(p for plan in plans.values() for p in plan.pipelines))
    made = dict[Pipeline, Made]()
    for pipeline, found in zip(wanted, compiled(wanted, family), strict=True):
        if isinstance(found, str):
            raise RuntimeError(found)
        made[pipeline] = found
    return {key: _estimate(plan, family, made) for key, plan in plans.items()}


def _graph(network: Callable[[], Network]) -> Graph:
    return to_graph(network())


GRAPHS: dict[str, Callable[[], Graph]] = {
    **{name: partial(_graph, net) for name, net in NETWORKS.items()},
    **BLOCKS,
}


def _estimate(plan: Plan, family: str, made: Mapping[Pipeline, Made]) -> Estimate:
    found = []
    for each in plan.dispatches:
        pipeline = plan.pipelines[each.pipeline]
        block = plan.uniforms[each.uniform_offset :]
        run = loops(pipeline.wgsl, block, each.groups)
        taken = cost(made[pipeline], FAMILIES[family], run, prod(each.groups), threads(pipeline))
        found.append((each.label, made[pipeline], taken))
    return Estimate(family, found)


def threads(pipeline: Pipeline) -> int:
    """Returns the threads of a workgroup."""
    size = re.search(r"@workgroup_size\(([^)]*)\)", pipeline.wgsl)
    assert size is not None
    return prod(int(part.strip().rstrip("u")) for part in size[1].split(",") if part.strip())
