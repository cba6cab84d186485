"""Runs on a local Ray cluster give the results of one process, bit for bit, whatever happens to
workers."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from tests.docs.test_page_blocks import blocks, plain
from tests.support import batches
from tests.support.ray_workers import Dying, Large, Unlucky
from tests.support.subprocesses import ROOT
from tflgpu_plugin.batch import Predictor, on_ray, run
from tflgpu_plugin.cli import commands
from tflgpu_plugin.runtime import adapter

ray: Any
try:
    import ray
    import ray.data
except ImportError:
    ray = None
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(ray is None, reason="Ray has no wheel here: pip install -e .[ray]"),
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]
STORE = 100 << 20  # bytes of the object store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of a Ray cluster. Its workers see the system's software driver twice, as
    two equal GPUs."""
    variables = {"PYTHONPATH": str(ROOT)} | batches.twice(tmp_path_factory.mktemp("drivers"))
    variables |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():  # a runtime environment costs each actor a start
            patch.setenv(name, value)
        ray.init(
            address="local", num_cpus=4, include_dashboard=False, object_store_memory=STORE,
            logging_level="error", log_to_driver=False,
        )  # fmt: skip
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def dataset(given: batches.Array, blocks: int) -> Any:
    rows = [{"number": number, "x": value} for number, value in enumerate(given)]
    return ray.data.from_items(rows, override_num_blocks=blocks)


def mapped(
    made: Any, worker: Any, *arguments: Any, size: int = 2, batch: int = 8, **more: Any
) -> Any:
    return made.map_batches(
        worker, fn_constructor_args=arguments, fn_constructor_kwargs={"batch": batch},
        batch_size=batch, compute=ray.data.ActorPoolStrategy(size=size), num_cpus=1, **more,
    )  # fmt: skip


def test_workers_that_are_killed_or_lose_their_adapter(cluster: str, tmp_path: Path) -> None:
    """Workers are actors of Ray Data on two adapters; the last batch of each block is not full."""
    given, model = batches.values(100), batches.model(tmp_path)
    wanted = Predictor(model, batch=8)({"x": given})["second"]
    adapters = [str(one.index) for one in adapter.adapters()]
    if batches.twice(tmp_path):
        adapters = ["0", "1"]
    made = mapped(dataset(given, 10), Unlucky, str(model), str(tmp_path), tuple(adapters))
    out = made.take_all()
    assert {str(row["adapter"]) for row in out} == {*adapters[:2]}
    assert (tmp_path / "killed").exists() and (tmp_path / "lost").exists()
    assert [row["number"] for row in out] == list(range(100))
    np.testing.assert_array_equal([row["second"] for row in out], wanted)


