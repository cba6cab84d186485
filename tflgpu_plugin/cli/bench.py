"""`tflgpu bench MODEL`: times a .tflite or .onnx model on the host's CPU kernels and through this
plugin."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin.cli.given import inputs, options
from tflgpu_plugin.harness import hosts, subjects
from tflgpu_plugin.harness.agreement import difference
from tflgpu_plugin.harness.built import require_runs
from tflgpu_plugin.harness.compare import Running
from tflgpu_plugin.harness.inputs import BadInput, Given
from tflgpu_plugin.options import parse
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.recording import now, recorded

CPU = "cpu"
ENGINES: dict[str, Mapping[str, str] | None] = {  # further options, None for the CPU's kernels
    CPU: None, "gpu": {}, "gpu-f16": {"is_precision_loss_allowed": "1"},
}  # fmt: skip
MEASURED = 21  # inferences at most, whose median shows the parts


@dataclass(frozen=True)
class Request:
    """The arguments: a model with its inputs, in a host, with options of the plugin. Each engine
    runs `warmup` times, then `runs` times or, if `seconds` is given, in turn with the others for
    that long."""

    model: Path
    given: Given
    options: Mapping[str, str]
    host: str | None = None
    engines: tuple[str, ...] = (CPU, "gpu")
    warmup: int = 2
    runs: int = 20
    seconds: float | None = None


@dataclass(frozen=True)
class Parts:
    """The times of one inference on the GPU in milliseconds, all partitions together: writing
    inputs and submitting commands (`upload`), waiting for the device, in which its kernels took
    `kernels` (None on an adapter without timestamps), reading the results, and the host's rest."""

    inference_ms: float
    upload_ms: float
    waiting_ms: float
    kernels_ms: float | None
    download_ms: float
    host_ms: float


@dataclass(frozen=True)
class Timing:
    """The times of one engine in milliseconds: from creation to the first result, and statistics of
    `runs` later inferences. `difference` is the largest between its outputs and the first engine's.
    `host_runs` counts runs of partitions that the GPU could not do, so that the host's own kernels
    did them; where they did all, there are no `parts`."""

    engine: str
    runs: int
    partitions: int
    difference: float
    first_ms: float
    mean_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    best_ms: float
    per_second: float
    parts: Parts | None = None
    host_runs: int = 0


@dataclass(frozen=True)
class Bench:
    """The times of all engines, which ran alternately; `chosen_shapes` are those of inputs with
    dynamic extents."""

    model: str
    host: str
    adapter: str
    timings: tuple[Timing, ...]
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)

    def slower_than(self, milliseconds: float) -> list[Timing]:
        """Returns the timings on the GPU (or on the CPU, if there are no others) whose median is
        larger."""
        on_gpu = [timing for timing in self.timings if timing.engine != CPU]
        return [one for one in on_gpu or self.timings if one.median_ms > milliseconds]


def request(model: Path, arguments: Mapping[str, Any]) -> Request:
    """Returns the request of the command-line arguments. Raises BadInput."""
    get = arguments.__getitem__
    return Request(model, inputs(arguments), options(arguments), get("host"),
                   engines(get("engines")), get("warmup"), get("runs"), get("seconds"))  # fmt: skip


def engines(given: str) -> tuple[str, ...]:
    """Returns the engines in a list such as "cpu,gpu". Raises BadInput."""
    found = tuple(dict.fromkeys(name.strip() for name in given.split(",")))
    if unknown := [name for name in found if name not in ENGINES]:
        raise BadInput(f"There is no engine {unknown[0]!r}; the engines are {', '.join(ENGINES)}.")
    return found


