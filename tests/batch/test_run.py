"""Tests `tflgpu run` in one process: results are those of a loop, in order, and an interrupted run
can be continued."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conformance import host as hosts
from tests.support import batches, onnx_models
from tflgpu_plugin.batch import parts
from tflgpu_plugin.batch.spec import Spec
from tflgpu_plugin.harness.hosts import host, invoked
from tflgpu_plugin.harness.inputs import BadInput

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]


def loop(model: Path, given: batches.Array) -> batches.Array:
    """Runs a model without the plugin: one interpreter, one input after the other."""
    runner = host()
    interpreter = runner.interpreter(model.read_bytes(), experimental_delegates=[runner.delegate()])
    return np.concatenate([invoked(interpreter, [one[None]])[0] for one in given])


@pytest.mark.parametrize("batched", [True, False])
def test_results_are_those_of_a_loop(batched: bool, tmp_path: Path) -> None:
    given = batches.values(10)
    model, folder = batches.model(tmp_path, batched), batches.arrays(tmp_path / "in", given)
    outcome = batches.ran(model, folder, out=tmp_path / "out")
    found = batches.results(tmp_path / "out")
    assert (outcome.inputs, outcome.done, outcome.failures) == (10, 10, [])
    assert found["index"].tolist() == list(range(10))
    assert found["input"].tolist() == [str(path) for path in sorted(folder.iterdir())]
    np.testing.assert_array_equal(found["second"], loop(model, given))


def test_one_file_of_many_samples(tmp_path: Path) -> None:
    given, model = batches.values(6), batches.model(tmp_path)
    np.save(tmp_path / "all.npy", given)
    np.savez(tmp_path / "all.npz", x=given)
    for name in ("all.npy", "all.npz"):
        batches.ran(model, tmp_path / name, out=tmp_path / name[-3:])
        found = batches.results(tmp_path / name[-3:])
        assert found["input"].tolist() == [f"{tmp_path / name}#{row}" for row in range(6)]
        np.testing.assert_array_equal(found["second"], loop(model, given))


def test_a_session_with_a_batch_of_one(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(onnx_models.add_relu((1, 3, 5)))
    given = np.random.default_rng(3).uniform(-2, 2, (5, 3, 5)).astype(np.float32)
    np.save(tmp_path / "all.npy", given)
    batches.ran(tmp_path / "m.onnx", tmp_path / "all.npy", out=tmp_path / "out")
    wanted = np.maximum(given + np.linspace(-1, 1, 5).astype(np.float32), 0)
    np.testing.assert_array_equal(batches.results(tmp_path / "out")["y"], wanted)


def test_whole_tensors(tmp_path: Path) -> None:
    """The first extent of the inputs is not a batch."""
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(onnx_models.add_relu((2, 3, 5)))
    given = np.random.default_rng(3).uniform(-2, 2, (4, 2, 3, 5)).astype(np.float32)
    np.save(tmp_path / "all.npy", given)
    batches.ran(tmp_path / "m.onnx", tmp_path / "all.npy", out=tmp_path / "out", batch=0)
    assert batches.results(tmp_path / "out")["y"].shape == given.shape


def test_a_first_extent_that_is_no_batch_is_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [onnx_models.node("ReduceSum", ["x"], ["y"], keepdims=1)]
    (tmp_path / "m.onnx").write_bytes(
        onnx_models.model(nodes, {"x": ("n", 3, 5)}, {"y": (1, 1, 1)})
    )
    np.save(tmp_path / "all.npy", np.ones((4, 3, 5), np.float32))
    with pytest.raises(BadInput, match="not one row per input"):
        batches.ran(tmp_path / "m.onnx", tmp_path / "all.npy", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_texts(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)
    nodes = [onnx_models.node("Cast", ["x"], ["y"], to=8)]
    (tmp_path / "m.onnx").write_bytes(
        onnx_models.model(
            nodes, {"x": ("n", 2)}, {"y": ("n", 2)}, kinds={"x": np.int32, "y": object}
        )
    )
    np.save(tmp_path / "all.npy", np.array([[1, 2], [30, 4]], np.int32))
    batches.ran(tmp_path / "m.onnx", tmp_path / "all.npy", out=tmp_path / "out", kind=kind)
    if kind == "npz":
        found = batches.results(tmp_path / "out")["y"].tolist()
    else:
        found = parquet.read_table(tmp_path / "out").to_pydict()["y"]
    assert found == [["1", "2"], ["30", "4"]]


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    given = batches.values(11)
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", given)
    batches.ran(model, folder, out=tmp_path / "whole")

    def stop(done: int, whole: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batches.ran(model, folder, out=tmp_path / "out", progress=stop)
    finished = batches.files(tmp_path / "out")
    assert [*finished] == ["part-00000000.npz", "part-00000001.npz"]
    (tmp_path / "out" / ".part-00000002.npz.1.unfinished").write_bytes(b"half")
    before = (tmp_path / "out" / "part-00000000.npz").stat().st_mtime_ns
    outcome = batches.ran(model, folder, out=tmp_path / "out", resume=True)
    assert (outcome.before, outcome.done) == (8, 3)
    assert (tmp_path / "out" / "part-00000000.npz").stat().st_mtime_ns == before
    assert batches.files(tmp_path / "out") == batches.files(tmp_path / "whole")
    assert not [*(tmp_path / "out").glob(".*.unfinished")]
    again = batches.ran(model, folder, out=tmp_path / "out", resume=True)
    assert (again.before, again.done) == (11, 0)


def test_another_run_in_the_folder_is_a_sentence(tmp_path: Path) -> None:
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", batches.values(3))
    batches.ran(model, folder, out=tmp_path / "out")
    with pytest.raises(BadInput, match="add --resume"):
        batches.ran(model, folder, out=tmp_path / "out")
    batches.arrays(folder, batches.values(4))
    with pytest.raises(BadInput, match="differs in inputs, count"):
        batches.ran(model, folder, out=tmp_path / "out", resume=True)
    with pytest.raises(BadInput, match="holds other files"):
        batches.ran(model, folder, out=folder.parent)
    with pytest.raises(BadInput, match=r"is inside .*, a folder of inputs"):
        batches.ran(model, folder, out=folder / "out")
    with pytest.raises(BadInput, match="in is the folder of inputs: choose one beside it"):
        batches.ran(model, folder, out=folder)


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_unreadable_inputs_among_good_ones(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", exc_type=ImportError)
    given = batches.values(9)
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", given)
    (folder / "0002.npy").write_bytes(b"\x93NUMPY\x01\x00")
    np.save(folder / "0003.npy", np.ones((2, 2), np.float32))
    (folder / "0004.png").write_bytes(b"no picture")
    for number in (5, 6, 7, 8):
        (folder / f"000{number}.npy").write_bytes(b"")
    absent = tmp_path / "absent.npy"
    outcome = batches.ran(model, folder, absent, out=tmp_path / "out", kind=kind)
    reasons = {Path(one.input).name: one.reason for one in outcome.failures}
    assert "x takes [8, 8, 3], not [2, 2]" in reasons["0003.npy"]
    assert "cannot be read as a picture" in reasons["0004.png"]
    assert "No such file" in reasons["absent.npy"]
    assert len(reasons) == 8 and outcome.done == 11
    wanted = loop(model, given[[0, 1, 4]])
    if kind == "npz":
        found = batches.results(tmp_path / "out")
        rows, index = found["second"], found["index"].tolist()
    else:
        from pyarrow import parquet

        whole = parquet.read_table(tmp_path / "out").to_pydict()
        rows = np.array(whole["second"], np.float32).reshape(-1, 8, 8, 4)
        assert whole["second.shape"] == [[8, 8, 4]] * 3
        index = whole["index"]
    assert index == [0, 1, 4]
    np.testing.assert_array_equal(rows, wanted)
    again = batches.ran(model, folder, absent, out=tmp_path / "out", kind=kind, resume=True)
    assert (again.done, again.failures) == (0, outcome.failures)


def test_inputs_that_the_model_does_not_take(tmp_path: Path) -> None:
    """A batch that contains integers beyond int32 fails; the other batches do not."""
    pytest.importorskip("onnxruntime")
    nodes = [onnx_models.node("Gather", ["table", "x"], ["y"], axis=0)]
    table = np.arange(10, dtype=np.float32)
    (tmp_path / "m.onnx").write_bytes(
        onnx_models.model(nodes, {"x": ("n", 2)}, {"y": ("n", 2)}, {"table": table},
                          kinds={"x": np.int64})
    )  # fmt: skip
    np.save(tmp_path / "all.npy", np.array([[1, 2], [3, 1 << 40], [5, 6]], np.int64))
    outcome = batches.ran(tmp_path / "m.onnx", tmp_path / "all.npy", out=tmp_path / "out",
                          spec={"options": {"force": 1}})  # fmt: skip
    assert [one.index for one in outcome.failures] == [1]
    assert batches.results(tmp_path / "out")["y"].tolist() == [[1, 2], [5, 6]]


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = batches.arrays(tmp_path / "in", batches.values(2))
    (tmp_path / "bad.tflite").write_bytes(b"TFL3 no model")
    with pytest.raises(BadInput):
        batches.ran(tmp_path / "bad.tflite", folder, out=tmp_path / "out")
    with pytest.raises(ValueError, match="no_option"):
        more = {"options": {"no_option": 1}}
        batches.ran(batches.model(tmp_path), folder, out=tmp_path / "out", spec=more)
    assert not (tmp_path / "out").exists()


def test_a_lost_adapter_is_opened_again(tmp_path: Path) -> None:
    from tflgpu_plugin import native
    from tflgpu_plugin.runtime import adapter

    given = batches.values(12)
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", given)

    def lose(done: int, whole: int) -> None:
        if done == 4:
            native.lib.tg_device_mark_lost(adapter.open_device(adapter.select(None)).handle)

    outcome = batches.ran(model, folder, out=tmp_path / "out", progress=lose)
    assert (outcome.done, outcome.failures) == (12, [])
    np.testing.assert_array_equal(batches.results(tmp_path / "out")["second"], loop(model, given))


def test_models_with_variables_are_refused(tmp_path: Path) -> None:
    from tests.support import variable_models

    (tmp_path / "m.tflite").write_bytes(variable_models.streaming())
    folder = batches.arrays(tmp_path / "in", batches.values(2))
    with pytest.raises(BadInput, match="keeps variables"):
        batches.ran(tmp_path / "m.tflite", folder, out=tmp_path / "out")


def test_plans_are_kept_for_the_next_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", batches.values(2))
    batches.ran(model, folder, out=tmp_path / "out")
    assert [*(tmp_path / "cache" / "tflgpu-plugin" / "plans").iterdir()]
    given = Spec(model, options={"serialization_dir": "mine"}).ready("0").options
    assert given == {"serialization_dir": "mine", "adapter": "0"}


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"_run\.json"):
        parts.Folder(tmp_path / "out", "npz").begin({}, False)
    assert not any((tmp_path / "out").iterdir())
