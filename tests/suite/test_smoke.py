"""Tests the smoke tests of other platforms: what they run, and that a wrong answer is detected."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import cpus
from smoke import aarch64, foreign, judge, models, sample, scenarios

from tflgpu_plugin.ops import FAMILIES

HOST = "onnxruntime"
SCENARIOS = [
    {"name": "plain", "model": "a.onnx", "kind": "float", "step": 0.0},
    {"name": "levels", "model": "b.onnx", "kind": "quantized", "step": 0.1},
    {"name": "other", "model": "c.tflite", "kind": "float", "step": 0.0},
]
TOLD = {
    "nodes": 3, "on_gpu": 3, "partitions": 1, "runs": [2], "failures": 0, "adapter": "llvmpipe",
    "reasons": [], "seconds": 1.0, "warnings": [],
}  # fmt: skip
FIRST, SECOND = np.array([1.0, -2.0, 0.5], "f4"), np.array([2.0, 1.0, 0.0], "f4")


def written(into: Path, **changed: Any) -> None:
    """Writes answers of a Python, like `scenarios.py`; `changed` holds changed arrays, facts,
    scenarios."""
    into.mkdir()
    values = {"gpu.0.0": FIRST, "gpu.1.0": SECOND, "cpu.0.0": FIRST, "cpu.1.0": SECOND}
    told = {**TOLD, **{key: value for key, value in changed.items() if key in TOLD}}
    for name in ("plain", "levels"):
        held = {key: changed.get(key, value) for key, value in values.items()}
        np.savez(into / f"{HOST}-{name}.npz", **held)
    found = changed.get("scenarios", {"plain": told, "levels": told})
    who = {
        "host": f"{HOST} 1.31.1",
        "machine": "aarch64",
        "package": changed.get("package", into.name),
    }
    (into / f"{HOST}.json").write_text(json.dumps({**who, "scenarios": found}))


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., list[judge.Verdict]]:
    def run(**changed: Any) -> list[judge.Verdict]:
        (tmp_path / "scenarios.json").write_text(json.dumps({"scenarios": SCENARIOS}))
        written(tmp_path / "here")
        written(tmp_path / "there", **changed)
        return judge.judge(tmp_path, tmp_path / "here", tmp_path / "there", [HOST])

    return run


def off(by: float) -> Any:
    return FIRST + np.array([0.0, by, 0.0], "f4")


@pytest.mark.parametrize(
    ("changed", "plain", "levels"),
    [
        ({}, "", ""),
        ({"gpu.0.0": off(1e-4)}, "", ""),
        ({"gpu.0.0": off(1e-3)}, "of what it may be off", ""),
        ({"gpu.0.0": off(0.1)}, "of what it may be off", ""),
        ({"gpu.0.0": off(0.2)}, "off x86-64", "off x86-64"),
        ({"cpu.0.0": off(0.2)}, "off its CPU", "off its CPU"),
        ({"gpu.0.0": off(float("nan"))}, "inf of what", "inf of what"),
        ({"gpu.0.0": FIRST[None]}, "inf of what", "inf of what"),
        ({"gpu.0.0": SECOND}, "two inputs have one answer", "two inputs have one answer"),
        ({"package": "here"}, "both ran one package", "both ran one package"),
        ({"on_gpu": 2}, "on_gpu: 2, not 3", "on_gpu: 2, not 3"),
        ({"failures": 1}, "a run failed", "a run failed"),
        ({"warnings": ["a"]}, "warnings: ['a'], not []", "warnings: ['a'], not []"),
        ({"runs": [1]}, "runs: [1], not [2]", "runs: [1], not [2]"),
        ({"scenarios": {"plain": TOLD}}, "", "aarch64: no answer"),
        ({"scenarios": {"plain": {"error": "Bad: x"}, "levels": TOLD}}, "aarch64: Bad: x", ""),
    ],
)
def test_wrong_answers_are_seen(
    judged: Callable[..., list[judge.Verdict]], changed: dict[str, Any], plain: str, levels: str
) -> None:
    for verdict, expected in zip(judged(**changed), (plain, levels), strict=True):
        said = "; ".join(verdict.wrong)
        assert expected in said if expected else not said
        assert said in verdict.row() if said else "agrees" in verdict.row()


def test_a_host_that_left_nothing_disagrees(tmp_path: Path) -> None:
    (tmp_path / "scenarios.json").write_text(json.dumps({"scenarios": SCENARIOS}))
    written(tmp_path / "here")
    found = judge.judge(tmp_path, tmp_path / "here", tmp_path / "there", [HOST])
    assert [verdict.wrong for verdict in found] == [["the other: no answer"]] * 2


def test_a_spoiled_answer_disagrees(tmp_path: Path) -> None:
    (tmp_path / "scenarios.json").write_text(json.dumps({"scenarios": SCENARIOS}))
    written(tmp_path / "here")
    written(tmp_path / "there")
    spoiled = judge.spoil(tmp_path / "here")
    found = judge.judge(tmp_path, tmp_path / "here", tmp_path / "there", [HOST])
    wrong = [verdict.name for verdict in found if verdict.wrong]
    assert wrong and all(name in spoiled for name in wrong)


def test_inputs_come_back_in_order(tmp_path: Path) -> None:
    feeds = [[np.array([run, place]) for place in range(11)] for run in range(2)]
    scenario = models.Scenario("a", "a.onnx", models.FLOAT)
    models._fed(tmp_path, scenario, feeds)
    found = scenarios.fed(tmp_path / "a.npz")
    assert np.array_equal(np.array(found), np.array(feeds))


def test_each_kind_of_host_has_each_kind_of_model() -> None:
    pytest.importorskip("ai_edge_litert", reason="models are built with its schema")
    pytest.importorskip("onnxruntime", reason="its quantizer makes a model")
    found = [(Path(made.model).suffix, made.kind) for made, _, _ in models.seeded()]
    kinds = (models.FLOAT, models.QUANTIZED, models.RECURRENT)
    assert sorted(found) == sorted((s, kind) for s in (".onnx", ".tflite") for kind in kinds)
    assert {scenarios.suffix(host) for host in scenarios.MODULES} == {".onnx", ".tflite"}


def test_the_sample_is_of_every_family() -> None:
    places = [f"conformance/test_nodes.py::test_nodes[{family}]" for family in FAMILIES]
    pools = [f"conformance/test_ops.py::test_case[tflite_runtime-pool-MAX_POOL_2D-case-{k}]"
             for k in range(9)]  # fmt: skip
    other = [f"conformance/test_onnx_forms.py::test_form[Add {k}]" for k in range(99)]
    names = [*pools, *other, *places, "conformance/test_graphs.py::test_graph[1]"]
    found = sample.chosen(names, 0)
    assert found == [name for name in names if name in set(found)]
    assert found == sample.chosen(names, 0) != sample.chosen(names, 1)
    counts = [sum(word in name for name in found) for word in ("_ops", "_forms", "_nodes", "graph")]
    assert counts == [2, 30, len(FAMILIES), 0]
    assert sorted(chain(*sample.parts(found).values())) == sorted(found)
    with pytest.raises(ValueError, match="is of attention"):
        sample.chosen([name for name in names if "attention" not in name], 0)


def test_a_wheel_that_is_not_there_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "WHEELS", tmp_path)
    with pytest.raises(foreign.Unavailable, match=r"run python tools/wheels.py some_tag"):
        foreign.wheel("some_tag")


def test_a_wheel_of_other_files_is_refused(tmp_path: Path) -> None:
    files = {"tflgpu_plugin/a.py": b"a", "providers/b.py": b"b", "tflgpu_plugin/k.wgsl": b"k"}
    for name, content in (
        files | {"tflgpu_plugin/x.c": b"", "tflgpu_plugin/declare.py": b""}
    ).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    made = {name.replace("providers", "tflgpu_plugin/providers"): c for name, c in files.items()}
    made |= {"tflgpu_plugin/native/_declarations.py": b"made"}
    wheel = tmp_path / "a.whl"

    def write(held: dict[str, bytes]) -> None:
        with zipfile.ZipFile(wheel, "w") as out:
            for name, content in held.items():
                out.writestr(name, content)

    write(made)
    foreign.check(wheel, tmp_path)
    other, less = {**made, "tflgpu_plugin/k.wgsl": b"l"}, {**made}
    del less["tflgpu_plugin/providers/b.py"]
    more = {**made, "tflgpu_plugin/c.py": b""}
    for held, name in ((other, "k.wgsl"), (less, "providers/b.py"), (more, "c.py")):
        write(held)
        with pytest.raises(foreign.Unavailable, match=f"{name} became what it is: run make wheels"):
            foreign.check(wheel, tmp_path)


def test_packages_are_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are installed with our wheel's extras, for the named platforms; and again for another
    wheel."""
    own = tmp_path / "tflgpu_plugin-1-py3-none-some_tag.whl"
    own.write_bytes(b"one")
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        Path(command[command.index("--target") + 1]).mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(foreign, "WHEELS", tmp_path)
    monkeypatch.setattr(foreign.subprocess, "run", run)
    for content, times in ((b"one", 1), (b"one", 1), (b"two", 2)):
        own.write_bytes(content)
        foreign.installed("some_tag", ["a", "b"], ["[tflite]", "x==1"], tmp_path / "site")
        assert len(asked) == times
    text = " ".join(asked[0])
    assert f"{own}[tflite] x==1" in text and "--platform a --platform b" in text
    assert "--only-binary=:all:" in text


