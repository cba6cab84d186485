"""Tests how a recurrent layer loads its weights. No adapter is needed."""

from __future__ import annotations

import pytest

from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops import recurrent


@pytest.mark.parametrize(
    ("depth", "least", "ahead"),
    [(75, 32, 25), (64, 32, 32), (64, 0, 32), (7, 32, 7), (1, 32, 1), (64, 64, 8), (75, 64, 8)],
)
def test_weights_that_are_loaded_together(depth: int, least: int, ahead: int) -> None:
    """75 weights load as three times 25, which waits less often than 32, 32 and 11."""
    assert recurrent.loaded_ahead(Target(vendor="amd", least_subgroup=least), depth) == ahead
    assert recurrent.loaded_ahead(Target(software=True), depth) == 1
