"""The onnxruntime frontend: `providers=["TflGpuExecutionProvider"]` after
`tflgpu_plugin.register()`.

This module is the provider; it stays light, so that finding it imports neither numpy nor a host.
"""

from __future__ import annotations

import sys
from typing import Any

from .names import INSTALL

name = "onnxruntime"
description = "ONNX Runtime sessions, as an execution provider"
install = INSTALL


def connect() -> None:
    """Register this frontend's callbacks with the shared library, and tell it the adapters."""
    from . import registration

    registration.connect()


def register() -> None:
    """Make the provider known to onnxruntime; harmless when repeated. Raises ImportError or
    RuntimeError with a sentence when onnxruntime is missing or too old.
    """
    from . import registration

    registration.register()


def assert_used(session: Any) -> None:
    """Raise AssertionError with the reasons when no node of this InferenceSession is on the GPU."""
    from . import registration

    registration.assert_used(session)


def preferring(module: str) -> Any:
    """What is wrapped in onnxruntime so that sessions of the CPU provider get ours."""
    from . import preferred

    return preferred.wrapped()


def report(target: Any) -> Any:
    """The Report of an InferenceSession, None when it is not one of ours."""
    if "onnxruntime" not in sys.modules:
        return None
    from . import records

    return records.report(target)
