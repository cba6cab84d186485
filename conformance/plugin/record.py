"""The results of a run: a record for each test, and what was tested, as plain data for JSON.

Outcomes are PASS, FAIL, REFUSED (the plugin left the node to the CPU and said why) and
NOT-CONVERTIBLE (no model of that host can hold the case). Only PASS passes; a refusal that a case
asks for, or that `expect/` lists with a reason, is shown and does not fail the run."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

PASS, FAIL, REFUSED, NOT_CONVERTIBLE = "PASS", "FAIL", "REFUSED", "NOT-CONVERTIBLE"
OUTCOMES = (PASS, FAIL, REFUSED, NOT_CONVERTIBLE)
HOST_PACKAGES = ("tflite-runtime", "ai-edge-litert", "onnxruntime", "onnx")
TEXT = 160  # characters of a sentence in a report, but for failures
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Record:
    """One test. `kind` is op, control, version, graph, random graph, plans, model, onnx, ...

    `share` is the worst error over its tolerance, `ulp` that error in units in the last place of
    the expected value, `expected_refusal` marks a refusal that does not fail the run, `allowed` the
    factor that `expect/` allows on the tolerance, `seconds` the time of the whole test. `judge`
    says where the expected values come from, "" being the host's own CPU kernels."""

    test: str
    kind: str
    outcome: str
    op: str = ""
    family: str = ""
    host: str = ""
    case: str = ""
    dtype: str = ""
    version: int = 0
    text: str = ""
    share: float = 0.0
    ulp: float = 0.0
    seconds: float = 0.0
    expected_refusal: bool = False
    allowed: float = 1.0
    model: str = ""
    judge: str = ""

    @property
    def good(self) -> bool:
        """Whether this record does not fail the run."""
        return self.outcome in (PASS, NOT_CONVERTIBLE) or self.expected_refusal

    def as_json(self) -> dict[str, Any]:
        """Returns the record without the fields that hold their default."""
        defaults = {f.name: f.default for f in fields(self)}
        return {k: _plain(v) for k, v in asdict(self).items() if v != defaults[k]}

    def brief(self) -> Record:
        """Returns a record for storage: only a failure needs the name of its test, and a pass needs
        no text."""
        kept = replace(self, seconds=round(self.seconds, 2))
        if self.outcome == FAIL:
            return kept
        return replace(kept, test="", text="" if self.outcome == PASS else self.text[:TEXT])


def _plain(value: Any) -> Any:
    """Returns floats in short form, as text where JSON has no number for them; and text as plain
    str, because other processes cannot load a subclass of it."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < float("inf") else str(value)
    return value


def from_json(values: Mapping[str, Any]) -> Record:
    """Returns the inverse of `Record.as_json`; unknown fields of later versions are ignored."""
    known = {f.name for f in fields(Record)}
    given = {k: v for k, v in values.items() if k in known}
    given.setdefault("test", "")
    for name in ("share", "ulp"):
        given[name] = float(given.get(name, 0.0))
    return Record(**given)


@dataclass(frozen=True)
class Header:
    """The tested system: the adapter in WebGPU's terms, the hosts, this plugin."""

    adapter: Mapping[str, Any]
    versions: Mapping[str, str]
    machine: str
    commit: str
    package: str = ""  # of the driver, where its own text is empty

    def lines(self) -> list[str]:
        """Returns the header for a terminal."""
        a = self.adapter
        driver = a["driver"] or self.package or "unknown"
        limits = ", ".join(f"{k} {v}" for k, v in a["limits"].items())
        return [
            f"adapter: {a['name']}; vendor {a['vendor']}; driver {driver}; {a['backend']}; "
            f"{a['kind']}; subgroup size used {a['subgroup_size'] or 'none'}",
            f"features: {', '.join(a['features'])}",
            f"limits: {limits}",
            "versions: " + ", ".join(f"{k} {v}" for k, v in self.versions.items()),
            f"machine: {self.machine}; commit {self.commit}",
        ]


# The limits on which plans depend, among the several dozen that an adapter lists.
FEATURES = ("subgroup", "subgroup-barrier", "shader-f16", "timestamp-query")
LIMITS = {
    "max-storage-buffers-per-shader-stage": "storage buffers",
    "max-storage-buffer-binding-size": "binding bytes",
    "max-buffer-size": "buffer bytes",
    "max-compute-workgroups-per-dimension": "groups per dimension",
    "max-compute-invocations-per-workgroup": "invocations",
    "max-compute-workgroup-storage-size": "workgroup bytes",
}


@cache
def header(wanted: str | None, package: str = "") -> Header:
    """Returns the header of a run on the adapter that `wanted` names. Raises NoAdapter with a
    sentence."""
    from tflgpu_plugin.runtime import adapter

    info = adapter.select(wanted)
    device = adapter.open_device(info)
    limits = dict(info.limits)
    described = {
        "name": info.name,
        "vendor": info.vendor,
        "driver": info.driver,
        "backend": info.backend,
        "kind": info.kind,
        "features": [name for name in FEATURES if name in info.features],
        "limits": {label: limits[name] for name, label in LIMITS.items()},
        "subgroup_size": device.target.subgroup_size,
    }
    return Header(described, _versions(), _machine(), _commit(), package)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("tflgpu-plugin", "wgpu", "numpy", *HOST_PACKAGES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> str:
    """Returns system and processor, without names of machines."""
    libc = " ".join(platform.libc_ver()).strip()
    return " ".join(part for part in (platform.system(), platform.machine(), libc) if part)


def _commit() -> str:
    """Returns the checkout's commit, with "+" when files differ from it."""
    if not (ROOT / ".git").exists():  # an installed suite may lie in somebody's repository
        return "unknown"
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
