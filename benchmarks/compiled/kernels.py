"""Selects the kernels to compile: those of all conformance cases, and of attention in the sizes of
models, as planned for a GPU, in float32 and with values stored as float16; for AMD also those of
dense products with every tile of every row."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from unittest.mock import patch

from benchmarks.compiled.blocks import attentions
from benchmarks.compiled.devices import DEVICES
from benchmarks.compiled.gpus import AMD, target
from conformance import node_cases
from conformance.cases import all_cases
from conformance.direct import graph
from conformance.planned import plans
from conformance.settings import FAMILIES as DENSE
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Pipeline, Target
from tflgpu_plugin.ops import FAMILIES, tiles

# Whether values are stored as float16, and in a type of its own.
HALVES = ((False, False), (True, False), (True, True))


def of_cases(
    gpu: str = "navi31", sample: int = 1, families: Sequence[str] = FAMILIES
) -> dict[Pipeline, str]:
    """Returns distinct pipelines, each with the family and the target that first made it, of every
    `sample`-th case of each family of ops. They are the same for all of AMD's GPUs. Families are
    planned in a process per core."""
    targets = [*(_of_device(target(gpu)) if gpu in DEVICES else _of_amd())]
    cores = ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))
    with cores if len(families) > 1 and sample == 1 else ThreadPoolExecutor(1) as pool:
        plain = pool.map(partial(_planned_for, targets, sample), families)
        dense = [name for name in families if name in DENSE and gpu not in DEVICES]
        others = pool.map(partial(_other_rows, sample), dense)
        found: dict[Pipeline, str] = {}
        for pipeline, where in chain.from_iterable(part.items() for part in plain):
            found.setdefault(pipeline, where)
        if gpu in DEVICES:
            return _bodies(found)
        bodies = {_body(pipeline) for pipeline in found}
        for pipeline, where in chain.from_iterable(part.items() for part in others):
            if (body := _body(pipeline)) not in bodies:
                bodies.add(body)
                found[pipeline] = where
    return found


def _of_amd() -> Iterator[Target]:
    """Yields AMD's targets, also those with settings that make other kernels."""
    for half, native in HALVES:
        plain = replace(AMD, half=half, native_half=native)
        yield plain
        yield replace(plain, subgroup_size=0)
        yield replace(plain, least_subgroup=64)
        yield replace(plain, tuning={"winograd_rows": "always", "winograd_planes": "never"})
        yield replace(plain, tuning={"strided_window": "always"})
        yield replace(plain, tuning={"byte_products": "always"})


def _of_device(plain: Target) -> Iterator[Target]:
    """Yields a device's target, also without subgroups."""
    for half in (False, True):
        yield replace(plain, half=half)
        yield replace(plain, half=half, subgroup_size=0, least_subgroup=0)
        yield replace(plain, half=half, tuning={"byte_products": "always"})


def _planned_for(targets: Sequence[Target], sample: int, family: str) -> dict[Pipeline, str]:
    """Returns the pipelines of every `sample`-th case of a family for these targets."""
    found: dict[Pipeline, str] = {}
    made = _planned(islice(_graphs(family), 0, None, sample), targets)
    for given, pipelines in zip(targets, made, strict=True):
        for pipeline in pipelines:
            found.setdefault(pipeline, f"{family}{', float16' if given.half else ''}")
    return found


def _bodies(found: Mapping[Pipeline, str]) -> dict[Pipeline, str]:
    """Returns one pipeline of each body and title: fused ops are the same everywhere."""
    kept = {(_body(pipeline), where): pipeline for pipeline, where in found.items()}
    return {pipeline: where for (_, where), pipeline in kept.items()}


def _other_rows(sample: int, family: str) -> dict[Pipeline, str]:
    """Returns a pipeline of each body of dense products with the tiles of all makers' rows."""
    rows = start_rows()
    plain = (AMD, replace(AMD, half=True, native_half=True))
    some = [replace(given, vendor=row) for row in rows for given in plain]
    found: dict[tuple[str, bool], tuple[Pipeline, str]] = {}
    with patch.dict(tiles.STARTS, rows), patch.object(tiles, "BUSY_THREADS", 0):
        made = _planned(islice(_graphs(family), 0, None, sample), some)
    for given, pipelines in zip(some, made, strict=True):
        for pipeline in pipelines:
            found.setdefault(_body(pipeline), (pipeline, f"{family}, {given.vendor}"))
    return dict(found.values())


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
    yield from attentions() if family == "attention" else ()


def _planned(graphs: Iterable[Graph], targets: Sequence[Target]) -> list[list[Pipeline]]:
    """Returns for each target the pipelines of all graphs that it can run."""
    found: list[dict[Pipeline, None]] = [{} for _ in targets]
    for each in graphs:
        for made, plan in zip(found, plans(each, targets), strict=True):
            made |= dict.fromkeys(() if isinstance(plan, Unsupported) else plan.pipelines)
    return [list(made) for made in found]
