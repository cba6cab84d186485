"""Selects the kernels to compile: those of all conformance cases as planned for an AMD GPU, in
float32 and with values stored as float16; and those of dense products with every tile of every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

from conformance import node_cases
from conformance.cases import all_cases
from conformance.direct import graph
from conformance.settings import FAMILIES as DENSE
from conformance.variants import half as half_cases
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Pipeline, Target
from tflgpu_plugin.ops import FAMILIES, tiles

# float16 storage, and that in a type of its own.
HALVES = ((False, False), (True, False), (True, True))
AMD = Target("null", "amd", subgroup_size=64, features=frozenset({"subgroup"}))


def of_cases() -> dict[Pipeline, str]:
    """Returns distinct pipelines, each with the family and the target that first made it. Of the
    pipelines of other vendors' rows there is one for each body: fused ops are the same everywhere.
    """
    found: dict[Pipeline, str] = {}
    targets = (
        AMD,
        replace(AMD, subgroup_size=0),
        replace(AMD, least_subgroup=64),
        replace(AMD, tuning={"winograd_rows": "always", "winograd_planes": "never"}),
        replace(AMD, tuning={"strided_window": "always"}),
    )
    for family in FAMILIES:
        graphs = list(_graphs(family))
        for half, native in HALVES:
            for target in targets:
                for pipeline in _planned(graphs, replace(target, half=half, native_half=native)):
                    found.setdefault(pipeline, f"{family}{', float16' if half else ''}")
    rows = {f"{row}": start for row, start in start_rows().items()}
    bodies = {_body(pipeline) for pipeline in found}
    with patch.dict(tiles.STARTS, rows), patch.object(tiles, "BUSY_THREADS", 0):
        for family in DENSE:
            graphs = list(_graphs(family))
            for row in rows:
                for target in (AMD, replace(AMD, half=True, native_half=True)):
                    for pipeline in _planned(graphs, replace(target, vendor=row)):
                        if (body := _body(pipeline)) not in bodies:
                            bodies.add(body)
                            found[pipeline] = f"{family}, {row}"
    return found


def start_rows() -> dict[str, tiles.Start]:
    """Returns rows that select each size of each row wherever it fits; rows with equal kernels
    once."""
    found: dict[tuple[object, ...], tuple[str, tiles.Start]] = {}
    for vendor, start in tiles.STARTS.items():
        for weights in {start.weights, "global"}:
            for size in start.sizes:
                sizes = (size, start.sizes[-1])
                row = f"{vendor} {size[0]}x{size[1]} {weights}"
                made = tiles.Start(sizes, start.lanes, weights)
                found.setdefault((sizes, start.lanes, weights), (row, made))
    return dict(found.values())


def _body(pipeline: Pipeline) -> tuple[str, bool]:
    return pipeline.wgsl[pipeline.wgsl.index("@compute") :], "halves(" in pipeline.wgsl


def _graphs(family: str) -> Iterator[Graph]:
    yield from (graph(case) for case in all_cases()[family] if not case.refused)
    nodes = node_cases.family_nodes(family)
    yield from (node_cases.graph(case) for case in nodes if not case.refused)


def _planned(graphs: list[Graph], target: Target) -> Iterator[Pipeline]:
    with half_cases.everything() if target.half else nullcontext():
        for each in graphs:
            try:
                yield from compiler.compile(each, target).pipelines
            except Unsupported:
                continue