def test_programs_read_the_cpu_that_is_emulated() -> None:
    told = aarch64.CPUS["neoverse-n1"].cpuinfo(2)
    assert told.count("processor\t:") == 2 and told.count("CPU part\t: 0xd0c\n") == 2
    assert "asimddp" in told and "asimddp" not in aarch64.CPUS["cortex-a72"].cpuinfo(1)


def test_the_report_says_who_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / f"tflgpu_plugin-1-py3-none-{aarch64.TAG}.whl"
    wheel.write_bytes(b"x" * 1234)
    packages = tmp_path / "aarch64" / "root" / "packages.txt"
    packages.parent.mkdir(parents=True)
    packages.write_text("libc6_2.36_arm64\nlibx11-6_1_arm64\nmesa-vulkan-drivers_22_arm64\n")
    monkeypatch.setattr(foreign, "WHEELS", tmp_path)
    monkeypatch.setattr(foreign, "place", lambda name: tmp_path / name)
    monkeypatch.setattr(aarch64, "emulated", lambda: "QEMU 7.2")
    verdict = judge.Verdict("ai-edge-litert 2.3.0", "a", "float", "3 of 3", 4.2, 0.25, 0.5)
    names = [f"conformance/test_nodes.py::test_nodes[{family}]" for family in ("conv", "pool")]
    cpu = aarch64.CPUS["neoverse-n1"]
    text = aarch64.report(cpu, [verdict], ["b is left out."], names, "2 PASS", (61.4, 99.6))
    for line in (
        "`make smoke-aarch64`: 61 s, 100 s of CPU time",
        "1,234 bytes, as neoverse-n1 in QEMU 7.2",
        "* libc6_2.36_arm64, mesa-vulkan-drivers_22_arm64\n",
        "| ai-edge-litert 2.3.0 | a | float | 3 of 3 | 0.25 | 0.5 | 4 s | agrees |",
        "b is left out.",
        "2 tests of 2 families: 2 PASS.",
    ):
        assert line in text
    assert "Not run" in aarch64.report(cpu, [verdict], [], [], "", (1.0, 1.0))


