"""The graphs that are checked, by kind: conformance cases and networks of both hosts, random
graphs, real models and model files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from conformance import direct, node_cases
from conformance.cases import Case, all_cases
from conformance.evaluation import captured
from conformance.models import model_inputs
from conformance.node_cases import NodeCase
from conformance.random.onnx_graphs import Made
from tflgpu_plugin.ir import Graph


class Source(NamedTuple):
    """A graph, or several, made on demand."""

    name: str
    graphs: Callable[[], Sequence[Graph]]


def cases(families: Iterable[str] = ()) -> Iterator[Source]:
    """Yields single operators of TFLite and single nodes, of these families or of all."""
    wanted = set(families)
    for family, listed in all_cases().items():
        every: list[Case | NodeCase] = [*listed, *node_cases.family_nodes(family)]
        for case in every if not wanted or family in wanted else ():
            if not case.refused:
                yield Source(f"{case.op} {case.name}", partial(_of_case, case))


def _of_case(case: Case | NodeCase) -> list[Graph]:
    """Returns the graph of a case of one node."""
    return [direct.graph(case) if isinstance(case, Case) else node_cases.graph(case)]


def random_tflite(seeds: Iterable[int]) -> Iterator[Source]:
    """Yields random TFLite graphs of a few operators, and as many in 8 bits."""
    for seed in seeds:
        yield Source(f"random TFLite graph {seed}", partial(_random_tflite, seed))
        yield Source(f"random int8 graph {seed}", partial(_random_int8, seed))


def _random_tflite(seed: int) -> list[Graph]:
    from conformance.random import graphs

    return captured.of_tflite(graphs.build(seed)[0].to_bytes())


def _random_int8(seed: int) -> list[Graph]:
    from conformance.random import quantized

    found = quantized.build(seed)
    return [] if found is None else captured.of_tflite(found[0].to_bytes())


def random_onnx(seeds: Iterable[int]) -> Iterator[Source]:
    """Yields random ONNX graphs in the style of exporters, of each kind."""
    from conformance.random import onnx_graphs

    makers: dict[str, Callable[[int], Made]] = {
        "graph": onnx_graphs.build, "attention": onnx_graphs.build_attention,
        "near graph": onnx_graphs.build_near,
    }  # fmt: skip
    for seed in seeds:
        for kind, build in makers.items():
            yield Source(f"random ONNX {kind} {seed}", partial(_random_onnx, build, seed))


def _random_onnx(build: Callable[[int], Made], seed: int) -> list[Graph]:
    made = build(seed)
    return captured.of_onnx(made.content, ",".join(made.foreign))


def networks() -> Iterator[Source]:
    """Yields the networks of conformance, in both hosts."""
    from benchmarks.networks import NETWORKS
    from conformance.models import seeded

    for name in ("demo", *NETWORKS):
        yield Source(f"{name} in TFLite", partial(_network, name, True))
    for name in (*NETWORKS, *seeded.NETWORKS):
        yield Source(f"{name} in ONNX", partial(_network, name, False))


def _network(name: str, tflite: bool) -> list[Graph]:
    from conformance import test_networks

    if tflite:
        return captured.of_tflite(test_networks.in_tflite(name)[0])
    return captured.of_onnx(test_networks.in_onnx(name)[0])


def models() -> Iterator[Source]:
    """Yields the real models, if they are beside the checkout."""
    yield from files(sorted(model_inputs.FOLDER.glob("*.*")))


def files(paths: Iterable[Path]) -> Iterator[Source]:
    """Yields graphs of model files of either host; ignores other files."""
    for path in paths:
        if path.suffix in (".tflite", ".onnx"):
            yield Source(path.name, partial(_of_file, path))


def _of_file(path: Path) -> list[Graph]:
    if path.suffix == ".tflite":
        return captured.of_tflite(path.read_bytes())
    return captured.of_onnx(path)
