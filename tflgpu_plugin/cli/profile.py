"""`tflgpu profile MODEL`: measures the launches of a .tflite or .onnx model on the device, and the
nodes that its host computes on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from tflgpu_plugin import engine
from tflgpu_plugin.cli.given import inputs, options
from tflgpu_plugin.engine import Partition
from tflgpu_plugin.harness import subjects
from tflgpu_plugin.harness.built import ELSEWHERE, Built, moved, part_of, require_runs
from tflgpu_plugin.harness.compare import HostRun, Running
from tflgpu_plugin.harness.inputs import Given
from tflgpu_plugin.importer.partition import work
from tflgpu_plugin.ir import Plan
from tflgpu_plugin.options import parse
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.recording import Run, now, operators, recorded

NO_TIMESTAMPS = (
    "This adapter cannot take timestamps inside a pass, or not as many as this model needs."
)


@dataclass(frozen=True)
class Request:
    """The arguments: a model with its inputs, in a host, with options of the plugin, and what the
    adapter can do at most, if that is known: 1e9 operations and bytes per second."""

    model: Path
    given: Given
    options: Mapping[str, str]
    host: str | None = None
    runs: int = 20
    peak_gflops: float | None = None
    peak_gbs: float | None = None


@dataclass(frozen=True)
class Launch:
    """One launch of a partition (numbered as in reports): its median time on the device, the host's
    nodes that it computes (as operator and number, and by their names in the model), and what these
    reach in all their launches: 1e9 operations and bytes of tensors per second, and the part of the
    adapter's limit. None where that is not known."""

    partition: int
    kernel: str
    milliseconds: float
    nodes: tuple[str, ...]
    names: tuple[str, ...]
    gflops: float | None = None
    gbs: float | None = None
    of_limit: float | None = None


@dataclass(frozen=True)
class CpuNode:
    """A node that the host computes on the CPU, and its median time."""

    operator: str
    name: str
    milliseconds: float


@dataclass(frozen=True)
class Recording:
    """The measured inferences: begin and end of each, all runs of partitions, the partitions'
    numbers in reports by their numbers in runs, and the entries of the host's own profile."""

    inferences: tuple[tuple[int, int], ...]
    runs: tuple[Run, ...]
    numbers: Mapping[int, int]
    host_runs: tuple[HostRun, ...]


@dataclass(frozen=True)
class Profile:
    """The launches and nodes in the order in which they run; the median times of an inference
    and outside of partitions, in the host and its own kernels; `chosen_shapes` are those
    of inputs with dynamic extents."""

    model: str
    host: str
    adapter: str
    inference_ms: float
    outside_ms: float
    launches: tuple[Launch, ...]
    cpu_nodes: tuple[CpuNode, ...]
    recording: Recording = field(repr=False)
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(launch.milliseconds for launch in self.launches)

    def by_kernel(self) -> list[tuple[str, int, float]]:
        """Returns (kernel, launches, milliseconds), the most expensive first."""
        found: dict[str, list[float]] = {}
        for launch in self.launches:
            found.setdefault(launch.kernel, []).append(launch.milliseconds)
        rows = [(name, len(times), sum(times)) for name, times in found.items()]
        return sorted(rows, key=lambda row: -row[2])

    def as_json(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name != "recording"}
        for name in ("launches", "cpu_nodes"):
            found[name] = [asdict(one) for one in found[name]]
        return found | {"total_ms": self.total}


def request(model: Path, arguments: Mapping[str, Any]) -> Request:
    """Returns the request of the command-line arguments. Raises BadInput."""
    get = arguments.__getitem__
    return Request(model, inputs(arguments), options(arguments), get("host"), get("runs"),
                   get("peak_gflops"), get("peak_gbs"))  # fmt: skip


def profiled(request: Request, progress: Callable[[float], None] = lambda part: None) -> Profile:
    """Measures inferences after one that is not counted. Raises ValueError or RuntimeError with a
    sentence, also when nothing is on the GPU or it has no timestamps."""
    subject = subjects.opened(request.model, request.host, request.given)
    info = adapter.select(parse(request.options).adapter)
    adapter.open_device(info)
    with engine.watch() as built:
        running = subject.start(request.options, profiled=True)
        running.run()
        found = _recorded(running, request.runs, progress)
    require_runs(running.report())
    if not found.runs:
        raise RuntimeError(ELSEWHERE)
    if not all(run.timestamps for run in found.runs):
        raise RuntimeError(NO_TIMESTAMPS)
    launches = [*_launches(found, built)]
    times = [end - begin for begin, end in found.inferences]
    outside = median(outside_runs(found))
    return Profile(request.model.name, subject.host, info.name, median(times) / 1e6, outside / 1e6,
                   tuple(_with_limits(launches, request)), tuple(_cpu_nodes(found.host_runs)),
                   found, subject.chosen_shapes)  # fmt: skip