def test_a_python_that_crashes_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, ended, said in (("kill -SEGV $$", False, "exit status -11"), ("exit 0", True, "")):
        python = cpus.Python(["sh", "-c", line], {}, tmp_path)
        assert aarch64.answers(python, tmp_path, tmp_path / "there", [HOST]) is ended
        told = capsys.readouterr().out
        assert said in told if said else not told


def test_all_must_be_right() -> None:
    good, bad = (judge.Verdict(HOST, "a", "float", wrong=wrong) for wrong in ([], ["off"]))
    assert aarch64.passed([good, good], [True, True], [0, 0]) and aarch64.passed([good], [True], [])
    for case in (
        ([], [True], [0]),
        ([good, bad], [True], [0]),
        ([good], [True, False], [0]),
        ([good], [True], [0, 1]),
    ):
        assert not aarch64.passed(*case)


def test_numpy_is_not_asked_what_it_warns_about() -> None:
    """Its finfo warns on stderr if the smallest floats are zero, as in tflite-runtime on ARM: a
    user's program would show four warnings because of us."""
    rooms = [foreign.ROOT / folder for folder in foreign.ROOMS]
    asking = [p for room in rooms for p in room.rglob("*.py") if "np.finfo" in p.read_text()]
    assert not asking, f"{asking}: write the number, as MAX_FLOAT32 in tflgpu_plugin/ir/graph.py"
