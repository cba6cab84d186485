"""Asks a device about itself, in at most 150 ms: times the kernels of `compile.probes` and decides
by these times.

Each question compares the vendor's setting with others, in turns, by medians. Another setting is
chosen only if it is clearly faster. When time is up, the questions that are left keep the vendor's
settings, and the next process asks them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from statistics import median
from typing import TYPE_CHECKING, Protocol

from tflgpu_plugin import log, native, threads
from tflgpu_plugin.compile.probes import VALUES, Probe
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ir.calibration import SETTINGS, THREADS, Calibration
from tflgpu_plugin.ops import attention, split_depth, tiles
from tflgpu_plugin.runtime.pipelines import PipelineError
from tflgpu_plugin.runtime.program import Instance, Program

if TYPE_CHECKING:
    from tflgpu_plugin.runtime.device import Device

SECONDS = 0.15  # for all questions
GAIN = 0.9  # another setting must take at most this part of the time of the vendor's
ROUNDS = 5  # times of each kernel; their median counts
STEADY = 1.25  # times of a thread beside more threads grow by less, except by noise
LONG = 300_000.0  # nanoseconds of launches that are timed together
MAX_LAUNCHES = 32
PART = 16  # of the threads, in the first launch
FEW_STEPS, MANY_STEPS = 8, 136  # of a single workgroup: their difference is that of iterations
BUSY = 1 << 14  # pixels of a layer whose tile stands for the vendor's


class Clock(Protocol):
    """Times kernels on a device."""

    def prepare(self, probes: Sequence[Probe]) -> Mapping[Probe, str]:
        """Compiles kernels, and returns those that the driver refuses, with its reasons."""

    def nanoseconds(self, probe: Probe, launches: int) -> float:
        """Returns the time of so many launches. Raises NativeError."""

    def release(self) -> None:
        """Releases the memory of all kernels that were timed."""


class Spent(Exception):
    """Time is up."""


def measured(device: Device, earlier: Calibration | None = None) -> Calibration:
    """Returns the device's answers, with those that an earlier process got. Raises NativeError when
    the device fails."""
    return Survey(device.target, DeviceClock(device)).made(earlier)


@dataclass
class Survey:
    """The questions to a device and their answers so far."""

    target: Target
    clock: Clock
    now: Callable[[], float] = time.monotonic
    tuning: dict[str, str] = field(default_factory=dict)
    threads: int = 0
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    prepared: set[Probe] = field(default_factory=set)
    refused: set[Probe] = field(default_factory=set)
    tried: bool = False  # whether any time is known
    launch: float = 0.0  # nanoseconds, as far as known
    slowest: float = 0.0  # seconds to compile a kernel, with those of the same question
    end: float = 0.0

    def made(self, earlier: Calibration | None = None) -> Calibration:
        """Asks every question, those first that most depends on; or those that an earlier process
        had no time for. If there was time for none of these either, they are not asked again."""
        begin, state = self.now(), ""
        self.end = begin + SECONDS
        if earlier:
            self._take(earlier)
        asked = [name for name in QUESTIONS if not earlier or name in earlier.left]
        left = list(asked)
        try:
            while left:
                QUESTIONS[left[0]](self)
                del left[0]
        except Spent:
            state = f"incomplete: time was up before the question of {left[0]}"
        taken = 1e3 * (self.now() - begin)
        log.say(f"tflgpu: measured the device in {taken:.0f} ms: {self.tuning}", log.DEBUG)
        again = () if earlier and left == asked else tuple(left)
        taken += earlier.milliseconds if earlier else 0.0
        return Calibration(self.tuning, self.threads, self.figures, state, round(taken, 1), again)

    def _take(self, earlier: Calibration) -> None:
        """Takes over the answers of an earlier process."""
        self.tuning, self.threads = dict(earlier.tuning), earlier.threads
        self.figures = {name: dict(times) for name, times in earlier.figures.items()}
        self.launch = 1e3 * self.figures.get("launches", {}).get("launch", 0.0)

    def times(self, probes: Sequence[Probe]) -> dict[Probe, float]:
        """Returns the median times of one launch of each of these kernels in nanoseconds, without
        those that the driver refuses. Raises Spent."""
        able = self._prepared(list(dict.fromkeys(probes)))
        counts, longest = dict[Probe, int](), 0.0
        for probe in able:
            if not self.tried:  # a part of it first, in case the device is slow
                part = replace(probe, threads=probe.threads // PART)
                longest = self.clock.nanoseconds(part, 1) * PART * 1e-9
                self.tried = True
            self._left(longest)
            once = self.clock.nanoseconds(probe, 1)
            counts[probe] = max(1, min(MAX_LAUNCHES, int(LONG / max(once, 1.0))))
            longest = max(longest, once * counts[probe] * 1e-9)
        found: dict[Probe, list[float]] = {probe: [] for probe in able}
        for _ in range(ROUNDS):
            for probe, count in counts.items():
                self._left(longest)
                found[probe].append(self.clock.nanoseconds(probe, count) / count)
        self.clock.release()
        return {probe: median(some) for probe, some in found.items()}

    def compare(self, question: str, probes: Mapping[str, Probe], row: str) -> str:
        """Returns the answer, a key of `probes`: that of the vendor's `row` unless another one is
        clearly faster. Its figures are noted."""
        taken = self.times(list(probes.values()))
        by = {name: taken[probe] for name, probe in probes.items() if probe in taken}
        self.figures[question] = {name: round(ns / 1e3, 3) for name, ns in by.items()}
        if by.get(row, 0.0) <= 0.0:  # there is nothing to compare with
            return row
        best = min(by, key=lambda name: by[name])
        return best if 0.0 < by[best] <= GAIN * by[row] else row

    def settle(self, name: str, answer: str, row: str) -> None:
        """Notes an answer that differs from the vendor's, if there is such a setting."""
        if answer != row and answer in SETTINGS[name]:
            self.tuning[name] = answer

    def product(self) -> Probe:
        """Returns the kernel of a dense product by the answers so far."""
        target = replace(self.target, tuning={**self.target.tuning, **self.tuning})
        tile = tiles.choose_tile(target, 64, BUSY)
        return Probe(weights=tile.weights, lanes=tile.lanes, ahead=tile.ahead)

    def _prepared(self, probes: list[Probe]) -> list[Probe]:
        """Compiles those kernels that are not, and returns those that can be timed. Raises
        Spent."""
        new = [probe for probe in probes if _kernel(probe) not in self.prepared]
        missing = list({_kernel(probe): probe for probe in new}.values())
        alone = 0 if self.prepared else 1  # the first, in case the driver is slow
        for some in (missing[:alone], missing[alone:]):
            begin = self.now()
            self._left(self.slowest * len(some))
            refused = self.clock.prepare(some) if some else {}
            self.slowest = max(self.slowest, (self.now() - begin) / max(len(some), 1))
            self.prepared |= {_kernel(probe) for probe in some}
            self.refused |= {_kernel(probe) for probe in refused}
            for reason in refused.values():
                log.say(f"tflgpu: a kernel to measure was refused: {reason}", log.INFO)
        return [probe for probe in probes if _kernel(probe) not in self.refused]

    def _left(self, seconds: float) -> None:
        """Raises Spent unless there is time for something that takes so long."""
        if self.now() + seconds > self.end:
            raise Spent


