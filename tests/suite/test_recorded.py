"""The gate of recorded estimates: what is slower, spills or takes more launches fails it, and names
the launches that grew. Compilers are not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compiled import recorded
from benchmarks.compiled.amd import Made
from benchmarks.compiled.cost import Cost
from benchmarks.compiled.networks import Estimate
from benchmarks.compiled.recorded import BYTES, GPUS, NETWORKS, PRECISIONS, Row
from conformance.models import model_inputs

ROW = Row(0, {"stem": [20.0], "conv": [10.0, 30.0, 30.0]})
SLOWER = replace(ROW, launches={"stem": [19.0], "conv": [10.5, 30.0, 33.5]})
MESA = "mesa 1"


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (SLOWER, "conv 3: 30.0 to 33.5 us; conv 1: 10.0 to 10.5 us"),
        (replace(ROW, spills=4), "4 spills"),
        (replace(ROW, launches={**ROW.launches, "sum_parts": [0.5]}), "sum_parts: 0 of 0.0 to 1"),
        (replace(ROW, launches={"stem": [20.0], "conv": [90.0]}), "conv: 3 of 70.0 to 1 of 90.0"),
    ],
)
def test_what_is_worse_is_told_with_what_grew(now: Row, named: str) -> None:
    found = recorded.compared({"a": ROW}, {"a": now})
    assert len(found.worse) == 1 and not found.better and named in found.worse[0]
    assert "stem" not in found.worse[0]


def test_little_is_no_change_and_what_is_faster_asks_to_be_recorded() -> None:
    little = replace(ROW, launches={"stem": [20.0], "conv": [11.5, 31.0, 30.0]})
    for now in (ROW, little):
        assert str(recorded.compared({"a": ROW}, {"a": now})) == "Everything is as recorded."
    found = recorded.compared({"a": SLOWER}, {"a": ROW, "b": ROW})
    assert len(found.better) == len(found.new) == 1 and not found.worse
    assert recorded.AGAIN in str(found)
    assert "Everything" in str(recorded.compared({"a": ROW, "other GPU": ROW}, {"a": ROW}))


def planted(monkeypatch: pytest.MonkeyPatch, us: float) -> None:
    """Lets every network take two launches, the last of which takes so long."""

    def estimates(
        names: Sequence[str], gpu: str, settings: Sequence[Mapping[str, object]]
    ) -> dict[tuple[str, int], Estimate]:
        made = Made({"Spilled VGPRs": 0, "Spilled SGPRs": 0}, "")
        launches = [("conv", made, Cost(each, "memory", 60, 1.0, True)) for each in (5.0, us)]
        return {(name, k): Estimate(gpu, launches) for name in names for k in range(len(settings))}

    monkeypatch.setattr(recorded, "estimates", estimates)


def test_a_planted_slowdown_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(model_inputs, "FOLDER", tmp_path)
    monkeypatch.setattr(recorded.driver, "compiler", lambda gpu: MESA)
    file, gpus = tmp_path / "table.json", ["lnl", "m1", "tu102"]
    planted(monkeypatch, 10.0)
    assert recorded.check(gpus, True, file) == 0
    assert recorded.check(gpus, False, file) == 0
    assert f"{BYTES} is left out" in (told := capsys.readouterr().out)
    assert "28 estimates compared.\nEverything is as recorded." in told
    planted(monkeypatch, 10.6)
    assert recorded.check(["tu102"], False, file) == 1
    assert "tu102, unet_256, float16: 15.6 us in 2 launches" in (told := capsys.readouterr().out)
    assert told.count("conv 2: 10.0 to 10.6 us") == len(NETWORKS) * 2
    planted(monkeypatch, 9.0)
    assert recorded.check(["tu102"], False, file) == 0
    assert "Better than recorded" in capsys.readouterr().out
    assert recorded.check(["tu102"], True, file) == 0
    assert {each.us for each in recorded.read(file).rows.values()} == {14.0, 15.0}


def test_code_of_another_compiler_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(model_inputs, "FOLDER", tmp_path)
    monkeypatch.setattr(recorded.driver, "compiler", lambda gpu: MESA)
    planted(monkeypatch, 10.0)
    assert recorded.check(["lnl", "tu102"], True, tmp_path / "table.json") == 0
    planted(monkeypatch, 20.0)
    monkeypatch.setattr(recorded.driver, "compiler", lambda gpu: "mesa 2")
    assert recorded.check(["lnl"], False, tmp_path / "table.json") == 0
    told = capsys.readouterr().out
    assert "NOT RUN: lnl was recorded with mesa 1, and here is mesa 2." in told
    assert "0 estimates compared" in told


def test_the_recorded_table_has_every_row_and_no_spill() -> None:
    table = recorded.read()
    names = [f"{name}, {precision}" for name in NETWORKS for precision in PRECISIONS]
    assert set(table.rows) == {f"{g}, {n}" for g in GPUS for n in (*names, f"{BYTES}, bytes")}
    assert set(table.compilers) == set(GPUS)
    assert not any(row.spills for row in table.rows.values())
