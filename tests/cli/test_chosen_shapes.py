"""Tests that `demo`, `bench` and `profile` report the shapes that they chose for inputs with
dynamic extents."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.support import batches, onnx_models, resized_models
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network
from tflgpu_plugin.harness import hosts, inputs, onnx, tflite

pytestmark = pytest.mark.adapter
COMMANDS = (("demo",), ("bench",), ("profile",))


def onnx_file(folder: Path, op: str, **attributes: Any) -> Path:
    """Returns a model of a product whose first extent is open, followed by one operator."""
    if reason := onnx.missing():
        pytest.skip(reason)
    weights = np.linspace(-1, 1, 4096).astype(np.float32).reshape(64, 64)
    nodes = [
        onnx_models.node("MatMul", ["x", "w"], ["a"]),
        onnx_models.node(op, ["a"] if op == "Relu" else ["a", "pads"], ["y"], **attributes),
    ]
    pads = np.array([1, 0, 1, 0], np.int64)
    shapes: Any = {"x": ("n", 64)}, {"y": ("m", 64)}
    path = folder / "open.onnx"
    path.write_bytes(onnx_models.model(nodes, *shapes, {"w": weights, "pads": pads}))
    return path


def run(command: tuple[str, ...], path: Path, *more: str) -> Any:
    return CliRunner().invoke(main, [*command, str(path), "--runs", "1", *more])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_the_shapes_that_were_chosen_are_told(
    command: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    if kind == "onnx":
        path, name, shape = onnx_file(tmp_path, "Relu"), "x", [1, 64]
    elif hosts.installed():
        path, name, shape = batches.model(tmp_path), "x", [1, *batches.SHAPE]
    else:
        pytest.skip("no TFLite host")
    done = run(command, path)
    assert done.exit_code == 0, done.output
    told = f"The model has dynamic extents. Shapes used here: {name} {shape}."
    assert done.stdout.count(told) == 1
    found = json.loads(run(command, path, "--json").stdout)
    assert found["chosen_shapes"] == {name: shape}


@pytest.mark.skipif(not hosts.installed(), reason="no TFLite host")
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_told_of_shapes_that_are_fixed(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "fixed.tflite"
    path.write_bytes(network.to_tflite(network.build()))
    assert "hapes" not in run(command, path).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_that_does_not_take_them(command: tuple[str, ...], tmp_path: Path) -> None:
    """Reflection needs at least two rows."""
    done = run(command, onnx_file(tmp_path, "Pad", mode="reflect"))
    assert done.exit_code == 2 and "Traceback" not in done.output
    assert "onnxruntime does not accept these values: " in done.stderr
    assert "Shapes used here: x [1, 64]. Give others with --shape NAME=1x512" in done.stderr


@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("command", COMMANDS)
def test_a_tflite_model_that_does_not_take_them(
    command: tuple[str, ...], host: str, tmp_path: Path
) -> None:
    """The window needs 512 samples, and the file states one."""
    path = tmp_path / "samples.tflite"
    path.write_bytes(resized_models.melspectrogram())
    done = run(command, path, "--host", host)
    assert done.exit_code == 2 and "Traceback" not in done.output
    assert f"Error: {host} " in done.stderr and "does not accept these values: " in done.stderr
    assert "Shapes used here: samples [1, 1]. Give others with --shape" in done.stderr


@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("command", COMMANDS)
def test_shapes_that_a_tflite_model_does_not_take(
    command: tuple[str, ...], host: str, tmp_path: Path
) -> None:
    """The last node makes one row of scores."""
    path = tmp_path / "fixed.tflite"
    path.write_bytes(network.to_tflite(network.build()))
    done = run(command, path, "--host", host, "--shape", "image=2x224x224x3")
    assert done.exit_code == 2 and "Traceback" not in done.output, done.output
    assert f"Error: {host} " in done.stderr, done.stderr
    assert "cannot run the model with the shapes given: " in done.stderr
    assert "Give its own: image [1, 224, 224, 3]." in done.stderr


def test_open_extents_of_either_host() -> None:
    details = [
        {"name": "a", "shape": [1, 3], "open": (None, 3)},
        {"name": "c", "shape": [2], "open": (2,)},
    ]
    told = [
        {"name": "b", "shape": np.array([1, 3]), "shape_signature": np.array([-1, 3])},
        {"name": "d", "shape": np.array([2]), "shape_signature": np.array([2])},
        {"name": "e", "shape": np.array([1]), "shape_signature": np.array([])},
    ]
    host: Any = SimpleNamespace(
        name="",
        plain=lambda _: SimpleNamespace(get_input_details=lambda: told, get_signature_list=dict),
    )
    details += tflite.details(host, b"", Path())
    assert inputs.chosen(details) == {"a": [1, 3], "b": [1, 3]}


@pytest.mark.parametrize("command", ["bench", "compare", "demo", "profile"])
def test_texts_as_inputs_are_a_sentence_and_check_takes_the_model(
    command: str, tmp_path: Path
) -> None:
    if reason := onnx.missing():
        pytest.skip(reason)
    path, texts = tmp_path / "texts.onnx", {"t": object, "u": object}
    nodes = [onnx_models.node("Identity", ["t"], ["u"]), onnx_models.node("Relu", ["x"], ["y"])]
    shapes: Any = {"t": (2,), "x": (2, 4)}, {"u": (2,), "y": (2, 4)}
    path.write_bytes(onnx_models.model(nodes, *shapes, kinds=texts))
    said = CliRunner().invoke(main, [command, str(path)])
    assert said.exit_code == 2 and "The input t is a tensor(string), for which no" in said.stderr
    done = CliRunner().invoke(main, ["check", str(path), "--require", "1"])
    assert done.exit_code == 0, done.output
