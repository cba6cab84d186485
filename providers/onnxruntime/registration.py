"""Implements register(), session() and assert_used(), which users call in addition to onnxruntime's
API."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import (
    AdapterInfo,
    NoAdapter,
    Once,
    Report,
    log,
    native,
    switches,
    threads,
)

from . import ep, sessions
from .names import DROPPED, EP_NAME, INSTALL, LIBRARY_NAME, PREFIX

OLDEST = (1, 24, 4)
WEBGPU = "WebGpuExecutionProvider"  # onnxruntime's plugin for WebGPU
BY_NAME = (1, 25)  # the first version in which providers=[...] may name plugins
REASONS = 8  # limit of reasons in one message
ALLOW_SOFTWARE = "TFLGPU_ALLOW_SOFTWARE"

_lock = threads.Lock()
_told = Once()  # messages and work that happen once
# The adapter and the provider's options in each of the program's session options.
_chosen: providers.WeakRegistry[Any, tuple[int, dict[str, str]]] = providers.WeakRegistry()
# The lock of each of them, from when options are put into it until a session has read them.
_turns: providers.WeakRegistry[Any, Any] = providers.WeakRegistry()


def connect() -> None:
    """Registers this frontend's callbacks with the shared library, and passes it the adapters."""
    ep.connect()
    tell_adapters()


def is_offered(info: AdapterInfo) -> bool:
    """Whether onnxruntime's device policies may select this adapter: a software adapter only if
    TFLGPU_ALLOW_SOFTWARE is set."""
    return not info.software or switches.on(ALLOW_SOFTWARE)


def tell_adapters() -> None:
    """Passes the adapters to native code, which cannot call Python while onnxruntime registers the
    library. Without a usable adapter it passes none and logs why: onnxruntime itself would only
    report that the provider does not exist."""
    try:
        providers.select()
        infos = providers.adapters()
    except NoAdapter as error:
        infos = []
        if _told.first(str(error)):
            log.say(f"WARNING: tflgpu: nothing will run on the GPU. {error}")
    ffi = native.ffi
    keep: list[Any] = []

    def text(value: str) -> Any:
        keep.append(ffi.new("char[]", value.encode()))
        return keep[-1]

    table = ffi.new("tg_ort_adapter[]", max(1, len(infos)))
    for row, info in zip(table, infos, strict=False):
        row.name, row.vendor, row.driver = text(info.name), text(info.vendor), text(info.driver)
        row.backend, row.type = text(info.backend), text(info.kind)
        row.vendor_id, row.device_id = info.vendor_id, info.device_id
        row.software, row.offered = info.software, is_offered(info)
    native.call(native.lib.tg_ort_set_adapters, table, len(infos))


def register() -> None:
    """Connects, and registers the library with onnxruntime unless it is registered already. Raises
    ImportError without onnxruntime, RuntimeError if it is older than 1.24.4."""
    connect()
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ImportError(f"onnxruntime is not installed: {INSTALL}.") from error
    except Exception as error:  # of any kind, such as AttributeError for another version of numpy
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"onnxruntime cannot be imported ({reason}). Reinstall it.") from error
    found = version(onnxruntime)
    if found < OLDEST:
        raise RuntimeError(
            f"tflgpu needs onnxruntime 1.24.4 or newer, and this is {onnxruntime.__version__}. "
            "Run: pip install -U onnxruntime"
        )
    with _lock:
        if _told.first("exit"):
            atexit.register(_keep_open)
        names = {device.ep_name for device in onnxruntime.get_ep_devices()}
        if WEBGPU in names:  # and its memory has the numbers that ours would have
            native.lib.tg_ort_avoid_memory()
        if EP_NAME not in names:
            _register(onnxruntime)
    if found < BY_NAME and _told.first("by name"):
        log.say(
            f"tflgpu: onnxruntime {onnxruntime.__version__} ignores providers=[{EP_NAME!r}]; use "
            "SessionOptions.add_provider_for_devices, or onnxruntime 1.25 and newer."
        )


def unregister() -> None:
    """Unregisters the library from onnxruntime; does nothing where it is not registered."""
    import onnxruntime

    with _lock:
        try:
            onnxruntime.unregister_execution_provider_library(LIBRARY_NAME)
        except Exception as error:  # onnxruntime's exceptions have no common class
            if "not registered" not in str(error):
                raise


