"""The graphs that are checked, by kind: conformance cases and networks of both hosts, random
graphs, real models and model files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance import direct, node_cases
from conformance.cases import Case, all_cases
from conformance.evaluation import captured
from conformance.models import model_inputs
from tflgpu_plugin.ir.graph import Graph


class Source(NamedTuple):
    """A graph, or several, that are made when they are asked for."""

    name: str
    graphs: Callable[[], Sequence[Graph]]


def cases(families: Iterable[str] = ()) -> Iterator[Source]:
    """Single operators of TFLite and single nodes, of these families or of all."""
    wanted = set(families)
    for family, listed in all_cases().items():
        if wanted and family not in wanted:
            continue
        for case in (*listed, *node_cases.family_nodes(family)):
            if not case.refused:
                yield Source(f"{case.op} {case.name}", lambda case=case: [graph(case)])


def graph(case: Case | node_cases.NodeCase) -> Graph:
    """The case as a graph of one node."""
    return direct.graph(case) if isinstance(case, Case) else node_cases.graph(case)


def random_tflite(seeds: Iterable[int]) -> Iterator[Source]:
    """Graphs of a few operators, and as many in 8 bits."""
    from conformance.random import graphs, quantized

    for seed in seeds:
        yield Source(
            f"random TFLite graph {seed}",
            lambda seed=seed: captured.of_tflite(graphs.build(seed)[0].to_bytes()),
        )
        yield Source(f"random int8 graph {seed}", lambda seed=seed: _quantized(quantized, seed))


def _quantized(module: object, seed: int) -> list[Graph]:
    found = module.build(seed)  # type: ignore[attr-defined]
    return [] if found is None else captured.of_tflite(found[0].to_bytes())


def random_onnx(seeds: Iterable[int]) -> Iterator[Source]:
    """Graphs as exporters write them, by each kind of maker."""
    from conformance.random import onnx_graphs

    makers = {
        "graph": onnx_graphs.build, "attention": onnx_graphs.build_attention,
        "near graph": onnx_graphs.build_near,
    }  # fmt: skip
    for seed in seeds:
        for kind, build in makers.items():
            yield Source(f"random ONNX {kind} {seed}",
                         lambda seed=seed, build=build: _of_made(build(seed)))  # fmt: skip


def _of_made(made: object) -> list[Graph]:
    return captured.of_onnx(made.content, ",".join(made.foreign))  # type: ignore[attr-defined]


def networks() -> Iterator[Source]:
    """The networks of conformance, in both hosts."""
    from conformance import test_networks as networks
    from conformance.models import seeded

    for name in ["demo", *networks.NETWORKS]:
        yield Source(f"{name} in TFLite",
                     lambda name=name: captured.of_tflite(networks.in_tflite(name)[0]))  # fmt: skip
    for name in [*networks.NETWORKS, *seeded.NETWORKS]:
        yield Source(f"{name} in ONNX",
                     lambda name=name: captured.of_onnx(networks.in_onnx(name)[0]))  # fmt: skip


def models() -> Iterator[Source]:
    """Real models, where these are beside the checkout."""
    yield from files(sorted(model_inputs.FOLDER.glob("*.*")))


def files(paths: Iterable[Path]) -> Iterator[Source]:
    """Model files of either host; others are passed over."""
    for path in paths:
        if path.suffix == ".tflite":
            yield Source(path.name, lambda path=path: captured.of_tflite(path.read_bytes()))
        elif path.suffix == ".onnx":
            yield Source(path.name, lambda path=path: captured.of_onnx(str(path)))
