"""Tests several adapters at once, in one process and in several: each model runs on the right
device. The system's software driver appears twice, like two equal GPUs, together with SwiftShader
if `python tools/drivers.py swiftshader` has unpacked it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from conformance import host as hosts
from tests.support import batches
from tests.support.subprocesses import ROOT, run_python

sys.path.append(str(ROOT / "tools"))

import drivers

HOSTS = hosts.installed()
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not HOSTS, reason="no TFLite host: pip install -e .[tflite]"),
]
TOLERANCE = 1e-5


@pytest.fixture(params=["twice", "swiftshader"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Returns environment variables that make a driver report two adapters."""
    found = batches.twice(tmp_path)
    if not found:
        pytest.skip("there is no lavapipe here")
    if request.param == "twice":
        return found
    other = drivers.folder() / "swiftshader" / "icd.json"
    if not other.exists():
        pytest.skip("SwiftShader is not unpacked here: python tools/drivers.py swiftshader")
    return {name: value.replace(str(tmp_path / "again.json"), str(other))
            for name, value in found.items()}  # fmt: skip


ONE_PROCESS = """
import threading
import numpy as np
import tflgpu_plugin
from tests.support import batches
from tflgpu_plugin import native
from tflgpu_plugin.batch.model import Model
from tflgpu_plugin.batch.spec import Spec
from tflgpu_plugin.runtime import adapter
from pathlib import Path
found = adapter.adapters()
assert [one.index for one in found] == [0, 1], found
folder, given = Path({folder!r}), batches.values(8)
paths = {paths}
models = [Model(Spec(path, batch=4, options={{"adapter": k}})) for path in paths for k in (0, 1)]
wanted = batches.on_cpu(batches.model(folder), given)
def run(model):
    for _ in range(20):
        for row, right in zip(model.results([[one] for one in given]), wanted, strict=True):
            said.append(np.abs(row[0] - right.reshape(row[0].shape)).max())
said = []
threads = [threading.Thread(target=run, args=(model,)) for model in models]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(said) == len(models) * 160 and max(said) <= {tolerance}, max(said)
for k, model in enumerate(models):
    report = model.running.report()
    assert report.runs >= 40, report
    assert report.adapter.index == k % 2 and report.adapter.name == found[k % 2].name, report
devices = [adapter.open_device(one).handle for one in found]
assert devices[0] != devices[1]
native.lib.tg_device_mark_lost(devices[0])
models[1].running.run([given[:4]])          # the other goes on
models[0].running.run([given[:4]])          # by the host's own kernels
assert [model.running.report().host_runs for model in models[:2]] == [1, 0]
"""


def test_two_adapters_in_one_process(environment: dict[str, str], tmp_path: Path) -> None:
    """Four threads use interpreters, and sessions if onnxruntime is installed."""
    paths = "[batches.model(folder)]"
    if importlib.util.find_spec("onnxruntime"):
        paths = "[batches.model(folder), batches.as_onnx(folder)]"
    code = ONE_PROCESS.format(folder=str(tmp_path), paths=paths, tolerance=TOLERANCE)
    run_python(code, **environment)


SEVERAL = """
import json, time
from pathlib import Path
import numpy as np
from tests.support import batches
if __name__ == "__main__":
    folder, said, ready = Path({folder!r}), [], []
    np.save(folder / "all.npy", batches.values(400))
    def wait(done, whole):
        if sum(" nodes on the GPU" in line for line in said) < 3: time.sleep(0.05)
    outcome = batches.ran(batches.model(folder), folder / "all.npy", out=folder / "out", batch=1,
                          workers=3, adapters=["0", "1"], said=said, progress=wait)
    assert outcome.done == 400 and not outcome.failures, outcome
    print(json.dumps(said))
"""


@pytest.mark.parametrize("environment", ["twice"], indirect=True)
def test_adapters_are_handed_to_workers_in_turn(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Two adapters are assigned to three workers."""
    said = json.loads(run_python(SEVERAL.format(folder=str(tmp_path)), **environment).stdout)
    ready = sorted(line for line in said if "nodes on the GPU" in line)
    assert [line.partition("(adapter ")[2][0] for line in ready] == ["0", "1", "0"]
    ran = {str(np.load(path)["adapter"]) for path in (tmp_path / "out").glob("*.npz")}
    assert {name.partition("(adapter ")[2] for name in ran} == {"0)", "1)"}
