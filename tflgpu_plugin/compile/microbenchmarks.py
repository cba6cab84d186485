"""Microbenchmarks that choose a device's settings, in at most 150 ms: they time the kernels of
`compile.probes`.

Each measurement compares the vendor's setting with others, which take turns, by the medians of
their times. Another setting is chosen only if it is clearly faster. When time is up, the settings
that were not measured stay the vendor's, and the next process measures them."""

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

BUDGET_SECONDS = 0.15  # for all measurements
GAIN = 0.9  # another setting must take at most this fraction of the vendor's time
ROUNDS = 5  # samples of each kernel, of which the median is taken
MAX_GROWTH = 1.25  # the time per thread grows by less with more threads, except by noise
SAMPLE_NANOSECONDS = 300_000.0  # of the launches of one sample, together
MAX_LAUNCHES = 32
FIRST_FRACTION = 16  # the first launch has this fraction (1 / 16) of the threads
FEW_STEPS, MANY_STEPS = 8, 136  # of one workgroup: the difference is the time of the iterations
BUSY_PIXELS = 1 << 14  # of the layer for which the vendor's tile is chosen


class Clock(Protocol):
    """Times kernels on a device."""

    def prepare(self, probes: Sequence[Probe]) -> Mapping[Probe, str]:
        """Compiles kernels, and returns the driver's error for each that it refuses."""

    def nanoseconds(self, probe: Probe, launches: int) -> float:
        """Returns the time of this many launches. Raises NativeError."""

    def release(self) -> None:
        """Releases the memory of all kernels that were timed."""


class TimeUp(Exception):
    """There is no time left for another measurement."""


def measure(device: Device, earlier: Calibration | None = None) -> Calibration:
    """Measures a device, and returns the results together with those of an earlier process. Raises
    NativeError when the device fails."""
    return Calibrator(device.target, DeviceClock(device)).run(earlier)


