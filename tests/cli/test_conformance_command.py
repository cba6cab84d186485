"""`tflgpu conformance`: what it asks of the suite, and what it makes of the answer. A stand-in for
pytest answers here; tests/docs/test_wheel.py runs the suite of the wheel."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tflgpu_plugin.cli import conformance
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import NoAdapter

STAND_IN = """
import json, pathlib, sys

words = sys.argv[1:]
pathlib.Path("words.json").write_text(json.dumps(words))
print("progress")
print({said!r}, file=sys.stderr)
if {write}:
    folder = pathlib.Path(words[words.index("--report") + 1])
    (folder / "report.json").write_text(json.dumps({{"counts": {{"PASS": 3}}}}))
sys.exit({status})
"""


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes `python -m pytest` end with this status, after it has written a report or not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adapter, "select", lambda wanted: None)

    def end(status: int, write: bool = True, said: str = "") -> None:
        text = STAND_IN.format(status=status, write=write, said=said)
        (tmp_path / "pytest.py").write_text(text, encoding="utf-8")

    return end


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, ["conformance", *words])


def words() -> list[str]:
    found: list[str] = json.loads(Path("words.json").read_text(encoding="utf-8"))
    return found


def test_the_suite_runs_with_what_was_asked_for(tmp_path: Path, ended: Callable[..., None]) -> None:
    ended(0)
    result = invoke("--op", "ADD,conv", "--dtype", "all", "--host", "onnxruntime", "--adapter",
                    "llvm", "--quick", "--jobs", "3", "--out", "a/b")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert f"Wrote {Path('a') / 'b' / 'report.html'}, a single file, and" in result.output
    given = words()
    for pair in (("--op", "ADD,conv"), ("--dtype", "all"), ("--host", "onnxruntime"), ("-n", "3"),
                 ("--adapter", "llvm"), ("-m", "quick"), ("--report", str(tmp_path / "a" / "b")),
                 ("--rootdir", str(conformance.root()))):  # fmt: skip
        assert given[given.index(pair[0]) + 1] == pair[1], pair
    assert str(conformance.root() / "conformance") in given
    assert (conformance.root() / "conformance" / "test_ops.py").is_file()
    invoke()
    assert not {"--op", "--dtype", "--host", "--adapter", "-n", "-m"} & {*words()}
    assert (tmp_path / "tflgpu-conformance" / "report.json").is_file()


@pytest.mark.parametrize(
    ("status", "ours"), [(0, 0), (1, 1), (2, 2), (3, 1), (4, 2), (5, 2), (-9, 1)]
)
def test_statuses_are_those_of_all_commands(
    ended: Callable[..., None], status: int, ours: int
) -> None:
    ended(status % 256)
    result = invoke()
    assert result.exit_code == ours
    assert ("has not come to its end" in result.stderr) == (status in (3, -9))


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_status_130(ended: Callable[..., None], tmp_path: Path) -> None:
    """The suite ends by itself: it gets the signal, too."""
    ended(2)
    (tmp_path / "pytest.py").write_text(
        "import os, signal, sys, time\nos.kill(os.getppid(), signal.SIGINT)\n"
        "time.sleep(0.5)\nsys.exit(2)\n"
    )
    assert invoke().exit_code == 130


SLOW = """
import time
import pytest

@pytest.mark.parametrize("seconds", [0, 100])
def test_part(seconds):
    time.sleep(seconds)
"""


@pytest.mark.adapter
@pytest.mark.skipif(os.name == "nt", reason="a process has no time to write there")
def test_the_suite_ends_after_its_time_with_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Ctrl-C is ignored, as in the background of a shell."""
    monkeypatch.setenv("PYTHONPATH", str(conformance.root()))
    monkeypatch.setattr(conformance, "root", lambda: tmp_path)
    monkeypatch.setattr(conformance, "NAME", "slow")
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "conftest.py").write_text("from conformance.conftest import *\n")
    (tmp_path / "slow" / "test_slow.py").write_text(SLOW)
    before, begin = signal.signal(signal.SIGINT, signal.SIG_IGN), time.monotonic()
    try:
        done = conformance.run(conformance.Request(tmp_path / "r", seconds=15))
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.status == 2 and time.monotonic() - begin < 90
    assert done.counts["PASS"] == 1


def test_sentences_begin_as_those_of_other_commands(ended: Callable[..., None]) -> None:
    ended(4, write=False, said="ERROR: There is no operator NOPE.")
    result = invoke()
    assert result.exit_code == 2 and result.stderr == "Error: There is no operator NOPE.\n"


def test_the_number_of_results_is_printed(ended: Callable[..., None]) -> None:
    ended(0)
    assert "3 results: 3 PASS" in invoke("--quick").output


def test_an_installation_without_the_suite_is_a_sentence(
    ended: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(0)
    monkeypatch.setattr(conformance, "NAME", "absent")
    result = invoke()
    assert result.exit_code == 2 and "lacks the conformance suite" in result.stderr


def test_a_run_without_a_report_names_none(tmp_path: Path, ended: Callable[..., None]) -> None:
    ended(0)
    assert "Wrote" in invoke("--out", "r").output
    ended(4, write=False)
    result = invoke("--out", "r")
    assert result.exit_code == 2 and "Wrote" not in result.output
    assert (tmp_path / "r" / "report.json").is_file()  # that of an earlier run stays


def test_a_refused_request_leaves_no_folder(tmp_path: Path, ended: Callable[..., None]) -> None:
    ended(4, write=False, said="ERROR: no op nosuch")
    assert invoke("--op", "nosuch", "--out", "new").exit_code != 0
    assert not (tmp_path / "new").exists()


def test_json_is_all_that_goes_to_stdout(
    ended: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    ended(1)
    result = invoke("--out", "r", "--json")
    report = str(Path("r") / "report.html")
    assert json.loads(result.stdout) == {"status": 1, "report": report, "counts": {"PASS": 3}}
    streams = capfd.readouterr()
    assert "progress" in streams.err and "progress" not in streams.out


def test_what_is_not_installed_is_named(
    ended: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(0)
    true = importlib.util.find_spec
    lost = ("xdist", "PIL")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in lost else true(name, *more)
    )
    result = invoke()
    assert result.exit_code == 2 and not Path("words.json").exists()
    assert (
        "The conformance suite needs pytest-xdist, pillow. "
        "Run: pip install 'tflgpu-plugin[conformance]'" in result.stderr
    )


def test_no_adapter_is_status_3(
    ended: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wanted: Any) -> None:
        raise NoAdapter(adapter.INSTALL_HINT)

    ended(0)
    monkeypatch.setattr(adapter, "select", refuse)
    assert invoke().exit_code == 3 and not Path("words.json").exists()
