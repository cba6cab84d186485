"""Adds this provider to sessions that would run on the CPU, if the user has asked to prefer this
plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import BoundArguments
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import native

from . import registration, sessions
from .names import EP_NAME

CPU_NAME = "CPUExecutionProvider"
# The providers of onnxruntime's CPU wheel, and ours. Azure's runs only operators of its own domain.
AVAILABLE = (CPU_NAME, "AzureExecutionProvider", EP_NAME)
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
    """Calls the method `plain` with the arguments `attempt`. If that fails, calls it with the
    original `arguments`, which may raise the error of the program itself. Returns whether the
    attempt succeeded."""
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
    if EP_NAME in names and CPU_NAME not in names[: names.index(EP_NAME)]:
        return arguments
    # Session options with devices or a selection policy name other providers.
    chosen = getattr(given.get("sess_options"), "has_providers", None)
    if not _on_cpu(names) or (chosen is not None and chosen()):
        preference.not_ours()
        return None
    try:
        _register()
    except Exception as error:
        preference.fail("session", error)
        return None
    attempt = BoundArguments(arguments.signature, arguments.arguments.copy())
    own = {**preference.options, **_of_ours(names, options or listed)}
    listed = _others(names, listed)
    if options:
        attempt.arguments["providers"] = [EP_NAME, *listed]
        attempt.arguments["provider_options"] = [own, *_others(names, options)]
    else:
        attempt.arguments["providers"] = [(EP_NAME, own), *listed]
    return attempt


def _names(listed: Any) -> list[Any]:
    """Returns the names in the argument `providers`, none if it is not a sequence."""
    given = listed if isinstance(listed, Sequence) else ()
    return [one[0] if isinstance(one, tuple) and one else one for one in given]


def _on_cpu(names: Sequence[Any]) -> bool:
    """Whether onnxruntime would run a session with these providers on the CPU: it ignores those
    that it does not have, such as CUDA's in the CPU wheel."""
    import onnxruntime

    available = onnxruntime.get_available_providers()
    return bool(names) and all(name in AVAILABLE for name in names if name in available)


def _of_ours(names: Sequence[Any], of_each: Sequence[Any]) -> dict[Any, Any]:
    """Returns the options that the program itself gives our provider, in either argument."""
    found: dict[Any, Any] = {}
    for name, one in zip(names, of_each, strict=False):
        more = one[-1] if isinstance(one, tuple) and one else one
        if name == EP_NAME and isinstance(more, Mapping):
            found.update(more)
    return found


def _others(names: Sequence[Any], of_each: Sequence[Any]) -> list[Any]:
    """Returns the entries of `of_each` for all providers except ours, which is the last one that
    onnxruntime lists as available."""
    return [one for name, one in zip(names, of_each, strict=False) if name != EP_NAME]


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