def test_a_run_on_a_cluster(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some inputs are unreadable, and one ends its process each time it is read. Inputs queued
    behind it are not lost: its part is completed later. The files are equal to those of one
    process."""
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", batches.values(30))
    (folder / "0003.npy").write_bytes(b"no array")
    (folder / "0013.png").write_bytes(b"no picture")
    alone = batches.ran(model, folder, out=tmp_path / "alone")
    unreadable = [one.index for one in alone.failures]
    assert unreadable == [3, 14]
    monkeypatch.setattr(on_ray, "Actor", Dying)
    monkeypatch.setattr(on_ray, "TRIES", 1)  # Ray takes seconds for each
    outcome = batches.ran(model, folder, out=tmp_path / "out", ray=cluster, workers=2)
    assert [one.index for one in outcome.failures] == [3, 4, 5, 6, 7, 14]
    assert "the worker that ran it died 1 times" in outcome.failures[2].reason
    outcome = batches.ran(model, folder, out=tmp_path / "out", resume=True)
    assert (outcome.before, outcome.done, outcome.failures) == (27, 4, alone.failures)
    assert batches.files(tmp_path / "out") == batches.files(tmp_path / "alone")


def test_a_model_that_no_worker_can_load(cluster: str, tmp_path: Path) -> None:
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", batches.values(4))
    with pytest.raises(run.Stopped, match="No adapter matches"):
        batches.ran(model, folder, out=tmp_path / "out", ray=cluster, adapters=["none such"])


def test_a_slow_sink_holds_workers_back(cluster: str) -> None:
    """Results that wait are limited by the object store, a fraction of all results."""
    count, times = 100, []
    rows = dataset(np.zeros((count, 1), np.float32), count)
    for row in mapped(rows, Large, batch=1).iter_rows():
        times.append((row["made"], time.time()))
        time.sleep(0.02)
    made = np.sort([one for one, _ in times])
    ahead = [np.searchsorted(made, taken) - number for number, (_, taken) in enumerate(times)]
    assert len(times) == count
    assert max(ahead) * (2 << 20) <= STORE / 2, max(ahead)


def alive(name: str) -> list[str]:
    """Returns the processes whose titles contain this text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            title = path.read_bytes()
        except OSError:
            continue
        found += [path.parent.name] if name.encode() in title else []
    return found


def page(start: str) -> str:
    (found,) = [one.text for one in blocks("docs/scale-out.md") if one.text.startswith(start)]
    return found


def test_the_blocks_of_the_page(
    cluster: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs the page's blocks: the command, Ray Data, and Ray Serve with batched requests."""
    parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)
    serve = pytest.importorskip("ray.serve", reason="ray[serve] is not installed")
    batches.user_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = ("model.tflite", "pictures", "found")

    def there(text: str) -> str:
        """Returns the text with absolute paths, because actors run in another folder."""
        for name in names:
            text = text.replace(f'"{name}"', f'"{tmp_path / name}"')
        return text

    line = page("tflgpu run model.tflite pictures --out results --ray").split()[1:]
    with pytest.raises(SystemExit, match="1"):
        commands.main(line, standalone_mode=False)
    assert "9 of 10 inputs have results" in capsys.readouterr().out
    (tmp_path / "pictures" / "broken.png").unlink()
    exec(there(page("import ray")), {"__name__": "__main__"})
    found = parquet.read_table(tmp_path / "found").to_pydict()
    assert sorted(found) == ["path", "probabilities"] and len(found["path"]) == 9
    serve.start(http_options={"location": "NoServer"})
    try:
        exec(there(page("import numpy")), {"__name__": "__main__"})
    finally:
        serve.shutdown()
    said = [one for one in capsys.readouterr().out.splitlines() if one.startswith("picture ")]
    shown = page("picture 0")
    assert plain(said[0]) == plain(shown) and len(said) == 20
    assert max(int(one.split()[-1]) for one in said) > 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_ctrl_c(cluster: str, tmp_path: Path) -> None:
    """After Ctrl-C, workers are gone, finished results are kept, and another run continues."""
    model = batches.model(tmp_path)
    np.save(tmp_path / "all.npy", batches.values(4000))
    line = [sys.executable, "-m", "tflgpu_plugin.cli", "run", str(model), str(tmp_path / "all.npy")]
    line += ["--out", str(tmp_path / "out"), f"--ray={cluster}", "--batch", "4"]
    process = subprocess.Popen(
        line, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=batches.interruptible
    )
    # Ray gives a worker that does not start a minute before it starts another.
    deadline = time.monotonic() + 150
    while not [*tmp_path.glob("out/part-*.npz")] and time.monotonic() < deadline:
        if process.poll() is not None:
            break  # its error is shown below
        time.sleep(0.02)
    working = alive("MapBatches(Actor)")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert working and process.returncode == 130, (working, said, ray.available_resources())
    assert "--resume continues" in said and "Traceback" not in said
    while alive("MapBatches(Actor)") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive("MapBatches(Actor)")
    finished = len(batches.files(tmp_path / "out"))
    assert 0 < finished < 1000
    outcome = batches.ran(model, tmp_path / "all.npy", out=tmp_path / "out", resume=True)
    assert (outcome.before, outcome.done) == (4 * finished, 4000 - 4 * finished)
