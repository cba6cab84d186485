"""Tests the list at the end of `make test`: a step of which everything was skipped is not "ok"."""

from __future__ import annotations

import gc
import itertools
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import check
import share

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
    results = {f"s{k}": one for k, one in enumerate(found)}
    lines = [check.listed(replace(step, name=name), one) for name, one in results.items()]
    return [*itertools.chain(*lines), check.summary(results)]


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


def test_steps_keep_compiled_python_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in processes that tests start."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import subprocess, sys\nASKED = 'import sys; sys.exit(sys.dont_write_bytecode)'\n"
    one = "def test_it(): assert not sys.dont_write_bytecode\n"
    other = "def test_a_child(): subprocess.run([sys.executable, '-c', ASKED], check=True)\n"
    assert ran(tmp_path, code + one + other).state == "ok"


def test_daily_runs_the_code_that_users_get() -> None:
    """Where the long part compiles without optimizations, the same step of every day does not."""
    lighter = [
        s for s in check.steps() if (rest := s.of("rest")) and "GALLIVM_PERF" in rest.environment
    ]
    assert {step.name for step in lighter} == {*check.COMPILING}
    for step in lighter:
        daily = step.of("daily")
        assert daily is not None and daily.environment == step.environment


def test_collections_leave_out_the_tests_themselves() -> None:
    """Many tests collect garbage, which would take most of a second among ten thousand tests."""
    assert gc.get_freeze_count() > 10_000


def test_a_step_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a process that it started holds its output open."""
    monkeypatch.setattr(check, "LONGEST", 3.0)
    code = "import subprocess, threading\ndef test_it():\n    subprocess.Popen(['sleep', '60'])\n"
    start = time.monotonic()
    found = ran(tmp_path, f"{code}    threading.Event().wait()\n")
    assert found.state == "FAIL" and found.reasons[0].startswith("ended after ")
    assert time.monotonic() - start < 30
    shown = (check.LOGS / "models.log").read_text()
    assert re.search(r"test_step.py\", line 4 in test_it", shown)


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


@pytest.mark.parametrize("name", ["cluster", "wheel"])
def test_a_step_of_a_mark_reads_each_file_that_has_it(name: str) -> None:
    (step,) = [step for step in check.steps() if step.name == name]
    (folder,) = [check.ROOT / word for word in step.command if word.startswith("tests/")]
    files = (check.ROOT / "tests").rglob("test_*.py")
    marked = [path for path in files if re.search(rf"mark\.{name}\b", path.read_text())]
    assert marked and all(path.is_relative_to(folder) for path in marked)


def test_the_parts_are_all_steps() -> None:
    """Each step belongs to one part, or to both with shares that add up to all of its tests."""
    for step in check.steps():
        found = [one for part in check.SHARES if (one := step.of(part))]
        assert step.of("") == step
        if step.part == "both":
            chosen = [share.parts(one.command[-1]) for one in found]
            (parts,) = {count for _, count in chosen}
            assert sorted(k for kept, _ in chosen for k in kept) == [*range(parts)]
        else:
            assert found == [step]


@pytest.mark.parametrize("text", ["", "0/5", "2-1/5", "1/0", "6/5", "1", "a/b", "1-6/5"])
def test_wrong_shares_are_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="--share"):
        share.parts(text)


def test_shares_are_disjoint_and_complete(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('k', range(200))\ndef test_it(k): pass\n"
    (tmp_path / "test_many.py").write_text(many)
    counts = []
    for part in check.SHARES:
        step = check._pytest("one", "what", str(tmp_path), part="both").of(part)
        assert step is not None
        same_names = ["-o", "addopts=", "--rootdir", str(tmp_path)]
        counts.append(int(check.run(step, same_names).counted.split()[0]))
    assert sum(counts) == 200 and 10 < counts[0] < 40


def test_what_fails_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = (tmp_path / f"test_{name}.py" for name in ("good", "bad"))
    good.write_text("def test_it(): print('silence')\n")
    bad.write_text("def test_it():\n    assert 'speech' == 'silence'\n")
    made = [check._pytest(file.stem, "what", str(file)) for file in (good, bad)]
    monkeypatch.setattr(check, "steps", lambda: made)
    monkeypatch.setattr(check, "LOGS", tmp_path / "logs")
    assert check.main(["test_good"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert check.main([]) == 1
    shown = capsys.readouterr().out
    assert "assert 'speech' == 'silence'" in shown and shown.endswith("Failed: test_bad.\n")
    assert "1 failed" in (tmp_path / "logs/test_bad.log").read_text()
    assert check.main(["rest", "test_good"]) == 2
