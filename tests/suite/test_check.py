"""`tools/check.py` ends with a table that names each failed test: a log may keep only its end."""

from __future__ import annotations

import runpy
from pathlib import Path

CHECK = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "check.py"))
STEPS = {step.name: step for step in CHECK["steps"]()}
OUTPUT = """FAILED tests/a.py::test_b[x y] - assert 1 == 2
ERROR tests/c.py
1 failed, 8 passed, 1 error in 2.3s
"""


def table(status: int, output: str) -> list[str]:
    found = CHECK["result"](STEPS["adapter"], status, output, 3.0)
    lines: list[str] = CHECK["table"](STEPS, {"adapter": found})
    return [" ".join(line.split()) for line in lines]


def test_failed_tests_are_named() -> None:
    assert table(1, OUTPUT) == [
        "FAIL adapter other tests, on the adapter 1 failed, 8 passed, 1 error in 2.3s [3 s]",
        "tests/a.py::test_b[x y] - assert 1 == 2",
        "tests/c.py",
        "Failed: adapter.",
    ]


def test_a_pass_and_a_step_without_tests_are_told_apart() -> None:
    assert table(0, "8 passed in 2.3s")[-1] == "All 1 steps passed."
    skipped = "SKIPPED [3] tests/a.py:3: no adapter\n3 skipped in 0.1s"
    assert table(0, skipped)[1:] == ["no adapter", "0 steps passed. Not run: adapter."]
