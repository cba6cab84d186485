"""Tests the list at the end of `make test`: a step of which everything was skipped is not "ok"."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import check

from conformance.plugin import selection

SKIPPED = "import pytest\ndef test_it(): pytest.skip('no files: put some into X')\n"


def ran(tmp_path: Path, code: str) -> check.Result:
    """Returns the result of one step that reads a file with this content."""
    file = tmp_path / "test_step.py"
    file.write_text(code)
    step = check._pytest("models", "real models", str(file), "-ra", "-o", "addopts=")
    return check.run(step, [])


def listed(*found: check.Result) -> list[str]:
    step = check._pytest("one", "what")
    names = [f"s{k}" for k in range(len(found))]
    return check.table({n: replace(step, name=n) for n in names}, dict(zip(names, found)))  # noqa: B905


def test_a_step_without_files_is_not_run(tmp_path: Path) -> None:
    found = ran(tmp_path, SKIPPED)
    assert found.state == "not run"
    assert found.reasons == ("no files: put some into X",)
    *lines, last = listed(replace(found, state="ok"), found)
    assert lines[-2].startswith("not run  s1") and lines[-1].endswith("put some into X")
    assert last == "1 steps passed. Not run: s1."


@pytest.mark.parametrize(
    ("more", "state"),
    [("def test_other(): pass\n", "ok"), ("def test_other(): assert False\n", "FAIL")],
)
def test_a_step_of_which_something_ran(more: str, state: str, tmp_path: Path) -> None:
    assert ran(tmp_path, SKIPPED + more).state == state


def test_failed_tests_are_named_in_the_list(tmp_path: Path) -> None:
    """A log may only contain its end."""
    found = ran(tmp_path, SKIPPED + "def test_other(): assert 1 == 2\n")
    (named,) = found.reasons
    assert "test_step.py::test_other" in named
    *_, reason, last = listed(found)
    assert reason.endswith(named) and last == "Failed: s0."


@pytest.mark.adapter
def test_the_models_step_says_how_to_get_some(tmp_path: Path) -> None:
    step = next(step for step in check.steps() if step.name == "models")
    environment = {**step.environment, "TFLGPU_MODELS": str(tmp_path)}
    found = check.run(replace(step, environment=environment), ["-n", "0"])
    assert found.state == "not run"
    assert len(found.reasons) == 1 and "TFLGPU_MODELS" in found.reasons[0]


def test_every_module_of_the_suite_is_run() -> None:
    """Each is in the quick part or a step of its own, or there is a reason."""
    own = {Path(word).stem for step in check.steps() for word in step.command if "test_" in word}
    modules = {path.stem for path in (check.ROOT / "conformance").glob("test_*.py")}
    lists = [own & modules, {*selection.QUICK}, {*selection.LEFT_OUT}]
    assert set.union(*lists) == modules
    assert sum(map(len, lists)) == len(modules)  # each in one list
