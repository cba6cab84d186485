"""Tests what benchmarks say about engines, and how models are changed for engines with limits."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import convert, engine, onnx_worker, overlap, tables, today
from benchmarks.tables import NEWER, Row
from conformance.models import tflite_file
from conformance.models.tflite import Model

SHAPE = (1, 2, 2, 4)


def test_errors_are_of_the_largest_value_of_their_output() -> None:
    reference = [np.array([0.0, 10.0]), np.array([[1.0]]), np.zeros(3)]
    found = [np.array([[1.0, 10.0]]), np.array([1.5]), np.zeros(3)]
    assert tables.error(found, reference) == pytest.approx(0.5)


def test_settings_of_tests_do_not_reach_a_measured_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LP_NUM_THREADS", "0")
    monkeypatch.setenv("SOMETHING", "else")
    assert engine.inherited()["SOMETHING"] == "else"
    assert "LP_NUM_THREADS" not in engine.inherited()


@pytest.mark.parametrize("last", [[np.array([np.nan])], [np.zeros(2)], []])
def test_answers_that_cannot_be_compared_are_wrong(last: list[tables.Array]) -> None:
    error = tables.error([np.ones(1), *last], [np.ones(1), np.ones(1)])
    assert not error <= tables.WRONG


def test_ratios_are_to_ours_on_the_same_driver(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row("ours", median_ms=2.0), Row("peer", median_ms=3.0)]
    rows += [Row(f"ours, {NEWER}", median_ms=1.0), Row(f"peer, {NEWER}", median_ms=4.0)]
    tables.show("model", [*rows, Row("other", reason="wrong answers")])
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if " | " in line]
    assert [line[4] for line in lines[1:5]] == ["1.00", "1.50", "1.00", "4.00"]
    assert lines[5][1].startswith("wrong answers")


def test_ratios_of_todays_networks_are_theirs_by_ours(capsys: pytest.CaptureFixture[str]) -> None:
    times = [("a.tiny", 1.0, 2.0), ("b.tiny", 2.0, 16.0), ("a.published", 3.0, 3.0)]
    today.show([today.Row(name, ours, theirs, 1.0, 0.0, 0.0, 8, 9) for name, ours, theirs in times])
    *table, tiny, published, every = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[3] for line in table[2:]] == ["2.00", "8.00", "1.00"]
    assert table[2].endswith("| 8 of 9 |")
    assert tiny == "tiny: geometric mean 4.00, worst 2.00 (a.tiny)"
    assert published == "published: geometric mean 1.00, worst 1.00 (a.published)"
    assert every == "all: geometric mean 2.52, worst 1.00 (a.published)"


def test_a_turn_begins_when_other_engines_threads_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime's threads spin after a run; they would take CPU time from the next engine."""
    monkeypatch.setattr(engine, "PAUSE", 0.3)
    answers = "import sys\nprint([])\nfor line in sys.stdin: print([2.0] * int(line), flush=True)"
    worker = engine.Worker(engine.Engine((sys.executable, "-uc", answers)), tmp_path / "out.npz")
    start = time.monotonic()
    worker.run(3)
    taken = time.monotonic() - start
    worker.close()
    assert worker.times == [2.0] * 3
    assert taken >= 0.3


def test_inputs_go_in_by_name(tmp_path: Path) -> None:
    one, many = str(tmp_path / "one.npy"), str(tmp_path / "many.npz")
    np.save(one, np.ones(2))
    np.savez(many, x=np.ones(3), y=np.zeros(1), unused=np.zeros(2))
    names = [SimpleNamespace(name="x"), SimpleNamespace(name="y")]
    session = SimpleNamespace(get_inputs=lambda: names)
    assert {name: len(v) for name, v in onnx_worker.fed(session, many).items()} == {"x": 3, "y": 1}
    assert {name: len(v) for name, v in onnx_worker.fed(session, one).items()} == {"x": 2}


def _ending(op: str) -> Any:
    """Returns a model of x, RELU, and an operator at the end."""
    model = Model()
    value = model.op("RELU", [model.input("x", SHAPE)], shape=SHAPE)
    model.output(model.op(op, [value, model.constant(np.ones(4, np.float32))], shape=SHAPE))
    return model.to_bytes()


def test_models_end_before_their_custom_operators() -> None:
    assert convert.without_custom(_ending("ADD")) is None
    rest = convert.without_custom(_ending("CUSTOM Other"))
    graph = tflite_file.schema().ModelT.InitFromPackedBuf(rest, 0).subgraphs[0]
    (operator,) = graph.operators
    assert list(graph.outputs) == list(operator.outputs)  # not the constant


def test_a_custom_operator_that_others_read_stays() -> None:
    model = Model()
    value = model.op("CUSTOM Other", [model.input("x", SHAPE)], shape=SHAPE)
    model.output(model.op("RELU", [value], shape=SHAPE))
    assert convert.without_custom(model.to_bytes()) is None


@pytest.mark.adapter
def test_all_ways_to_overlap_give_the_same_results() -> None:
    """`measured` compares the results."""
    pytest.importorskip("onnxruntime")
    times = overlap.measured(overlap.Pipeline(frames=5, sleeps=True), rounds=1)
    assert list(times) == ["waits", "ring", "threads", "async"]
    assert all(len(each) == 1 for each in times.values())
