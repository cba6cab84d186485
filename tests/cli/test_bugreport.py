"""`tflgpu bugreport` writes what a maintainer needs, names nobody, and survives what it reports."""

from __future__ import annotations

import getpass
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_compare import onnx
from tflgpu_plugin import kernels
from tflgpu_plugin.cli import bugreport, check, compare, conformance
from tflgpu_plugin.cli.commands import main

pytestmark = pytest.mark.adapter
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

ARGUMENTS: dict[str, Any] = {
    "image": None, "mean": 0.0, "std": 1.0, "seed": 0, "files": (), "shapes": (), "adapter": None,
    "given": {}, "host": None, "rtol": None, "bisect": False, "workaround": False, "repro": None,
}  # fmt: skip
MACHINE = ["README.txt", "machine.json", "log.txt"]
MODEL = ["README.txt", "machine.json", "model.json", "check.json", "compare.json", "kernels.txt"]


def report(*words: object, seconds: float = 0) -> Result:
    given = ("bugreport", "--conformance", seconds, *words)
    return CliRunner().invoke(main, [*map(str, given)])


def written(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode(errors="replace") for name in file.namelist()}


def test_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFLGPU_LOG", "warning")
    for name in ("A_SECRET", "TF_CONFIG", "ORT_KEY", "TF_PASSWORD", "ORT_SECRET", "OMP_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    out = tmp_path / "r.zip"
    result = report("--out", out)
    assert result.exit_code == 0 and f"Wrote {out}" in result.output
    parts = written(out)
    assert [*parts] == MACHINE
    machine = json.loads(parts["machine.json"])
    assert machine["versions"]["tflgpu-plugin"] and machine["adapters"][0]["limits"]
    assert machine["environment"]["TFLGPU_LOG"] == "warning"
    assert "hunter2" not in parts["machine.json"]


def test_a_model_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = kernels.render

    def render(kernel: str, *given: Any) -> str:
        text = true(kernel, *given)
        return text.replace("var v = value;", "var v = 2.0 * value;") if kernel == "pool" else text

    monkeypatch.setattr(kernels, "render", render)
    model, out = onnx(tmp_path), tmp_path / "r.zip"
    found = json.loads(report(model, "--out", out, "--shape", "x=1x3x8x16", "--json").stdout)
    parts = written(out)
    assert [*parts] == [*MODEL, "log.txt"] and not found["failed"]
    assert found["parts"] == {name: len(text.encode()) for name, text in parts.items()}
    compared = json.loads(parts["compare.json"])
    ((suspect,),) = [wrong["suspects"] for wrong in compared["bisection"]["wrong"]]
    assert suspect["kernel"] == "pool" and compared["chosen_shapes"] == {"x": [1, 3, 8, 16]}
    assert "2.0 * value" in parts["kernels.txt"]
    assert json.loads(parts["model.json"])["bytes"] == model.stat().st_size
    assert len(json.loads(parts["check.json"])["report"]["nodes"]) == 7


def test_names_of_users_and_files_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home of somebody"))
    monkeypatch.setenv("TFLGPU_MODELS", str(tmp_path / "home of somebody" / "models"))
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    folder = tmp_path / "home of somebody" / "secret project"
    folder.mkdir(parents=True)
    model = onnx(folder).rename(folder / "face of anna.onnx")
    out = tmp_path / "r.zip"
    assert report(model, "--out", out, "--with-model").exit_code == 0
    parts = written(out)
    assert "model.onnx" in parts
    assert (zipfile.ZipFile(out).read("model.onnx")) == model.read_bytes()
    for name, text in parts.items():
        assert name == "model.onnx" or not re.search("somebody|secret project|anna", text), name
    assert json.loads(parts["machine.json"])["environment"]["TFLGPU_MODELS"] == "~/models"


def test_screens_and_programs_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", "desk-of-anna:0")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    out = tmp_path / "r.zip"
    assert report("--out", out).exit_code == 0
    machine = json.loads(written(out)["machine.json"])
    assert machine["environment"]["DISPLAY"] == "set" and "executable" not in machine
    assert "WAYLAND_DISPLAY" not in machine["environment"]
    assert machine["virtual_environment"] is (sys.prefix != sys.base_prefix)


def test_only_whole_parts_of_paths_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "conv")
    monkeypatch.setenv("HOME", "/home/conv")
    model = tmp_path / "relu.onnx"
    given = compare.request(model, ARGUMENTS)
    hidden = bugreport.hiding(bugreport.Request(tmp_path / "r.zip", given))
    for text, wanted in {
        "the kernel conv, conv_at_1.wgsl": "the kernel conv, conv_at_1.wgsl",
        "Node conv/relu, a relu.onnx.data": "Node conv/relu, a relu.onnx.data",
        "/data/conv/x and /data/conv, /data/conv.d/conv-x": "/data/USER/x and /data/USER, "
        "/data/conv.d/conv-x",
        r'"C:\\Users\\conv\\x"': r'"C:\\Users\\USER\\x"',
        "'/home/conv/a', /home/convex": "'~/a', /home/convex",
        f"{model}: relu.onnx; relu": "MODEL: MODEL; relu",
    }.items():
        assert hidden(text) == wanted


