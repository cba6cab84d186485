"""Tests one binary with other versions of onnxruntime, each in a separate environment, created on
demand in the user's cache folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import onnx_models as m
from tests.support.subprocesses import ROOT

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]

VERSIONS = ("1.24.4", "1.27.0")
SITE = "TFLGPU_TEST_SITE"  # where an environment finds all but onnxruntime
SMOKE = """
import sys, numpy as np, onnxruntime as ort, tflgpu_plugin
data = open(sys.argv[1], "rb").read()
tflgpu_plugin.register()
devices = [d for d in ort.get_ep_devices() if d.ep_name == tflgpu_plugin.get_ep_name()]
so = ort.SessionOptions(); so.log_severity_level = 4; so.add_provider_for_devices(devices[:1], {})
ours = ort.InferenceSession(data, so, enable_fallback=0)
cpu = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
tflgpu_plugin.assert_used(ours)
for shape in ((1, 3, 16, 16), (2, 3, 9, 20)):
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    a, b = (s.run(None, {"x": x})[0] for s in (ours, cpu))
    assert np.abs(a - b).max() < 1e-5
assert tflgpu_plugin.report(ours).count("cpu") == 0
if ort.__version__.startswith("1.24"):
    silent = ort.InferenceSession(data, so and None, providers=[tflgpu_plugin.get_ep_name()])
    try: tflgpu_plugin.assert_used(silent); sys.exit("it was used")
    except AssertionError as error: print(error)
ort.unregister_execution_provider_library("tflgpu")
print("done", ort.__version__)
"""
TENSORS = """
import numpy as np, onnxruntime as ort, sys, tflgpu_plugin
tflgpu_plugin.register()
devices = [d for d in ort.get_ep_devices() if d.ep_name == tflgpu_plugin.get_ep_name()]
so = ort.SessionOptions(); so.log_severity_level = 4; so.add_provider_for_devices(devices[:1], {})
s = ort.InferenceSession(open(sys.argv[1], "rb").read(), so, enable_fallback=0)
x = np.random.default_rng(1).uniform(-1, 1, (2, 3, 16, 16)).astype(np.float32)
try: x_on_gpu = ort.OrtValue.ortvalue_from_numpy(x, "gpu", 0)
except RuntimeError as error: print(error); x_on_gpu = ort.OrtValue.ortvalue_from_numpy(x)
wanted = s.run(None, {"x": x})[0]
for _ in range(3):
    b = s.io_binding(); b.bind_ortvalue_input("x", x_on_gpu); b.bind_output("y", "gpu", 0)
    s.run_with_iobinding(b)
    y = b.get_outputs()[0]
    assert np.array_equal(y.numpy(), wanted) and np.array_equal(b.copy_outputs_to_cpu()[0], wanted)
assert np.array_equal(s.run_with_ort_values(["y"], {"x": x_on_gpu})[0].numpy(), wanted)
print("on", y.device_name())
"""


def environment(version: str, package: str = "onnxruntime") -> Path:
    """Returns a Python environment with this onnxruntime, created once (see `run_in`)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tflgpu-tests"
    where = cache / f"{package}-{version}-{sys.version_info[0]}{sys.version_info[1]}-any"
    python = where / "bin" / "python"
    if (where / "ready").exists():
        return python
    make = [sys.executable, "-m", "venv", "--without-pip", "--clear", str(where)]
    install = [
        sys.executable, "-m", "pip", "--python", str(python), "install", "-q",
        "--disable-pip-version-check", f"{package}=={version}", f"numpy=={np.__version__}",
    ]  # fmt: skip
    for command in (make, install):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")
    (site,) = where.glob("lib/python*/site-packages")
    line = f"import os, site; site.addsitedir(os.environ[{SITE!r}])\n"
    (site / "rest.pth").write_text(line)
    (where / "ready").touch()
    return python


def run_in(version: str, *arguments: str, package: str = "onnxruntime") -> str:
    """Returns the output of this version's Python, which must exit with 0."""
    done = subprocess.run(
        [str(environment(version, package)), "-X", "faulthandler", *arguments],
        cwd=ROOT,
        env=os.environ | {SITE: str(Path(np.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_other_versions_of_onnxruntime(version: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(m.convolutions())
    said = run_in(version, "-c", SMOKE, str(path))
    assert f"done {version}\n" in said
    if version.startswith("1.24"):
        assert "does not use TflGpuExecutionProvider" in said
        assert "add_provider_for_devices" in said


@pytest.mark.parametrize("version", VERSIONS)
def test_tensors_on_the_gpu_in_other_versions(version: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(m.convolutions())
    assert "on cuda" in run_in(version, "-c", TENSORS, str(path))  # its name for GPUs


def test_no_tensors_on_the_gpu_where_webgpu_is_built_in(tmp_path: Path) -> None:
    """The WebGPU provider would treat these tensors as its own, which crashes the process."""
    path = tmp_path / "model.onnx"
    path.write_bytes(m.convolutions())
    said = run_in("1.27.0", "-c", TENSORS, str(path), package="onnxruntime-webgpu")
    assert "Can't allocate memory" in said and "on cpu" in said
