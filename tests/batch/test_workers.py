"""Worker processes give the results of one process whichever of them dies, and no process is left
behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from tests.support import batches
from tests.support.subprocesses import ROOT
from tflgpu_plugin.batch import workers
from tflgpu_plugin.batch.work import Worker
from tflgpu_plugin.harness.inputs import BadInput

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]
COUNT = 30
_WORK = workers.work


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path, dict[str, bytes]]:
    """Returns a model, a folder of inputs, and the results of one process."""
    model = batches.model(tmp_path)
    folder = batches.arrays(tmp_path / "in", batches.values(COUNT))
    batches.ran(model, folder, out=tmp_path / "alone", batch=2)
    return model, folder, batches.files(tmp_path / "alone")


def test_a_worker_that_is_killed(given: Any, tmp_path: Path) -> None:
    """A worker is killed while it has parts. Results are those of one process, bit for bit."""
    model, folder, wanted = given
    said: list[str] = []

    def kill(done: int, whole: int) -> None:
        if done == 2:
            children = {child.name: child.pid for child in multiprocessing.active_children()}
            os.kill(children["tflgpu worker 0"] or 0, signal.SIGKILL)

    outcome = batches.ran(
        model, folder, out=tmp_path / "out", batch=2, workers=2, progress=kill, said=said
    )
    assert any("was killed by signal 9" in line for line in said), said
    assert (outcome.done, outcome.failures) == (COUNT, [])
    assert batches.files(tmp_path / "out") == wanted
    assert not multiprocessing.active_children()


def _dies(pipe: Connection, *rest: Any) -> None:
    """Is a worker whose process ends at 0005.npy, like a decoder that reads a bad file."""
    before = Worker.read

    def read(worker: Worker, part: Any) -> Any:
        if any("0005" in item.path for item in part.items):
            os._exit(3)
        return before(worker, part)

    Worker.read = read  # type: ignore[method-assign]
    _WORK(pipe, *rest)


def test_inputs_that_end_their_process(
    given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other inputs have results; a later run tries these inputs again."""
    model, folder, wanted = given
    monkeypatch.setattr(workers, "work", _dies)
    outcome = batches.ran(model, folder, out=tmp_path / "out", batch=2, workers=2)
    assert [one.index for one in outcome.failures] == [4, 5]
    assert (
        "the worker that ran it died 3 times: it ended with status 3" in outcome.failures[0].reason
    )
    monkeypatch.undo()
    outcome = batches.ran(model, folder, out=tmp_path / "out", batch=2, resume=True)
    assert (outcome.before, outcome.done, outcome.failures) == (COUNT - 2, 2, [])
    assert batches.files(tmp_path / "out") == wanted


def test_a_model_that_no_worker_can_load(given: Any, tmp_path: Path) -> None:
    _, folder, _ = given
    model = batches.model(tmp_path)
    with pytest.raises(workers.Stopped, match="No adapter matches"):
        batches.ran(model, folder, out=tmp_path / "out", workers=2, adapters=["none such"])
    (tmp_path / "bad.tflite").write_bytes(b"TFL3 no model")
    with pytest.raises(BadInput):
        batches.ran(tmp_path / "bad.tflite", folder, out=tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()
    assert not multiprocessing.active_children()


def test_a_worker_without_its_adapter(given: Any, tmp_path: Path) -> None:
    """The other workers take over the parts of a worker without adapter."""
    model, folder, wanted = given
    said: list[str] = []
    outcome = batches.ran(model, folder, out=tmp_path / "out", batch=2, workers=2,
                          adapters=["0", "none such"], said=said)  # fmt: skip
    assert (outcome.done, outcome.failures) == (COUNT, [])
    assert batches.files(tmp_path / "out") == wanted


def gone(group: int) -> bool:
    """Whether all processes of a group end within seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c(tmp_path: Path) -> None:
    """Finished results are kept, workers are gone, and the run can be continued later."""
    model = batches.model(tmp_path)
    np.save(tmp_path / "all.npy", batches.values(20_000))
    line = [sys.executable, "-m", "tflgpu_plugin.cli", "run", str(model), str(tmp_path / "all.npy")]
    line += ["--out", str(tmp_path / "out"), "--workers", "2", "--batch", "8"]
    process = subprocess.Popen(
        line, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=batches.interruptible,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not [*tmp_path.glob("out/part-*.npz")] and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "--resume continues" in said and "Traceback" not in said
    assert gone(process.pid)
    finished = batches.files(tmp_path / "out")
    assert 0 < len(finished) < 2500
    assert all(np.load(path)["second"].shape == (8, 8, 8, 4)
               for path in tmp_path.glob("out/part-*.npz"))  # fmt: skip


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Workers end however the process that started them ends."""
    model = batches.model(tmp_path)
    np.save(tmp_path / "all.npy", batches.values(20_000))
    line = [sys.executable, "-m", "tflgpu_plugin.cli", "run", str(model), str(tmp_path / "all.npy")]
    line += ["--out", str(tmp_path / "out"), "--workers", "2", "--batch", "8"]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not [*tmp_path.glob("out/part-*.npz")] and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert gone(process.pid)