def test_the_operators_of_the_model_are_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[conformance.Request]()
    records = [
        {"outcome": "PASS"}, {"outcome": "FAIL", "op": "POOL"},
        {"outcome": "REFUSED", "expected_refusal": True},
    ]  # fmt: skip

    def run(request: conformance.Request, out: int) -> conformance.Done:
        asked.append(request)
        (request.out / "report.json").write_text(json.dumps({"records": records}))
        return conformance.Done(1, str(request.out / "report.html"), {"PASS": 1, "FAIL": 1})

    monkeypatch.setattr(conformance, "run", run)
    out, model = tmp_path / "r.zip", onnx(tmp_path)
    words = ("--out", out, "-o", "force=1", "-o", "exclude=Softmax")
    assert report(model, *words, seconds=2.5).exit_code == 0
    found = json.loads(written(out)["conformance.json"])
    assert found["counts"] == {"PASS": 1, "FAIL": 1} and found["bad"] == records[1:2]
    (one,) = asked
    assert (one.host, one.quick, one.seconds, one.dtype) == ("onnxruntime", True, 2.5, "all")
    assert {"conv_2d", "max_pool_2d"} & {*one.op.split(",")} and "softmax" not in one.op
    assert not one.out.exists()

    def lacks(*_: object) -> None:
        raise ImportError("The conformance suite needs pytest.")

    monkeypatch.setattr(conformance, "run", lacks)
    result = report(model, *words, seconds=1)
    assert "needs pytest" in written(out)["conformance.json"] and "traceback" not in result.output


def test_parts_that_fail_leave_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(check, "check", fail)  # the launches are planned by it, too
    out = tmp_path / "r.zip"
    result = report(onnx(tmp_path), "--out", out)
    assert result.exit_code == 0
    assert "check.json has a traceback: KeyError: 'planted'" in result.output
    parts = written(out)
    assert "in fail" in parts["check.json"] and "in fail" in parts["kernels.txt"]
    assert json.loads(parts["compare.json"])["agrees"]


def test_no_model_and_no_place_are_sentences(tmp_path: Path) -> None:
    damaged = tmp_path / "m.onnx"
    damaged.write_bytes(b"damaged")
    result = report(damaged, "--out", tmp_path / "r.zip")
    assert result.exit_code == 0 and "compare.json has a traceback: BadInput" in result.output
    result = report("--out", tmp_path / "missing" / "r.zip")
    assert result.exit_code == 2 and "There is no folder" in result.stderr


@pytest.mark.parametrize("before", [None, b"an older report"])
def test_an_interrupted_report_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "check", interrupt)
    model, folder = onnx(tmp_path), tmp_path / "reports"
    folder.mkdir()
    out = folder / "r.zip"
    if before:
        out.write_bytes(before)
    assert report(model, "--out", out).exit_code == 130
    assert [path.read_bytes() for path in folder.iterdir()] == ([before] if before else [])


def test_ctrl_c_in_the_conformance_suite_ends_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = conformance.Done(130, str(tmp_path / "report.html"), {})
    monkeypatch.setattr(conformance, "run", lambda *_: done)
    out = tmp_path / "r.zip"
    assert report(onnx(tmp_path), "--out", out, seconds=60).exit_code == 130
    assert not out.exists()


def test_a_report_replaces_an_older_one(tmp_path: Path) -> None:
    older, link = tmp_path / "older.zip", tmp_path / "r.zip"
    older.write_bytes(b"an older report")
    link.symlink_to(older)
    assert report("--out", link).exit_code == 0
    assert [*written(older)] == MACHINE and link.is_symlink()
    assert {*tmp_path.iterdir()} == {older, link}


def test_the_flag_o_is_for_options_as_in_all_commands(tmp_path: Path) -> None:
    out = tmp_path / "r.zip"
    words = ("--out", out, "-o", "exclude=Relu", "-o", "force=1")
    assert "written KEY=VALUE, not 'exclude'" in report(*words, "-o", "exclude").stderr
    assert not out.exists()
    assert report(onnx(tmp_path), *words).exit_code == 0
    nodes = json.loads(written(out)["check.json"])["report"]["nodes"]
    codes = {node["op"]: node["refusal_code"] for node in nodes}
    assert codes["Relu"] == "option.excluded" and codes["Conv"] is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_a_sentence_with_the_file() -> None:
    result = report("--out", "/dev/full")
    assert result.exit_code == 2
    assert "Error: /dev/full: No space left on device." in result.stderr
