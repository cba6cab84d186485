"""Tests ONNX models with weights in a separate file, which is mapped if other shapes are
possible."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.large_models import make
from tflgpu_plugin.errors import BuildError
from tflgpu_plugin.harness import onnx as runner
from tflgpu_plugin.ir import Array
from tflgpu_plugin.providers import HostNode, Value
from tflgpu_plugin.providers.onnxruntime import external, snapshot
from tflgpu_plugin.providers.onnxruntime.external import Files, Origin
from tflgpu_plugin.providers.onnxruntime.snapshot import Snapshot

SIDE = 160  # a matrix is just worth mapping


def open_model(folder: Path) -> Path:
    """Returns a model of two matrix products with any number of rows."""
    import onnx

    path = folder / "model.onnx"
    make("external", path, SIDE, 2)
    model = onnx.load(path, load_external_data=False)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    path.write_bytes(model.SerializeToString())
    return path


def session(path: Path, gpu: bool = True) -> Any:
    return runner.opened(path, runner.settings(), {} if gpu else None)


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, SIDE)).astype(np.float32)


@pytest.mark.adapter
def test_weights_are_mapped_and_every_shape_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    kept = snapshot.Keeper.kept

    def watched(self: Any, value: Any, origins: Any) -> Any:
        found = kept(self, value, origins)
        if value.data is not None and found.data.base is None:
            copied.append(value.name)
        return found

    monkeypatch.setattr(snapshot.Keeper, "kept", watched)
    path = open_model(tmp_path)
    ours, theirs = session(path), session(path, gpu=False)
    for count in (1, 9, 3, 30):
        (found,), (wanted,) = (s.run(None, {"x": rows(count)}) for s in (ours, theirs))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert copied == []


@pytest.mark.adapter
def test_a_file_that_changed_is_not_read_again(tmp_path: Path) -> None:
    path = open_model(tmp_path)
    ours = session(path)
    before = ours.run(None, {"x": rows(1)})
    with Path(f"{path}.data").open("r+b") as file:
        file.write(b"\xff" * 4096)
    with pytest.raises(Exception, match="has changed since the session was made"):
        ours.run(None, {"x": rows(9)})
    assert np.array_equal(ours.run(None, {"x": rows(1)}), before)  # what is there still runs


def test_only_what_is_there_is_mapped(tmp_path: Path) -> None:
    data = np.random.default_rng(0).standard_normal((300, 100)).astype(np.float32)
    (tmp_path / "weights").write_bytes(b"12345678" + data.tobytes())
    files, size = Files(tmp_path), data.nbytes
    found = files.view(Origin("weights", 8, size), data)
    assert found is not None and np.array_equal(found, data) and not found.flags.writeable
    os.mkfifo(tmp_path / "pipe")
    for other in (
        Origin("weights", 4, size),
        Origin("weights", 12, size),
        Origin("weights", 8, size - 4),
        Origin("absent", 8, size),
        Origin("..", 8, size),
        Origin("pipe", 0, size),
    ):
        assert files.view(other, data) is None, other
    assert files.view(Origin("weights", 8, size), data.T) is None
    assert files.view(Origin("weights", 8, 400), data[:1]) is None
    files.check()
    os.truncate(tmp_path / "weights", 100)
    with pytest.raises(BuildError, match="'weights' of this model's weights"):
        files.check()


def test_constants_of_bodies_are_mapped_and_copied_once(tmp_path: Path) -> None:
    weight, outer = (np.random.default_rng(k).standard_normal((300, 100)) for k in range(2))
    (tmp_path / "weights").write_bytes(weight.tobytes())
    origins = {"w": Origin("weights", 0, weight.nbytes)}
    path = str(tmp_path / "model.onnx")

    def value(name: str, data: Array | None = None) -> Value:
        return Value(name, "f64", (300, 100), data)

    def graph(node: HostNode, **values: Array) -> Snapshot:
        data = {name: values.get(name) for name in (*node.reads, *node.writes, *values)}
        named = {name: value(name, array) for name, array in data.items()}
        return Snapshot((node,), named, node.writes, {}, path, origins=origins)

    add = HostNode(0, "Add", "", 14, "", ("w", "v"), ("y",))
    inner = graph(add, w=weight, v=outer)
    branch = HostNode(0, "If", "", 19, "", ("c",), ("y",), ("v",), bodies=(inner, inner))
    model = graph(branch, v=outer)
    assert model.bytes == weight.nbytes + outer.nbytes
    kept = model.part({0}, ("y",))
    assert kept.bytes == model.bytes and kept.files is not None
    copy = kept.values["v"].data
    assert copy is not None and not np.shares_memory(copy, outer)
    for body in kept.nodes[0].bodies:
        mapped, same = (body.values[name].data for name in "wv")
        assert same is copy and mapped is not None and not mapped.flags.writeable
        assert np.array_equal(mapped, weight)


@pytest.mark.parametrize("place", [0, 7, 1025, 15_000, -8, -1])
def test_other_values_are_not_those_of_the_file(
    tmp_path: Path, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "COMPARED", 4096)
    data = np.random.default_rng(1).standard_normal((300, 100)).astype(np.float32)
    (tmp_path / "weights").write_bytes(data.tobytes())
    other = data.copy()
    other.reshape(-1)[place] += 1
    origin = Origin("weights", 0, data.nbytes)
    assert Files(tmp_path).view(origin, other) is None
    assert Files(tmp_path).view(origin, data) is not None


def test_as_few_values_as_are_mapped_are_compared_too(tmp_path: Path) -> None:
    data = np.arange(external.MIN_BYTES // 4, dtype=np.int32)
    (tmp_path / "weights").write_bytes(data.tobytes())
    origin = Origin("weights", 0, data.nbytes)
    assert Files(tmp_path).view(origin, data) is not None
    less = data[:-1].copy()
    assert Files(tmp_path).view(Origin("weights", 0, less.nbytes), less) is None


def test_files_are_closed_with_their_last_view(tmp_path: Path) -> None:
    data = np.ones(external.MIN_BYTES, np.uint8)
    (tmp_path / "weights").write_bytes(data.tobytes())
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    files = Files(tmp_path)
    assert files.view(Origin("weights", 0, data.nbytes), data) is not None
    del files
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_are_closed_when_modules_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At process exit, module globals are None before the last objects are freed."""
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(1 << 16))
    files = Files(tmp_path)
    files.mapped_file("weights")
    assert weights in opened()
    monkeypatch.setattr(external, "os", None)
    del files
    gc.collect()
    assert weights not in opened()


def opened() -> set[Path]:
    """Returns the files that this process has open."""
    return {Path(os.path.realpath(f"/proc/self/fd/{n}")) for n in os.listdir("/proc/self/fd")}
