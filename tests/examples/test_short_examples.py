"""Tests the short programs in examples/ on small models with seeded weights: what they print and
write is what they compute with the host's CPU kernels, and all nodes run on the GPU."""

from __future__ import annotations

import json
import re
import wave
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conformance.models.tflite import Model
from tests.support import onnx_models, small_models
from tests.support.onnx_models import Array, node
from tests.support.subprocesses import ROOT
from tflgpu_plugin.ir.quantization import Quantization

SHORT = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
LONG = {"chat", "export_decoders", "generate", "two_models"}  # test_examples.py
adapter = pytest.mark.adapter
Print = pytest.CaptureFixture[str]


def example(name: str, *packages: str) -> Any:
    """Returns an example as a module."""
    for package in packages:
        pytest.importorskip(package)
    return import_module(f"examples.{name}")


def seeded(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def photo(path: Path, size: tuple[int, int] = (24, 16)) -> str:
    """Writes a picture of seeded pixels, and returns its name."""
    pixels = np.random.default_rng(3).integers(0, 256, (*size[::-1], 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return str(path)


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def onnx_file(
    path: Path, nodes: Sequence[Any], shape: Sequence[int | str], constants: dict[str, Array]
) -> str:
    return written(path, onnx_models.model(nodes, {"x": shape}, {"y": None}, constants))


def all_on_gpu(said: str) -> bool:
    return bool(re.search(r"\b(\d+) of \1 nodes on the GPU", said))


def cpu(path: str) -> Any:
    return onnx_models.cpu(Path(path).read_bytes())


@adapter
def test_classes_of_a_picture_in_onnxruntime(tmp_path: Path, capsys: Print) -> None:
    module = example("classify_onnx", "onnx", "onnxruntime")
    nodes = [
        node("Conv", ["x", "w"], ["a"], strides=[4, 4]),
        node("Relu", ["a"], ["b"]),
        node("GlobalAveragePool", ["b"], ["c"]),
        node("Flatten", ["c"], ["y"]),
    ]
    model = onnx_file(tmp_path / "m.onnx", nodes, [1, 3, 16, 16], {"w": seeded(7, 3, 4, 4)})
    name = photo(tmp_path / "photo.png")
    module.main(model, name, name)
    said = capsys.readouterr().out
    wanted = module.scores(cpu(model), Image.open(name))
    best = np.argsort(-wanted)[:5]
    assert said.count(", ".join(f"class {k} {wanted[k]:.3f}" for k in best)) == 2
    assert all_on_gpu(said) and np.isclose(wanted.sum(), 1)


def pooled() -> bytes:
    """Returns an 8-bit model of the mean of each channel."""
    model = Model()
    options = {"padding": "VALID", "strideH": 8, "strideW": 8, "filterHeight": 8, "filterWidth": 8}
    x = model.input("x", (1, 8, 8, 3), "i8")
    mean = model.op("AVERAGE_POOL_2D", [x], "Pool2DOptions", options, shape=(1, 1, 1, 3),
                    dtype="i8", version=2)  # fmt: skip
    shape = model.constant(np.array([1, 3], np.int32))
    model.output(model.op("RESHAPE", [mean, shape], shape=(1, 3), dtype="i8"))
    for tensor in model.tensors:
        if tensor.dtype == "i8":
            tensor.quantization = Quantization((1 / 256,), (-128,))
    return model.to_bytes()


@adapter
@pytest.mark.parametrize("kind", ["float", "8 bits"])
def test_classes_of_a_picture_in_litert(kind: str, tmp_path: Path, capsys: Print) -> None:
    module = example("classify_litert", "ai_edge_litert")
    content = small_models.guide() if kind == "float" else pooled()
    name = photo(tmp_path / "photo.png")
    module.main(written(tmp_path / "m.tflite", content), name)
    said = capsys.readouterr().out
    interpreter = module.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    wanted = module.scores(interpreter, Image.open(name))
    found = {int(k): float(v) for k, v in re.findall(r"class (\d+) ([\d.]+)", said)}
    assert found == pytest.approx(dict(enumerate(wanted)), abs=1e-3) and all_on_gpu(said)
    if kind == "8 bits":  # scores are shares of white
        small = np.asarray(Image.open(name).resize((8, 8)), np.float32)
        np.testing.assert_allclose(wanted, small.mean((0, 1)) / 256, atol=1 / 256)


@adapter
def test_windows_of_a_recording(tmp_path: Path, capsys: Print) -> None:
    module = example("listen", "tflite_runtime", "ai_edge_litert")
    model, kind = Model(), "FullyConnectedOptions"
    reads = [model.input("x", (1, 64)), model.constant(seeded(5, 64)), model.constant(seeded(5))]
    model.output(model.op("FULLY_CONNECTED", reads, kind, {}, shape=(1, 5)))
    content, samples = model.to_bytes(), (seeded(160) * 30000).astype("<i2")
    with wave.open(str(tmp_path / "r.wav"), "wb") as file:
        file.setparams((2, 2, 100, 0, "NONE", ""))
        file.writeframes(np.stack([samples, 0 * samples], 1).tobytes())
    module.main(written(tmp_path / "m.tflite", content), str(tmp_path / "r.wav"))
    said = capsys.readouterr().out
    wanted = [
        reads_of(samples[start : start + 64], seeded(5, 64), seeded(5)) for start in (0, 32, 64, 96)
    ]
    found = re.findall(r"([\d.]+) s: class (\d+), (-?[\d.]+)", said)
    assert [(float(s), int(k)) for s, k, _ in found] == [
        (0.32 * n, int(scores.argmax())) for n, scores in enumerate(wanted)
    ]
    np.testing.assert_allclose([float(v) for *_, v in found], np.max(wanted, 1), atol=1e-3)
    assert all_on_gpu(said)


def reads_of(samples: Array, weights: Array, bias: Array) -> Array:
    scores: Array = weights @ (samples / np.float32(32768)) + bias
    return scores


@adapter
@pytest.mark.parametrize("open_size", [False, True])
def test_a_picture_without_its_background(open_size: bool, tmp_path: Path) -> None:
    module = example("remove_background", "onnx", "onnxruntime")
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"]),
        node("Sigmoid", ["c"], ["y"]),
    ]
    shape = [1, 3, "height", "width"] if open_size else [1, 3, 32, 48]
    weights = {"w1": seeded(4, 3, 3, 3), "w2": seeded(1, 4, 1, 1)}
    model = onnx_file(tmp_path / "m.onnx", nodes, shape, weights)
    name, out = photo(tmp_path / "photo.png"), tmp_path / "out.png"
    module.main(model, name, str(out))
    cut, picture = Image.open(out), Image.open(name)
    wanted = np.asarray(module.mask(cpu(model), picture), np.int16)
    alpha = np.asarray(cut.getchannel("A"), np.int16)
    assert np.abs(alpha - wanted).max() <= 1 and np.ptp(wanted) > 100
    np.testing.assert_array_equal(np.asarray(cut.convert("RGB")), np.asarray(picture))


@adapter
def test_lines_of_text(tmp_path: Path, capsys: Print) -> None:
    module = example("read_lines", "onnx", "onnxruntime")
    nodes = [
        node("Conv", ["x", "w"], ["a"], strides=[16, 4]),
        node("Squeeze", ["a", "two"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1]),
        node("Softmax", ["c"], ["y"], axis=2),
    ]
    weights = {"w": seeded(4, 3, 16, 4), "two": np.array([2])}
    model = onnx_file(tmp_path / "m.onnx", nodes, [1, 3, 16, "width"], weights)
    alphabet = tmp_path / "alphabet.txt"
    alphabet.write_text("a\nb\n")
    lines = [photo(tmp_path / f"{width}.png", (width, 20)) for width in (90, 140, 200)]
    module.main(model, str(alphabet), *lines)
    said = capsys.readouterr().out
    session = cpu(model)
    for line in lines:
        wanted = module.text(module.classes(session, Image.open(line)), ["a", "b", " "])
        assert f"{line}: {wanted}\n" in said and len(wanted) > 4
    assert all_on_gpu(said)


def test_a_character_goes_on_until_its_class_changes() -> None:
    module = example("read_lines", "onnxruntime")
    steps = np.array([0, 1, 1, 0, 1, 2, 2, 0, 0, 3])
    assert module.text(steps, ["a", "b", " "]) == "aab "
    assert module.text(np.array([2, 2]), ["a", "b"]) == "b"


@adapter
def test_objects_of_a_picture(tmp_path: Path, capsys: Print) -> None:
    module = example("detect", "onnx", "onnxruntime")
    nodes = [
        node("Conv", ["x", "w"], ["a"], strides=[8, 8]),
        node("Reshape", ["a", "shape"], ["b"]),
        node("Split", ["b", "parts"], ["c", "d"], axis=1),
        node("Abs", ["c"], ["e"]),
        node("Sigmoid", ["d"], ["f"]),
        node("Concat", ["e", "f"], ["y"], axis=1),
    ]
    constants = {"w": seeded(7, 3, 8, 8), "shape": np.array([1, 7, 16]), "parts": np.array([4, 3])}
    model = onnx_file(tmp_path / "m.onnx", nodes, [1, 3, 32, 32], constants)
    name = photo(tmp_path / "photo.png", (64, 48))
    module.main(model, name)
    said = capsys.readouterr().out
    wanted = module.boxes(cpu(model), Image.open(name))
    found = re.findall(r"class (\d), ([\d.]+): ([-\d, ]+)", said)
    assert len(found) == len(wanted) > 1
    for (number, score, corners), (k, value, at) in zip(found, wanted, strict=True):
        assert int(number) == k and float(score) == pytest.approx(value, abs=1e-3)
        assert [int(n) for n in corners.split(",")] == pytest.approx(at, abs=1)


def test_of_boxes_that_overlap_the_best_of_each_class_stays() -> None:
    module = example("detect", "onnxruntime")

    class Session:
        """Gives three boxes that overlap, of two classes, one beside them, and an unlikely one."""

        def get_inputs(self) -> list[Any]:
            return [type("Input", (), {"name": "x", "shape": [1, 3, 32, 32]})]

        def run(self, _: None, feeds: dict[str, Array]) -> list[Array]:
            assert feeds["x"].shape == (1, 3, 32, 32)
            assert np.allclose(feeds["x"][0, :, 16:], 114 / 255)  # below a wide picture
            sizes = [(8, 8, 8, 8), (8, 9, 8, 8), (8, 8, 8, 8), (24, 8, 8, 8), (8, 24, 8, 8)]
            scores = [(0.6, 0), (0.9, 0), (0, 0.5), (0.3, 0), (0.2, 0.1)]
            return [np.hstack([sizes, scores]).astype(np.float32).T[None]]

    found = module.boxes(Session(), Image.new("RGB", (64, 32)))
    assert [(k, round(score, 1)) for k, score, _ in found] == [(0, 0.9), (1, 0.5), (0, 0.3)]
    assert found[0][2] == [8, 10, 24, 26]  # twice as large as in the model's picture


@adapter
def test_a_library_that_names_no_provider(tmp_path: Path, capsys: Print) -> None:
    module = example("unchanged", "onnx", "onnxruntime")
    module.main(written(tmp_path / "m.onnx", onnx_models.add_relu()))
    said = capsys.readouterr().out
    assert "[(2, 3, 5)]" in said and all_on_gpu(said)


@adapter
def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package)
    (tmp_path / "model.onnx").write_bytes(onnx_models.convolutions())
    monkeypatch.chdir(tmp_path)
    book = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in book["cells"])
    names: dict[str, Any] = {}
    shape = "for n in given.shape"
    code = "\n".join(cells)
    assert code.count(shape) == 1 and code.count("else 1") == 1
    exec(code.replace("else 1", "else 8"), names)  # small pictures
    assert max(names["differences"]) < 1e-5 and len(names["ours"]) == 1
    shown = eval(cells[-1].splitlines()[-1], names)
    assert shown["gpu"] > 0 and shown["cpu"] > 0


def test_every_example_is_tested_short_and_listed() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for name in SHORT:
        assert f"({name}.py)" in page
        if name not in LONG:
            text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
            assert f'example("{name}"' in here and len(text.splitlines()) < 60
    assert len(SHORT) >= 8 and set(SHORT) > LONG
