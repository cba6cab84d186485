"""`tflgpu compare --repro` writes a part of a model that shows a planted fault by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from tests.cli.test_compare import Fault, compare, found, onnx, planted, quantized, tflite
from tests.support.subprocesses import run_python
from tflgpu_plugin.harness import hosts as runners, repro

__all__ = ["planted"]
pytestmark = pytest.mark.adapter
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

# Runs a program in a process in which kernels are as wrong as `planted` makes them.
WRONG = """
import runpy
from tflgpu_plugin import kernels

true = kernels.render

def render(kernel, *given):
    text = true(kernel, *given)
    return text.replace("var v = value;", "var v = 1.25 * value;") if kernel == {kernel!r} else text

kernels.render = render
runpy.run_path({program!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("write", "kernel", "nodes", "inputs"),
    [(onnx, "pool", 1, [(1, 8, 8, 16)]), (tflite, "pool", 1, [(1, 8, 8, 4)]),
     (quantized, "conv", 4, [(1, 3, 8, 16)])],
)  # fmt: skip
def test_the_program_differs_with_the_fault_and_agrees_without(
    tmp_path: Path, planted: Callable[[Fault], None], write: Callable[[Path], Path], kernel: str,
    nodes: int, inputs: list[tuple[int, ...]],
) -> None:  # fmt: skip
    if write is tflite and not hosts.installed():
        pytest.skip("no TFLite host")
    planted(lambda name, variant: name == kernel)
    path, folder = write(tmp_path), tmp_path / "a folder" / "repro"
    shape = ["--shape", "x=1x3x8x16"] if write is onnx else []
    written = found(1, path, *shape, "--repro", folder)
    assert written["repro"] == {"folder": str(folder), "nodes": nodes, "differs": True}
    names = sorted(file.name for file in folder.iterdir())
    assert {"expected.npy", "input0.npy", "run.py", f"model{path.suffix}"} < {*names}
    assert [np.load(folder / "input0.npy").shape] == inputs and "input1.npy" not in names
    (wgsl,) = [name for name in names if name.startswith(f"{kernel}-")]
    assert "1.25 * value" in (folder / wgsl).read_text(encoding="utf-8")
    program = str(folder / "run.py")
    (suspect,) = written["bisection"]["wrong"][0]["suspects"][-1:]
    assert f"kernel {kernel}, form {suspect['form']}" in Path(program).read_text(encoding="utf-8")
    wrong = run_python(WRONG.format(kernel=kernel, program=program), 1)
    right = run_python(f"import runpy; runpy.run_path({program!r}, run_name='__main__')")
    allowed = written["bisection"]["wrong"][0]["agreement"]["allowed"]
    assert f"{allowed:.3g} is allowed." in wrong.stdout
    assert "The largest difference is " in right.stdout


def test_a_folder_with_other_files_is_left_alone(
    tmp_path: Path, planted: Callable[[Fault], None]
) -> None:
    planted(lambda name, variant: name == "pool")
    path = onnx(tmp_path)
    content, words = path.read_bytes(), (path, "--shape", "x=1x3x8x16", "--repro")
    assert "holds other files" in compare(*words, tmp_path).stderr
    assert path.read_bytes() == content and [*tmp_path.iterdir()] == [path]
    folder = tmp_path / "repro"
    for _ in range(2):  # the second one replaces the first
        assert found(1, *words, folder)["repro"]["differs"]
    again = compare(folder / "model.onnx", "--repro", folder)
    assert again.exit_code == 2 and "holds other files" in again.stderr
    (folder / "input7.npy").touch()
    before = {each: each.read_bytes() for each in folder.iterdir()}
    assert "holds other files" in compare(*words, folder).stderr
    assert {each: each.read_bytes() for each in folder.iterdir()} == before
    program = folder / "run.py"
    (folder / "input7.npy").unlink()
    program.write_text("print('the program of somebody')\n")
    assert "holds other files" in compare(*words, folder).stderr


def test_the_part_begins_earlier_until_it_differs(
    tmp_path: Path, planted: Callable[[Fault], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(lambda name, variant: name == "softmax")
    true, sizes = repro.compare, list[int]()

    def agreeing_if_small(subject: Any, *more: Any) -> Any:
        sizes.append(len(subject.nodes()))
        found = true(subject, *more)
        agreements = [replace(one, difference=0.0) for one in found.agreements]
        return found if sizes[-1] >= least else replace(found, agreements=agreements)

    monkeypatch.setattr(repro, "compare", agreeing_if_small)
    path = onnx(tmp_path)
    for least, made in ((4, [1, 2, 4]), (100, [1, 2, 4, 7])):
        sizes.clear()
        result = compare(path, "--shape", "x=1x3x8x16", "--repro", tmp_path / "r")
        assert sizes == made and f"Wrote {made[-1]} nodes of the model" in result.output
        alone = "which agree alone: the fault depends on more of the model."
        assert (alone in result.output) == (least == 100)
        assert ("run.py` shows the difference." in result.output) == (least == 4)


def test_nothing_is_written_where_nothing_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    result = compare(onnx(tmp_path), "--shape", "x=1x3x8x16", "--repro", folder)
    assert result.exit_code == 0
    assert f"No wrong result was found to write to {folder}." in result.output
    assert not folder.exists()


@pytest.mark.skipif(not hosts.installed(), reason="no TFLite host")
def test_options_and_the_host_are_those_of_the_run(
    tmp_path: Path, planted: Callable[[Fault], None]
) -> None:
    planted(lambda name, variant: name == "pool")
    host = [*runners.installed()][-1]
    written = found(1, tflite(tmp_path), "--host", host, "-o", "without=winograd_rows", "--repro",
                    tmp_path / "r")  # fmt: skip
    program = (tmp_path / "r" / "run.py").read_text(encoding="utf-8")
    assert "OPTIONS = {'without': 'winograd_rows'}" in program
    assert f"from {runners.PACKAGES[host]}.interpreter import Interpreter" in program
    assert json.dumps(written["host"])[1:-1] in program
