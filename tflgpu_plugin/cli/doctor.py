"""`tflgpu info`: reports the adapters and hosts of this machine, and what to install when something
is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from tflgpu_plugin.cli import enable
from tflgpu_plugin.compile import calibration
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.ir.calibration import Calibration
from tflgpu_plugin.native import dxc

OLDEST_ONNXRUNTIME = "1.24.4"  # the oldest version that the provider supports
UNMEASURED = "not measured yet: the first model does that"
OTHER_HOSTS = ("tensorflow", "onnxruntime")  # modules, and the packages that contain them


@dataclass(frozen=True)
class Info:
    """The findings; `advice` has sentences. Usable means: at least one adapter and one host."""

    versions: dict[str, str]
    adapters: list[dict[str, Any]]
    hosts: dict[str, str]
    enabled: list[str]
    advice: list[str] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        return bool(self.adapters and self.hosts)


def examine() -> Info:
    """Returns the adapters and hosts of this machine. Never raises for a missing part, which is
    reported in `advice`."""
    adapters, advice = _adapters()
    found = hosts.installed() | other_hosts()
    advice += _missing(found)
    if adapters and all(adapter["kind"] == "software" for adapter in adapters):
        advice.append(
            "Only a software adapter was found: results are correct, but not faster than the "
            "CPU's. If this machine has a GPU, install its Vulkan driver."
        )
    if any(adapter["backend"] == "D3D12" for adapter in adapters):
        advice.append(dxc.found().advice)
    enabled = enable.enabled()
    advice += [
        f"{path} enables the plugin for TensorFlow Lite only; run `tflgpu enable` to enable it "
        "for ONNX Runtime, too."
        for path in enabled
        if not enable.serves_onnxruntime(path)
    ]
    versions = {name: _version(name) for name in ("tflgpu-plugin", "wgpu", "numpy")}
    versions |= {"python": platform.python_version(), "platform": platform.platform()}
    return Info(versions, adapters, found, [str(path) for path in enabled], advice)


def _adapters() -> tuple[list[dict[str, Any]], list[str]]:
    from tflgpu_plugin.runtime import adapter
    from tflgpu_plugin.runtime.device import NoAdapter

    try:
        found = adapter.adapters()
    except NoAdapter as error:
        return [], [str(error)]
    if not found:
        return [], [adapter.hint()]
    return [_describe(info) for info in found], []


def _describe(info: Any) -> dict[str, Any]:
    names = ("name", "vendor", "driver", "backend", "kind")
    rest = {"features": list(info.features), "limits": dict(info.limits)}
    found = calibration.known(info)
    measured = Calibration(state=UNMEASURED) if found is None else found
    return {name: getattr(info, name) for name in names} | rest | {"measured": asdict(measured)}


def measured_lines(measured: Mapping[str, Any]) -> list[str]:
    """Returns a line for each measurement of an adapter's calibration: the times of the candidates,
    and the choice where it is not the vendor's."""
    chosen = measured["tuning"] | ({"threads": measured["threads"]} if measured["threads"] else {})
    lines = [measured["state"]] if measured["state"] else []
    for measurement, figures in measured["figures"].items():
        times = ", ".join(f"{name} {us:g}" for name, us in figures.items())
        setting = {"launches": "serial"}.get(measurement, measurement)
        choice = f": {chosen[setting]}" if setting in chosen else ""
        lines.append(f"{measurement} ({times} us){choice}")
    return lines


def other_hosts() -> dict[str, str]:
    """Returns hosts that the plugin supports and that the demo does not use, without importing
    them."""
    there = (n for n in OTHER_HOSTS if n in sys.modules or importlib.util.find_spec(n))
    return {name: _version(name) for name in there}


def _missing(found: Mapping[str, str]) -> list[str]:
    """Returns what to install for each kind of model that no host here reads, and for an outdated
    host."""
    advice = []
    if not {*hosts.PACKAGES, "tensorflow"} & {*found}:
        advice.append(hosts.INSTALL)
    if "onnxruntime" not in found:
        advice.append(
            "ONNX Runtime is not installed. Run: pip install 'tflgpu-plugin[onnxruntime]'"
        )
    elif (0,) < _numbers(found["onnxruntime"]) < _numbers(OLDEST_ONNXRUNTIME):
        advice.append(
            f"onnxruntime {found['onnxruntime']} is older than {OLDEST_ONNXRUNTIME}, which the "
            "plugin needs. Run: pip install -U onnxruntime"
        )
    return advice + [reason for name in hosts.installed() if (reason := hosts.misfit(name))]


def _numbers(version: str) -> tuple[int, ...]:
    """Returns the numbers of a version, () for an unknown one."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _version(package: str) -> str:
    """Returns the version of a distribution, or of one that contains the module of this name (as
    tensorflow-cpu does)."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    brought = importlib.metadata.packages_distributions().get(package)
    return importlib.metadata.version(brought[0]) if brought else "unknown"
