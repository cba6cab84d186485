"""Tests the programs in examples/: their output, and their status when something is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conformance.models import decoders
from examples import chat, generate, two_models
from tests.support.onnx_models import add_relu
from tests.support.subprocesses import ROOT

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SIZE = decoders.Size(layers=1, width=64, heads=4, words=99)
EXPORTER = ROOT / "build" / "exporters" / "torch" / "bin" / "python"
MODELS, IMAGES = ROOT.parent / "shared" / "models", ROOT.parent / "shared" / "images"
adapter = pytest.mark.adapter
Print = pytest.CaptureFixture[str]


def _folder(path: Path, write: Callable[[decoders.Size], bytes] = decoders.gpt) -> Path:
    """Returns a folder with a decoder that onnxruntime-genai and generate.py accept."""
    (path / "model.onnx").write_bytes(write(SIZE))
    (path / "genai_config.json").write_text(json.dumps(decoders.genai_settings(SIZE)))
    return path


@adapter
@pytest.mark.parametrize("batch", ["1", "3"])
def test_a_decoder_of_a_folder_gives_the_tokens_of_the_cpu(
    tmp_path: Path, capsys: Print, batch: str
) -> None:
    given = ["--model", str(_folder(tmp_path)), "--tokens", "12", "--batch", batch]
    assert generate.main(given) == 0
    text = capsys.readouterr().out
    assert re.search(r" (\d+) of \1 nodes on the GPU; the same tokens", text)


@adapter
def test_a_merged_decoder_gives_the_tokens_of_the_cpu(tmp_path: Path, capsys: Print) -> None:
    """Both branches run on the GPU; the node that selects one stays."""
    (tmp_path / "decoder_model_merged.onnx").write_bytes(decoders.merged(SIZE))
    assert generate.main(["--model", str(tmp_path), "--tokens", "5"]) == 0
    found = re.search(r" (\d+) of (\d+) nodes on the GPU; the same", capsys.readouterr().out)
    assert found and int(found[1]) == int(found[2]) - 1


@adapter
def test_other_tokens_are_status_1(
    tmp_path: Path, capsys: Print, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = generate.decoded

    def other(folder: Path, provider: str, *rest: object) -> generate.Text:
        made = true(folder, provider, *rest)  # type: ignore[arg-type]
        if provider == generate.CPU:
            made.tokens[0, -1] += 1
        return made

    monkeypatch.setattr(generate, "decoded", other)
    assert generate.main(["--model", str(_folder(tmp_path)), "--tokens", "3"]) == 1
    assert "the CPU's tokens differ" in capsys.readouterr().out


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns folders of decoders that were exported in the environment of `make exported`."""
    if not EXPORTER.exists():
        pytest.skip("torch and transformers are not installed: make exported installs them")
    folder = tmp_path_factory.mktemp("exported")
    export = [EXPORTER, ROOT / "examples" / "export_decoders.py", folder]
    subprocess.run(export, check=True, capture_output=True)
    return folder


@adapter
@pytest.mark.parametrize("kind", generate.KINDS)
def test_exported_decoders_give_the_tokens_of_the_cpu(exported: Path, kind: str) -> None:
    given = ["--model", str(exported / kind), "--tokens", "10", "--batch", "2"]
    assert generate.main(given) == 0


