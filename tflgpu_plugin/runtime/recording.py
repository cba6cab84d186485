"""Records the runs of partitions, whichever host asks for them: the times of each run and, from the
device's clock, of each launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.ir import Graph, Node, Plan


@dataclass(frozen=True)
class Run:
    """One run of the partition number `partition`. `start`, `submitted`, `finished` and `end` are
    times that `now` returned: before the inputs were written, after the commands were submitted,
    after the device had finished, and after the results were read. `timestamps` are readings of the
    device's clock, before the first launch and after each launch (with `ends_only`, only after the
    last one). They are empty on an adapter without timestamps. `labels` name the launches."""

    partition: int
    start: int
    submitted: int
    finished: int
    end: int
    timestamps: tuple[int, ...]
    labels: tuple[str, ...]

    @property
    def device(self) -> int:
        """Returns the time on the device."""
        return self.timestamps[-1] - self.timestamps[0] if self.timestamps else 0

    def launches(self) -> Iterator[tuple[str, int, int]]:
        """Yields label, begin and end of each launch. Since the device has a clock of its own, its
        last timestamp is equated with the time when the run was seen to have finished."""
        at = [self.finished + one - self.timestamps[-1] for one in self.timestamps]
        yield from zip(self.labels, at, at[1:], strict=False)


def now() -> int:
    """Returns the current time in nanoseconds, from the clock that recorded runs use."""
    return int(native.load().tg_now())


@contextmanager
def recorded(ends_only: bool = False) -> Iterator[list[Run]]:
    """Yields a list to which all runs of the process are added at the end. `ends_only`: timestamps
    are only taken before and after the launches of a run, which disturbs it less."""
    lib, found = native.load(), list[Run]()
    recorder = native.call(lib.tg_recorder_create, 0, ends_only)
    try:
        yield found
    finally:
        run = lib.tg_recorder_stop(recorder)
        while run:
            found.append(_run(run))
            run = run.next
        lib.tg_recorder_release(recorder)


def _run(run: Any) -> Run:
    timestamps = tuple(native.ffi.unpack(run.timestamps, run.timestamp_count))
    labels = native.ffi.string(run.labels).decode(errors="replace").split("\n")
    return Run(run.partition, run.start, run.submitted, run.finished, run.end, timestamps,
               tuple(labels))  # fmt: skip


def operators(graph: Graph) -> dict[int, str]:
    """Maps the number of each host node to a name made of its operator and its number."""
    return {number: f"{node.host_op or node.op} {number}" for number, node in _sources(graph)}


def _sources(graph: Graph) -> Iterator[tuple[int, Node]]:
    """Yields the number of each host node, with the node of the graph that computes it."""
    for node in graph.nodes:
        for source in node.sources or (node.id,):
            yield source, node


def labels(graph: Graph, plan: Plan) -> str:
    """Returns a line for each launch of a plan: its kernel and the names of the host's nodes that
    it computes."""
    named = {n: node.name for n, node in _sources(graph) if node.name}
    names = operators(graph) | named
    lines = (", ".join(dict.fromkeys(names.get(n, str(n)) for n in made.nodes))
             for made in plan.dispatches)  # fmt: skip
    return "\n".join(
        " ".join(f"{made.label}: {line}".split()) if line else made.label
        for made, line in zip(plan.dispatches, lines, strict=True)
    )
