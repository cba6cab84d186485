"""Estimates for entire networks: each dispatch of a plan by the model of cost.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeVar

from benchmarks.compiled.blocks import BLOCKS
from benchmarks.compiled.constants import Constants
from benchmarks.compiled.cost import Code, Cost, cost
from benchmarks.compiled.driver import compiled
from benchmarks.compiled.gpus import model, target
from benchmarks.compiled.rounds import loops
from benchmarks.networks import NETWORKS, Network
from benchmarks.to_graph import to_graph
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Pipeline, Plan

Key = TypeVar("Key")


@dataclass(frozen=True)
class Estimate:
    """The estimate of a network on a GPU: (label, pipeline, cost) of every dispatch."""

    gpu: str
    dispatches: Sequence[tuple[str, Code, Cost]]

    @property
    def us(self) -> float:
        return sum(each.us for _, _, each in self.dispatches)

    @property
    def share(self) -> float:
        """The share of the multiply-adds that the GPU could do in this time."""
        products, gpu = sum(each.products for _, _, each in self.dispatches), model(self.gpu)
        return products / (gpu.peak * gpu.units * gpu.ghz * 1e3 * self.us)

    @property
    def spills(self) -> int:
        return sum(made.spills for _, made, _ in self.dispatches)

    @property
    def few(self) -> int:
        """Returns the number of dispatches with fewer waves than the GPU has schedulers."""
        schedulers = model(self.gpu).units * model(self.gpu).schedulers
        return sum(each.waves < schedulers for _, _, each in self.dispatches)

    @property
    def unsure(self) -> int:
        return sum(not each.sure for _, _, each in self.dispatches)

    @property
    def uncounted(self) -> int:
        """Returns the number of dispatches with instructions whose time the model does not know."""
        return sum(not each.counted for _, _, each in self.dispatches)


def estimates(
    names: Sequence[str], gpu: str, settings: Sequence[Mapping[str, object]]
) -> dict[tuple[str, int], Estimate]:
    """Returns estimates by network and the number of the settings, which replace fields of the
    target. Raises Unavailable, and RuntimeError where a kernel does not compile."""
    plans = {
        (name, k): compiler.compile(GRAPHS[name](), replace(target(gpu), **given))  # type: ignore[arg-type]
        for name in names
        for k, given in enumerate(settings)
    }
    return of_plans(plans, gpu)


def of_plans(plans: Mapping[Key, Plan], gpu: str) -> dict[Key, Estimate]:
    """Returns the estimate of each plan for a GPU. Raises what `estimates` raises."""
    wanted = list(dict.fromkeys(p for plan in plans.values() for p in plan.pipelines))
    made = dict[Pipeline, Code]()
    for pipeline, found in zip(wanted, compiled(wanted, gpu), strict=True):
        if isinstance(found, str):
            raise RuntimeError(found)
        made[pipeline] = found
    return {key: _estimate(plan, gpu, made) for key, plan in plans.items()}


def _graph(network: Callable[[], Network]) -> Graph:
    return to_graph(network())


GRAPHS: dict[str, Callable[[], Graph]] = {
    **{name: partial(_graph, net) for name, net in NETWORKS.items()},
    **BLOCKS,
}


def _estimate(plan: Plan, gpu: str, made: Mapping[Pipeline, Code]) -> Estimate:
    found, constants = [], Constants(plan)
    for each in plan.dispatches:
        pipeline = plan.pipelines[each.pipeline]
        block = plan.uniforms[each.uniform_offset :]
        run = loops(pipeline.wgsl, block, each.groups)
        taken = cost(
            made[pipeline], model(gpu), run, prod(each.groups), threads(pipeline),
            constants=constants.bytes_read(each),
        )  # fmt: skip
        found.append((each.label, made[pipeline], taken))
    return Estimate(gpu, found)


def threads(pipeline: Pipeline) -> int:
    """Returns the threads of a workgroup."""
    size = re.search(r"@workgroup_size\(([^)]*)\)", pipeline.wgsl)
    assert size is not None
    return prod(int(part.strip().rstrip("u")) for part in size[1].split(",") if part.strip())
