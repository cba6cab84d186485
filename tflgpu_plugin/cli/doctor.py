"""`tflgpu info`: which adapters and hosts this machine has, and what to install when something is
missing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin.cli import enable
from tflgpu_plugin.harness import hosts

OTHER_HOSTS = {"tensorflow": "tensorflow", "onnxruntime": "onnxruntime"}


@dataclass(frozen=True)
class Info:
    """What was found; `advice` holds sentences. Usable means: at least one adapter and one host."""

    versions: dict[str, str]
    adapters: list[dict[str, Any]]
    hosts: dict[str, str]
    enabled: list[str]
    advice: list[str] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        return bool(self.adapters and self.hosts)


def examine() -> Info:
    """Look at this machine. Never raises for a missing part: that is what `advice` is for."""
    adapters, advice = _adapters()
    found = hosts.installed() | _others()
    advice += _missing(found)
    if adapters and all(adapter["kind"] == "software" for adapter in adapters):
        advice.append(
            "Only a software adapter was found: answers are right, but nothing is faster than "
            "the CPU. If this machine has a GPU, install its Vulkan driver."
        )
    versions = {name: _version(name) for name in ("tflgpu-plugin", "wgpu", "numpy")}
    versions |= {"python": platform.python_version(), "platform": platform.platform()}
    return Info(versions, adapters, found, [str(path) for path in enable.enabled()], advice)


def _adapters() -> tuple[list[dict[str, Any]], list[str]]:
    from tflgpu_plugin.runtime import adapter

    try:
        found = adapter.adapters()
    except adapter.NoAdapter as error:
        return [], [str(error)]
    if not found:
        return [], [adapter.INSTALL_HINT]
    return [_describe(info) for info in found], []


def _describe(info: Any) -> dict[str, Any]:
    names = ("name", "vendor", "driver", "backend", "kind")
    return {name: getattr(info, name) for name in names} | {
        "features": list(info.features),
        "limits": dict(info.limits),
    }


def _others() -> dict[str, str]:
    """Hosts that the plugin can serve and that the demo does not use. Importing them is not needed
    to know.
    """
    found = {}
    for module, package in OTHER_HOSTS.items():
        if module not in sys.modules and importlib.util.find_spec(module) is None:
            continue
        found[package] = _version(package)
    return found


def _missing(found: Collection[str]) -> list[str]:
    """What to install for each kind of model that no host here reads."""
    advice = []
    if not {*hosts.PACKAGES, "tensorflow"} & {*found}:
        advice.append(hosts.INSTALL)
    if "onnxruntime" not in found:
        advice.append(
            "ONNX Runtime is not installed. Run: pip install 'tflgpu-plugin[onnxruntime]'"
        )
    return advice + [reason for name in hosts.installed() if (reason := hosts.misfit(name))]


def _version(package: str) -> str:
    """Of a distribution, or of whichever brings the module of this name (tensorflow-cpu does)."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    brought = importlib.metadata.packages_distributions().get(package)
    return importlib.metadata.version(brought[0]) if brought else "unknown"
