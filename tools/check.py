"""Runs all checks in order and prints one line for each: its result, and how much it checked.

Usage: python tools/check.py [daily|rest] [STEP...] [-- PYTEST ARGUMENTS]; without steps, all of
them in order. `make test` runs `daily`, which takes some minutes: the quick steps, and a share of
the tests of the long ones. `make test-rest` runs what it leaves out, and `make test-all`
everything. The output of a step is in build/check; that of a step that fails is shown.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
SHADERS, TOTALITY = "tests/ops/test_shader_lint.py", "tests/ops/test_totality.py"
SUITE, MODELS = "conformance", "conformance/test_models.py"
NETWORKS = "conformance/test_networks.py"
QUICK = (SUITE, "--strict", "--dtype", "all")
COMPILED = (SUITE, "--host", "litert", "-k", "test_graph_cases or test_ops")
LOGS = ROOT / "build/check"
SHOWN = 400  # lines of the output of a step that failed
# Seconds that a step may take. All of `adapter` or `quick` takes up to 2,100 s on two cores that do
# other work, too.
LONGEST = 3600.0
# The parts of a long step's tests that `daily` and `rest` run.
SHARES = {"daily": "1/16", "rest": "2-16/16"}
NO_MARK = "not adapter and not cluster and not wheel"
CODE = ("tflgpu_plugin", "providers", "conformance", "tests", "benchmarks", "tools", "examples")

# One process per core, each with the software driver on its own thread: the quickest on small
# machines.
ON_ADAPTER = {"LP_NUM_THREADS": "0"}
# Without it software drivers print warnings on machines without a desktop.
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
# In every step: a process that is ended shows where each of its threads was, and compiled Python
# files are kept, also where the machine's settings forbid it: tests start hundreds of processes,
# and each would compile every module again, for a second or more.
EVERYWHERE = {"PYTHONFAULTHANDLER": "1", "PYTHONDONTWRITEBYTECODE": ""}
# Mesa's software driver makes code without LLVM's optimizations, in a third of the time, which is
# most of what these steps take on a machine without its cache. The answers are the same to the bit.
UNOPTIMIZED = {"GALLIVM_PERF": "nopt"}
# The steps whose long part, `rest`, runs so; `daily` and the networks run optimized code.
COMPILING = ("adapter", "quick", "litert")
# No driver file: these tests must pass without an adapter.
NO_ADAPTER = {"VK_ICD_FILENAMES": os.devnull, "VK_DRIVER_FILES": os.devnull}


@dataclass(frozen=True)
class Step:
    """A command; `counted` reads from its output how many things it checked. `part` says whether
    the step belongs to `daily` or to `rest`, or to both with a share of its tests."""

    name: str
    what: str
    command: tuple[str, ...]
    counted: Callable[[str], str]
    environment: dict[str, str]
    part: str = "daily"

    def of(self, part: str) -> Step | None:
        """Returns the step as this part of the steps has it, or None."""
        if self.part == "both" and part in SHARES:
            shared = ("-p", "tools.share", "--share", SHARES[part])
            lighter = UNOPTIMIZED if part == "rest" and self.name in COMPILING else {}
            environment = self.environment | lighter
            return replace(self, command=(*self.command, *shared), environment=environment)
        return self if part in ("", self.part) else None


def _python_files(_: str) -> str:
    return f"{sum(len(list((ROOT / name).rglob('*.py'))) for name in CODE)} files"


def _group(pattern: str) -> Callable[[str], str]:
    """Returns a function that returns the group of this pattern in an output, or "?"."""

    def group(output: str) -> str:
        found = re.search(pattern, output, re.MULTILINE)
        return found[1] if found else "?"

    return group


def _pytest_summary(output: str) -> str:
    """Returns pytest's closing line without its frame: "12 passed, 1 skipped in 3.21s"."""
    lines = [line.strip(" =") for line in output.splitlines() if re.search(r" in [\d.]+s", line)]
    return lines[-1] if lines else "no summary"


def _compiled(output: str) -> str:
    """Returns for each family of GPUs "navi31: 900 kernels, 0 failed, 0 spill", and how many were
    translated; or why it was not run."""
    told = r"^(NOT RUN: .*|\w+: \d+ kernels, \d+ failed, \d+ spill|\d+ kernels to .*)"
    return "; ".join(re.findall(told, output, re.MULTILINE))


def _modes(output: str) -> str:
    """Returns for each mode of an inexact driver "low: 40 passed"; or why it was not run."""
    found = re.findall(r"^([\w-]+) +(?:ok|FAIL) +(.*?)  \[", output, re.MULTILINE)
    return "; ".join(f"{mode}: {counts}" for mode, counts in found) or "nothing"


