"""Selects the checks that a file has to pass: the cases of its families, and tests, quick ones
first. A family's files have its name; the rest is listed in `tests_by_file`."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from tests.mutation.mutants import ROOT
from tests.mutation.tests_by_file import (
    ALONE,
    FAMILIES,
    LAST,
    LAST_CONFORMANCE,
    OPS,
    PROVIDERS,
    READ,
    ROOMS,
    ROWS,
    SLOW,
    TESTS,
)


@dataclass(frozen=True)
class Step:
    """A check. `kind` "cases": the cases of the family `name`, or 8-bit twins, only a few if many
    differ; "all cases": all of them; "pytest": the file `name`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@cache
def _texts() -> dict[str, str]:
    """Returns the texts of the files in `tests/`, by their names."""
    return {p.stem: p.read_text() for p in sorted((ROOT / "tests").rglob("test_*.py"))}


@cache
def files() -> dict[str, str]:
    """Returns the paths of all tests by their names."""
    found = [*(ROOT / "conformance").glob("test_*.py"), *(ROOT / "tests").rglob("test_*.py")]
    return {path.stem: path.relative_to(ROOT).as_posix() for path in found}


def _importing(file: str) -> list[str]:
    """Returns the tests that are named like a Python file, and those that import it."""
    path = PurePath(file)
    if path.suffix != ".py" or path.stem == "__init__":
        return []
    room = ".".join(path.parent.parts).replace("providers", "tflgpu_plugin.providers")
    room, name = re.escape(room), re.escape(path.stem)
    whole = rf"{room}\.{name}\b|from {room} import [^\n]*\b{name}\b"
    named = [f"test_{prefix}{path.stem}" for prefix in ("", "ort_")]
    importing = [test for test, text in _texts().items() if re.search(whole, text)]
    found = dict.fromkeys([*named, *importing])
    return [test for test in found if test not in SLOW and test in _texts()]


def steps(file: str) -> list[Step]:
    """Returns the checks of a file, quick ones first."""
    path = PurePath(file)
    name, room = path.stem, path.parent.name
    whole = next((part for part in ("passes", "native") if part in path.parts), room)
    if whole == "native" and room != "core":
        whole, name = f"native/{room}", f"{room} {name}"
    room = whole
    key = f"{room}/__init__" if name == "__init__" else name
    mine: Sequence[str] = ()
    if room in ("ops", "kernels", "ir", "compile", "frontend", "importer", "passes"):
        mine = FAMILIES.get(key, (name,) if room in ("ops", "kernels") else ())
    if path.parts[0] == "providers":
        tests = ALONE.get(name) or (*PROVIDERS.get(name, ()), *ROOMS.get(room, READ))
    elif room not in ("ops", "kernels"):
        tests = TESTS.get(f"{room}/{key}", TESTS.get(key, ROOMS.get(room, ())))
    else:
        usual = OPS if room == "ops" else ()
        tests = TESTS.get(key if key != "quantized" else "stored_numbers", usual)
        tests = (*ROWS, *tests) if room == "ops" else tests
    tests = tuple(dict.fromkeys((*_importing(file), *tests)))
    found = [Step("cases", family) for family in mine]
    if path.suffix == ".wgsl":
        tests = ("test_kernel_bounds", *tests)
    if room == "ops" and "test_launch_costs" in files():
        cost = f"{files()['test_launch_costs']}::test_there_are_not_many_more_threads_than_elements"
        found += [Step("pytest", f"{cost}[{family}]") for family in mine]
    return found + [Step("pytest", files()[test]) for test in tests if test in files()]


def last_steps(file: str) -> list[Step]:
    """Returns the checks of a file when its own steps see nothing; a mutant survives only if these
    do not see it, either."""
    done = steps(file)
    families = dict.fromkeys([step.name for step in done if step.kind == "cases"])
    if families and PurePath(file).suffix == ".py":
        families["quantized"] = None
    near = [room for room in LAST if room in PurePath(file).parts]
    rooms = dict.fromkeys([*near, *LAST])
    own = [path for room in rooms for name, path in files().items()
           if path.startswith(f"tests/{room}/") and name not in SLOW]  # fmt: skip
    own += [files()[name] for name in LAST_CONFORMANCE]
    more = (Step("pytest", path) for path in own)
    return [*(Step("all cases", name) for name in families), *(s for s in more if s not in done)]


def missing_adapter() -> bool:
    """Whether there is none; says why."""
    from tests.conftest import missing_adapter

    if reason := missing_adapter():
        print(reason)
    return reason is not None


def record(family: str, folder: Path) -> None:
    """Records what `passes` compares cases with."""
    from tests.mutation import probe

    made = folder / f"{family}.json.new"
    made.write_text(probe.record(family))
    made.replace(folder / f"{family}.json")


def passes(step: Step, file: str, folder: Path, thorough: bool, red: Sequence[str]) -> bool:
    """Runs one step in this process, with a mutant of the file in place; tests in `red` also fail
    without a mutant. Returns whether it passes."""
    if step.kind != "pytest":
        thorough = thorough or step.kind == "all cases"
        try:
            from tests.mutation import probe
        except Exception:
            traceback.print_exc()
            print("-- the import fails")
            return False
        return probe.passes(
            step.name, folder / f"{step.name}.json", thorough, file.endswith(".wgsl")
        )
    return step.name in red or _pytest(step.name, *(f"--deselect={test}" for test in red))


WHOLE = ("conformance/test_onnx_node_tests.py",)  # nothing of it is quick


def _pytest(*arguments: str) -> bool:
    import pytest

    sys.stdout.flush()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
    if arguments[0].startswith("conformance"):
        options += ["--dtype", "all", *([] if arguments[0] in WHOLE else ["-m", "quick"])]
    else:
        options += ["-m", "not wheel"]
    code = int(pytest.main([*options, *arguments]))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return any(argument.startswith("--deselect") for argument in arguments)
    if code == pytest.ExitCode.USAGE_ERROR and "::" in arguments[0]:
        return True  # a test that only the mutant has
    return code == pytest.ExitCode.OK
