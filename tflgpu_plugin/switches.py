"""The switches among the environment variables, which are all read here: each is on or off, or has
one of a few values."""

from __future__ import annotations

import functools
import os

from tflgpu_plugin import log

ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def on(name: str) -> bool:
    """Whether this environment variable is one of ON; not if it is unset or one of OFF. Another
    value is reported once and means off."""
    return value(name, (*ON, *OFF)) in ON


def debugging() -> str:
    """Returns "1" if the variable TFLGPU_DEBUG is on: defects of the plugin are raised. Returns "2"
    if it is 2: passes log what they change, too. Returns "" if it is off."""
    found = value("TFLGPU_DEBUG", (*ON, "2", *OFF))
    return "2" if found == "2" else "1" if found in ON else ""


def value(name: str, known: tuple[str, ...]) -> str:
    """Returns the value of this environment variable, in lower case; "" if it is unset. One that is
    not `known` is reported once, and "" is returned."""
    found = os.environ.get(name, "").strip().lower()
    if found in known or not found:
        return found
    _unknown(name, found, known)
    return ""


@functools.cache
def _unknown(name: str, found: str, known: tuple[str, ...]) -> None:
    """Warns once of a value that has no effect."""
    listed = ", ".join(filter(None, known))
    log.say(f"WARNING: tflgpu: {name} is {found[:40]!r}, which has no effect. It takes: {listed}.")
