"""Runs every case with the plans that other adapters would get: plans without subgroup shuffles,
plans with the tiles of hardware GPUs, and plans whose dispatches are folded.

On its own, an adapter exercises only one choice of kernels. Shuffles stay within aligned groups of
8 lanes, so they are correct for every subgroup size that is a multiple of 8. On an adapter without
shuffles, only the plans without them run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import pytest

from conformance import check, direct
from conformance.cases import Case
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Node, Target
from tflgpu_plugin.ops import FAMILIES
from tflgpu_plugin.runtime import adapter

SAMPLED = (
    "as on hardware without shuffles",
    "as on NVIDIA",
    "as on Apple",
    "with weights in memory",
)
CODES, MAX_ELEMENTS = 8, 1 << 18  # kernels of a family in the sample, elements of a case
PLANES = {"winograd_planes": "always", "winograd_rows": "never"}
ALONG_ROWS = {"winograd_rows": "always", "winograd_planes": "never"}
DIRECT = {"winograd_planes": "never", "winograd_rows": "never"}  # no Winograd
STEMS = {"strided_window": "always", "stem": "always"}
BYTES = {"byte_products": "always"}
PARTS = {"split_k": "always", "reduce_parts": "always"}
IN_IMAGES = {"resize_image": "always"}  # as where extents are symbols
BY_PLACES = {"resize_image": "never", "resize_places": "always"}
FEW_GROUPS = 7  # of a dimension, so that small cases fold their dispatches as huge ones do


def variant_targets(wanted: str | None) -> dict[str, Target]:
    own = adapter.open_device(adapter.select(wanted)).target
    plain = replace(own, subgroup_size=0)
    hardware = replace(own, vendor="unknown", software=False)
    software = replace(own, vendor="software", software=True)
    return {
        "as on hardware": hardware,
        "as on a software adapter": software,
        "without shuffles": plain,
        "as on hardware without shuffles": replace(hardware, subgroup_size=0),
        "as on a software adapter without shuffles": replace(software, subgroup_size=0),
        "with folded dispatches": replace(own, max_groups=FEW_GROUPS),
        "with weights in memory": replace(own, tuning={"weights": "memory"}),
        "as on hardware with subgroups of 64": replace(hardware, least_subgroup=64),
        "as on NVIDIA": replace(hardware, vendor="nvidia"),
        "as on Apple": replace(hardware, vendor="apple"),
        "with Winograd": replace(own, tuning=PLANES),
        "with Winograd as on hardware": replace(hardware, tuning=PLANES),
        "with Winograd along rows": replace(own, tuning=ALONG_ROWS),
        "with stems as on hardware": replace(hardware, tuning=STEMS),
        "in bytes": replace(own, tuning=BYTES),
        "in bytes as on hardware": replace(hardware, tuning=BYTES),
        "in bytes as on NVIDIA": replace(hardware, vendor="nvidia", tuning=BYTES),
        "in parts as on hardware": replace(hardware, tuning=PARTS),
        "with Winograd along rows as on hardware": replace(hardware, tuning=ALONG_ROWS),
        "resized in images": replace(own, tuning=IN_IMAGES),
        "resized by places": replace(own, tuning=BY_PLACES),
    }


@pytest.mark.adapter
@pytest.mark.parametrize("family", FAMILIES)
def test_other_plans(family: str, options: Mapping[str, Any]) -> None:
    wanted = options.get("adapter")
    targets = variant_targets(wanted)
    cases = [case for case in check.family_cases(family) if not case.refused]
    wrong = []
    for case in cases:
        result = check.direct(case, targets, wanted)
        if not result.passed:
            wrong.append(f"{case.op} {case.name}: {result.text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.adapter
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_of_other_plans(family: str, options: Mapping[str, Any]) -> None:
    """Cases agree on plans that this adapter would not choose: of each vendor's code the cases
    with the longest loops, so that a loop has more than one stage."""
    wanted = options.get("adapter")
    targets = {name: target for name, target in variant_targets(wanted).items() if name in SAMPLED}
    wrong = []
    for case, names in _sample(family, targets):
        result = check.direct(case, {name: targets[name] for name in names}, wanted)
        if not result.passed:
            wrong.append(f"{case.op} {case.name}: {result.text}")
    assert not wrong, "\n".join(wrong)


def _sample(family: str, targets: Mapping[str, Target]) -> list[tuple[Case, list[str]]]:
    """Returns cases, and the targets for which each is planned."""
    longest: dict[tuple[str, ...], tuple[int, Case, str]] = {}
    for case in check.family_cases(family):
        graph = None if case.refused else direct.graph(case)
        if graph is None or not MAX_ELEMENTS > sum(prod(t.shape) for t in graph.tensors.values()):
            continue
        (node,) = graph.nodes
        work = (ops.rows()[node.op].work or _elements)(graph, node)
        for name, target in targets.items():
            code = tuple(p.wgsl for p in compiler.compile(graph, target).pipelines)
            if work > longest.get(code, (-1,))[0]:
                longest[code] = work, case, name
    found = sorted(longest.values(), key=lambda one: -one[0])[:CODES]
    chosen: dict[str, tuple[Case, list[str]]] = {}
    for _, case, name in found:
        chosen.setdefault(f"{case.op} {case.name}", (case, []))[1].append(name)
    return list(chosen.values())


def _elements(graph: Graph, node: Node) -> int:
    return sum(prod(graph.shape(t)) for t in node.outputs)
