"""Times this checkout against another one, in turns on one machine:

    python -m benchmarks.paired OTHER_CHECKOUT [--network mobilenet_v1] [--model FILE] [--rounds N]

For each network: the processor time of a run of its plan, without a host. For each model: that of
making a session or interpreter with the plugin. One process of each checkout is kept, with that
checkout's interpreter (.venv) and code; it prints the median of the rounds' ratios, this checkout
over the other one, and the quickest times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
TURNS = {"network": 5, "model": 1}  # runs in one turn


def runner(network: str) -> Callable[[], object]:
    """Returns a run of this network's plan on the best adapter."""
    import numpy as np

    from benchmarks import networks
    from benchmarks.to_graph import to_graph
    from tflgpu_plugin.compile import compiler
    from tflgpu_plugin.runtime import adapter
    from tflgpu_plugin.runtime.program import Instance, Program

    graph = to_graph(getattr(networks, network)())
    device = adapter.open_device(adapter.select(None))
    plan = compiler.compile(graph, device.target)
    instance = Instance(Program(plan, device.handle, device.pipelines))
    rng, shapes = np.random.default_rng(0), [graph.tensors[t].shape for t in graph.inputs]
    values = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    return lambda: instance.run(values, [])


def preparer(model: str) -> Callable[[], object]:
    """Returns the making of a session or an interpreter of this file."""
    import tflgpu_plugin

    if model.endswith(".tflite"):
        from ai_edge_litert.interpreter import Interpreter

        def interpreter() -> object:
            made = Interpreter(
                model, experimental_delegates=[tflgpu_plugin.load_delegate("tflgpu")]
            )
            made.allocate_tensors()
            return made

        return interpreter
    import onnxruntime as ort

    tflgpu_plugin.register()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    providers = ["TflGpuExecutionProvider", "CPUExecutionProvider"]
    return lambda: ort.InferenceSession(model, options, providers=providers)


def work(kind: str, subject: str) -> None:
    """Prints the processor seconds of each turn that a line on the standard input asks for."""
    sys.path[0] = os.getcwd()  # of the checkout, in place of this file's folder
    once = runner(subject) if kind == "network" else preparer(subject)
    once()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(TURNS[kind]):
            once()
        print(json.dumps((time.process_time() - start) / TURNS[kind]), flush=True)


def _started(checkout: Path, kind: str, subject: str) -> subprocess.Popen[str]:
    command = [str(checkout / ".venv/bin/python"), __file__, "--work", kind, subject]
    made = subprocess.Popen(
        command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert made.stdout
    while line := made.stdout.readline():  # hosts print, too
        if line.strip() == "ready":
            return made
    raise SystemExit(f"{subject} cannot be measured in {checkout}.")


def _turn(process: subprocess.Popen[str]) -> float:
    assert process.stdin and process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


def compare(other: Path, kind: str, subject: str, rounds: int) -> str:
    """Returns a line about this subject."""
    pair = [_started(checkout, kind, subject) for checkout in (ROOT, other)]
    try:
        found = [tuple(map(_turn, pair)) for _ in range(rounds)]
    finally:
        for process in pair:
            process.kill()
    ratio, (mine, theirs) = median(a / b for a, b in found), map(min, zip(*found, strict=True))
    what = "a run" if kind == "network" else "preparing"
    name = Path(subject).name
    return f"{name}, {what}: {ratio:.3f}; {mine * 1e3:.1f} ms, the other {theirs * 1e3:.1f} ms"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paired", description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--network", action="append", default=[])
    parser.add_argument("--model", action="append", default=[], type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args(arguments)
    subjects = [("network", name) for name in given.network]
    subjects += [("model", str(path.resolve())) for path in given.model]
    for kind, subject in subjects:
        print(compare(given.other.resolve(), kind, subject, given.rounds), flush=True)


if __name__ == "__main__":
    work(*sys.argv[2:]) if sys.argv[1:2] == ["--work"] else main()
