"""Finds the models that a host computes correctly without this plugin. Its own delegate has
defects, crashes among them, for which the plugin is not responsible: `python -m conformance.alone
HOST FIRST LAST` reports the results for these seeds of `constant_chains`."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conformance import host, tolerance
from conformance.host import Feed, Outputs
from conformance.models import sparse
from conformance.random import constant_chains

PERTURB, BYTES = -6, 0x01  # of mallopt: fresh memory holds the complement of these bytes
RIGHT, WRONG, CRASH = "right", "wrong", "crash"
MARK = 37  # what the results of delegates hold before a run: nothing that they compute


def poison(on: bool) -> None:
    """Makes fresh memory read as -1.7e38 instead of 0, where there is glibc."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(PERTURB, BYTES if on else 0)


def invoke(made: Any, feeds: Sequence[Feed]) -> list[Outputs]:
    """Does the same as `host.invoke`, but first fills the results of delegates with MARK, so that
    unwritten elements are visible."""
    results = []
    for feed in feeds:
        mark(made)
        results += host.invoke(made, [feed])
    return results


def mark(made: Any) -> None:
    """Fills the results of all delegates of an allocated interpreter, or of a compiled model, whose
    inner tensors cannot be had, its outputs."""
    if hasattr(made, "fill_outputs"):
        made.fill_outputs(MARK)
        return
    for _, written in delegates(made):
        for tensor in written:
            made.tensor(tensor)()[...] = MARK


def delegates(made: Any) -> list[tuple[list[int], list[int]]]:
    """Returns the tensors that each node of a delegate reads and writes."""
    found = [op for op in made._get_ops_details() if op["op_name"] == "DELEGATE"]
    return [([*map(int, op["inputs"])], [*map(int, op["outputs"])]) for op in found]


def far(expected: Sequence[Outputs], got: Sequence[Outputs]) -> float:
    """Returns the largest error over all outputs, as a share of the tolerance of graphs."""
    worst = 0.0
    for wanted, found in zip(expected, got, strict=True):
        for a, b in zip(wanted, found, strict=True):
            largest = max(tolerance.FAINT, float(np.abs(a).max()))
            with np.errstate(invalid="ignore"):
                errors = np.where(a == b, 0, np.abs(np.subtract(a, b, dtype=np.float64)))
            error = float(np.nan_to_num(errors, nan=np.inf).max())
            worst = max(worst, error / (tolerance.GRAPH * largest))
    return worst


@cache
def verdicts(name: str, first: int, last: int) -> list[str]:
    """Returns RIGHT, WRONG or CRASH for the models of the seeds from `first` to `last` in this
    host."""
    sources = (constant_chains.__file__, sparse.__file__, __file__)
    digest = hashlib.sha256(f"{name} {host.version(name)} {first} {last}".encode())
    for source in sources:
        digest.update(Path(source).read_bytes())
    path = host.cache_folder() / f"alone-{digest.hexdigest()[:32]}.json"
    if not path.exists():
        command = [sys.executable, "-m", "conformance.alone", name, str(first), str(last)]
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.stem}.{os.getpid()}.tmp")
        partial.write_text(found.stdout.splitlines()[-1])
        partial.replace(path)
    return list(json.loads(path.read_text()))


def _is_sound(seed: int, name: str) -> bool:
    model, feeds, _ = constant_chains.build(seed)
    content = model.to_bytes()
    found = []
    for poisoned in (True, False, True):  # what was not written may be right by chance
        poison(poisoned)
        made = host.interpreter(content, name, "default")
        made.allocate_tensors()
        found.append(invoke(made, feeds))
        expected = host.run_on_cpu(content, feeds, name, "optimized")
    return all(far(expected, outputs) <= 1.0 for outputs in found)


def _child(seed: int, name: str) -> str:
    """Returns the output of a process that tries one seed."""
    if child := os.fork():
        return {0: RIGHT, 1: WRONG}.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), CRASH)
    try:
        os._exit(0 if _is_sound(seed, name) else 1)
    finally:
        os._exit(2)


def main(name: str, first: str, last: str) -> None:
    host.module(name)
    print(json.dumps([_child(seed, name) for seed in range(int(first), int(last) + 1)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
