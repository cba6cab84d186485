"""Evaluates graphs around every pass and names those that change an answer:
`python -m conformance.evaluation [KIND ...] [--random N] [FILE ...]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from conformance.evaluation.totals import KINDS, Result, of_part

PARTS = 8  # for each process: a part with the largest graphs takes longer


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 1 when a pass changed an answer, or a graph was not evaluated."""
    parser = argparse.ArgumentParser(prog="python -m conformance.evaluation", description=__doc__)
    parser.add_argument(
        "what", nargs="*", help=f"{', '.join(KINDS)}, or model files; default: all kinds"
    )
    parser.add_argument("--random", type=int, default=250, metavar="N",
                        help="random graphs of each of five makers")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    chosen = parser.parse_args(arguments)
    result, started = Result(), time.monotonic()
    count = PARTS * chosen.jobs
    part = partial(of_part, chosen.what, chosen.random, count)
    # Not forks: the hosts have threads.
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        for found in pool.map(part, range(count)):
            result.join(found)
    print("\n".join(_told(result, time.monotonic() - started)))
    return int(bool(result.findings or result.skipped))


def _told(result: Result, seconds: float) -> Iterator[str]:
    yield f"{result.graphs:,} graphs in {seconds:,.0f} s; what passes changed of them:"
    yield from (f"  {count:6,} {name}" for name, count in result.changed.most_common())
    for title, counted in (("not evaluated", result.skipped), ("not read", result.lost)):
        yield f"{title}: {sum(counted.values()):,}"
        yield from (f"  {count:6,} {name}" for name, count in counted.most_common(40))
    yield f"answers changed: {len(result.findings):,}"
    yield from (f"  {each}" for each in result.findings)


if __name__ == "__main__":
    sys.exit(main())