def _kernel(probe: Probe) -> Probe:
    """Returns what stands for all launches of a kernel."""
    return replace(probe, threads=0, steps=0)


def ask_weights(survey: Survey) -> None:
    """How do lanes get weights: each by itself, by shuffles, or through workgroup memory?"""
    base = survey.product()
    kinds = [k for k in tiles.WEIGHTS if k != "shuffle" or survey.target.shuffles]
    probes = {kind: replace(base, weights=kind) for kind in kinds}
    survey.settle("weights", survey.compare("weights", probes, base.weights), base.weights)


def ask_lanes(survey: Survey) -> None:
    """How many lanes make a workgroup?"""
    base = survey.product()
    found = {survey.target.workgroup(n) for n in (32, 64, 128)} | {base.lanes}
    probes = {str(n): replace(base, lanes=n) for n in sorted(found)}
    row = str(base.lanes)
    survey.settle("lanes", survey.compare("lanes", probes, row), row)


def ask_ahead(survey: Survey) -> None:
    """Do loads for several iterations pay before the first product?"""
    base = survey.product()
    probes = {str(n): replace(base, ahead=n) for n in {1, 4, base.ahead}}
    row = str(base.ahead)
    survey.settle("ahead", survey.compare("ahead", probes, row), row)


def ask_threads(survey: Survey) -> None:
    """With how many threads is the device full, so that more take as much longer?"""
    base = survey.product()
    probes = {n: replace(base, threads=n) for n in THREADS}
    taken = survey.times(list(probes.values()))
    by = {n: taken[probe] for n, probe in probes.items() if taken.get(probe, 0.0) > survey.launch}
    survey.figures["threads"] = {str(n): round(ns / 1e3, 3) for n, ns in by.items()}
    each = {n: (ns - survey.launch) / n for n, ns in by.items()}
    if len(each) < len(THREADS):
        return
    if any(each[2 * n] > each[n] * STEADY for n in THREADS[:-1]):
        return
    full = next(n for n in THREADS if GAIN * each[n] <= min(each.values()))
    if full != survey.target.threads:
        survey.threads = full


