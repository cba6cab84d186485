"""The option --setting: answers to calibration that all devices give, even software."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tflgpu_plugin.compile import calibration
from tflgpu_plugin.ir.calibration import SETTINGS, Calibration


def give(patch: pytest.MonkeyPatch, settings: Sequence[str]) -> None:
    """Gives every device these answers, as `byte_products=always`, if there are any. Raises
    ValueError for what is no answer."""
    known = {f"{name}={value}" for name, values in SETTINGS.items() for value in values}
    if unknown := [each for each in settings if each not in known]:
        raise ValueError(f"{unknown[0]} is no answer of a device to calibration.")
    if settings:
        answers = Calibration(dict(each.split("=") for each in settings))
        patch.setattr(calibration, "of", lambda device: answers)
