"""An engine under measurement: a process of its own, driven line by line, so that engines alternate
in one run.

Protocol: the worker loads the model, runs it once, saves all outputs in the model's order (.npz),
and prints one JSON object (engine, device, first_ms). Then, for every number N it reads, it runs N
times and prints the list of times in milliseconds."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
PAUSE = 0.1  # seconds: threads of the engine before spin for up to 45 ms after its run
# Left of a shell that ran tests, it would take ours its threads: it is not what users have.
UNSET = ("LP_NUM_THREADS",)


class Unavailable(Exception):
    """An error for an engine that cannot run here; the text says why."""


@dataclass(frozen=True)
class Engine:
    """The command that starts a worker; it ends before the path of the output file. With `planes`
    pictures are passed and returned as planes, one per channel."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    planes: bool = False


def inherited() -> dict[str, str]:
    """Returns the environment without variables that change the measured software driver."""
    return {name: value for name, value in os.environ.items() if name not in UNSET}


class Worker:
    """A started engine. `hello` is its first line. Raises Unavailable when it ends without an
    answer."""

    def __init__(self, engine: Engine, result: Path, **environment: str) -> None:
        self.engine, self.result, self.times = engine, result, list[float]()
        self._log = result.with_suffix(".log").open("w+")
        self._process = subprocess.Popen(
            [*engine.command, str(result)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**inherited(), **engine.environment, **environment},
        )
        self.hello: dict[str, Any] = self._read()

    def run(self, count: int) -> None:
        """Runs the engine this many times after a pause, and adds the times to `times`."""
        time.sleep(PAUSE)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        self.times += self._read()

    def outputs(self) -> list[npt.NDArray[Any]]:
        """Returns the outputs of the first run, channels last."""
        with np.load(self.result) as saved:
            values = [saved[f"arr_{number}"] for number in range(len(saved.files))]
        if not self.engine.planes:
            return values
        return [v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for v in values]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def _read(self) -> Any:
        """Returns the next line of JSON; native libraries may print other lines before it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line[:1] in "{[":
                try:
                    return json.loads(line)
                except ValueError:
                    continue
        self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().splitlines() if line.strip()]
        raise Unavailable(lines[-1] if lines else f"ended with status {self._process.returncode}")


def first_results(engine: Engine, result: Path, repeats: int) -> list[float]:
    """Returns milliseconds to the first result in fresh processes, each with an empty driver
    cache."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            worker = Worker(engine, result, MESA_SHADER_CACHE_DIR=folder)
            found.append(float(worker.hello["first_ms"]))
            worker.close()
    return found
