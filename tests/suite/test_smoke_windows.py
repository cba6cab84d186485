"""Tests the smoke test of Windows without Wine: how its processes are judged."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import cpus
from archive import Unavailable
from smoke import windows, windows_scenarios, wine


def here(folder: Path) -> cpus.Python:
    return cpus.Python([*wine.PIPED, sys.executable], {}, folder)


@pytest.mark.parametrize(
    ("code", "status", "wrong"),
    [
        ("print('yes')", 0, ""),
        ("print('yes'); raise SystemExit(7)", 7, ""),
        ("print('yes')", 7, "exit status 0, not 7"),
        ("raise SystemExit('no')", 0, "exit status 1, not 0"),
        ("", 0, "its output is not right"),
    ],
)
def test_a_process_is_judged_by_its_status_and_output(
    code: str, status: int, wrong: str, tmp_path: Path
) -> None:
    found = windows.run_check(here(tmp_path), windows.Check("one", ("-c", code), status))
    assert found.wrong == wrong and (wrong or found.said == "yes\n")


def test_a_process_that_hangs_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "LONGEST", 0.5)
    check = windows.Check("one", ("-c", "import time; time.sleep(30)"))
    assert windows.run_check(here(tmp_path), check).wrong == "not done after 0.5 s"


INFO = {
    "usable": True,
    "hosts": dict.fromkeys(windows.HOSTS, "1"),
    "adapters": [{"name": "GTX", "backend": "D3D12"}, {"name": "llvmpipe", "backend": "Vulkan"}],
}
BENCH = {"timings": [{"median_ms": 1.0}, {"median_ms": 2.0}], "difference": 1e-6}


def test_outputs_of_commands_are_judged() -> None:
    assert windows.usable(json.dumps(INFO))
    assert not windows.usable(json.dumps({**INFO, "adapters": INFO["adapters"][:1]}))  # type: ignore[index]
    assert not windows.usable(json.dumps({**INFO, "hosts": {"onnxruntime": "1"}}))
    assert windows.on_gpu('{"report": {"nodes": [{"where": "gpu"}]}}')
    assert not windows.on_gpu('{"report": {"nodes": [{"where": "gpu"}, {"where": "cpu"}]}}')
    assert not windows.on_gpu('{"report": {"nodes": []}}')
    assert windows.close(json.dumps(BENCH))
    assert not windows.close(json.dumps({**BENCH, "difference": 0.1}))
    check = windows.Check("info", (), right=windows.usable)
    assert windows.reason(check, 0, f"INFO: a\nWARNING: a line\n{json.dumps(INFO)}") == ""
    assert "cannot be read" in windows.reason(check, 0, "Traceback")


def test_a_line_of_a_report_says_what_was_printed_last() -> None:
    assert windows.told("WARNING: a\nfirst\nsecond a|b\n") == "second a/b"
    assert windows.told('INFO: a\n{\n "nodes": 1\n}\n') == "JSON"
    assert windows.told("Wrote Z:\\a\\smoke\\windows\\b.pth") == "Wrote ...\\b.pth"
    assert windows.told("") == ""


def test_what_a_second_process_writes_anew_is_seen(tmp_path: Path) -> None:
    def pair(first: str, second: str) -> list[str]:
        checks = (windows.Check("caches", ()), windows.Check("caches, again", ()))
        said = zip(checks, (first, second), strict=True)
        return windows.unchanged([windows.Found(check, text, 1.0) for check, text in said])

    assert pair("3 files, written 7.", "3 files, written 7.") == []
    assert pair("3 files, written 7.", "3 files, written 8.") and pair("", "")


def test_every_scenario_is_run(tmp_path: Path) -> None:
    run = {check.arguments[1] for check in windows.checks(tmp_path) if check.arguments[0] != "-m"}
    assert run == windows_scenarios.SCENARIOS.keys()


def test_what_is_taken_of_a_wheel_must_be_there(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("libs/a.dll", b"1")
    wine.taken(wheel, ["libs/*.dll"], tmp_path)
    assert (tmp_path / "a.dll").read_bytes() == b"1"
    with pytest.raises(Unavailable, match="pyd"):
        wine.taken(wheel, ["libs/*.pyd"], tmp_path)


def test_a_folder_has_a_name_that_no_code_page_has() -> None:
    for name in (wine.NAME, windows_scenarios.STRANGE):
        for page in ("cp1252", "cp932", "cp1251"):
            with pytest.raises(UnicodeEncodeError):
                name.encode(page)


def test_what_runs_there_needs_nothing_of_the_checkout() -> None:
    code = (
        "import sys, windows_scenarios; print([m for m in sys.modules if m in ('smoke', 'cpus')])"
    )
    folder = Path(windows_scenarios.__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