def _recorded(running: Running, count: int, progress: Callable[[float], None]) -> Recording:
    inferences = []
    with recorded() as runs:
        for done in range(1, count + 1):
            begin = now()
            running.run()
            inferences.append((begin, now()))
            progress(done / count)
    numbers = {one.key: one.number for one in running.report().partitions}
    return Recording(tuple(inferences), tuple(runs), numbers, tuple(running.host_runs()[-count:]))


def outside_runs(found: Recording) -> Iterator[int]:
    """Yields the time of each inference outside of its runs of partitions."""
    for begin, end in found.inferences:
        within = (run for run in found.runs if begin <= run.start <= end)
        yield end - begin - sum(run.end - run.start for run in within)


def _launches(found: Recording, built: Built) -> Iterator[Launch]:
    """Yields the launches of each plan that has run. A plan may run several times in an inference,
    in a loop."""
    groups: dict[tuple[int, tuple[str, ...]], list[Run]] = {}
    for run in found.runs:
        groups.setdefault((run.partition, run.labels), []).append(run)
    order = sorted(groups, key=lambda group: found.numbers.get(group[0], 0))
    for group in order:
        runs = [[*run.launches()] for run in groups[group]]
        each = len(runs) / len(found.inferences)
        times = [median(end - begin for _, begin, end in launch) * each / 1e6
                 for launch in zip(*runs, strict=True)]  # fmt: skip
        plain = [
            Launch(found.numbers.get(group[0], 0), kernel, taken, (), tuple(names.split(", ")))
            for (kernel, _, names), taken in zip(
                (label.partition(": ") for label in group[1]), times, strict=True
            )
        ]
        yield from _explained(plain, group, built)


def _explained(
    launches: Sequence[Launch], group: tuple[int, tuple[str, ...]], built: Built
) -> Iterable[Launch]:
    """Returns the launches of a plan, each with the host's nodes that it computes and their
    throughput."""
    for partition, instance in built:
        if (partition.number, tuple(instance.labels.split("\n"))) == group:
            return _reached(launches, partition, instance.plan)
    return launches  # a stored plan, whose graph was not needed


def _reached(launches: Sequence[Launch], partition: Partition, plan: Plan) -> Iterator[Launch]:
    graph, words = partition.graph, operators(partition.graph)
    known = all(graph.shape(port.tensor) == port.shape for port in plan.inputs)
    seconds: dict[tuple[int, ...], float] = {}
    for made, launch in zip(plan.dispatches, launches, strict=True):
        seconds[made.nodes] = seconds.get(made.nodes, 0) + launch.milliseconds / 1e3
    for made, launch in zip(plan.dispatches, launches, strict=True):
        one = replace(launch, nodes=tuple(words.get(n, str(n)) for n in made.nodes))
        part = part_of(graph, made)
        if known and part.nodes and (taken := seconds[made.nodes] * 1e9):
            one = replace(one, gflops=2 * work(part) / taken, gbs=moved(part) / taken)
        yield one


def _with_limits(launches: Iterable[Launch], request: Request) -> Iterator[Launch]:
    """Yields the launches, each with the larger of the two parts of the adapter's limits that it
    reaches."""
    for one in launches:
        parts = [
            reached / limit
            for reached, limit in ((one.gflops, request.peak_gflops), (one.gbs, request.peak_gbs))
            if reached is not None and limit is not None
        ]
        yield replace(one, of_limit=max(parts)) if parts else one


def _cpu_nodes(runs: Sequence[HostRun]) -> Iterator[CpuNode]:
    times: dict[tuple[str, str], list[int]] = {}
    for run in runs:
        for node in run.nodes:
            times.setdefault((node.operator, node.name), []).append(node.end - node.begin)
    for (operator, name), taken in times.items():
        yield CpuNode(operator, name, median(taken) * len(taken) / len(runs) / 1e6)
