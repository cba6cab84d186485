"""The worker's side of the protocol of `benchmarks.engine`, for all workers. Peers' environments
run it, too, so that it imports nothing of ours."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Returns the result of a call, and the milliseconds that it took."""
    start = time.perf_counter()
    value = call()
    return value, (time.perf_counter() - start) * 1e3


def serve(
    result: str,
    engine: str,
    device: str,
    first: float,
    values: Sequence[Any],
    run: Callable[[], Any],
) -> None:
    """Saves the values of the first run, prints its time, and runs as often as it is asked to."""
    np.savez(result, *values)
    print(json.dumps({"engine": engine, "device": device, "first_ms": first}), flush=True)
    for line in sys.stdin:
        print(json.dumps([timed(run)[1] for _ in range(int(line))]), flush=True)
