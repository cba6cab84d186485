"""Runs once from an imported host to the first result in this process, and prints the time of each
stage.

Usage: python -m benchmarks.startup_worker HOST MODEL OPTIONS-AS-JSON; prints one JSON object with
milliseconds by stage: `open` (library, driver, device), `make` (the interpreter with its delegate),
`first` (inputs to outputs), their sum `total`, `cpu` (of all threads, which other work on the
machine does not stretch), `prepare` (planning, packing and tuning, or reading the cache; a part of
`make`), `keep` (writing it)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin.harness import hosts, inputs

spent = {"prepare": 0.0, "keep": 0.0}
_inside = False


def main(host_name: str, model: str, options: str) -> None:
    host = hosts.host(host_name)
    content = Path(model).read_bytes()
    details = host.plain(content).get_input_details()
    values = inputs.make(details, inputs.Given())

    start, marks = time.process_time(), [time.perf_counter()]
    delegate = host.delegate(json.loads(options))
    marks.append(time.perf_counter())
    _measure_parts()
    interpreter = host.interpreter(content, experimental_delegates=[delegate])
    marks.append(time.perf_counter())
    outputs = hosts.invoked(interpreter, values)
    marks.append(time.perf_counter())

    times = dict(zip(("open", "make", "first"), np.diff(marks).tolist(), strict=True))
    times |= spent | {"total": marks[-1] - marks[0], "cpu": time.process_time() - start}
    digest = sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in outputs))
    shown: dict[str, Any] = {name: value * 1e3 for name, value in times.items()}
    print(json.dumps(shown | {"outputs": digest.hexdigest()}))


def _measure_parts() -> None:
    from tflgpu_plugin.cache import store
    from tflgpu_plugin.compile import compiler, tuning
    from tflgpu_plugin.ir import Weight

    pieces = Weight.pieces
    Weight.pieces = lambda weight: iter(list(pieces(weight)))  # type: ignore[method-assign, assignment]
    for owner, name, part in (
        (tuning, "best", "prepare"),
        (compiler, "compile", "prepare"),
        (Weight, "pieces", "prepare"),
        (store.Cache, "entry", "prepare"),
        (store.Entry, "load", "prepare"),
        (store.Entry, "check", "prepare"),
        (store.Entry, "store", "keep"),
    ):
        setattr(owner, name, _timed(getattr(owner, name), part))


def _timed(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    """Returns the function, whose time is added to a part unless its caller is timed already."""

    def timed(*args: Any, **named: Any) -> Any:
        global _inside
        if _inside:
            return function(*args, **named)
        _inside, start = True, time.perf_counter()
        try:
            return function(*args, **named)
        finally:
            _inside = False
            spent[part] += time.perf_counter() - start

    return timed


if __name__ == "__main__":
    main(*sys.argv[1:])
