"""Models in the hosts of whatever Python runs this file, through the line that users write.

Usage: python scenarios.py FOLDER ANSWERS [HOST...]      HOST: tflite-runtime, ai-edge-litert,
onnxruntime; by default those that are installed.

Needs numpy, a host and the installed wheel, nothing of the checkout: it runs here and in foreign
Pythons alike, and `judge.py` compares what both wrote. It reads

    FOLDER/scenarios.json   {"options": {...}, "scenarios": [{"name", "model", "kind"}, ...]}
    FOLDER/<model>          a .tflite or an .onnx file (any Unicode name)
    FOLDER/<name>.npz       inputs "0.0", "0.1", ...: run, then place among the model's inputs

(`models.py` writes these; other keys of a scenario are for the judge; `options` go to the delegate
or the provider) and leaves, for each host and written anew after each model, so that a crash keeps
what was before it,

    ANSWERS/<host>.json          {"machine", "system", "python", "host", "plugin", "package",
                                  "adapters", "scenarios": {name: {"nodes", "on_gpu",
                                  "partitions", "runs", "failures", "adapter", "reasons",
                                  "seconds", "warnings"} or {"error"}}}
    ANSWERS/<host>-<name>.npz    "gpu.0.0", ... and "cpu.0.0", ...: run, then place among the
                                  outputs; ours, and the host's own kernels'

Exit status 1 when a model raised."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import platform
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

MODULES = {
    "tflite-runtime": "tflite_runtime",
    "ai-edge-litert": "ai_edge_litert",
    "onnxruntime": "onnxruntime",
}
CPU, PROVIDER = "CPUExecutionProvider", "TflGpuExecutionProvider"
Runs = list[list[Any]]  # of arrays: run, then place


def installed() -> list[str]:
    return [name for name, module in MODULES.items() if importlib.util.find_spec(module)]


def suffix(host: str) -> str:
    """Returns the suffix of the models that a host reads."""
    return ".onnx" if host == "onnxruntime" else ".tflite"


def in_tflite(host: str, model: Path, feeds: Runs, options: dict[str, Any] | None) -> Any:
    """Returns the outputs of all runs and our report, or on the host's kernels (options: None) the
    outputs."""
    import tflgpu_plugin

    module: Any = importlib.import_module(f"{MODULES[host]}.interpreter")
    if options is None:
        interpreter, delegate = module.Interpreter(str(model)), None
    else:
        delegate = module.load_delegate("tflgpu", options)
        interpreter = module.Interpreter(str(model), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    found = []
    for feed in feeds:
        for detail, value in zip(interpreter.get_input_details(), feed, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        found.append([interpreter.get_tensor(detail["index"]) for detail in outputs])
    return found, delegate and tflgpu_plugin.report(delegate)


def in_onnxruntime(_: str, model: Path, feeds: Runs, options: dict[str, Any] | None) -> Any:
    """Returns the same for a session."""
    import onnxruntime

    import tflgpu_plugin

    tflgpu_plugin.register()
    ours = [] if options is None else [(PROVIDER, options)]
    session = onnxruntime.InferenceSession(str(model), providers=[*ours, CPU])
    if ours:
        tflgpu_plugin.assert_used(session)
    names = [value.name for value in session.get_inputs()]
    found = [session.run(None, dict(zip(names, feed, strict=True))) for feed in feeds]
    return found, tflgpu_plugin.report(session) if ours else None


def told(report: Any) -> dict[str, Any]:
    """Returns a report's numbers that other platforms must repeat."""
    nodes, partitions = report.nodes, report.partitions
    return {
        "nodes": len(nodes),
        "on_gpu": sum(node.where == "gpu" for node in nodes),
        "partitions": len(partitions),
        "runs": [partition.runs for partition in partitions],
        "failures": sum(partition.failures for partition in partitions),
        "adapter": report.adapter.name if report.adapter else "",
        "reasons": sorted({f"{node.op}: {node.reason}" for node in nodes if node.reason}),
    }


def fed(path: Path) -> Runs:
    """Returns the inputs of a scenario."""
    with np.load(path) as held:
        keys = sorted(tuple(map(int, key.split("."))) for key in held.files)
        runs: Runs = [[] for _ in range(1 + max(run for run, _ in keys))]
        for run, place in keys:
            runs[run].append(held[f"{run}.{place}"])
    return runs


def numbered(kind: str, runs: Runs) -> dict[str, Any]:
    """Returns arrays by their names in a file of answers."""
    return {f"{kind}.{k}.{n}": value for k, run in enumerate(runs) for n, value in enumerate(run)}


def run(host: str, folder: Path, scenario: dict[str, Any], options: Any, into: Path) -> Any:
    """One model in one host: its answers go to a file, its facts are returned."""
    start = time.perf_counter()
    with_host = in_onnxruntime if host == "onnxruntime" else in_tflite
    model, feeds = folder / scenario["model"], fed(folder / f"{scenario['name']}.npz")
    try:
        with warnings.catch_warnings(record=True) as said:
            gpu, report = with_host(host, model, feeds, options)
        facts = told(report)
        facts["warnings"] = sorted({f"{w.category.__name__}: {w.message}" for w in said})
        facts["seconds"] = round(time.perf_counter() - start, 1)
        cpu, _ = with_host(host, model, feeds, None)
    except Exception as error:  # hosts raise all kinds
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    answers = into / f"{host}-{scenario['name']}.npz"
    np.savez(answers, **numbered("gpu", gpu), **numbered("cpu", cpu))
    return facts


def identity(host: str) -> dict[str, Any]:
    """Returns the facts about this Python and its packages."""
    import tflgpu_plugin
    from tflgpu_plugin.runtime import adapter

    version = importlib.metadata.version
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "host": f"{host} {version(host)}",
        "plugin": version("tflgpu-plugin"),
        "package": str(Path(tflgpu_plugin.__file__).parent),
        "adapters": [f"{found.name}, {found.backend}" for found in adapter.adapters()],
    }


def answer(host: str, folder: Path, into: Path) -> int:
    """Runs all models that a host reads; returns how many raised."""
    given = json.loads((folder / "scenarios.json").read_text(encoding="utf-8"))
    told: dict[str, Any] = {}
    for scenario in given["scenarios"]:
        if not scenario["model"].endswith(suffix(host)):
            continue
        told[scenario["name"]] = run(host, folder, scenario, given["options"], into)
        found = {**identity(host), "scenarios": told}
        text = json.dumps(found, indent=1, ensure_ascii=True)
        (into / f"{host}.json").write_text(text, encoding="utf-8")
        print(f"{host} {scenario['name']}: {told[scenario['name']]!a}", flush=True)
    return sum("error" in facts for facts in told.values())


def main(arguments: list[str]) -> int:
    folder, into, *hosts = arguments
    Path(into).mkdir(parents=True, exist_ok=True)
    return int(sum(answer(host, Path(folder), Path(into)) for host in hosts or installed()) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