def bench(request: Request, progress: Callable[[float], None] = lambda part: None) -> Bench:
    """Times alternating inferences. Imports and the opening of the device are not counted. Raises
    ValueError or RuntimeError with a sentence."""
    subject = subjects.opened(request.model, request.host, request.given)
    ways = [_options(name, request.options) for name in request.engines]
    used = f"{hosts.THREADS} CPU threads"
    if any(way is not None for way in ways):
        info = adapter.select(parse(request.options).adapter)
        adapter.open_device(info)
        used = info.name
    ready, firsts, results = list[Running](), list[float](), list[list[Any]]()
    for way in ways:
        begin = time.perf_counter()
        ready.append(subject.start(way))
        results.append(ready[-1].run())
        firsts.append(_since(begin))
        if way is not None:
            require_runs(ready[-1].report())
    times = _times(ready, request, progress)
    timings = [
        _timing(name, first, taken, _difference(results[0], result))
        for name, first, taken, result in zip(request.engines, firsts, times, results, strict=True)
    ]
    on_gpu = [
        timing if way is None else _with_parts(timing, running)
        for timing, way, running in zip(timings, ways, ready, strict=True)
    ]
    return Bench(request.model.name, subject.host, used, tuple(on_gpu), subject.chosen_shapes)


def _options(engine: str, given: Mapping[str, str]) -> Mapping[str, str] | None:
    more = ENGINES[engine]
    return None if more is None else {**given, **more}


def _times(
    ready: Sequence[Running], request: Request, progress: Callable[[float], None]
) -> list[list[float]]:
    """Returns the milliseconds of each inference of each engine."""
    for _ in range(request.warmup):
        for running in ready:
            running.run()
    times: list[list[float]] = [[] for _ in ready]
    start, done = time.perf_counter(), 0.0
    while done < 1:
        for taken, running in zip(times, ready, strict=True):
            begin = time.perf_counter()
            running.run()
            taken.append(_since(begin))
        if request.seconds is None:
            done = len(times[0]) / request.runs
        else:
            done = _since(start) / 1e3 / request.seconds
        progress(done)
    return times


def _timing(engine: str, first: float, taken: Sequence[float], apart: float) -> Timing:
    mean = float(np.mean(taken))
    p50, p90, p99 = (float(one) for one in np.percentile(taken, (50, 90, 99)))
    return Timing(engine, len(taken), 0, apart, first, mean, p50, p90, p99, max(taken), min(taken),
                  1e3 / mean)  # fmt: skip


def _with_parts(timing: Timing, running: Running) -> Timing:
    """Returns the timing with the parts of the median of further inferences, which are not in its
    statistics. The parts of one inference add up to its time; means would differ from the medians
    by the few slow inferences."""
    with recorded(ends_only=True) as runs:
        running.run()  # the first one also creates the queries of the timestamps
        spans = [_span(running) for _ in range(min(timing.runs, MEASURED))]
    begin, end = sorted(spans, key=lambda span: span[1] - span[0])[len(spans) // 2]
    within = [run for run in runs if begin <= run.start <= end]
    timing = replace(timing, host_runs=running.report().host_runs)
    if not within:
        return timing
    upload = sum(run.submitted - run.start for run in within) / 1e6
    waiting = sum(run.finished - run.submitted for run in within) / 1e6
    download = sum(run.end - run.finished for run in within) / 1e6
    kernels = sum(run.device for run in within) / 1e6
    inference = (end - begin) / 1e6
    parts = Parts(inference, upload, waiting, kernels if all(run.timestamps for run in within)
                  else None, download, inference - upload - waiting - download)  # fmt: skip
    return replace(timing, parts=parts, partitions=len({run.partition for run in within}))


def _span(running: Running) -> tuple[int, int]:
    """Runs an inference and returns its begin and end by the clock of recorded runs."""
    begin = now()
    running.run()
    return begin, now()


def _difference(first: list[Any], second: list[Any]) -> float:
    """Returns the largest difference between numeric outputs; other outputs are ignored."""
    found = [0.0]
    for ours, theirs in zip(first, second, strict=True):
        one, two = np.asarray(ours), np.asarray(theirs)
        if one.shape == two.shape and one.dtype.kind in "fiub":
            found.append(difference(one, two))
    return float(np.max(found))  # NaN if either is NaN


def _since(begin: float) -> float:
    """Returns the elapsed milliseconds."""
    return (time.perf_counter() - begin) * 1e3
