"""Adds this provider to sessions that name only the CPU provider, if the user has asked to prefer
this plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import BoundArguments
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import native

from . import registration, sessions
from .names import EP_NAME

CPU_NAME = "CPUExecutionProvider"
# The providers of onnxruntime's CPU wheel. Azure's runs only operators of its own domain.
AVAILABLE = {CPU_NAME, "AzureExecutionProvider"}
Plain = Callable[[BoundArguments], None]


def wrapped() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yields (class, method name, wrapper) for each method of onnxruntime to wrap."""
    from onnxruntime.capi import onnxruntime_inference_collection as home

    yield home.InferenceSession, "__init__", _made
    yield home.Session, "set_providers", _changed


def _made(preference: Any, plain: Plain, arguments: BoundArguments) -> None:
    """Wraps `InferenceSession(...)`. The session is created without onnxruntime's own fallback,
    which prints to standard output: it raises instead."""
    more = arguments.arguments.get("kwargs", {})
    attempt = _with_ours(preference, arguments)
    if attempt is None:
        return plain(arguments)
    attempt.arguments["kwargs"] = {**more, "enable_fallback": 0}
    session = arguments.arguments["self"]
    if _attempted(preference, plain, attempt, arguments) and more.get("enable_fallback", 1):
        session.enable_fallback()
    return None


def _changed(preference: Any, plain: Plain, arguments: BoundArguments) -> None:
    """Wraps `session.set_providers(...)`; calls by onnxruntime's own fallback are left alone."""
    session = arguments.arguments["self"]
    own = arguments.arguments.get("providers") is getattr(session, "_fallback_providers", ())
    attempt = None if own else _with_ours(preference, arguments)
    if attempt is None:
        return plain(arguments)
    _attempted(preference, plain, attempt, arguments)
    return None


def _attempted(
    preference: Any, plain: Plain, attempt: BoundArguments, arguments: BoundArguments
) -> bool:
    """Calls the method `plain` with `attempt`, and if that fails with the original `arguments`,
    which may raise the error of the program itself. Returns whether the attempt succeeded."""
    try:
        plain(attempt)
    except Exception as error:  # onnxruntime's exceptions have no common class
        plain(arguments)
        preference.fail("session", error)
        return False
    preference.made("session", arguments.arguments["self"], sessions.report)
    return True


def _with_ours(preference: Any, arguments: BoundArguments) -> BoundArguments | None:
    """Returns the arguments with our provider first, None if the session is to be left alone."""
    given = arguments.arguments
    listed, options = given.get("providers") or [CPU_NAME], given.get("provider_options")
    names = _names(listed)
    if EP_NAME in names:
        return arguments
    # Only sessions of providers in AVAILABLE, without devices or policy in their session options.
    chosen = getattr(given.get("sess_options"), "has_providers", None)
    if CPU_NAME not in names or not names <= AVAILABLE or (chosen is not None and chosen()):
        preference.not_ours()
        return None
    try:
        _register()
    except Exception as error:
        preference.fail("session", error)
        return None
    attempt = BoundArguments(arguments.signature, arguments.arguments.copy())
    if options:
        attempt.arguments["providers"] = [EP_NAME, *listed]
        attempt.arguments["provider_options"] = [dict(preference.options), *options]
    else:
        attempt.arguments["providers"] = [(EP_NAME, dict(preference.options)), *listed]
    return attempt


def _names(listed: Any) -> set[Any]:
    """Returns the names in the argument `providers`, none if it is not a sequence."""
    given = listed if isinstance(listed, Sequence) else ()
    return {one[0] if isinstance(one, tuple) else one for one in given}


def _register() -> None:
    """Registers our provider so that onnxruntime accepts its name. Raises ImportError, NoAdapter,
    or RuntimeError for onnxruntime before 1.25."""
    import onnxruntime

    providers.select()  # raises NoAdapter with what to install, before registration logs a warning
    with native.busy(), native.looking():
        registration.register()
    if registration.version(onnxruntime) < registration.BY_NAME:
        raise RuntimeError(
            f"onnxruntime {onnxruntime.__version__} is older than 1.25. "
            "Run: pip install -U onnxruntime"
        )
    if not any(device.ep_name == EP_NAME for device in onnxruntime.get_ep_devices()):
        providers.select()  # raises NoAdapter with what to install