@adapter
@pytest.mark.parametrize("what", ["folder", "model"])
def test_what_cannot_be_decoded_is_status_2(tmp_path: Path, capsys: Print, what: str) -> None:
    if what == "model":
        (tmp_path / "model.onnx").write_bytes(add_relu())
    assert generate.main(["--model", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert ("has no decoder" if what == "folder" else "no cache") in said


@adapter
def test_a_token_without_a_word_is_status_2(tmp_path: Path, capsys: Print) -> None:
    """A token of the prompt is not in the table of words."""
    assert generate.main(["--model", str(_folder(tmp_path)), "--prompt", "5", "1000"]) == 2
    assert "cannot run a step" in capsys.readouterr().err


@adapter
@pytest.mark.parametrize("batch", ["1", "4"])
def test_genai_gives_the_tokens_of_the_cpu(tmp_path: Path, capsys: Print, batch: str) -> None:
    pytest.importorskip("onnxruntime_genai")
    folder = str(_folder(tmp_path, decoders.grouped))
    given = [folder, "--compare", "5 17 42", "--tokens", "12", "--batch", batch]
    assert chat.main(given) == 0
    text = capsys.readouterr().out
    assert re.search(r"^(\d+) of \1 nodes on the GPU in 1 partition", text, re.MULTILINE)
    assert "12 runs" in text and "the same tokens" in text


@adapter
def test_a_chat_goes_on_until_an_empty_line_or_too_long_a_text(
    tmp_path: Path, capsys: Print, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime_genai")
    folder = str(_folder(tmp_path, decoders.grouped))
    lines = iter(["5 17", "42", "", "5 17", "42 43"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    assert chat.main([folder, "--tokens", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [len(line.split()) for line in said[::2]] == [3, 3]
    assert chat.main([folder, "--tokens", "3", "--longest", "5"]) == 2
    assert "exceeds max length" in capsys.readouterr().err
    assert chat.main([folder, "--compare", "hello"]) == 2
    assert "type token ids" in capsys.readouterr().err


@adapter
def test_a_folder_without_settings_is_status_2(tmp_path: Path, capsys: Print) -> None:
    pytest.importorskip("onnxruntime_genai")
    assert chat.main([str(tmp_path)]) == 2
    assert "genai_config.json" in capsys.readouterr().err


@adapter
@pytest.mark.parametrize("detector", ["tflite", "onnx"])
def test_points_of_a_face_are_those_of_the_cpu(
    tmp_path: Path, capsys: Print, detector: str
) -> None:
    from PIL import Image

    models = [
        MODELS / f"face_detection_short_range.{detector}",
        MODELS / "face_landmark_fp32.tflite",
    ]
    if not all(path.exists() for path in (*models, IMAGES)):
        pytest.skip("../shared has no models and pictures")
    files, out = [*map(str, models), str(IMAGES / "grace_hopper.jpg")], tmp_path / "points.png"
    assert two_models.main([*files, "--frames", "2", "--out", str(out)]) == 0
    assert "468 points" in capsys.readouterr().out
    green = np.asarray(Image.open(out))[..., 1] == 255
    assert green.sum() > 468
    assert two_models.main([*files[:2], str(IMAGES / "daisy.jpg")]) == 2
    assert "no face" in capsys.readouterr().err


def test_the_next_face_is_found_while_points_are_computed() -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = [image.new("RGB", (64 + k, 64), (k, k, k)) for k in range(4)]
    found = [threading.Event() for _ in pictures]
    seen = list[int]()

    def detector(picture: two_models.Array) -> list[two_models.Array]:
        found[round(float(picture.max() + 1) * 255 / 2)].set()
        boxes = np.full((1, 896, 16), 30, np.float32)
        return [boxes, np.full((1, 896, 1), 9, np.float32)]

    def mesh(face: two_models.Array) -> list[two_models.Array]:
        seen.append(len(seen))
        assert found[min(len(seen), 3)].wait(60)
        return [np.full((1, 1, 1, 1404), len(seen), np.float32)]

    pipeline = two_models.Pipeline(detector, mesh, [])
    made = list(pipeline.all_points(pictures))
    assert len(seen) == 4 and all(one.shape == (468, 2) for one in made)
    for k, picture in enumerate(pictures):
        left, top, side = pipeline.face(picture)
        np.testing.assert_allclose(made[k][0], (k + 1) * side / 192 + np.array([left, top]))
    assert not list(pipeline.all_points([]))


def test_files_that_are_missing_are_status_2(tmp_path: Path, capsys: Print) -> None:
    picture = tmp_path / "p.png"
    pytest.importorskip("PIL.Image").new("RGB", (8, 8)).save(picture)
    assert two_models.main(["a.tflite", "b.tflite", "c.png"]) == 2
    assert two_models.main(["a.tflite", "b.tflite", str(picture)]) == 2
    missing, model = capsys.readouterr().err.splitlines()
    assert "c.png" in missing and model.startswith("a.tflite is not there")
