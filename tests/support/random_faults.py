"""Faults in random graphs: each seed is a graph of the conformance suite, in a session or in an
interpreter, and a fault at one call of wgpu, before or while it runs. What agrees with the host's
own kernels without the fault agrees with it, or an error says what happened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance import host as hosts
from conformance.host import Array
from conformance.random import graphs, onnx_graphs
from tests.support import faults, onnx_models

# How many calls of wgpu there are at least in most graphs, at one of which the fault is.
CALLS = {"loss": 60, "buffer": 8, "shader": 4, "pipeline": 4, "internal": 4, "mapping": 3,
         "queries": 1}  # fmt: skip
AGREES, STILL = 1e-4, 1e-3  # of the largest value: without the fault, and with it


def distance(found: list[Array], wanted: list[Array]) -> float:
    """Returns the largest difference of outputs, by their largest values."""
    worst = 0.0
    for one, two in zip(found, wanted, strict=True):
        assert one.shape == two.shape
        with np.errstate(invalid="ignore"):
            apart = np.abs(one.astype(np.float64) - two.astype(np.float64))
        same = (one == two) | (np.isnan(one.astype(float)) & np.isnan(two.astype(float)))
        apart = np.where(same, 0.0, apart)  # of scalars, too
        largest = float(np.nanmax(np.abs(two.astype(np.float64)), initial=1e-3))
        worst = max(worst, float(apart.max(initial=0.0)) / largest)
    return worst


class Graph(faults.Session):
    """A graph of a seed; `fits` tells whether it agrees with the host's kernels by itself."""

    def __init__(self, seed: int) -> None:
        self.seed, self.wanted = seed, list[Array]()

    def outputs(self) -> list[Array]:
        raise NotImplementedError

    def fits(self) -> bool:
        self.make()
        return distance(self.outputs(), self.wanted) <= AGREES

    def prepare(self) -> None:
        self.make()
        for _ in range(3):
            self.run()

    def run(self) -> None:
        apart = distance(self.outputs(), self.wanted)
        assert apart <= STILL, f"seed {self.seed}: {apart}"


class OnnxGraph(Graph):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        made = onnx_graphs.build(seed)
        self.model, self.exclude = made.content, ",".join(made.foreign)
        theirs = onnx_models.cpu(self.model, optimize=False)
        names = [value.name for value in theirs.get_inputs()]
        self.feeds = dict(zip(names, made.feeds[0], strict=True))
        self.wanted = theirs.run(None, self.feeds)

    def make(self) -> None:
        options = {"force": "1", "exclude": self.exclude}
        self.made = onnx_models.session(self.model, optimize=False, **options)

    def outputs(self) -> list[Array]:
        return [np.asarray(value) for value in self.made.run(None, self.feeds)]


class TfliteGraph(Graph):
    host = hosts.installed()[0]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        model, feeds = graphs.build(seed)
        self.model, self.feed = model.to_bytes(), feeds[0]
        (self.wanted,) = hosts.run_on_cpu(self.model, [self.feed], self.host)

    def make(self) -> None:
        options = {"force": "1", "exclude": ",".join(graphs.ON_THE_CPU)}
        self.delegate = hosts.load_delegate(self.host, options)
        delegates = [self.delegate]
        self.made = hosts.interpreter(self.model, self.host, experimental_delegates=delegates)
        self.made.allocate_tensors()

    def outputs(self) -> list[Array]:
        (found,) = hosts.invoke(self.made, [self.feed])
        return list(found)


class New(Graph):
    """The same graph, made while the fault is injected, on a new device."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.seed)
        self.graph = graph

    def prepare(self) -> None:
        faults.new_device()

    def work(self) -> None:
        self.graph.make()
        self.graph.run()


def tried(seed: int) -> tuple[str, str, str] | None:
    """Returns the kind of the fault of this seed, its call and its outcome; None for a graph that
    the host refuses, or whose results differ from the host's by more than rounding. Raises what is
    neither an answer nor one of the sentences, also without a fault."""
    chance = random.Random(seed)
    kind, number = chance.choice([*CALLS]), chance.randrange(60)
    number %= CALLS[kind]
    try:
        graph: Graph = (OnnxGraph if seed % 2 else TfliteGraph)(seed)
    except Exception:  # the host refuses it
        return None
    if not graph.fits():
        return None
    new = kind in ("shader", "pipeline", "internal") or chance.random() < 0.5
    case = New(graph) if new else graph
    call, found = faults.once(case, kind, number)
    graph.prepare()
    graph.run()
    return kind, call, found


def sweep(seeds: range) -> Iterator[tuple[int, str]]:
    """Yields each seed that was tried, and its fault with the outcome."""
    for seed in seeds:
        if found := tried(seed):
            kind, call, what = found
            yield seed, f"{kind} at {call}: {what}"


def main(count: int) -> int:
    """Prints the outcome of each seed; returns the number of those that were wrong."""
    wrong, seed = 0, 0
    done: dict[str, int] = {}
    for seed in range(count):
        try:
            for _, what in sweep(range(seed, seed + 1)):
                outcome: Any = what.partition(": ")[2]
                done[outcome] = done.get(outcome, 0) + 1
                print(f"seed {seed}: {what}", flush=True)
        except Exception as error:
            wrong += 1
            print(f"seed {seed}: WRONG: {error}", flush=True)
    print(f"{sum(done.values())} graphs of {count}: {done}, {wrong} wrong", flush=True)
    return wrong
