"""The option --setting: results of calibration that all devices get, even software adapters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tflgpu_plugin.compile import calibration
from tflgpu_plugin.ir.calibration import SETTINGS, Calibration


def give(patch: pytest.MonkeyPatch, settings: Sequence[str]) -> None:
    """Gives every device these settings, such as `byte_products=always`, if there are any. Raises
    ValueError for anything that calibration cannot set."""
    known = {f"{name}={value}" for name, values in SETTINGS.items() for value in values}
    if unknown := [each for each in settings if each not in known]:
        raise ValueError(f"{unknown[0]} is no setting of calibration.")
    if settings:
        results = Calibration(dict(each.split("=") for each in settings))
        patch.setattr(calibration, "of", lambda device: results)
