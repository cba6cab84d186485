"""Evaluates graphs around every pass and names those that change an answer:
`python -m conformance.evaluation [KIND ...] [--random N] [FILE ...]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conformance.evaluation import passes, sources
from conformance.evaluation.sources import Source

EVERY = 100  # graphs a line says how far it is
KINDS = ("cases", "random", "networks", "models")
# Sources whose graph has no answer: its index lies outside.
WITHOUT_ANSWER = {"max_unpool 1x1"}


@dataclass
class Result:
    """Totals over all graphs, and the findings."""

    graphs: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, source: Source) -> None:
        """Checks the graphs of a source."""
        try:
            graphs = source.graphs()
        except Exception as error:  # a host refuses it: hosts have no common class for that
            self.lost[f"{type(error).__name__}: {str(error)[:80]}"] += 1
            return
        for graph in graphs:
            checked = passes.check(graph)
            self.graphs += 1
            if self.graphs % EVERY == 0:
                print(f"{self.graphs:,} graphs, {len(self.findings)} findings", flush=True)
            self.changed.update(checked.applied)
            if checked.skipped and source.name not in WITHOUT_ANSWER:
                self.skipped[f"{checked.skipped[:120]} ({source.name})"] += 1
            self.findings += [f"{source.name}: {each}" for each in checked.findings]
            for each in checked.findings:
                print(f"FAIL {source.name}: {each}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 1 when a pass changed an answer, or a graph was not evaluated."""
    parser = argparse.ArgumentParser(prog="python -m conformance.evaluation", description=__doc__)
    parser.add_argument(
        "what", nargs="*", help=f"{', '.join(KINDS)}, or model files; default: all kinds"
    )
    parser.add_argument("--random", type=int, default=250, metavar="N",
                        help="random graphs of each of five makers")  # fmt: skip
    chosen = parser.parse_args(arguments)
    result, started = Result(), time.monotonic()
    for source in _sources(chosen.what, chosen.random):
        result.add(source)
    print("\n".join(_told(result, time.monotonic() - started)))
    return int(bool(result.findings or result.skipped))


def _sources(what: list[str], count: int) -> Iterator[Source]:
    kinds = [name for name in what if name in KINDS]
    files = [Path(name) for name in what if name not in KINDS]
    if not what:
        kinds = list(KINDS)
    if "cases" in kinds:
        yield from sources.cases()
    if "random" in kinds:
        yield from sources.random_tflite(range(count))
        yield from sources.random_onnx(range(count))
    if "networks" in kinds:
        yield from sources.networks()
    if "models" in kinds:
        yield from sources.models()
    yield from sources.files(files)


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
