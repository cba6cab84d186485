"""Tests `tflgpu check` beyond its report: requirements for CI, shapes, and annotated models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.support import onnx_models, small_models
from tests.support.subprocesses import run_python
from tflgpu_plugin.cli import check as checker
from tflgpu_plugin.cli.check import Check, Required, annotated
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.frontend.reports import CPU, GPU, NodeReport, PartitionReport, Report
from tflgpu_plugin.harness import hosts, onnx, protobuf
from tflgpu_plugin.harness.inputs import BadInput
from tflgpu_plugin.runtime import adapter as devices

needs_onnx = pytest.mark.skipif(bool(onnx.missing()), reason="it is about ONNX Runtime")
needs_tflite = pytest.mark.skipif(not hosts.installed(), reason="it is about a TFLite host")


def report(*places: str) -> Report:
    """Returns a report of Relu nodes with these places, numbered from 10 in another order."""
    nodes = [NodeReport(10 + k, "Relu", f"n{k}", where, None if where == GPU else "Why not.")
             for k, where in enumerate(places)]  # fmt: skip
    return Report(None, tuple(reversed(nodes)))


def check(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["check", str(path), "-o", "force=1", *words])


@pytest.mark.parametrize(
    ("required", "enough"),
    [("all", False), ("100%", False), ("67%", False), ("66%", True), ("2", True), ("3", False),
     ("0", True)],
)  # fmt: skip
def test_requirements(required: str, enough: bool) -> None:
    text = Check("m", "h", report(GPU, CPU, GPU)).lacks(Required.read(required))
    assert text == ("" if enough else f"2 of 3 nodes run on the GPU, and {required} must.")
    assert not Check("m", "h", report(GPU)).lacks(Required.read("all"))


@pytest.mark.parametrize("required", ["most", "", "-1", "5.5%", "1" * 10, "%", "101%"])
def test_requirements_that_are_none(
    required: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused before any work on the model."""
    monkeypatch.setattr(checker, "check", None)
    (tmp_path / "m.onnx").write_bytes(b"")
    done = check(tmp_path / "m.onnx", f"--require={required}")
    assert done.exit_code == 2 and "all, 90% or a number" in done.stderr


@pytest.mark.adapter
@needs_tflite
def test_check_fails_where_too_few_nodes_are_on_the_gpu(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_models.two_partitions())
    short = check(path, "--require", "all")
    assert short.exit_code == 1 and "and all must." in short.stderr
    assert "The rest stays on the CPU" in short.stdout
    assert check(path, "--require", "1").exit_code == 0
    assert check(path, "--require", "some").exit_code == 2
    assert check(path, "--annotate", str(tmp_path / "out.onnx")).exit_code == 2


def with_open_dimension(folder: Path) -> Path:
    """Returns a model with an open dimension."""
    nodes = [onnx_models.node("Relu", ["x"], ["y"], name="one")]
    path = folder / "m.onnx"
    path.write_bytes(onnx_models.model(nodes, {"x": ("n", 4)}, {"y": ("n", 4)}))
    return path


@pytest.mark.adapter
@needs_onnx
def test_check_takes_shapes(tmp_path: Path) -> None:
    """Without a shape nothing is chosen, and the plan is for open dimensions."""
    path = with_open_dimension(tmp_path)
    assert "chosen_shapes" not in json.loads(check(path, "--json").stdout)
    found = json.loads(check(path, "--shape", "x=100000x4", "--json").stdout)
    assert found["chosen_shapes"] == {"x": [100000, 4]}
    (partition,) = found["report"]["partitions"]
    assert partition["memory"]["ports"] == 2 * 4 * 4 * 100000
    assert "x [100000, 4]" in check(path, "--shape", "x=100000x4").stdout
    assert "no input 'z'" in check(path, "--shape", "z=1").output


@pytest.mark.adapter
@needs_onnx
def test_shapes_that_contradict_the_model_are_sentences(tmp_path: Path) -> None:
    path, values = with_open_dimension(tmp_path), tmp_path / "x.npy"
    np.save(values, np.zeros((3, 5), np.float32))
    for command in ("check", "kernels", "compare", "bench"):
        for words in (("--shape", "x=3x5"), ("--input", f"x={values}")):
            done = CliRunner().invoke(main, [command, str(path), *words])
            assert done.exit_code == 2, command
            assert "dimensions of the input x are ?x4, which 3x5 contradicts." in done.stderr


