"""The TFLite frontend: `load_delegate("tflgpu")` in tflite-runtime, ai-edge-litert and TensorFlow.

This module is the provider; it imports neither numpy nor a host, so that finding it is fast."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

name = "tflite"
description = "TensorFlow Lite and LiteRT interpreters, as a delegate"
install = "pip install ai-edge-litert (or tflite-runtime on Linux with Python before 3.12)"

# Packages of hosts, best first.
HOSTS = ("ai_edge_litert", "tflite_runtime", "tensorflow")


def connect() -> None:
    """Registers this frontend's callbacks with the shared library."""
    from . import delegate

    delegate.connect()


def create(keys: int, values: int, count: int, err: int) -> int:
    """Creates a delegate from the arguments of the native create callback, pointers as addresses.
    The library calls it for the first delegate, before `connect` has registered callbacks."""
    from . import delegate

    return delegate.create_at(keys, values, count, err)


def load_delegate(library: str = "tflgpu", options: dict[str, Any] | None = None) -> Any:
    """Calls `load_delegate` of the host package that is imported, or else installed. Raises
    ImportError with what to install where there is none, and errors of the host (ValueError with a
    sentence when the delegate cannot be created)."""
    return host_module().load_delegate(library, options)


def host_module() -> Any:
    """Returns the host module that has `load_delegate`, of an imported host if there is one."""
    package = next((host for host in HOSTS if host in sys.modules), None)
    if package is None:
        package = next((host for host in HOSTS if importlib.util.find_spec(host)), None)
    if package is None:
        raise ImportError(f"No TFLite host is installed: {install}.")
    if package == "tensorflow":
        return importlib.import_module(package).lite.experimental
    return importlib.import_module(f"{package}.interpreter")


def preferring(module: str) -> Any:
    """Returns the methods to wrap in this host so that interpreters without delegates use ours."""
    from . import preferred

    return preferred.wrapped(module)


def litert_environment(options: Mapping[str, Any]) -> Any:
    """Returns an environment of LiteRT whose models run on the GPU with these options."""
    from . import litert

    return litert.environment(options)


def report(target: Any) -> Any:
    """Returns the Report of a host's Delegate or CompiledModel, or None when it is not this
    plugin's."""
    from . import delegates, litert

    return delegates.report(target) or litert.report(target)