def _evaluated(output: str) -> str:
    """Returns how many graphs were evaluated and changed: "5,875 graphs, answers changed: 0"."""
    found = [re.search(told, output, re.MULTILINE) for told in
             (r"^[\d,]+ graphs(?= in )", r"^answers changed: [\d,]+$")]  # fmt: skip
    return ", ".join(each[0] for each in found if each) or "?"


def _mutants(output: str) -> str:
    """Returns the line for all areas, and the time: "30 made, 28 killed, 2 equivalent, 0
    survived"."""
    found = re.search(r"^all +(\d+) +(\d+) +(\d+) +(\d+)", output, re.MULTILINE)
    names = ("made", "killed", "equivalent", "survived")
    return ", ".join(map(" ".join, zip(found.groups(), names, strict=True))) if found else "?"


def _pytest(
    name: str, what: str, *arguments: str, mark: str = "", part: str = "daily", **more: str
) -> Step:
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    if mark:
        command += ["-m", mark]
    environment = NO_ADAPTER if name in ("shaders", "unit") else ON_ADAPTER
    return Step(name, what, tuple(command), _pytest_summary, environment | more, part)


def steps() -> list[Step]:
    """Returns all steps in order: cheap ones first."""
    parallel = ("-n", str(os.cpu_count() or 1))
    ruff = (PYTHON, "-m", "ruff")
    others = ("tests", f"--ignore={SHADERS}", f"--ignore={TOTALITY}", *parallel)
    return [
        Step("format", "ruff format", (*ruff, "format", "--check", *CODE), _python_files, {}),
        Step("lint", "ruff", (*ruff, "check", *CODE), _python_files, {}),
        Step("types", "mypy --strict", (PYTHON, "tools/typecheck.py"),
             _group(r"(\d+ source files)"), {}),
        Step("layers", "import-linter: arrows one way, no circle",
             (PYTHON, "tools/layers.py"), _group(r"^Contracts: (.*)\.$"), {}),
        Step("prose", "spelling and style: codespell, proselint, ours",
             (PYTHON, "tools/prose.py"), _group("^findings: (.*)$"), {}),
        _pytest("shaders", "lint of all generated WGSL; rows are complete", SHADERS, TOTALITY,
                "--maxschedchunk", "1",
                *parallel, part="both"),
        _pytest("unit", "other tests, no adapter", *others, mark=NO_MARK),
        Step("judge", "wrong answers, fed to the suite's own judge",
             (PYTHON, "-m", "conformance.wrong"),
             _group("^(wrong answers accepted: .*)$"), NO_ADAPTER, "rest"),
        Step("passes", "graphs, evaluated in numpy around every pass",
             (PYTHON, "-m", "conformance.evaluation"), _evaluated,
             {**ON_ADAPTER, "TFLGPU_LOG": "off"}, "rest"),
        _pytest("adapter", "other tests, on the adapter", *others, mark="adapter", part="both"),
        _pytest("cluster", "Ray on this machine, and its faults", "tests/batch", mark="cluster",
                part="rest"),
        _pytest("quick", "conformance, the quick part", *QUICK, *parallel, mark="quick",
                part="both"),
        _pytest("litert", "a sample, in LiteRT's CompiledModel", *COMPILED, *parallel, part="both"),
        Step("worst", "a sample, on a driver as inexact as WGSL permits",
             (PYTHON, "tools/worst.py", "--modes", "low,random", "--sample", "40"), _modes, {},
             "rest"),
        Step("compiled", "every kernel: AMD's compiler; to D3D12 and Metal",
             (PYTHON, "-m", "benchmarks.compiled", "check", "--translated", "10"), _compiled, {},
             "rest"),
        Step("makers", "a sample through Intel's, NVIDIA's and Apple's compilers",
             (PYTHON, "-m", "benchmarks.compiled", "check", "--gpus", "tgl", "lnl", "tu102", "m1",
              "--sample", "32"), _compiled, {}, "rest"),
        Step("estimates", "times by compilers' estimates, as recorded",
             (PYTHON, "-m", "benchmarks.compiled", "recorded"),
             _group(r"^(\d+ estimates) compared"), {}, "rest"),
        Step("mutants", "a sample of small defects, which the tests must see",
             (PYTHON, "-m", "tests.mutation", "--sample"), _mutants, ON_ADAPTER, "rest"),
        _pytest("networks", "seeded networks against the CPU", NETWORKS, *parallel),
        _pytest("staged", "the same by way of staging buffers", NETWORKS, *parallel,
                part="rest", TFLGPU_NO_MAPPING="1"),
        _pytest("models", "real models against the CPU", MODELS, *parallel),
        _pytest("wheel", "the wheel: built, checked, installed", "tests/docs", mark="wheel",
                part="rest"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The result of a step: its state (ok, FAIL, or not run when every test was skipped), its
    count, the seconds, and why nothing ran or which tests failed."""

    state: str
    counted: str
    seconds: float
    reasons: tuple[str, ...] = ()


def result(step: Step, status: int, output: str, seconds: float) -> Result:
    """Returns the result of a step from its exit status and output."""
    counted = step.counted(output)
    if status == 0 and (missing := re.search(r"^NOT RUN: (.*)$", output, re.MULTILINE)):
        return Result("not run", "nothing", seconds, (missing[1],))
    if status == 0 and "pytest" in step.command and " passed" not in f" {counted}":
        # Empty parameter lists are no reason.
        reasons = re.findall(r"^SKIPPED \[\d+\] \S+: (?!got empty)(.*)$", output, re.MULTILINE)
        return Result("not run", counted, seconds, tuple(dict.fromkeys(reasons)))
    if status:
        # The list of steps may be all that is kept of a long output.
        failed = re.findall(r"^(?:FAILED|ERROR) (\S.*)$", output, re.MULTILINE)
        if seconds >= LONGEST:
            failed.insert(0, f"ended after {seconds:.0f} s")
        return Result("FAIL", counted, seconds, tuple(line[:200] for line in failed[:20]))
    return Result("ok", counted, seconds)


def run(step: Step, extra: list[str]) -> Result:
    """Runs one step, with its output in a file and its progress on a terminal. A step that takes
    too long is ended and fails."""
    more = extra if "pytest" in step.command else []
    start = time.monotonic()
    process = subprocess.Popen(
        [*step.command, *more],
        cwd=ROOT,
        env=os.environ | EVERYWHERE | step.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    LOGS.mkdir(parents=True, exist_ok=True)
    lines = []
    limit = threading.Timer(LONGEST, _end, [process])
    limit.start()
    try:
        with (LOGS / f"{step.name}.log").open("w", buffering=1) as log:
            for line in process.stdout:
                log.write(line)
                lines.append(line)
                if done := re.search(r"\[ *(\d+%)\]$", line):
                    _progress(f"{step.name}: {done[1]}, {time.monotonic() - start:.0f} s")
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        raise
    finally:
        limit.cancel()
    _progress("")
    return result(step, process.wait(), "".join(lines), time.monotonic() - start)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process and those that it started, after Python's have shown their threads."""
    for which in (signal.SIGABRT, signal.SIGKILL):
        try:
            os.killpg(process.pid, which)
        except ProcessLookupError:
            return
        time.sleep(5)


def _progress(line: str) -> None:
    """Shows a line on a terminal, in place of the one before."""
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="", flush=True)


def _ran(step: Step, found: Result) -> None:
    """Shows the line of a step that ended, and the end of its output if it failed."""
    if found.state == "FAIL":
        lines = (LOGS / f"{step.name}.log").read_text().splitlines()
        print(f"\n== {step.name}: {step.what}", *lines[-SHOWN:], "", sep="\n")
    print("\n".join(listed(step, found)), flush=True)


def main(arguments: list[str]) -> int:
    names, extra = arguments, list[str]()
    if "--" in arguments:
        place = arguments.index("--")
        names, extra = arguments[:place], arguments[place + 1 :]
    part = names.pop(0) if names and names[0] in SHARES else ""
    known = {step.name: found for step in steps() if (found := step.of(part))}
    if unknown := [name for name in names if name not in known]:
        print(f"There is no step {', '.join(unknown)}. The steps are: {', '.join(known)}.")
        return 2
    results = dict[str, Result]()
    for name in names or known:
        _progress(f"{name}: {known[name].what}")
        results[name] = run(known[name], extra)
        _ran(known[name], results[name])
    print(summary(results))
    return any(found.state == "FAIL" for found in results.values())


def listed(step: Step, found: Result) -> list[str]:
    """Returns the line of a step and, below it, why it did not run or which tests failed."""
    counted = f"{found.counted}  [{found.seconds:.0f} s]"
    line = f"{found.state:<8} {step.name:<10} {step.what:<48} {counted}"
    return [line, *(f"{'':<19} {reason}" for reason in found.reasons)]


def summary(results: Mapping[str, Result]) -> str:
    """Returns one line that sums up all steps; it names those that failed or did not run."""
    names = dict[str, list[str]]()
    for name, found in results.items():
        names.setdefault(found.state, []).append(name)
    failed, idle, passed = (names.get(state, []) for state in ("FAIL", "not run", "ok"))
    if failed:
        return f"Failed: {', '.join(failed)}."
    if idle:
        return f"{len(passed)} steps passed. Not run: {', '.join(idle)}."
    return f"All {len(results)} steps passed."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
