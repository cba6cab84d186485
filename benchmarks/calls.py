"""python -m benchmarks.calls: counts how often a run calls the driver, function by function.

A layer (count_calls.c) counts in steady-state runs: with mapped inputs and outputs, as on adapters
that share the host's memory, and with staging buffers, as on discrete ones. `--family NAME` runs on
a null device of AMD's driver, a discrete one, where all time is the host's. Times are microseconds
of the library's run."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import layers
from benchmarks.compiled import driver
from benchmarks.engine import ROOT, Unavailable
from benchmarks.floor import Small
from benchmarks.networks import NETWORKS
from benchmarks.to_graph import to_graph
from tflgpu_plugin import native
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array
from tflgpu_plugin.runtime import adapter, selftest
from tflgpu_plugin.runtime.device import Device
from tflgpu_plugin.runtime.program import Instance, create

ONE = "one dispatch"
SETTLED = 10  # runs before those that are counted; the ninth one is like those after it


@dataclass(frozen=True)
class Run:
    """The calls of each function in one run, on average, and its time. `staged`: through staging
    buffers."""

    dispatches: int
    staged: bool
    calls: dict[str, float]
    median_us: float
    best_us: float


def counted(name: str, staged: bool, family: str = "", runs: int = 20) -> Run:
    """Returns the calls of a run of a network (or of ONE dispatch), in a separate process. Raises
    Unavailable."""
    counter = layers.build(Path(__file__).with_name("count_calls.c"))
    if family:
        given = driver.environment(family, Path(), counter)
    else:
        given = os.environ | layers.variables(counter)
    given |= {"TFLGPU_NO_MAPPING": "1"} if staged else {}
    command = (sys.executable, "-m", "benchmarks.calls", "--under", str(counter))
    done = subprocess.run(
        [*command, "--networks", name, "--runs", str(runs)],
        cwd=ROOT, env=given, text=True, capture_output=True, timeout=600,
    )  # fmt: skip
    if done.returncode:
        raise Unavailable(f"Nothing can be counted here:\n{done.stdout}{done.stderr}")
    found = Run(**json.loads(done.stdout.splitlines()[-1]))
    if not found.calls:
        raise Unavailable("The adapter is not reached by way of Vulkan's layers.")
    return found


def _count(layer: str, name: str, runs: int) -> Run:
    """Counts in a process that has the layer."""
    device = _device()
    instance, given = _instance(name, device)
    outputs, options = instance.new_outputs(), native.ffi.new("tg_run_options *")
    for _ in range(SETTLED):
        instance.run(given, (), options, outputs)
    counts, times = _Counts(layer), []
    before = counts.now()
    for _ in range(runs):
        instance.run(given, (), options, outputs)
        times.append(int(instance.counters().last_nanoseconds) / 1e3)
    calls = {key: (now - before.get(key, 0)) / runs for key, now in counts.now().items()}
    called = {key: calls[key] for key in sorted(calls) if calls[key]}
    staged = adapter.MAPPING not in device.target.features
    return Run(len(instance.plan.dispatches), staged, called, median(times), min(times))


def _device() -> Device:
    if "RADV_FORCE_FAMILY" in os.environ:  # the self-test takes kernels that run
        selftest.subgroup_size = selftest.least_subgroup = lambda device: 0
    return adapter.open_device(adapter.select(None))


def _instance(name: str, device: Device) -> tuple[Instance, list[Array]]:
    if name == ONE:
        small = Small.on(device)
        return small.instance, small.given()
    network = NETWORKS[name]()
    plan = compiler.compile(to_graph(network), device.target)
    return Instance(create(plan, device, True)), [network.picture()]


class _Counts:
    """The counters of the layer that this process runs under."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._library.count_name.restype = ctypes.c_char_p
        self._library.count_of.restype = ctypes.c_uint64

    def now(self) -> dict[str, int]:
        known = range(self._library.count_known())
        return {self._library.count_name(k).decode(): self._library.count_of(k) for k in known}


def _show(names: list[str], family: str, runs: int, each: bool) -> None:
    print(
        "| | dispatches | inputs and outputs | calls | median us | best us |\n" + "|---" * 6 + "|"
    )
    for name in names:
        for staged in (True,) if family else (False, True):
            found = counted(name, staged, family, runs)
            way = "staged" if found.staged else "mapped"
            total = f"{sum(found.calls.values()):g}"
            times = f"{found.median_us:.0f} | {found.best_us:.0f}"
            print(f"| {name} | {found.dispatches} | {way} | {total} | {times} |", flush=True)
            for function, count in found.calls.items() if each else ():
                print(f"    {function} {count:g}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    names = [ONE, *NETWORKS]
    parser.add_argument("--networks", nargs="+", choices=names, default=names, help="only these")
    parser.add_argument("--family", default="", help="of GPUs, as RADV calls them: a null device")
    parser.add_argument("--runs", type=int, default=20, help="that are counted")
    parser.add_argument("--each", action="store_true", help="show each function")
    parser.add_argument("--under", metavar="LAYER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.under:
        print(json.dumps(asdict(_count(given.under, given.networks[0], given.runs))), flush=True)
        os._exit(0)  # nothing is put away: a null device has no queue to wait for
    try:
        _show(given.networks, given.family, given.runs, given.each)
    except Unavailable as error:
        print(f"NOT RUN: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
