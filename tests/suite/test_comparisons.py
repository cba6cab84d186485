"""Tests commands that compare two checkouts: their plans, and their times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import paired
from tests.support.subprocesses import ROOT

PLANS = (sys.executable, "tools/plans.py")


@pytest.mark.adapter
def test_plans_are_compared(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    subprocess.run([*PLANS, "record", str(before), "lrn"], cwd=ROOT, check=True)
    found = json.loads(before.read_text())
    targets = next(iter(found["lrn"].values()))
    targets[next(iter(targets))] = "another plan"
    after.write_text(json.dumps(found))
    for other, status, said in ((before, 0, ", 0 differ"), (after, 1, ", 1 differ")):
        command = [*PLANS, "compare", str(before), str(other)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert ended.returncode == status and ended.stdout.strip().endswith(said)


def test_a_command_that_there_is_not_shows_the_usage() -> None:
    ended = subprocess.run([*PLANS, "forget", "it"], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1 and "record before.json" in ended.stderr


@pytest.mark.adapter
@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="a checkout is run by its .venv")
def test_a_checkout_is_timed_against_itself() -> None:
    line = paired.compare(ROOT, "network", "mobilenet_v1", rounds=1)
    ratio = float(line.partition(": ")[2].partition(";")[0])
    assert line.startswith("mobilenet_v1, a run: ") and 0.1 < ratio < 10
    with pytest.raises(SystemExit, match="cannot be measured"):
        paired.compare(ROOT, "network", "no_such_network", rounds=1)