@pytest.mark.adapter
@needs_onnx
def test_an_annotated_model_is_written_whole_and_as_onnx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(model())
    same = check(path, "--annotate", str(path))
    assert same.exit_code == 2 and f"{path} is an input of this command" in same.stderr
    assert path.read_bytes() == model()
    out.write_bytes(b"an older one")
    true = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        true(self, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    done = check(path, "--annotate", str(out))
    assert done.exit_code == 2 and f"{out}: No space left on device." in done.stderr
    assert out.read_bytes() == b"an older one" and {*tmp_path.iterdir()} == {path, out}


@pytest.mark.adapter
@needs_onnx
def test_shapes_are_those_of_given_values_too(tmp_path: Path) -> None:
    path, values = with_open_dimension(tmp_path), tmp_path / "x.npy"
    np.save(values, np.zeros((100000, 4), np.float32))
    found = json.loads(check(path, "--input", f"x={values}", "--json").stdout)
    assert found["chosen_shapes"] == {"x": [100000, 4]}
    groups = []
    for words in (("--shape", "x=8x4"), ("--shape", "x=100000x4"), ("--input", f"x={values}")):
        done = CliRunner().invoke(main, ["kernels", str(path), *words, "--json"])
        (one,) = json.loads(done.stdout)["partitions"]
        groups.append([launch["workgroups"] for launch in one["launches"]])
    assert groups[0] != groups[1] == groups[2]
    values.write_bytes(b"junk")
    assert "x.npy is not a .npy file" in check(path, "--input", f"x={values}").output


@pytest.mark.adapter
@needs_tflite
def test_check_takes_shapes_of_tflite_models(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_models.one_partition())
    found = json.loads(check(path, "--shape", "x=2x16x16x3", "--json").stdout)
    assert found["chosen_shapes"] == {"x": [2, 16, 16, 3]}
    own = json.loads(check(path, "--json").stdout)
    ports = [one["report"]["partitions"][0]["memory"]["ports"] for one in (own, found)]
    assert ports[1] == 8 * ports[0]


def model() -> bytes:
    """Returns a model with a Constant node between others."""
    pytest.importorskip("onnx")
    nodes = [
        onnx_models.node("Relu", ["x"], ["a"]),
        onnx_models.node("Constant", [], ["c"], value_float=2.0),
        onnx_models.node("Relu", ["a"], ["b"]),
        onnx_models.node("Mul", ["b", "c"], ["y"]),
    ]
    return onnx_models.model(nodes, {"x": (2, 3)}, {"y": (2, 3)})


def notes(content: bytes) -> list[dict[str, str]]:
    import onnx as package

    nodes = package.load_from_string(content).graph.node
    return [{one.key: one.value for one in node.metadata_props} for node in nodes]


def test_notes_tell_the_place_of_each_node(tmp_path: Path) -> None:
    """Nodes are matched by their order; a graph of other operators has no place in the file."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model())
    wanted = report(GPU, CPU).nodes
    product = NodeReport(20, "Mul", "", GPU)
    other = NodeReport(0, "Loop", "", CPU, "Another graph.", 1)
    zeros: dict[str, Any] = {name: 0 for name in PartitionReport.__dataclass_fields__}
    partition = PartitionReport(**zeros | {"number": 3, "nodes": (10,)})
    found = annotated(path, Report(None, (product, other, *wanted), (partition,)))
    assert notes(found) == [
        {"tflgpu": "GPU, partition 3"}, {}, {"tflgpu": "CPU", "tflgpu reason": "Why not."},
        {"tflgpu": "GPU"},
    ]  # fmt: skip
    assert protobuf.operators(found) == ["Relu", "Constant", "Relu", "Mul"]
    with pytest.raises(BadInput, match="replaces nodes"):
        annotated(path, Report(None, wanted))


@pytest.mark.adapter
@needs_onnx
def test_an_annotated_model_still_runs(tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(model())
    found = check(path, "--annotate", str(out), "-o", "exclude=Mul", "--require", "2")
    assert found.exit_code == 0 and f"Wrote {out}." in found.stdout, found.output
    first, constant, second, product = notes(out.read_bytes())
    assert first == second == {"tflgpu": "GPU, partition 1"} and not constant
    assert product["tflgpu"] == "CPU" and "exclude" in product["tflgpu reason"]
    x = {"x": np.array([[-1, 2, -3], [4, -5, 6]], np.float32)}
    before, after = (onnx.session(onnx.read(one)).run(None, x)[0] for one in (path, out))
    assert np.array_equal(before, after)


ASSUMED = """
import json
from click.testing import CliRunner
from tflgpu_plugin.cli.commands import main
found = []
for limits in LIMITS:
    words = ["check", MODEL, "-o", "force=1", "-o", "exclude=Mul", "--json"]
    result = CliRunner().invoke(main, [*words, "--assume-limits", limits])
    assert result.exit_code == 0, result.output
    found.append(json.loads(result.stdout))
print(json.dumps(found))
"""


def assumed(path: Path, *limits: str) -> list[Any]:
    """Returns checks in a process without any driver."""
    drivers = {"VK_ICD_FILENAMES": "/none", "VK_DRIVER_FILES": "/none"}
    done = run_python(f"MODEL, LIMITS = {str(path)!r}, {limits!r}{ASSUMED}", **drivers)
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def adapter(**limits: Any) -> dict[str, Any]:
    one = {"name": "Small", "vendor": "amd", "driver": "1", "backend": "Vulkan", "kind": "discrete"}
    return one | {"features": ["subgroup", "of tomorrow"], "limits": limits}


@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_limits_are_assumed_without_an_adapter(kind: str, tmp_path: Path) -> None:
    """No tensor fits an adapter that binds 4 bytes."""
    if reason := onnx.missing() if kind == "onnx" else "" if hosts.installed() else "no host":
        pytest.skip(reason)
    path, small = tmp_path / f"m.{kind}", tmp_path / "small.json"
    path.write_bytes(model() if kind == "onnx" else small_models.two_partitions())
    limits = {"max-storage-buffer-binding-size": 4}
    small.write_text(json.dumps({"adapters": [adapter(**limits), adapter()]}))
    usual, none = assumed(path, "default", str(small))
    report = usual["report"]
    gpu = [node["id"] for node in report["nodes"] if node["where"] == "gpu"]
    assert gpu and sorted(gpu) == sorted(n for p in report["partitions"] for n in p["nodes"])
    assert [p["number"] for p in report["partitions"]] == [1] if kind == "onnx" else [1, 2]
    assert report["adapter"]["name"] == "WebGPU's default limits" and report["adapter"]["assumed"]
    assert not none["report"]["totals"]["gpu"] and not none["report"]["partitions"]
    assert none["report"]["adapter"]["name"] == "Small"
    codes = {node["refusal_code"] for node in none["report"]["nodes"]}
    assert "device.limit" in codes and "device.assumed" not in codes


@pytest.mark.parametrize("text", ["{}", "[1]", "nothing", '{"adapters": []}', '"adapters"'])
def test_files_without_limits(text: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text(text)
    with pytest.raises(BadInput, match="has no adapter as `tflgpu info --json` prints it") as told:
        checker.assumed(str(path))
    assert text != "{}" or "(it has no name)." in str(told.value)
    with pytest.raises(BadInput, match=r"^The file of limits"):
        checker.assumed(str(tmp_path / "absent"))


def test_an_adapter_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(adapter(**{"max-buffer-size": 7})))
    info = checker.assumed(str(path))
    assert (info.name, info.vendor, info.driver, info.kind) == ("Small", "amd", "1", "discrete")
    assert info.features == ("subgroup",) and info.limit("max-buffer-size", 0) == 7


@pytest.mark.adapter
def test_an_adapter_is_assumed_for_a_while() -> None:
    before = devices.adapters()
    info = checker.assumed("default")
    with devices.assumed(info):
        assert devices.adapters() == [info]
        assert devices.open_device(info).assumed
    assert devices.adapters() == before and not devices.open_device(before[0]).assumed
