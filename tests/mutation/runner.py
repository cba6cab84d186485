"""Forks a process for each mutant, which puts it in place and runs the checks of its file.

The parent has the hosts loaded, but nothing of ours; children import the changed package. A child
is given processor seconds, not time, so that a busy machine kills no mutant."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from tests.mutation import equivalent, sandbox, selection
from tests.mutation.mutants import ROOT, Mutant

# Modules that children need and that hold no state: a forked child has them at once.
LOADED = ("numpy", "wgpu", "jinja2", "pytest", "cffi", "entrypoints", "click", "rich",
          "flatbuffers", "tflite_runtime.interpreter", "ai_edge_litert.interpreter", "onnx.helper",
          "ai_edge_litert.schema_py_generated", "onnxruntime", "onnx.reference")  # fmt: skip
CODE = (".py", ".wgsl")
SURVIVED, KILLED, STILLBORN, BROKEN = range(4)
NAMES = ("survived", "killed", "stillborn", "broken")
SECONDS = 60  # of a processor, for the checks of one mutant's file
LAST_SECONDS = 600  # likewise, for all checks of one that those did not see
LONGEST = 1800  # seconds by the clock
IDLE, GLANCE = 30.0, 2.0  # seconds by the clock without work, after which a child hangs


@dataclass(frozen=True)
class Outcome:
    """The outcome for a mutant: `how` is one of NAMES; `by` is the check that killed it, or the
    error."""

    mutant: Mutant
    how: str
    by: str
    seconds: float


class Runner:
    """Runs `jobs` mutants at a time. With `thorough`, checks skip nothing to be quick; with `last`,
    survivors must also pass the checks of other files. No mutant is started after this many
    `seconds`."""

    def __init__(
        self, jobs: int, thorough: bool = False, seconds: float = inf, last: bool = False
    ) -> None:
        self.jobs, self.thorough, self.last = jobs, thorough, last
        self.end = time.monotonic() + seconds
        self.folder = Path(tempfile.mkdtemp(prefix="tflgpu-mutants-"))
        self.plans = ROOT / "build" / "mutation" / _of_tree()  # of code without a mutant
        self.plans.mkdir(parents=True, exist_ok=True)
        self.red: list[str] = []
        self.green: set[str] = set()
        self.recorded: set[str] = set()
        self.running: dict[int, tuple[Mutant | None, Path, float]] = {}
        self.seen: dict[int, tuple[int, float]] = {}  # what a child had done when it last did more
        self.glanced = 0.0
        for name in LOADED:
            with suppress(ImportError):
                importlib.import_module(name)

    def close(self) -> None:
        """Ends all processes that were started."""
        for pid in self.running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, mutants: Sequence[Mutant], done: Callable[[Outcome], None]) -> None:
        """Runs all mutants; calls `done` with each outcome."""
        if any(mutant.area == "native" for mutant in mutants):
            sandbox.compile_all(self.folder / "objects")
        waiting = list(reversed(mutants))
        while waiting or self.running:
            if time.monotonic() > self.end:
                waiting.clear()
                if not self.running:
                    break
            while waiting and len(self.running) < self.jobs:
                self._start(waiting.pop())
            if not (outcome := self.wait()):
                continue
            if outcome.how == "killed" and (test := _test(outcome.by)) and self._fails(test):
                waiting.append(outcome.mutant)
            else:
                done(outcome)

    def missing(self) -> str:
        """Returns why no mutant can be tried here (there is no adapter), or "" if there is one."""
        pid = self.fork(None, selection.missing_adapter)
        _, status = os.waitpid(pid, 0)
        _, place, _ = self.running.pop(pid)
        return (place / "log").read_text().strip() if status else ""

    def _fails(self, test: str) -> bool:
        """Whether a test that killed fails without a mutant, too; then it has no say any more."""
        if test not in self.green:
            step = selection.Step("pytest", test)
            pid = self.fork(None, lambda: not selection.passes(step, "", self.plans, False, ()))
            _, status = os.waitpid(pid, 0)
            del self.running[pid]
            if status:
                print(f"red without a mutant: {test}", flush=True)
                self.red.append(test)
                return True
            self.green.add(test)
        return False

    def _record(self, family: str) -> None:
        if (self.plans / f"{family}.json").exists():
            return
        pid = self.fork(None, lambda: selection.record(family, self.plans))
        _, status = os.waitpid(pid, 0)
        _, place, _ = self.running.pop(pid)
        if status:
            raise RuntimeError(f"{family} without a mutant:\n{(place / 'log').read_text()[-3000:]}")

    def _start(self, mutant: Mutant) -> None:
        own = selection.steps(mutant.file)
        last = (
            []
            if not self.last or equivalent.of_speed(mutant)
            else selection.last_steps(mutant.file)
        )
        for step in (*own, *last):
            if step.kind != "pytest" and step.name not in self.recorded:
                self._record(step.name)
                self.recorded.add(step.name)

        def check() -> int:
            for step in (*own, *last):
                if step in last[:1]:
                    resource.setrlimit(resource.RLIMIT_CPU, (LAST_SECONDS, LAST_SECONDS + 5))
                print(f"== {step}", flush=True)
                if not selection.passes(step, mutant.file, self.plans, self.thorough, self.red):
                    return KILLED
            return SURVIVED

        self.fork(mutant, check)

    def fork(self, mutant: Mutant | None, work: Callable[[], int | None]) -> int:
        place = Path(tempfile.mkdtemp(dir=self.folder))
        pid = os.fork()
        if pid == 0:
            _child(mutant, place, self.folder / "objects", work)
        self.running[pid] = (mutant, place, time.monotonic())
        return pid

    def wait(self) -> Outcome | None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.02)
            self._glance()
            return None
        if pid not in self.running:
            return None
        mutant, place, start = self.running.pop(pid)
        assert mutant is not None
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it has left behind
        log = (place / "log").read_text(errors="replace") if (place / "log").exists() else ""
        shutil.rmtree(place, ignore_errors=True)
        return Outcome(mutant, *_verdict(status, log), time.monotonic() - start)

    def _glance(self) -> None:
        """Ends children that take too long or wait for something that does not happen, such as a
        lock."""
        now = time.monotonic()
        if now - self.glanced < GLANCE:
            return
        self.glanced, work = now, _work()
        self.seen = {pid: self.seen[pid] for pid in self.running if pid in self.seen}
        for pid, (_, _, start) in self.running.items():
            done, since = self.seen.get(pid, (-1, now))
            if work[pid] != done or not work:
                since = now
                self.seen[pid] = work[pid], now
            if now - since > IDLE or now - start > LONGEST:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


def _work() -> Counter[int]:
    """Returns the CPU time of each session's processes so far; empty if the system does not report
    it."""
    found = Counter[int]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = place.read_text().rpartition(")")[2].split()
            found[int(fields[3])] += sum(map(int, fields[11:15]))
    return found


def _verdict(status: int, log: str) -> tuple[str, str]:
    steps = [line[3:] for line in log.splitlines() if line.startswith("== ")]
    last = steps[-1] if steps else ""
    if os.WIFSIGNALED(status):
        return "killed", f"{last}: {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    how = NAMES[code] if code < len(NAMES) else "killed"
    return how, log[-1500:] if how in ("broken", "stillborn") else f"{last}: {_reason(log)}"


def _reason(log: str) -> str:
    wanted = ("FAILED", "ERROR "), ("-- ",)
    lines = [line for start in wanted for line in log.splitlines() if line.startswith(start)]
    return lines[0][:200] if lines else ""


def _test(by: str) -> str:
    """Returns the test that failed, or the file that could not be read, from the text of an
    outcome."""
    match = re.search(r"(?:FAILED|ERROR) (\S+(?:::\S+.*?|\.py))(?: - |$)", by)
    return match[1] if match else ""


def _of_tree() -> str:
    """Returns a digest of everything that the plans of the cases depend on."""
    folders = ("tflgpu_plugin", "providers", "conformance", "tests/mutation")
    files = sorted(p for name in folders for p in (ROOT / name).rglob("*") if p.suffix in CODE)
    texts = b"".join(p.name.encode() + p.read_bytes() for p in files)
    return hashlib.sha256(texts).hexdigest()[:16]


def _child(
    mutant: Mutant | None, place: Path, objects: Path, work: Callable[[], int | None]
) -> None:
    """Runs the checks in the child; never returns."""
    code = BROKEN
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        os.setsid()
        os.chdir(ROOT)
        log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        _environment(place)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, LAST_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sandbox.build(place / "tree", mutant, objects)
        sandbox.enter(place / "tree")
        code = work() or 0
    except sandbox.Stillborn as error:
        print(error)
        code = STILLBORN
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _environment(place: Path) -> None:
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    os.environ.setdefault("TFLGPU_TEST_CACHE", str(home / "tflgpu-plugin" / "references"))
    os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(home))
    os.environ["XDG_CACHE_HOME"] = str(place.parent / "cache")
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    os.environ.setdefault("LP_NUM_THREADS", "0")
    os.environ["TFLGPU_FILL_NAN"] = os.environ["TFLGPU_DEBUG"] = "1"
    os.environ["TFLGPU_TEST_ADAPTER"] = "1"  # one was there, so that none is a mutant's doing
