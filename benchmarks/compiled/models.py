"""Estimates for user models: ours beside onnxruntime's WebGPU provider, on the null devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

from benchmarks.compiled.gpus import target
from benchmarks.compiled.networks import Estimate, of_plans
from benchmarks.compiled.peers import webgpu_model
from benchmarks.engine import Unavailable
from benchmarks.today import mean
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.ir import Graph, Plan, Target


def table(
    models: Sequence[Path],
    families: Sequence[str],
    peers: Sequence[str],
    told: Callable[[Estimate], None],
    tuning: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Prints a row for each model and family, calls `told` with it, and prints the ratios. With
    settings, there is a row with them before each."""
    print("| model | GPU | ours, us | peak | launches | WebGPU, us | peak | launches | ratio |")
    print("|---" * 9 + "|")
    ratios = []
    for model in models:
        planned = plans(model, families)
        chosen = plans(model, families, tuning) if tuning else []
        title = ", ".join(f"{key}={value}" for key, value in tuning.items())
        for family in families:
            mine = joined(planned, family)
            if tuning:
                other = joined(chosen, family)
                ratio = f"{other.us / mine.us:.2f} of its time"
                print(f"| {model.stem}, {title} | {family} | {_cells(other)} | {ratio} | | | |")
                told(other)
            try:
                theirs = _webgpu(model, family, peers)
                ratios.append(theirs.us / mine.us)
                cells = f"{_cells(theirs)} | {ratios[-1]:.2f}"
            except Unavailable as error:
                cells = f"{error} | | | "
            print(f"| {model.stem} | {family} | {_cells(mine)} | {cells} |", flush=True)
            told(mine)
    if ratios:
        print(f"geometric mean {mean(ratios):.2f}, worst {min(ratios):.2f}")
    return 0


def _webgpu(model: Path, family: str, peers: Sequence[str]) -> Estimate:
    """Returns the estimate. Raises Unavailable, also where nothing can be run: it needs an
    input."""
    if "webgpu" not in peers or not model.with_suffix(".npz").exists():
        raise Unavailable("not run")
    return webgpu_model(model, family)


def _cells(found: Estimate) -> str:
    unsure = "?" * (found.unsure > 0)
    return f"{found.us:.0f}{unsure} | {found.share:.0%} | {len(found.dispatches)}"


def joined(planned: Sequence[dict[str, Plan]], family: str) -> Estimate:
    """Returns the estimate of all partitions of a model for a family."""
    made = of_plans({k: each[family] for k, each in enumerate(planned)}, family)
    return Estimate(family, [one for each in made.values() for one in each.dispatches])


def plans(
    model: Path, families: Sequence[str], tuning: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Plan]]:
    """Returns the plans of a model's partitions for each family, whatever device there is. They
    are made while the host prepares the model, since the weights are its. Raises Unavailable
    where there is no partition."""
    found: list[dict[str, Plan]] = []
    compile_for = compiler.compile

    def also(graph: Graph, for_device: Target) -> Plan:
        targets = {family: replace(target(family), tuning=tuning) for family in families}
        found.append({family: compile_for(graph, each) for family, each in targets.items()})
        return compile_for(graph, for_device)

    with patch.object(compiler, "compile", also):
        (_in_tflite if model.suffix == ".tflite" else _in_onnxruntime)(model)
    if not found:
        raise Unavailable(f"{model.name} has no partition on the GPU")
    return found


def _in_tflite(model: Path) -> None:
    host = hosts.host()
    host.allocate(host.plain(model, experimental_delegates=[host.delegate()]))


def _in_onnxruntime(model: Path) -> None:
    import onnxruntime

    import tflgpu_plugin

    tflgpu_plugin.register()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    names = [tflgpu_plugin.get_ep_name(), "CPUExecutionProvider"]
    onnxruntime.InferenceSession(str(model), options, providers=names)
