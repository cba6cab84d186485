"""`tflgpu profile MODEL`: measures the device time of each launch of a .tflite or .onnx model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin import engine
from tflgpu_plugin.engine import Instance, Partition
from tflgpu_plugin.harness import subjects
from tflgpu_plugin.harness.built import operators, placed, ran
from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Port
from tflgpu_plugin.options import parse
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo


@dataclass(frozen=True)
class Launch:
    """One launch of a partition (numbered as in reports): its time on the device, and the host's
    nodes that it computes, as operator and number."""

    partition: int
    kernel: str
    milliseconds: float
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """The launches in the order in which they run; `chosen_shapes` are those of
    inputs with dynamic extents."""

    model: str
    host: str
    adapter: str
    launches: tuple[Launch, ...]
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
        return asdict(self) | {"total_ms": self.total}


def profiled(path: Path, options: Mapping[str, str], host: str | None, runs: int) -> Profile:
    """Returns the device time of every launch of the partitions that one inference runs. Raises
    ValueError or RuntimeError with a sentence, also when nothing is on the GPU or it has no
    timestamps."""
    subject, info = subjects.opened(path, host), _opened(options)
    with engine.watch() as built:
        running = subject.start(options)
        running.run()
        launches = [
            launch
            for number, partition, instance in placed(ran(built), running.report())
            for launch in _launches(number, partition, instance, runs)
        ]
    return Profile(path.name, subject.host, info.name, tuple(launches), subject.chosen_shapes)


def _launches(number: int, partition: Partition, instance: Instance, runs: int) -> list[Launch]:
    names = operators(partition)
    times = launch_times(instance, runs)
    return [
        Launch(number, made.label, taken, tuple(names.get(n, str(n)) for n in made.nodes))
        for made, taken in zip(instance.plan.dispatches, times, strict=True)
    ]


def launch_times(instance: Instance, runs: int) -> list[float]:
    """Returns milliseconds on the device of each launch of the plan, medians of `runs` runs on
    seeded values after one that is not counted. Raises native.NativeError with a sentence when the
    adapter has no timestamps."""
    inputs, states = _values(instance.plan.inputs), _values(instance.plan.states)
    found = []
    for _ in range(1 + runs):
        found.append(np.diff(instance.timestamps(inputs, states)) / 1e6)
    return [float(time) for time in np.median(found[1:], axis=0)]


def _values(ports: Sequence[Port]) -> list[Array]:
    """Returns an array per port: floats in 0 to 1, and zeros for types that may be indices."""
    random = np.random.default_rng(0)
    kinds = [(port.shape, np.dtype(NUMPY_DTYPES[port.dtype])) for port in ports]
    return [
        random.random(shape).astype(kind) if kind.kind == "f" else np.zeros(shape, kind)
        for shape, kind in kinds
    ]


def _opened(options: Mapping[str, str]) -> AdapterInfo:
    info = adapter.select(parse(options).adapter)
    adapter.open_device(info)
    return info
