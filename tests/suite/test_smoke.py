"""The smokes of other platforms: what they run, and that a wrong answer from there is seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

from smoke import judge, models, scenarios

HOST = "onnxruntime"
SCENARIOS = [
    {"name": "plain", "model": "a.onnx", "kind": "float", "step": 0.0},
    {"name": "levels", "model": "b.onnx", "kind": "quantized", "step": 0.1},
    {"name": "other", "model": "c.tflite", "kind": "float", "step": 0.0},
]
TOLD = {
    "nodes": 3, "on_gpu": 3, "partitions": 1, "runs": [2], "failures": 0, "adapter": "llvmpipe",
    "reasons": [], "seconds": 1.0,
}  # fmt: skip
FIRST, SECOND = np.array([1.0, -2.0, 0.5], "f4"), np.array([2.0, 1.0, 0.0], "f4")


def written(into: Path, **changed: Any) -> None:
    """Answers of a Python, as `scenarios.py` leaves them; `changed`: arrays, facts, scenarios."""
    into.mkdir()
    values = {"gpu.0.0": FIRST, "gpu.1.0": SECOND, "cpu.0.0": FIRST, "cpu.1.0": SECOND}
    told = {**TOLD, **{key: value for key, value in changed.items() if key in TOLD}}
    for name in ("plain", "levels"):
        held = {key: changed.get(key, value) for key, value in values.items()}
        np.savez(into / f"{HOST}-{name}.npz", **held)
    found = changed.get("scenarios", {"plain": told, "levels": told})
    text = json.dumps({"host": f"{HOST} 1.31.1", "machine": "aarch64", "scenarios": found})
    (into / f"{HOST}.json").write_text(text)


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
        ({"on_gpu": 2}, "on_gpu: 2, not 3", "on_gpu: 2, not 3"),
        ({"failures": 1}, "a run failed", "a run failed"),
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
