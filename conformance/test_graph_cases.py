"""Graph-level cases: the delegate against the host's reference kernels, each invoked several times
with other data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from conformance import host, tolerance
from conformance.host import Feed, Outputs
from conformance.models import graph_cases, spectrum_graphs, unpool_graphs
from conformance.models.graph_cases import GraphCase
from conformance.models.model_inputs import Array
from conformance.models.tflite import Model
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from tflgpu_plugin.passes import pipeline as passes

pytestmark = pytest.mark.adapter
RUNS = 3
GRAPHS = [*graph_cases.CASES, *graph_cases.OF_TFLITE, *unpool_graphs.CASES, *spectrum_graphs.CASES]


def feeds_of(model: Model, runs: int = RUNS, seed: int = 7) -> list[Feed]:
    """Returns seeded values in [-1, 1) for each input and run."""
    random = np.random.default_rng(seed)
    shapes = [model.tensors[t].shape for t in model.inputs]
    return [[random.uniform(-1, 1, s).astype(np.float32) for s in shapes] for _ in range(runs)]


def worst(expected: Sequence[Outputs], got: Sequence[Outputs]) -> tuple[float, str]:
    """Returns the largest error relative to the tolerance of graphs, and its position."""
    found = (0.0, "all outputs are equal")
    for run, (wanted, outputs) in enumerate(zip(expected, got, strict=True)):
        for k, (a, b) in enumerate(zip(wanted, outputs, strict=True)):
            if a.shape != b.shape:
                return np.inf, f"run {run} output {k}: shape {b.shape}, not {a.shape}"
            errors = _errors(a, b)
            largest = max(tolerance.FAINT, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
            error = float(errors.max(initial=0.0))
            share = error / (tolerance.GRAPH * largest)
            if share > found[0]:
                place = np.unravel_index(int(np.argmax(errors)), a.shape)
                where = f"run {run} output {k} at {[int(i) for i in place]}"
                found = (share, f"{where}: {error:.3g} of {largest:.3g}, {share:.2f} of tolerance")
    return found


def _errors(a: Array, b: Array) -> Array:
    """Returns the distances of the elements: 0 between equal infinities and between NaNs, infinite
    where only one is NaN."""
    kind = np.result_type(a, b, np.float64)  # complex numbers stay complex
    a, b = a.astype(kind), b.astype(kind)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return np.where(equal, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))


def close(
    book: Book,
    kind: str,
    name: str,
    host_name: str,
    problem: str,
    found: tuple[float, str],
    model: bytes,
) -> None:
    """Records a graph case; `problem` says which nodes ran in the wrong place."""
    share, text = found
    outcome = FAIL if problem or not share <= 1.0 else PASS
    where = f"{host_name} {host.version(host_name)}"
    record = Record("", kind, outcome, case=name, host=where, share=share, text=problem or text)
    book.close(record, model)


def _misplaced(case: GraphCase, place: host.Placement, runs: int) -> str:
    wanted = (place.total - case.on_cpu, case.partitions, (runs,) * case.partitions, 0)
    found = (place.on_gpu, place.partitions, place.runs, place.failures)
    if found == wanted:
        return ""
    return f"nodes, partitions, runs, failures are {found}, not {wanted}: {place.sentences}"


@pytest.mark.parametrize(
    "graph",
    [*graph_cases.CASES, *graph_cases.OF_TFLITE, *unpool_graphs.CASES, *spectrum_graphs.CASES],
    ids=lambda c: c.name,
)
def test_graph(
    graph: GraphCase, host_name: str, beside: str | None, options: Mapping[str, Any], book: Book
) -> None:
    model = graph.build()
    content, feeds = model.to_bytes(), feeds_of(model)
    told, kernels = host.oracle(content, host_name)
    expected = host.cached_on_cpu(content, feeds, told, kernels)
    chosen = {**options, "force": True}
    if graph.on_cpu:
        chosen["exclude"] = graph.excluded
    run = host.run_on_gpu(content, feeds, host_name, chosen, beside or kernels)
    problem = _misplaced(graph, run.placement, RUNS)
    name = f"{graph.name} beside XNNPACK" if beside else graph.name
    close(book, "graph", name, host_name, problem, worst(expected, run.outputs), content)


def test_resize_and_back(
    host_name: str, beside: str | None, options: Mapping[str, Any], book: Book
) -> None:
    """After another size and the first one again, nothing of the former size is left."""
    content = graph_cases.resizable().to_bytes()
    delegate = host.load_delegate(host_name, {**options, "force": True})
    kernels = beside or "reference"
    gpu = host.interpreter(content, host_name, kernels, experimental_delegates=[delegate])
    cpu = host.interpreter(content, host_name)
    expected: list[Outputs] = []
    got: list[Outputs] = []
    for k, size in enumerate([(6, 5), (11, 13), (1, 1), (6, 5), (11, 13)]):
        values = np.random.default_rng(k).uniform(-1, 1, (1, *size, 4)).astype(np.float32)
        for interpreter, found in ((cpu, expected), (gpu, got)):
            index = interpreter.get_input_details()[0]["index"]
            interpreter.resize_tensor_input(index, values.shape)
            interpreter.allocate_tensors()
            found += host.invoke(interpreter, [[values]])
    place = host.placement(delegate)
    problem = "" if place.on_gpu == place.total else " ".join(place.sentences)
    name = f"resize and back with {kernels} kernels"
    close(book, "graph", name, host_name, problem, worst(expected, got), content)


def test_two_interpreters(
    host_name: str, beside: str | None, options: Mapping[str, Any], book: Book
) -> None:
    """Two interpreters share one delegate and are invoked alternately with different data."""
    model = graph_cases.diamonds()
    content, feeds = model.to_bytes(), feeds_of(model, 6)
    expected = host.cached_on_cpu(content, feeds, host_name)
    delegate = host.load_delegate(host_name, {**options, "force": True})
    kernels = beside or "reference"
    both = [
        host.interpreter(content, host_name, kernels, experimental_delegates=[delegate])
        for _ in range(2)
    ]
    for interpreter in both:
        interpreter.allocate_tensors()
    got = [host.invoke(both[k % 2], [feed])[0] for k, feed in enumerate(feeds)]
    failures = host.placement(delegate).failures
    problem = f"{failures} failures" if failures else ""
    name = f"two interpreters on one delegate with {kernels} kernels"
    close(book, "graph", name, host_name, problem, worst(expected, got), content)


@pytest.mark.parametrize("pattern", graph_cases.FUSED)
def test_fused_pattern(
    pattern: str, host_name: str, options: Mapping[str, Any], book: Book,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A pattern that passes merge is compared with the same nodes one by one, and with the CPU."""
    model = graph_cases.FUSED[pattern]()
    content, feeds = model.to_bytes(), feeds_of(model)
    expected = host.cached_on_cpu(content, feeds, host_name)
    chosen = {**options, "force": True}
    nodes: list[int] = []

    def counted(*given: Any, run: Any = passes.run) -> Any:
        result = run(*given)
        nodes.append(len(result.nodes))
        return result

    monkeypatch.setattr(passes, "run", counted)
    fused = host.run_on_gpu(content, feeds, host_name, chosen)
    # Lowerings rely on the canonical form; the other passes only save work.
    needed = tuple(p for p in passes.PASSES if p.__name__ == "canonical")
    monkeypatch.setattr(passes, "PASSES", needed)
    parts = host.run_on_gpu(content, feeds, host_name, chosen)
    problem = ""
    if fused.placement.on_gpu != fused.placement.total:
        problem = " ".join(fused.placement.sentences)
    elif len(nodes) < 2 or nodes[0] >= nodes[-1]:
        problem = f"nothing was merged: {nodes} nodes with and without passes"
    found = max(worst(expected, fused.outputs), worst(parts.outputs, fused.outputs))
    close(book, "fused", pattern, host_name, problem, found, content)
