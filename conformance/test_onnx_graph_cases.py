"""Graph-level cases and random graphs as ONNX twins: our provider against the CPU provider, each
run several times with other data, with a count of where every node ran."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance import onnx_host
from conformance.host import Outputs, Placement
from conformance.models import graph_cases, onnx_twins
from conformance.models.graph_cases import GraphCase
from conformance.models.tflite import Model
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import graphs as random_graphs
from conformance.test_graph_cases import RUNS, feeds_of, worst

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
SEEDS = range(random_graphs.SIMPLE)


@pytest.fixture
def wanted(pytestconfig: pytest.Config) -> str | None:
    """Returns the adapter that the run was asked to use."""
    found: str | None = pytestconfig.getoption("--adapter")
    return found


def close(
    book: Book, kind: str, name: str, problem: str, found: tuple[float, str], model: bytes
) -> None:
    """Records a graph case; `problem` says which nodes ran in the wrong place."""
    share, text = found
    outcome = FAIL if problem or not share <= 1.0 else PASS
    label = onnx_host.label()
    record = Record("", kind, outcome, case=name, host=label, share=share, text=problem or text)
    book.close(record, model)


def _misplaced(place: Placement, on_cpu: int, runs: int, partitions: int | None = None) -> str:
    """Returns a sentence if other nodes than the excluded ones stay on the CPU, or partitions did
    not run."""
    count = place.partitions if partitions is None else partitions
    wanted = (place.total - on_cpu, count, (runs,) * count, 0)
    found = (place.on_gpu, place.partitions, place.runs, place.failures)
    if found == wanted:
        return ""
    return f"nodes, partitions, runs, failures are {found}, not {wanted}: {place.sentences}"


@pytest.mark.parametrize("graph", graph_cases.CASES, ids=lambda c: c.name)
def test_graph(graph: GraphCase, book: Book, wanted: str | None) -> None:
    model = graph.build()
    content, feeds = onnx_twins.convert(model), feeds_of(model)
    expected = onnx_host.run_on_cpu(content, feeds)
    run = onnx_host.run_on_gpu(content, feeds, wanted, exclude=graph.excluded)
    problem = _misplaced(run.placement, graph.on_cpu, RUNS, graph.partitions)
    close(book, "graph", graph.name, problem, worst(expected, run.outputs), content)


def test_parts_of_a_split(book: Book, wanted: str | None) -> None:
    """Both outputs of the node are outputs of the model, and the CPU reads one of them, too."""
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("Tanh", ["a"], ["c"], name="cpu0"),
        helper.make_node("Mul", ["c", "b"], ["y"]),
    ]
    shapes = {"y": [2, 3, 5], "b": [2, 3, 5], "a": [2, 3, 5]}
    given, *made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {"x": [2, 6, 5], **shapes}.items()
    )
    graph = helper.make_graph(nodes, "split", [given], made)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    content = bytes(proto.SerializeToString())
    numbers = np.random.default_rng(3)
    feeds = [[numbers.uniform(-1, 1, (2, 6, 5)).astype(np.float32)] for _ in range(RUNS)]
    run = onnx_host.run_on_gpu(content, feeds, wanted, exclude="cpu0")
    problem = _misplaced(run.placement, 1, RUNS, 2)
    found = worst(onnx_host.run_on_cpu(content, feeds), run.outputs)
    close(book, "graph", "two parts of a split", problem, found, content)


def test_resize_and_back(book: Book, wanted: str | None) -> None:
    """Extents are symbolic: one session runs another size and the first one again."""
    content = onnx_twins.convert(graph_cases.resizable())
    feeds = []
    for k, size in enumerate([(6, 5), (11, 13), (1, 1), (6, 5), (11, 13)]):
        values = np.random.default_rng(k).uniform(-1, 1, (1, *size, 4))
        feeds.append([values.astype(np.float32)])
    run = onnx_host.run_on_gpu(content, feeds, wanted)
    problem = _misplaced(run.placement, 0, len(feeds), 1)
    found = worst(onnx_host.run_on_cpu(content, feeds), run.outputs)
    close(book, "graph", "resize and back", problem, found, content)


def test_two_sessions(book: Book, wanted: str | None) -> None:
    """Two sessions of one model run alternately with different data."""
    model = graph_cases.diamonds()
    content, feeds = onnx_twins.convert(model), feeds_of(model, 6)
    both = [onnx_host.session(content, wanted) for _ in range(2)]
    got: list[Outputs] = [onnx_host.invoke(both[k % 2], [feed])[0] for k, feed in enumerate(feeds)]
    problems = [_misplaced(onnx_host.placement(made), 0, 3, 1) for made in both]
    found = worst(onnx_host.run_on_cpu(content, feeds), got)
    close(book, "graph", "two sessions", " ".join(filter(None, problems)), found, content)


@pytest.mark.parametrize("pattern", graph_cases.FUSED)
def test_fused_pattern(pattern: str, book: Book, wanted: str | None) -> None:
    """A pattern that passes merge is between the transposes of NCHW operators."""
    model = graph_cases.FUSED[pattern]()
    content, feeds = onnx_twins.convert(model), feeds_of(model)
    run = onnx_host.run_on_gpu(content, feeds, wanted)
    problem = _misplaced(run.placement, 0, RUNS, 1)
    found = worst(onnx_host.run_on_cpu(content, feeds), run.outputs)
    close(book, "fused", pattern, problem, found, content)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graph(seed: int, book: Book, wanted: str | None) -> None:
    model, feeds = random_graphs.build(seed)
    content = onnx_twins.convert(model)
    expected = onnx_host.run_on_cpu(content, feeds)
    foreign = _foreign(model)
    run = onnx_host.run_on_gpu(content, feeds, wanted, exclude=",".join(foreign))
    problem = _misplaced(run.placement, len(foreign), len(feeds))
    found = worst(expected, run.outputs)
    close(book, "graphs", f"seed {seed}", problem, found, content)


def _foreign(model: Model) -> list[Any]:
    """Returns the names of the nodes that stay on the CPU."""
    made = [o.outputs[0] for o in model.operators if o.op in random_graphs.ON_THE_CPU]
    return [model.tensors[t].name for t in made]
