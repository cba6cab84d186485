"""Which models a host computes rightly by itself as users run it. Its own delegate has defects,
crashes among them, that are not ours to answer for: `python -m conformance.alone HOST FIRST LAST`
tells the seeds of `constant_chains` for which it has none.
"""

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

import numpy as np

from conformance import constant_chains, host, sparse, tolerance
from conformance.host import Outputs

PERTURB, BYTES = -6, 0x01  # of mallopt: fresh memory holds the complement of these bytes


def poison(on: bool) -> None:
    """What the host reads before anything was written is -1.7e38, not 0; where there is glibc."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(PERTURB, BYTES if on else 0)


def far(expected: Sequence[Outputs], got: Sequence[Outputs]) -> float:
    """The largest error over all outputs, as a share of what graphs are allowed."""
    worst = 0.0
    for wanted, found in zip(expected, got, strict=True):
        for a, b in zip(wanted, found, strict=True):
            largest = max(tolerance.FAINT, float(np.abs(a).max()))
            error = float(np.nan_to_num(np.abs(a - b), nan=np.inf).max())
            worst = max(worst, error / (tolerance.GRAPH * largest))
    return worst


@cache
def sound(name: str, first: int, last: int) -> frozenset[int]:
    """Of the seeds from `first` to `last`, those whose models this host computes rightly alone."""
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
    return frozenset(json.loads(path.read_text()))


def _is_sound(seed: int, name: str) -> bool:
    model, feeds, _ = constant_chains.build(seed)
    content = model.to_bytes()
    found = []
    for poisoned in (True, False, True):  # what was not written may be right by chance
        poison(poisoned)
        found.append(host.run_on_cpu(content, feeds, name, "default"))
        expected = host.run_on_cpu(content, feeds, name, "optimized")
    return all(far(expected, outputs) <= 1.0 for outputs in found)


def _child(seed: int, name: str) -> int:
    """The exit status of a process that looks at one seed: 0 when the host is right."""
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    try:
        os._exit(0 if _is_sound(seed, name) else 1)
    finally:
        os._exit(2)


def main(name: str, first: str, last: str) -> None:
    host.module(name)
    seeds = range(int(first), int(last) + 1)
    print(json.dumps([seed for seed in seeds if not _child(seed, name)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
