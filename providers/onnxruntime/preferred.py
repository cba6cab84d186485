"""Puts this provider before the CPU provider in sessions that use the CPU provider alone, where the
user prefers this plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import BoundArguments
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import native

from . import registration, sessions
from .names import EP_NAME

CPU_NAME = "CPUExecutionProvider"
# The providers that onnxruntime's own wheel lists as available. Azure's runs its own domain only.
AVAILABLE = {CPU_NAME, "AzureExecutionProvider"}
Plain = Callable[[BoundArguments], None]


def wrapped() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yields (class, method, replacement)."""
    from onnxruntime.capi import onnxruntime_inference_collection as home

    yield home.InferenceSession, "__init__", _made
    yield home.Session, "set_providers", _changed


def _made(preference: Any, plain: Plain, arguments: BoundArguments) -> None:
    """Wraps `InferenceSession(...)`. The host itself would fall back with lines on standard output,
    so the wrapper makes it raise instead.
    """
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
    """Wraps `session.set_providers(...)`, which the host itself calls when it falls back."""
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
    """Calls the method with our provider, and where that fails with the original arguments, which
    raises the error that the program has without the plugin.
    """
    try:
        plain(attempt)
    except Exception as error:  # onnxruntime's exceptions have no common class
        plain(arguments)
        preference.fail("session", error)
        return False
    preference.made("session", arguments.arguments["self"], sessions.report)
    return True


def _with_ours(preference: Any, arguments: BoundArguments) -> BoundArguments | None:
    """Returns the arguments with our provider first; None where the session should not be
    changed.
    """
    given = arguments.arguments
    listed, options = given.get("providers") or [CPU_NAME], given.get("provider_options")
    names = _names(listed)
    if EP_NAME in names:
        return arguments
    # Only providers that every installation has, and session options without devices or policy.
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
    """Returns the names of the providers that a program lists, none for a list that the host
    refuses."""
    given = listed if isinstance(listed, Sequence) else ()
    return {one[0] if isinstance(one, tuple) else one for one in given}


def _register() -> None:
    """Registers our provider so that onnxruntime accepts its name. Raises RuntimeError or
    ImportError.
    """
    import onnxruntime

    providers.select()  # says what to install, before registration warns of it
    with native.busy(), native.looking():
        registration.register()
    if registration.version(onnxruntime) < registration.BY_NAME:
        raise RuntimeError(
            f"onnxruntime {onnxruntime.__version__} is older than 1.25. "
            "Run: pip install -U onnxruntime"
        )
    if not any(device.ep_name == EP_NAME for device in onnxruntime.get_ep_devices()):
        providers.select()  # which says what to install
