"""Tests the one line that users write, in new processes: each host alone, both together, no
adapter."""

from __future__ import annotations

import pytest

from conformance import host as hosts
from tests.support.subprocesses import run_python

HOSTS = hosts.installed()
pytestmark = pytest.mark.parametrize("host", HOSTS)

LINE = """
import numpy as np
from conformance import host as hosts
from tests.support import small_models
import tflgpu_plugin
model = small_models.guide()
for host in {hosts}:
    api = hosts.module(host)
    cpu = hosts.interpreter(model, host); cpu.allocate_tensors()
    gpu = api.Interpreter(model_content=model, experimental_delegates=[{call}("tflgpu")])
    gpu.allocate_tensors()
    x = [np.ones((1, 8, 8, 3), np.float32)]
    a, b = (hosts.invoke(i, [x])[0][0] for i in (cpu, gpu))
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert tflgpu_plugin.last_report().runs == 1
"""


@pytest.mark.adapter
@pytest.mark.parametrize("call", ["api.load_delegate", "tflgpu_plugin.load_delegate"])
def test_the_line_in_one_host(host: str, call: str) -> None:
    run_python(LINE.format(hosts=[host], call=call))


@pytest.mark.adapter
def test_the_line_in_both_hosts(host: str) -> None:
    """Both hosts are in one process, in either import order."""
    others = [other for other in HOSTS if other != host]
    if not others:
        pytest.skip("one host is installed")
    run_python(LINE.format(hosts=[host, *others], call="api.load_delegate"))


def test_without_an_adapter_load_delegate_says_what_to_install(host: str) -> None:
    code = f"""
import tflgpu_plugin
from {host}.interpreter import load_delegate
try:
    load_delegate("tflgpu")
except ValueError as error:
    assert "No usable GPU adapter was found. Install a Vulkan driver" in str(error), error
else:
    raise SystemExit("no error")
"""
    run_python(code, VK_ICD_FILENAMES="/nonexistent", VK_DRIVER_FILES="/nonexistent")
