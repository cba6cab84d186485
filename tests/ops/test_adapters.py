"""What we say of adapters is what the wgpu package says of them."""

from __future__ import annotations

import json

import pytest

from tests.support.subprocesses import run_python
from tflgpu_plugin.runtime import adapter

THEIRS = """
import json, wgpu
found = wgpu.gpu.enumerate_adapters_sync()
print(json.dumps([{"name": a.info["device"], "limits": a.limits} for a in found]))
"""


@pytest.mark.adapter
def test_limits_are_those_of_the_adapter() -> None:
    """Asked in another process: the package's own instance stays out of this one."""
    ours, said = adapter.select(None), json.loads(run_python(THEIRS).stdout)
    theirs = [found["limits"] for found in said if found["name"] == ours.name]
    assert dict(ours.limits).keys() == adapter.LIMITS.keys()
    assert any(all(limits[name] == value for name, value in ours.limits) for limits in theirs)