def session(model: Any, settings: Any, options: Mapping[str, object]) -> Any:
    """Returns a session of the model on the adapter that the options choose, without onnxruntime's
    fallback. `settings` is an onnxruntime.SessionOptions, or None for its defaults.

    Raises OptionError or NoAdapter, as `register` does, and what onnxruntime raises."""
    if not isinstance(model, bytes) and os.fspath(model).endswith(".tflite"):
        raise ValueError("session() takes ONNX models; load_delegate() is for TFLite models.")
    place = providers.select(providers.parse(options).adapter).index
    register()
    import onnxruntime

    settings = settings or onnxruntime.SessionOptions()
    given = {key: str(value) for key, value in options.items() if value is not None}
    try:
        with _turn(settings):
            _choose(settings, place, given)
            return onnxruntime.InferenceSession(model, settings, enable_fallback=0)
    except Exception as error:
        if sentence := str(error).partition("tflgpu: ")[2]:
            raise ValueError(sentence) from error
        raise


def _turn(settings: Any) -> Any:
    """Returns the lock of session options, which another thread may use for a session, too."""
    with _lock:
        found = _turns.get(settings) or threads.RLock()
        _turns.put(settings, found)
        return found


def _choose(settings: Any, place: int, given: Mapping[str, str]) -> None:
    """Adds the provider on the adapter at this place, with its options, to session options. Where
    they have it from an earlier session, only its options are replaced, since onnxruntime takes a
    provider once. Raises ValueError for another adapter."""
    import onnxruntime

    with _lock:
        before = _chosen.get(settings)
        if before is None:
            devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == EP_NAME]
            settings.add_provider_for_devices([devices[place]], given)
        elif before[0] != place:
            raise ValueError(
                "These SessionOptions have the provider on another adapter. Make new ones for this "
                "session."
            )
        else:
            former = dict.fromkeys(before[1], DROPPED)
            for key, value in {**former, **given}.items():
                settings.add_session_config_entry(f"{PREFIX}{key}", value)
        _chosen.put(settings, (place, dict(given)))


def _keep_open() -> None:
    """Keeps sessions from being closed when a forked child exits: onnxruntime would wait for their
    threads, which exist only in the parent."""
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
        # The library was registered when there was no adapter, so onnxruntime lists no device.
        if "already registered" not in str(error):
            raise
        onnxruntime.unregister_execution_provider_library(LIBRARY_NAME)
        onnxruntime.register_execution_provider_library(LIBRARY_NAME, path)


def version(onnxruntime: Any) -> tuple[int, ...]:
    """Returns onnxruntime's version as numbers without suffix, such as (1, 31, 1)."""
    parts = str(onnxruntime.__version__).split("+")[0].split(".")
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts[:3])


def assert_used(session: Any) -> None:
    """Raises AssertionError with the reasons if no node of `session` runs on the GPU, TypeError if
    it is not an InferenceSession."""
    if not hasattr(session, "get_providers"):
        raise TypeError(f"assert_used() takes an onnxruntime.InferenceSession, not {session!r}.")
    found = sessions.report(session)
    if found is not None and found.count(providers.GPU):
        return
    if reason := sessions.given_up(session)[0]:
        listed = ", ".join(session.get_providers())
        raise AssertionError(
            f"onnxruntime has moved this session to {listed} after a run failed: {reason}"
        )
    raise AssertionError(_unregistered(session) if found is None else _unused(found))


def _unregistered(session: Any) -> str:
    listed = ", ".join(session.get_providers())
    # onnxruntime clears this attribute when a session falls back, which it does at most once.
    fell_back = getattr(session, "_enable_fallback", None) is False
    if fell_back and (reason := sessions.failure(session)):
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
    reasons = dict.fromkeys(f"{n.op}: {n.reason}" for n in found.nodes if n.where == providers.CPU)
    lines = list(reasons)[:REASONS]
    if len(reasons) > REASONS:
        lines.append(f"... and {len(reasons) - REASONS} more reasons in tflgpu_plugin.report().")
    return "\n  ".join(
        [f"No node of this session runs on the GPU ({len(found.nodes)} nodes).", *lines]
    )
