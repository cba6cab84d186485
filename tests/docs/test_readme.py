"""Runs the README's first examples unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import onnx_models, small_models

ROOT = Path(__file__).resolve().parents[2]


def examples() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_first_example_runs_on_every_python() -> None:
    """tflite-runtime has no wheel for Python 3.12 and newer; onnxruntime and ai-edge-litert do."""
    for example in examples()[:2]:
        imports = re.findall(r"^(?:import|from) (\w+)", example, re.MULTILINE)
        assert set(imports) <= {"onnxruntime", "ai_edge_litert", "tflgpu_plugin"}


def test_the_commands_of_a_checkout_are_shown() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert re.search(r"^make demo\b", blocks, re.MULTILINE)
    assert re.search(r"^make test\b", blocks, re.MULTILINE)


@pytest.mark.adapter
@pytest.mark.parametrize("number", [0, 1])
def test_the_first_examples_run(number: int, tmp_path: Path) -> None:
    host = ("onnxruntime", "ai_edge_litert")[number]
    if not find_spec(host):
        pytest.skip(f"{host} is not installed")
    (tmp_path / "model.onnx").write_bytes(onnx_models.add_relu())
    (tmp_path / "model.tflite").write_bytes(small_models.one_partition())
    used = ("tflgpu_plugin.assert_used(session)", "assert tflgpu_plugin.last_report().count('gpu')")
    code = f"{examples()[number]}\n{used[number]}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
