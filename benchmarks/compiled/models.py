"""Estimates for ONNX models: ours beside onnxruntime's WebGPU provider, on the null devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from benchmarks.compiled.networks import Estimate, of_plans, target
from benchmarks.compiled.peers import webgpu_model
from benchmarks.engine import Unavailable
from benchmarks.today import mean
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir.graph import Graph
from tflgpu_plugin.ir.plan import Plan
from tflgpu_plugin.ir.target import Target


def table(models: Sequence[Path], families: Sequence[str]) -> int:
    """Prints a row for each model and family, and how the ratios lie. Raises Unavailable."""
    print("| model | GPU | ours, us | peak | launches | WebGPU, us | peak | launches | ratio |")
    print("|---" * 9 + "|")
    ratios = []
    for model in models:
        plans = planned(model, families)
        for family in families:
            mine = of_plans({family: plans[family]}, family)[family]
            theirs = webgpu_model(model, family)
            ratios.append(theirs.us / mine.us)
            cells = f"{_cells(mine)} | {_cells(theirs)} | {ratios[-1]:.2f}"
            print(f"| {model.stem} | {family} | {cells} |", flush=True)
    print(f"geometric mean {mean(ratios):.2f}, worst {min(ratios):.2f}")
    return 0


def _cells(found: Estimate) -> str:
    unsure = "?" * (found.unsure > 0)
    return f"{found.us:.0f}{unsure} | {found.share:.0%} | {len(found.dispatches)}"


def planned(model: Path, families: Sequence[str]) -> dict[str, Plan]:
    """What our provider takes of a model, as planned for each family, whatever device there is.
    Planned while the session is made, since weights are the host's. Raises Unavailable where other
    nodes of onnxruntime come between."""
    import onnxruntime

    import tflgpu_plugin

    found: list[dict[str, Plan]] = []
    compile_for = compiler.compile

    def also(graph: Graph, for_device: Target) -> Plan:
        found.append({family: compile_for(graph, target(family)) for family in families})
        return compile_for(graph, for_device)

    tflgpu_plugin.register()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    names = [tflgpu_plugin.get_ep_name(), "CPUExecutionProvider"]
    with patch.object(compiler, "compile", also):
        onnxruntime.InferenceSession(str(model), options, providers=names)
    if len(found) != 1:
        raise Unavailable(f"{model.name} has {len(found)} partitions")
    return found[0]
