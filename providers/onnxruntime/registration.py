"""register() and assert_used(): what users call beside onnxruntime's own functions."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import CPU, GPU, NoAdapter, Once, Report, log, native, threads

from . import devices, ep, records
from .names import EP_NAME, INSTALL, LIBRARY_NAME

OLDEST = (1, 24, 4)
BY_NAME = (1, 25)  # from here on providers=[...] reaches plugins
REASONS = 8

_lock = threads.Lock()
_told = Once()


def connect() -> None:
    """Register this frontend's callbacks with the shared library, and tell it the adapters."""
    ep.connect()
    devices.tell()


def register() -> None:
    """Connect, and register the library under its name unless that is done. Raises ImportError or
    RuntimeError with a sentence.
    """
    connect()
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"onnxruntime is not installed: {INSTALL}.") from error
    found = version(onnxruntime)
    if found < OLDEST:
        raise RuntimeError(
            f"tflgpu needs onnxruntime 1.24.4 or newer, and this is {onnxruntime.__version__}. "
            "Run: pip install -U onnxruntime"
        )
    with _lock:
        if _told.first("exit"):
            atexit.register(_keep_open)
        if not any(device.ep_name == EP_NAME for device in onnxruntime.get_ep_devices()):
            _register(onnxruntime)
    if found < BY_NAME and _told.first("by name"):
        log.say(
            f"tflgpu: onnxruntime {onnxruntime.__version__} ignores providers=[{EP_NAME!r}]; use "
            "SessionOptions.add_provider_for_devices, or onnxruntime 1.25 and newer."
        )


def _keep_open() -> None:
    """Leave sessions open in a child of a fork that ends: onnxruntime would wait for their threads,
    which the parent has."""
    if native.lib.tg_is_forked(native.ffi.NULL):
        kind = getattr(sys.modules.get("onnxruntime"), "InferenceSession", ())
        for one in gc.get_objects():
            if issubclass(type(one), kind):
                native.keep_for_ever(one)


def _register(onnxruntime: Any) -> None:
    path = str(native.library_path())
    try:
        onnxruntime.register_execution_provider_library(LIBRARY_NAME, path)
    except Exception as error:  # onnxruntime's exceptions have no common class
        # No adapter was there when it was registered: there is a library, but no device.
        if "already registered" not in str(error):
            raise
        onnxruntime.unregister_execution_provider_library(LIBRARY_NAME)
        onnxruntime.register_execution_provider_library(LIBRARY_NAME, path)


def version(onnxruntime: Any) -> tuple[int, ...]:
    """(1, 31, 1); suffixes are left out."""
    parts = str(onnxruntime.__version__).split("+")[0].split(".")
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts[:3])


def assert_used(session: Any) -> None:
    """Raise AssertionError with the reasons when no node of the session is on the GPU, TypeError
    for what is not a session.
    """
    if not hasattr(session, "get_providers"):
        raise TypeError(f"assert_used() takes an onnxruntime.InferenceSession, not {session!r}.")
    found = records.report(session)
    if found is not None and found.count(GPU):
        return
    if given_up := records.given_up(session):
        listed = ", ".join(session.get_providers())
        raise AssertionError(
            f"onnxruntime has moved this session to {listed} after a run failed: {given_up}"
        )
    raise AssertionError(_unregistered(session) if found is None else _unused(found))


def _unregistered(session: Any) -> str:
    listed = ", ".join(session.get_providers())
    # onnxruntime lets a session fall back once.
    fell_back = getattr(session, "_enable_fallback", None) is False
    if fell_back and (reason := records.failure(session)):
        return (
            f"onnxruntime made this session without {EP_NAME}, on {listed}, because the provider "
            f"could not be created: {reason}"
        )
    try:
        providers.select()
    except NoAdapter as error:
        return f"This session runs on {listed}. {error}"
    return (
        f"This session does not use {EP_NAME}; its providers are {listed}. Make it "
        f"after tflgpu_plugin.register(), with providers=[{EP_NAME!r}] (onnxruntime 1.25 and "
        "newer) or SessionOptions.add_provider_for_devices. A device_id must be an index of "
        "`tflgpu info`."
    )


def _unused(found: Report) -> str:
    reasons = dict.fromkeys(f"{n.op}: {n.reason}" for n in found.nodes if n.where == CPU)
    lines = list(reasons)[:REASONS]
    if len(reasons) > REASONS:
        lines.append(f"... and {len(reasons) - REASONS} more reasons in tflgpu_plugin.report().")
    return "\n  ".join(
        [f"No node of this session runs on the GPU ({len(found.nodes)} nodes).", *lines]
    )
