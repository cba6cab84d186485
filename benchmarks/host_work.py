"""python -m benchmarks.host_work: measures what an inference costs beside the work of the device.

Per network: the time of a run in the library less the time from its first dispatch to the end of
its last (timestamps of the same run). Beside it is the floor of every run: a run of one dispatch,
and one copy of the inputs and outputs in host memory. Then what the delegate and the provider add
to their runs (TensorFlow Lite's set_tensor and get_tensor copy once more; ONNX Runtime takes and
gives arrays as they are), and how both frontends compare from end to end. Everything takes turns in
one process. On a busy machine the quickest runs say more than the medians, which then hold waiting
for a core."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

import tflgpu_plugin
from benchmarks.floor import Copies, Small
from benchmarks.networks import NETWORKS, Network
from benchmarks.to_graph import to_graph
from benchmarks.to_onnx import to_onnx
from benchmarks.to_tflite import to_tflite
from tflgpu_plugin import native
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.harness import hosts, onnx
from tflgpu_plugin.ir import Array
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, create

HEAD = (
    "", "dispatches", "MB moved", "allowed us", "median us", "best us",
    "one dispatch, median", "best", "copies, median", "best",
)  # fmt: skip
COLUMNS = ("", "median ms", "best ms", "added us, median", "added us, best")
FIXED, EACH = 100, 1  # allowed microseconds: for a run, and for each of its dispatches


@dataclass
class Frontend:
    """A frontend: `run` makes one inference. Milliseconds of each, and those of its partitions."""

    name: str
    run: Callable[[], object]
    report: Callable[[], Any]
    whole: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)

    def turn(self) -> None:
        start = time.perf_counter()
        self.run()
        self.whole.append((time.perf_counter() - start) * 1e3)
        self.inside.append(sum(partition.milliseconds for partition in self.report().partitions))

    def added(self) -> list[float]:
        """Returns microseconds outside of the library's runs, the host's own work included."""
        return [(w - i) * 1e3 for w, i in zip(self.whole, self.inside, strict=True)]


def timed(instance: Instance, inputs: list[Array], outputs: list[Array]) -> tuple[int, int]:
    """Returns (total, device) in nanoseconds: the time of one run, and the time on the device from
    before the first dispatch to the end of the last. Raises NativeError on an adapter without
    timestamps inside a pass.

    A timestamp is slow on software drivers, which draw an empty picture after it. The time of one
    is measured between the two at the end of the run, and both are subtracted from the total."""
    options, ends = native.ffi.new("tg_run_options *"), native.ffi.new("uint64_t[3]")
    options.timestamps, options.ends_only = ends, 1
    instance.run(inputs, (), options, outputs)
    timestamps = 2 * (ends[2] - ends[1])
    return int(instance.counters().last_nanoseconds - timestamps), int(ends[1] - ends[0])


def measure(network: Network, runs: int) -> None:
    """Prints the tables of one network."""
    picture = network.picture()
    device = adapter.open_device(adapter.select(None))
    plan = compiler.compile(to_graph(network), device.target)
    instance = Instance(create(plan, device, True))
    outputs = instance.new_outputs()  # memory that is used again, as hosts do
    frontends = [*_delegate(network, picture), *_provider(network, picture)]
    small, copies = Small.on(device), Copies(plan)
    work, alone, copied = list[float](), list[float](), list[float]()
    for _ in range(runs + 2):
        wall, on_device = timed(instance, [picture], outputs)
        work.append((wall - on_device) / 1e3)
        for frontend in frontends:
            frontend.turn()
        alone.append(small.run() / 1e3)  # it finds the caches as a run of a network leaves them
        copied.append(copies.run() / 1e3)
    count = len(plan.dispatches)
    moved = sum(port.bytes for port in plan.inputs + plan.outputs) / 1e6
    cells = [network.name, str(count), f"{moved:.1f}", str(FIXED + EACH * count)]
    for values in (work, alone, copied):
        del values[:2]  # the first runs have no commands that were encoded during the one before
        cells += [f"{median(values):.0f}", f"{min(values):.0f}"]
    _table(HEAD, [cells])
    _frontends(frontends)


def _frontends(frontends: list[Frontend]) -> None:
    rows = []
    for frontend in frontends:
        added = frontend.added()[2:]
        times = f"{median(frontend.whole):.2f}", f"{min(frontend.whole):.2f}"
        rows.append([frontend.name, *times, f"{median(added):.0f}", f"{min(added):.0f}"])
    _table(COLUMNS, rows)
    if len(frontends) == 2:
        first, second = (frontend.whole for frontend in frontends)
        ratio, best = median(second) / median(first), min(second) / min(first)
        print(f"provider / delegate: {ratio:.3f} (medians), {best:.3f} (best)\n")


def _delegate(network: Network, picture: Any) -> Iterator[Frontend]:
    if not hosts.installed():
        return
    host = hosts.host()
    delegate = host.delegate()
    interpreter = host.interpreter(to_tflite(network), experimental_delegates=[delegate])
    (given,) = (detail["index"] for detail in interpreter.get_input_details())
    results = [detail["index"] for detail in interpreter.get_output_details()]

    def run() -> None:
        interpreter.set_tensor(given, picture)
        interpreter.invoke()
        for result in results:
            interpreter.get_tensor(result)

    yield Frontend(host.title, run, lambda: tflgpu_plugin.report(delegate))


def _provider(network: Network, picture: Any) -> Iterator[Frontend]:
    if onnx.missing():
        return
    session = onnx.opened(to_onnx(network), onnx.settings(), {})
    planes = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))
    yield Frontend(
        onnx.host(),
        lambda: session.run(None, {"input": planes}),
        lambda: tflgpu_plugin.report(session),
    )


def _table(head: tuple[str, ...], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host_work", description=__doc__)
    parser.add_argument("--networks", nargs="*", metavar="PART", help="only these")
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    for name, build in NETWORKS.items():
        if not given.networks or any(part in name for part in given.networks):
            measure(build(), given.runs)


if __name__ == "__main__":
    main()
