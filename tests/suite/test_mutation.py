"""Tests the mutation tool: what it changes, what it leaves alone, and its list of equivalent
mutants."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path

import pytest

from tests.mutation import (
    equivalent,
    mutants,
    python_sites,
    runner,
    selection,
    tests_by_file,
    token_sites,
)  # fmt: skip
from tests.mutation.edits import Edit

PYTHON = '''
def places(a: int = 3, name: str = "x") -> int:
    """Text with 1 < 2."""
    if a < 3 and name in ("y",):
        raise ValueError(f"{a + 1} is too small")
    total = -(-a // 4) * min(a, 2) + b.reshape(-1, 5)
    for x, y in zip((1,), (2,), strict=True):
        total += x
    return total if ready(name) else 0
'''
WGSL = """// a < b
{% if a < 2 %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u) -> vec2<f32> {
  if (wid.x >= p.count && 1u < 2u) { store(wid.x, {{ 3 + 4 }}, max(v, 0.0) * 2.5); }
}
{% endif %}
"""
C = """#define LESS (1 < 2)
/* 1 < 2 */
static int make(thing *one) {
  free(one->name);
  W(ThingRelease)(one->wgpu);
  api->release_status(one);
  release(one, "1 < 2");
  if (!(one->list = calloc(one->count + 1, sizeof *one->list))) return 1;
  return one->count < 3 ? -1 : 0;
}
"""


def changed(text: str, edits: list[Edit]) -> set[str]:
    """Returns the lines after the edits."""
    found = set()
    for edit in edits:
        whole = text[: edit.start] + edit.new + text[edit.end :]
        start = whole.rfind("\n", 0, edit.start) + 1
        found.add(whole[start : whole.find("\n", edit.start)].strip())
    return found


def test_changes_of_python_are_python() -> None:
    edits = list(python_sites.edits(PYTHON))
    for edit in edits:
        ast.parse(PYTHON[: edit.start] + edit.new + PYTHON[edit.end :])
    lines = changed(PYTHON, edits)
    assert {
        'if a <= 3 and name in ("y",):', 'if a < 4 and name in ("y",):',
        'if a < 3 or name in ("y",):', 'if a < 3 and name not in ("y",):',
        "total = -(-a * 4) * min(a, 2) + b.reshape(-1, 5)", "pass",
        "total = -(-a // 4) * max(a, 2) + b.reshape(-1, 5)",
        "total = -(-a // 4) * min(a, 2) + b.reshape(-1, 6)",
        "return total if not ready(name) else 0", 'def places(a: int = 4, name: str = "x") -> int:',
    } <= lines  # fmt: skip
    assert not any(
        "too small" in line or "strict=False" in line or "Text" in line or "reshape(-2" in line
        for line in lines
    )


def test_changes_of_kernels_leave_templates_and_types_alone() -> None:
    lines = changed(WGSL, list(token_sites.edits(WGSL, True)))
    body = "if (wid.x {} p.count {} 1u {} {}) {{ store(wid.x, {{{{ 3 + 4 }}}}, {}(v, {}) {} {}); }}"
    plain = [">=", "&&", "<", "2u", "max", "0.0", "*", "2.5"]
    wanted = set()
    for k, new in enumerate((">", "||", "<=", "3u", "min", "1.0", "+", "2.525")):
        wanted.add(body.format(*plain[:k], new, *plain[k + 1 :]))
    assert lines - {body.format(*plain).replace("1u", "2u")} == wanted


def test_negations_and_clamps_are_dropped() -> None:
    shader = "let a = clamp(select(v, v + 1, !b), vec4i(), (c)) & ~3u;"
    lines = changed(shader + "\n", list(token_sites.edits(shader + "\n", True)))
    assert "let a = (select(v, v + 1, !b)) & ~3u;" in lines
    assert "let a = clamp(select(v, v + 1,  b), vec4i(), (c)) & ~3u;" in lines
    assert "let a = clamp(select(v, v + 1, !b), vec4i(), (c)) &  3u;" in lines
    code = "  if (!a && b != ~c) d = clamp(e, 0, 1);\n"
    lines = changed(code, list(token_sites.edits(code, False)))
    assert {"if ( a && b != ~c) d = clamp(e, 0, 1);", "if (!a && b !=  c) d = clamp(e, 0, 1);",
            "if (!a && b == ~c) d = clamp(e, 0, 1);"} <= lines  # fmt: skip
    assert not any("= (e)" in line for line in lines)


def test_changes_of_c_leave_texts_and_free_alone() -> None:
    lines = changed(C, list(token_sites.edits(C, False)))
    assert ";" in lines and "return one->count <= 3 ? -1 : 0;" in lines
    assert "if (!(one->list = calloc(one->count - 1, sizeof *one->list))) return 1;" in lines
    assert not any("+ 2" in line or "return 2" in line for line in lines)
    assert not any(
        "free" in line or "Release" in line or "status" in line or "define" in line or "/*" in line
        for line in lines
    )


def test_every_area_has_files_and_every_file_checks() -> None:
    for area in mutants.AREAS:
        assert mutants.files(area), area
        for file in mutants.files(area):
            assert selection.steps(file), file


def test_a_sample_is_as_large_as_asked_and_keeps_to_its_seed() -> None:
    first = mutants.sample(30, 1)
    assert len(first) == 30 and set(mutants.counted(first)) == set(mutants.AREAS)
    assert first == mutants.sample(30, 1) != mutants.sample(30, 2)


def test_another_line_changes_no_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutants.sample(1, 1, ["cache"])[0]
    lot = mutants._lot(mutant, 1)
    monkeypatch.setattr(mutants, "text", lambda file: f"# more\n{mutant_text}")
    mutant_text = (mutants.ROOT / mutant.file).read_text()
    moved = Edit(mutant.edit.start + 7, mutant.edit.end + 7, mutant.edit.new, mutant.edit.kind)
    assert mutants._lot(mutants.Mutant(mutant.area, mutant.file, moved), 1) == lot


def test_tables_of_tests_name_files_and_tests_that_there_are() -> None:
    """A file that is renamed keeps its tests."""
    rooms = {"providers": (tests_by_file.PROVIDERS, tests_by_file.ALONE),
             "tflgpu_plugin": (tests_by_file.FAMILIES, tests_by_file.TESTS)}  # fmt: skip
    for room, tables in rooms.items():
        stems = {path.stem for path in (mutants.ROOT / room).rglob("*")} | {"stored_numbers"}
        keys = {key for table in tables for key in table if "/" not in key}
        assert not keys - stems, f"in {room}: {keys - stems}"
    tables = (tests_by_file.TESTS, tests_by_file.PROVIDERS, tests_by_file.ALONE)
    named = {test for table in tables for tests in table.values() for test in tests}
    assert named <= selection.files().keys()


def test_equivalent_mutants_have_a_line_that_is_there_and_a_reason() -> None:
    assert equivalent.stale() == []
    listed = json.loads(Path(equivalent.__file__).with_suffix(".json").read_text())
    assert all(entry["reason"].endswith(".") for entry in listed)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux who works")
def test_a_child_that_waits_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "IDLE", 1.5)  # longer than a busy machine lets a process wait
    monkeypatch.setattr(runner, "GLANCE", 0.1)
    for name in ("build", "enter"):  # nothing is imported
        monkeypatch.setattr(runner.sandbox, name, lambda *_: None)
    running = runner.Runner(2)
    mutant = mutants.sample(1, 1, ["cache"])[0]
    try:
        waiting = running.fork(mutant, lambda: time.sleep(30))
        working = running.fork(mutant, lambda: _work_for(3.0))
        ends = dict[int, str]()
        while running.running:
            before = set(running.running)
            if outcome := running.wait():
                (pid,) = before - set(running.running)
                ends[pid] = f"{outcome.how} {outcome.by}"
        assert ends == {waiting: "killed : SIGKILL", working: "survived : "}
    finally:
        running.close()


def _work_for(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("by", "test"),
    [
        ("pytest t.py: FAILED tests/t.py::test_x[1-2] - assert 1 == 2", "tests/t.py::test_x[1-2]"),
        ("pytest t.py: ERROR tests/t.py - IndexError: tuple index", "tests/t.py"),
        ("pytest t.py: ERROR tests/t.py", "tests/t.py"),
        ("cases conv: -- planning fails", ""),
    ],
)
def test_a_red_test_file_kills_nothing(by: str, test: str) -> None:
    """Failed tests, and files that cannot be read, are run again without the mutant."""
    assert runner._test(by) == test
    if test:
        step = selection.Step("pytest", test)
        assert selection.passes(step, "", Path(), False, [test])
