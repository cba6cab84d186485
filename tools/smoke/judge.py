"""Decides whether a foreign Python's answers are right: compares the answers of `scenarios.py`
there with those here, on x86-64."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CLOSE = 1e-4  # of an output's largest magnitude; of quantized ones, one step
SAME = ("nodes", "on_gpu", "partitions", "runs", "failures", "warnings")  # as here


@dataclass
class Verdict:
    """The verdict on a model in a host: how far its answers are from ours here and from the
    foreign host's CPU kernels, as shares of the tolerance, and sentences on what is wrong."""

    host: str
    name: str
    kind: str
    nodes: str = ""
    seconds: float = 0.0
    from_native: float = 0.0
    from_cpu: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Returns a row of the report's table."""
        state = "; ".join(self.wrong) or "agrees"
        share = f"{_short(self.from_native)} | {_short(self.from_cpu)}"
        return (
            f"| {self.host} | {self.name} | {self.kind} | {self.nodes} | {share} "
            f"| {self.seconds:.0f} s | {state} |"
        )


HEAD = (
    "| host | model | kind | on the GPU | off x86-64 | off the CPU there | start and two runs | |",
    "|---|---|---|---|---|---|---|---|",
)


def judge(folder: Path, native: Path, foreign: Path, hosts: Iterable[str]) -> list[Verdict]:
    """Returns the verdicts on all models of these hosts: `folder` as `scenarios.py` reads it, and
    the two answers to it."""
    listed = json.loads((folder / "scenarios.json").read_text(encoding="utf-8"))["scenarios"]
    found = []
    for host in hosts:
        suffix = ".onnx" if host == "onnxruntime" else ".tflite"
        own = [scenario for scenario in listed if scenario["model"].endswith(suffix)]
        here, there = facts(native, host), facts(foreign, host)
        found += [_judged(host, s, here, there, native, foreign) for s in own]
    return found


def facts(answers: Path, host: str) -> dict[str, Any]:
    """Returns the facts that a Python wrote about a host; no models where it wrote nothing."""
    try:
        found: dict[str, Any] = json.loads((answers / f"{host}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"host": host, "scenarios": {}}
    return found


def _judged(
    host: str, scenario: Mapping[str, Any], here: Any, there: Any, native: Path, foreign: Path
) -> Verdict:
    name = scenario["name"]
    verdict = Verdict(there["host"], name, scenario["kind"])
    own, got = here["scenarios"].get(name), there["scenarios"].get(name)
    for where, told in (("x86-64", own), (there.get("machine", "the other"), got)):
        if not told or "error" in told:
            verdict.wrong.append(f"{where}: {told['error'] if told else 'no answer'}")
    if verdict.wrong:
        return verdict
    verdict.nodes, verdict.seconds = f"{got['on_gpu']} of {got['nodes']}", got["seconds"]
    verdict.wrong += [f"{key}: {got[key]}, not {own[key]}" for key in SAME if got[key] != own[key]]
    if here.get("package") == there.get("package"):
        verdict.wrong.append("both ran one package")
    if not got["on_gpu"] or got["failures"]:
        verdict.wrong.append("nothing ran on the GPU, or a run failed")
    file = f"{host}-{name}.npz"
    with np.load(native / file) as wanted, np.load(foreign / file) as found:
        ours = outputs(found, "gpu")
        verdict.from_native = share(outputs(wanted, "gpu"), ours, scenario["step"])
        verdict.from_cpu = share(outputs(found, "cpu"), ours, scenario["step"])
    for who, value in (("x86-64", verdict.from_native), ("its CPU", verdict.from_cpu)):
        if not value <= 1:
            verdict.wrong.append(f"{_short(value)} of what it may be off {who}")
    if _alike(ours):
        verdict.wrong.append("two inputs have one answer")
    return verdict


def outputs(held: Any, kind: str) -> dict[str, Any]:
    """Returns the arrays of one kind, by run and position."""
    return {key: held[key] for key in held.files if key.startswith(f"{kind}.")}


def share(expected: Mapping[str, Any], got: Mapping[str, Any], step: float) -> float:
    """Returns the largest difference of any output, as a share of the tolerance: one step, or CLOSE
    of its largest magnitude. Infinite where shapes, types or outputs differ, or an output has a
    NaN."""
    wanted, found = list(expected.values()), list(got.values())
    if not wanted or len(wanted) != len(found):
        return float("inf")
    return max(_of_one(a, b, step) for a, b in zip(wanted, found, strict=True))


def _of_one(expected: Any, got: Any, step: float) -> float:
    if expected.shape != got.shape or expected.dtype != got.dtype or not expected.size:
        return float("inf")
    a, b = expected.astype(np.float64), got.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    # Levels lie a step apart but for the rounding of the product with it.
    allowed = step * (1 + 1e-5) or CLOSE * float(np.abs(a).max()) or CLOSE
    return float(np.abs(a - b).max()) / allowed


def _alike(ours: Mapping[str, Any]) -> bool:
    """Whether the first outputs of the first two runs are equal."""
    first = [value for key, value in ours.items() if key.endswith(".0")]
    return len(first) > 1 and bool(np.array_equal(first[0], first[1]))


def _short(share: float) -> str:
    return f"{share:.2g}"


def table(verdicts: Sequence[Verdict]) -> str:
    """Returns the report's table."""
    return "\n".join([*HEAD, *(verdict.row() for verdict in verdicts)]) + "\n"


def spoil(native: Path) -> str:
    """Makes one expected number wrong, by its sign or by two levels, and returns the name of its
    answer. A smoke test that still agrees checks nothing."""
    path = sorted(native.glob("*.npz"))[0]
    with np.load(path) as held:
        values = dict(held.items())
    key = next(key for key in values if key.startswith("gpu."))
    worst = np.unravel_index(np.abs(values[key].astype(np.float64)).argmax(), values[key].shape)
    wrong = values[key].copy()
    wrong[worst] = -wrong[worst] if wrong.dtype.kind == "f" else wrong[worst] ^ 2
    np.savez(path, **(values | {key: wrong}))
    return f"{path.stem} {key}"