def ask_launches(survey: Survey) -> None:
    """How many iterations of a thread take as long as another launch?"""
    lone = replace(survey.product(), threads=1)
    few, many = (replace(lone, steps=steps) for steps in (FEW_STEPS, MANY_STEPS))
    taken = survey.times([few, many])
    if len(taken) < 2 or not 0 < taken[few] < taken[many]:
        return
    iteration = (taken[many] - taken[few]) / (MANY_STEPS - FEW_STEPS)
    launch = taken[few] - FEW_STEPS * iteration
    if launch <= 0:
        return
    survey.launch = launch
    figures = {"launch": launch, "iteration": iteration}
    survey.figures["launches"] = {name: round(ns / 1e3, 3) for name, ns in figures.items()}
    row, asked = split_depth.FEW_SERIAL, launch / iteration
    if not row / 2 < asked < row * 2:
        values = (int(value) for value in SETTINGS["serial"])
        nearest = min(values, key=lambda value: abs(log2(value / asked)))
        survey.settle("serial", str(nearest), str(row))


def ask_attention(survey: Survey) -> None:
    """How many rows share keys, and how many slices of keys are loaded at once?"""
    target = survey.target
    if not target.shuffles:
        return
    probes = dict[str, Probe]()
    for rows, ahead in (attention.starting(target), (2, 2), (4, 1), (4, 2), (4, 4)):
        most = attention.most_ahead(target, rows, VALUES, ahead)
        probe = Probe("scores", "", target.workgroup(32), most, rows, steps=4)
        probes.setdefault(f"{rows}x{most}", probe)
    row = next(iter(probes))
    survey.settle("attention_tile", survey.compare("attention_tile", probes, row), row)


def ask_half(survey: Survey) -> None:
    """Are products in float32 faster than those in float16, if loads and stores are float16?"""
    if survey.target.halves != "native":
        return
    base = replace(survey.product(), ahead=4)
    if base.weights == "shuffle":  # such products stay float32
        base = replace(base, weights="global")
    probes = {"float16": replace(base, kind="half"), "float32": replace(base, kind="stored")}
    if survey.compare("half_products", probes, "float16") == "float32":
        survey.tuning["half_products"] = "never"


def ask_bytes(survey: Survey) -> None:
    """Are products of bytes by integer dot products faster than those of float32?"""
    base = survey.product()
    probes = {"float32": base, "bytes": replace(base, kind="bytes")}
    if survey.compare("byte_products", probes, "float32") == "bytes":
        survey.tuning["byte_products"] = "always"


QUESTIONS: Mapping[str, Callable[[Survey], None]] = {
    ask.__name__.removeprefix("ask_"): ask
    for ask in (
        ask_weights, ask_lanes, ask_ahead, ask_launches, ask_threads, ask_attention, ask_half,
        ask_bytes,
    )
}  # fmt: skip


class DeviceClock:
    """Times kernels by timestamps, or by the times of whole runs where the device takes none."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stamped = {"timestamp-query", "timestamp-query-inside-passes"} <= set(
            device.target.features
        )
        self.instances = dict[tuple[Probe, int], Instance]()

    def prepare(self, probes: Sequence[Probe]) -> Mapping[Probe, str]:
        refused = dict[Probe, str]()

        def make(probe: Probe) -> None:
            try:
                self.device.pipelines.made(probe.pipeline, self.device.handle)
            except PipelineError as error:
                refused[probe] = str(error)

        threads.share(make, probes, "measure", threads.MAX_THREADS)
        for probe in probes:  # drivers may finish compiling only now
            if probe not in refused:
                self._instance(replace(probe, threads=1, steps=FEW_STEPS), 1).run([])
        return refused

    def nanoseconds(self, probe: Probe, launches: int) -> float:
        if not self.stamped:
            more, one = self._wall(probe, launches + 1), self._wall(probe, 1)
            return max(more - one, 0.0)
        options, stamps = native.ffi.new("tg_run_options *"), native.ffi.new("uint64_t[]", 3)
        options.timestamps, options.ends_only = stamps, 1
        self._instance(probe, launches).run([], options=options)
        return float(max(int(stamps[1]) - int(stamps[0]), 0))

    def release(self) -> None:
        self.instances.clear()

    def _wall(self, probe: Probe, launches: int) -> float:
        instance = self._instance(probe, launches)
        instance.run([])
        return float(instance.counters().last_nanoseconds)

    def _instance(self, probe: Probe, launches: int) -> Instance:
        key = probe, launches
        if key not in self.instances:
            program = Program(probe.plan(launches), self.device.handle, self.device.pipelines)
            self.instances[key] = Instance(program)
        return self.instances[key]