@dataclass
class Calibrator:
    """The measurements of a device, and their results so far (see `ir.calibration.Calibration`)."""

    target: Target
    clock: Clock
    now: Callable[[], float] = time.monotonic
    tuning: dict[str, str] = field(default_factory=dict)
    threads: int = 0
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    prepared: set[Probe] = field(default_factory=set)
    refused: set[Probe] = field(default_factory=set)
    timed: bool = False  # whether any kernel has been timed
    launch: float = 0.0  # nanoseconds that a launch takes by itself; 0 if not measured
    slowest: float = 0.0  # seconds to compile a kernel, among those compiled together
    end: float = 0.0  # when time is up, by the clock `now`

    def run(self, earlier: Calibration | None = None) -> Calibration:
        """Runs the measurements, the most important ones first, or those for which an `earlier`
        process had no time. Returns the results. If there was no time for any of these again, the
        next process does not try them (`Calibration.left`)."""
        begin, state = self.now(), ""
        self.end = begin + BUDGET_SECONDS
        if earlier:
            self._resume(earlier)
        pending = [name for name in MEASUREMENTS if not earlier or name in earlier.left]
        left = list(pending)
        try:
            while left:
                MEASUREMENTS[left[0]](self)
                del left[0]
        except TimeUp:
            state = f"incomplete: time was up before the measurement of {left[0]}"
        taken = 1e3 * (self.now() - begin)
        log.say(f"tflgpu: measured the device in {taken:.0f} ms: {self.tuning}", log.DEBUG)
        again = () if earlier and left == pending else tuple(left)
        taken += earlier.milliseconds if earlier else 0.0
        return Calibration(self.tuning, self.threads, self.figures, state, round(taken, 1), again)

    def _resume(self, earlier: Calibration) -> None:
        """Continues from the results of an earlier process."""
        self.tuning, self.threads = dict(earlier.tuning), earlier.threads
        self.figures = {name: dict(times) for name, times in earlier.figures.items()}
        self.launch = 1e3 * self.figures.get("launches", {}).get("launch", 0.0)

    def times(self, probes: Sequence[Probe]) -> dict[Probe, float]:
        """Returns the median time of one launch of each of these kernels, in nanoseconds; those
        that the driver refuses are left out. Raises TimeUp."""
        able = self._prepared(list(dict.fromkeys(probes)))
        counts, longest = dict[Probe, int](), 0.0
        for probe in able:
            if not self.timed:  # with fewer threads first, in case the device is slow
                part = replace(probe, threads=probe.threads // FIRST_FRACTION)
                longest = self.clock.nanoseconds(part, 1) * FIRST_FRACTION * 1e-9
                self.timed = True
            self._require(longest)
            once = self.clock.nanoseconds(probe, 1)
            counts[probe] = max(1, min(MAX_LAUNCHES, int(SAMPLE_NANOSECONDS / max(once, 1.0))))
            longest = max(longest, once * counts[probe] * 1e-9)
        found: dict[Probe, list[float]] = {probe: [] for probe in able}
        for _ in range(ROUNDS):
            for probe, count in counts.items():
                self._require(longest)
                found[probe].append(self.clock.nanoseconds(probe, count) / count)
        self.clock.release()
        return {probe: median(some) for probe, some in found.items()}

    def compare(self, measurement: str, probes: Mapping[str, Probe], row: str) -> str:
        """Times `probes`, by setting, and records the times as the figures of this measurement.
        Returns the best setting: the vendor's (`row`) unless another one is clearly faster."""
        taken = self.times(list(probes.values()))
        by = {name: taken[probe] for name, probe in probes.items() if probe in taken}
        self.figures[measurement] = {name: round(ns / 1e3, 3) for name, ns in by.items()}
        if by.get(row, 0.0) <= 0.0:  # there is nothing to compare with
            return row
        best = min(by, key=lambda name: by[name])
        return best if 0.0 < by[best] <= GAIN * by[row] else row

    def choose(self, name: str, value: str, row: str) -> None:
        """Sets a setting to this value if it differs from the vendor's (`row`) and is valid."""
        if value != row and value in SETTINGS[name]:
            self.tuning[name] = value

    def product_probe(self) -> Probe:
        """Returns the probe of a dense product with the settings so far."""
        target = replace(self.target, tuning={**self.target.tuning, **self.tuning})
        tile = tiles.choose_tile(target, 64, BUSY_PIXELS)
        return Probe(weights=tile.weights, lanes=tile.lanes, ahead=tile.ahead)

    def _prepared(self, probes: list[Probe]) -> list[Probe]:
        """Compiles the kernels that are not compiled yet, and returns the probes that the driver
        has not refused. Raises TimeUp."""
        new = [probe for probe in probes if _kernel(probe) not in self.prepared]
        missing = list({_kernel(probe): probe for probe in new}.values())
        alone = 0 if self.prepared else 1  # the first, in case the driver is slow
        for some in (missing[:alone], missing[alone:]):
            begin = self.now()
            self._require(self.slowest * len(some))
            refused = self.clock.prepare(some) if some else {}
            self.slowest = max(self.slowest, (self.now() - begin) / max(len(some), 1))
            self.prepared |= {_kernel(probe) for probe in some}
            self.refused |= {_kernel(probe) for probe in refused}
            for reason in refused.values():
                log.say(f"tflgpu: a kernel to measure was refused: {reason}", log.INFO)
        return [probe for probe in probes if _kernel(probe) not in self.refused]

    def _require(self, seconds: float) -> None:
        """Raises TimeUp unless this many seconds are left."""
        if self.now() + seconds > self.end:
            raise TimeUp


def _kernel(probe: Probe) -> Probe:
    """Returns a key that is equal for all launches of one kernel."""
    return replace(probe, threads=0, steps=0)


def measure_weights(calibrator: Calibrator) -> None:
    """Chooses how lanes get weights: from global memory, by shuffles, or through workgroup
    memory."""
    base = calibrator.product_probe()
    kinds = [k for k in tiles.WEIGHTS if k != "shuffle" or calibrator.target.shuffles]
    probes = {kind: replace(base, weights=kind) for kind in kinds}
    calibrator.choose("weights", calibrator.compare("weights", probes, base.weights), base.weights)


def measure_lanes(calibrator: Calibrator) -> None:
    """Chooses the size of workgroups."""
    base = calibrator.product_probe()
    found = {calibrator.target.workgroup(n) for n in (32, 64, 128)} | {base.lanes}
    probes = {str(n): replace(base, lanes=n) for n in sorted(found)}
    row = str(base.lanes)
    calibrator.choose("lanes", calibrator.compare("lanes", probes, row), row)


def measure_ahead(calibrator: Calibrator) -> None:
    """Chooses for how many iterations inputs are loaded before the first product."""
    base = calibrator.product_probe()
    probes = {str(n): replace(base, ahead=n) for n in {1, 4, base.ahead}}
    row = str(base.ahead)
    calibrator.choose("ahead", calibrator.compare("ahead", probes, row), row)


def measure_threads(calibrator: Calibrator) -> None:
    """Finds how many threads saturate the device: with more, the time grows in proportion."""
    base = calibrator.product_probe()
    probes = {n: replace(base, threads=n) for n in THREADS}
    taken = calibrator.times(list(probes.values()))
    by = {
        n: taken[probe] for n, probe in probes.items() if taken.get(probe, 0.0) > calibrator.launch
    }
    calibrator.figures["threads"] = {str(n): round(ns / 1e3, 3) for n, ns in by.items()}
    each = {n: (ns - calibrator.launch) / n for n, ns in by.items()}
    if len(each) < len(THREADS):
        return
    if any(each[2 * n] > each[n] * MAX_GROWTH for n in THREADS[:-1]):
        return
    full = next(n for n in THREADS if GAIN * each[n] <= min(each.values()))
    if full != calibrator.target.threads:
        calibrator.threads = full


def measure_launches(calibrator: Calibrator) -> None:
    """Finds how many iterations of a thread take as long as a launch does by itself."""
    lone = replace(calibrator.product_probe(), threads=1)
    few, many = (replace(lone, steps=steps) for steps in (FEW_STEPS, MANY_STEPS))
    taken = calibrator.times([few, many])
    if len(taken) < 2 or not 0 < taken[few] < taken[many]:
        return
    iteration = (taken[many] - taken[few]) / (MANY_STEPS - FEW_STEPS)
    launch = taken[few] - FEW_STEPS * iteration
    if launch <= 0:
        return
    calibrator.launch = launch
    figures = {"launch": launch, "iteration": iteration}
    calibrator.figures["launches"] = {name: round(ns / 1e3, 3) for name, ns in figures.items()}
    row, ratio = split_depth.FEW_SERIAL, launch / iteration
    if not row / 2 < ratio < row * 2:
        values = (int(value) for value in SETTINGS["serial"])
        nearest = min(values, key=lambda value: abs(log2(value / ratio)))
        calibrator.choose("serial", str(nearest), str(row))


def measure_attention(calibrator: Calibrator) -> None:
    """Chooses the attention tile: rows that share keys, and slices of keys loaded at once."""
    target = calibrator.target
    if not target.shuffles:
        return
    probes = dict[str, Probe]()
    for rows, ahead in (attention.starting(target), (2, 2), (4, 1), (4, 2), (4, 4)):
        most = attention.most_ahead(target, rows, VALUES, ahead)
        probe = Probe("scores", "", target.workgroup(32), most, rows, steps=4)
        probes.setdefault(f"{rows}x{most}", probe)
    row = next(iter(probes))
    calibrator.choose("attention_tile", calibrator.compare("attention_tile", probes, row), row)


def measure_half(calibrator: Calibrator) -> None:
    """Finds whether float32 products of values stored as float16 are faster than float16 ones."""
    if calibrator.target.halves != "native":
        return
    base = replace(calibrator.product_probe(), ahead=4)
    if base.weights == "shuffle":  # such products stay float32
        base = replace(base, weights="global")
    probes = {"float16": replace(base, kind="half"), "float32": replace(base, kind="stored")}
    if calibrator.compare("half_products", probes, "float16") == "float32":
        calibrator.tuning["half_products"] = "never"


def measure_bytes(calibrator: Calibrator) -> None:
    """Finds whether integer dot products of bytes are faster than float32 products."""
    base = calibrator.product_probe()
    probes = {"float32": base, "bytes": replace(base, kind="bytes")}
    if calibrator.compare("byte_products", probes, "float32") == "bytes":
        calibrator.tuning["byte_products"] = "always"


MEASUREMENTS: Mapping[str, Callable[[Calibrator], None]] = {
    function.__name__.removeprefix("measure_"): function
    for function in (
        measure_weights, measure_lanes, measure_ahead, measure_launches, measure_threads,
        measure_attention, measure_half, measure_bytes,
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
