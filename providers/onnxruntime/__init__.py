"""The onnxruntime frontend: `providers=["TflGpuExecutionProvider"]` after
`tflgpu_plugin.register()`.

This module is the provider; it imports neither numpy nor a host, so that finding it is fast.
"""

from __future__ import annotations

import sys
from typing import Any

from .names import INSTALL

name = "onnxruntime"
description = "ONNX Runtime sessions, as an execution provider"
install = INSTALL


def connect() -> None:
    """Registers this frontend's callbacks with the shared library, and gives it the adapters."""
    from . import registration

    registration.connect()


def register() -> None:
    """Registers the provider with onnxruntime; further calls do nothing. Raises ImportError or
    RuntimeError with a sentence when onnxruntime is missing or too old.
    """
    from . import registration

    registration.register()


def assert_used(session: Any) -> None:
    """Raises AssertionError with the reasons when no node of this InferenceSession is on the
    GPU.
    """
    from . import registration

    registration.assert_used(session)


def preferring(module: str) -> Any:
    """Returns the methods to wrap in onnxruntime so that sessions of the CPU provider use ours."""
    from . import preferred

    return preferred.wrapped()


def report(target: Any) -> Any:
    """Returns the Report of an InferenceSession, or None when it does not use this provider."""
    if "onnxruntime" not in sys.modules:
        return None
    from . import sessions

    return sessions.report(target)
