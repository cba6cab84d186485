"""Tests tools/programs.py with small programs in place of those of the index."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import onnx_models
from tools import programs

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
SESSION = """
import numpy, onnxruntime
session = onnxruntime.InferenceSession("m.onnx")
(y,) = session.run(None, {{"x": numpy.ones((2, 64), numpy.float32)}})
print(json.dumps(["a text", (y * {factor}).ravel().tolist()]))
"""
ON_GPU = "session.get_providers()[0].startswith('Tfl')"
SMALL = {
    "right": SESSION.format(factor=1),
    "wrong on the GPU": SESSION.format(factor=f"(1.01 if {ON_GPU} else 1)"),
    "another text": SESSION.format(factor=1) + f"print(json.dumps([str({ON_GPU})]))",
    "nothing on the GPU": "print(json.dumps(['a text']))",
    "no answer": SESSION.format(factor=1).replace("print", "str"),
    "failing": "raise SystemExit('planted')",
}


@pytest.mark.parametrize("name", SMALL)
def test_only_a_program_with_the_same_answers_on_the_gpu_agrees(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", SMALL)
    monkeypatch.setattr(programs, "PICTURE", "")
    monkeypatch.setattr(programs, "environment", lambda folder, names: Path(sys.executable))
    nodes = [onnx_models.node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)}
    content = onnx_models.model(nodes, {"x": (2, 64)}, {"y": (2, 64)}, weights)
    (tmp_path / "m.onnx").write_bytes(content)
    status = programs.main(["--folder", str(tmp_path), name])
    said = capsys.readouterr().out
    assert status == (name != "right"), said
    assert said.startswith({"right": "agrees", "failing": "FAILS"}.get(name, "DIFFERS")), said
    assert name in ("failing", "nothing on the GPU") or "1 of 1 nodes" in said


def test_answers_agree_by_text_and_within_the_tolerance() -> None:
    assert programs.agree([["a", 1.0], [2, True]], [["a", 1.0005], [2, True]])
    for one, other in (([1.0], [1.01]), (["a"], ["b"]), ([1.0], [1.0, 2.0]), ([1.0], 1.0)):
        assert not programs.agree(one, other), (one, other)
