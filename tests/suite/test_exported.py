"""The gate of `make exported`: a model that no longer runs entirely or correctly fails it, and
improvements are reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conformance import exported, exported_inputs, exported_table
from conformance.exported_table import REFUSED, RIGHT, WRONG, Row
from conformance.test_graph_cases import worst

WHOLE = Row(nodes=9, gpu=9, partitions=1)
ERROR = "ValueError: no"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (WHOLE, replace(WHOLE, gpu=8)),
        (WHOLE, replace(WHOLE, partitions=2)),
        (WHOLE, replace(WHOLE, on_host=1)),
        (WHOLE, replace(WHOLE, state=WRONG)),
        (WHOLE, Row(state=ERROR)),
        (WHOLE, Row(state=REFUSED)),
        (replace(WHOLE, state=WRONG), Row(state=ERROR)),
        (replace(WHOLE, state=WRONG), replace(WHOLE, state=WRONG, gpu=3)),
        (Row(state=REFUSED), Row(state=ERROR)),
    ],
)
def test_what_is_worse_fails_and_what_is_better_is_said(before: Row, now: Row) -> None:
    worse = exported_table.compared({"a": before}, {"a": now})
    assert len(worse.worse) == 1 and not worse.better and "Worse" in str(worse)
    better = exported_table.compared({"a": now}, {"a": before})
    assert not better.worse and len(better.better) == 1
    assert "--record" in str(better) and "--record" not in str(worse)


def test_the_first_partition_is_better() -> None:
    none = replace(WHOLE, gpu=0, partitions=0)
    found = exported_table.compared({"a": none}, {"a": WHOLE})
    assert len(found.better) == 1 and not found.worse


def test_what_is_better_in_one_thing_and_worse_in_another_is_worse() -> None:
    now = replace(WHOLE, nodes=12, gpu=11, partitions=1)
    assert exported_table.compared({"a": replace(WHOLE, partitions=2)}, {"a": now}).worse
    assert exported_table.compared({"a": WHOLE}, {"a": replace(now, gpu=12)}) == (
        exported_table.Comparison((), (), ())
    )


def test_a_missing_model_fails_and_a_new_one_does_not() -> None:
    found = exported_table.compared({"a": WHOLE}, {"b": WHOLE})
    assert [line.split(":")[0] for line in found.worse] == ["a"] and len(found.new) == 1
    assert not exported_table.compared({}, {"b": Row(state=ERROR)}).worse


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = {"b.onnx": WHOLE, "a.tflite": Row(state='RuntimeError: "no"')}
    exported_table.write(rows, tmp_path / "table.json")
    assert exported_table.read(tmp_path / "table.json") == rows
    assert exported_table.read(tmp_path / "none.json") == {}


def test_the_recorded_table_can_be_read_and_names_each_model_once() -> None:
    lines = exported_table.FILE.read_text().splitlines()
    assert len(exported_table.read()) == len(lines) - 2


def test_nan_is_right_only_where_both_have_it() -> None:
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    a = np.array([1, nan, inf, 3], np.float32)
    assert worst([[a]], [[a.copy()]])[0] == 0
    for k, other in ((0, nan), (1, 2), (2, -inf), (2, nan), (3, inf), (3, 3.5)):
        b = a.copy()
        b[k] = other
        share, where = worst([[a]], [[b]])
        assert share > 1 and f"[{k}]" in where
        assert worst([[b]], [[a]])[0] > 1
    assert worst([[np.array([True, False])]], [[np.array([True, True])]])[0] > 1
    assert worst([[np.array([0], np.uint8)]], [[np.array([255], np.uint8)]])[0] > 1


def test_inputs_are_fed_off_centre_too_and_the_first_again(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    left = {"x": random.normal(size=(2, 40)).astype(np.float32), "ids": np.arange(3),
            "image": random.random((1, 3, 8, 8), np.float32)}  # fmt: skip
    np.savez(tmp_path / "model.npz", **left)
    np.savez(tmp_path / "model.0.npz", **(left | {"ids": np.arange(5)}))
    feeds = exported_inputs.feeds(tmp_path / "model.int8.onnx")
    assert [len(given["ids"]) for given in feeds] == [3, 3, 5, 5, 3]
    for noise, moved in ((feeds[0], feeds[1]), (feeds[2], feeds[3])):
        np.testing.assert_array_equal(noise["ids"], moved["ids"])
        for name in ("x", "image"):
            assert moved[name].dtype == np.float32 and moved[name].shape == noise[name].shape
            assert moved[name].mean() >= moved[name].std() / 2
    np.testing.assert_array_equal(feeds[4]["x"], feeds[0]["x"])


def _write(folder: Path, name: str, op: str) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], op)], name, [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(made, folder / f"{name}.onnx")
    np.savez(folder / f"{name}.npz", x=np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


@pytest.mark.adapter
def test_the_gate_fails_when_a_model_is_worse_or_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, "kept", "Sigmoid")
    _write(tmp_path, "other", "Tanh")
    table = tmp_path / "table.json"
    arguments = [str(tmp_path), "--table", str(table)]
    assert exported.main(arguments) == 0 and "--record" in capsys.readouterr().out
    assert exported.main([*arguments, "--record"]) == 0
    assert exported_table.read(table) == {
        f"{name}.onnx": Row(nodes=1, gpu=1, partitions=1, state=RIGHT) for name in ("kept", "other")
    }
    assert exported.main(arguments) == 0 and "as recorded" in capsys.readouterr().out
    (tmp_path / "other.onnx").unlink()
    assert exported.main(arguments) == 1 and "other.onnx: missing" in capsys.readouterr().out
    assert exported.main([*arguments, "--only", "kept"]) == 0
    np.savez(tmp_path / "kept.npz", x=np.zeros((3, 5), np.float32))  # the host refuses these
    assert exported.main([*arguments, "--only", "kept"]) == 1
    assert "kept.onnx: 0 of 0 nodes" in capsys.readouterr().out
