"""The onnxruntime frontend: `providers=["TflGpuExecutionProvider"]` after
`tflgpu_plugin.register()`.

This module imports neither numpy nor onnxruntime, so that discovering the frontend is fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .names import INSTALL

name = "onnxruntime"
description = "ONNX Runtime sessions, as an execution provider"
install = INSTALL


def connect() -> None:
    """Registers this frontend's callbacks with the shared library, and passes it the adapters."""
    from . import registration

    registration.connect()


def register() -> None:
    """Registers the provider with onnxruntime; further calls do nothing. Raises ImportError when
    onnxruntime is missing, RuntimeError when it is older than 1.24.4."""
    from . import registration

    registration.register()


def unregister() -> None:
    """Removes the provider from onnxruntime; does nothing where it is not registered."""
    if "onnxruntime" in sys.modules:
        from . import registration

        registration.unregister()


def session(model: Any, settings: Any, options: Mapping[str, object]) -> Any:
    """Returns an InferenceSession on this provider, without onnxruntime's fallback. Raises
    OptionError, NoAdapter, as `register` does, and what onnxruntime raises for the model."""
    from . import registration

    return registration.session(model, settings, options)


def assert_used(session: Any) -> None:
    """Raises AssertionError with the reasons if no node of this InferenceSession is on the GPU."""
    from . import registration

    registration.assert_used(session)


def preferring(module: str) -> Any:
    """Returns the methods of onnxruntime to wrap, each as (class, method name, wrapper), so that
    sessions which name only the CPU provider use this one."""
    from . import preferred

    return preferred.wrapped()


def report(target: Any) -> Any:
    """Returns the Report of an InferenceSession, None if it does not use this provider."""
    if "onnxruntime" not in sys.modules:
        return None
    from . import sessions

    return sessions.report(target)
