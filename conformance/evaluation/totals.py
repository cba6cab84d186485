"""Evaluates graphs, or a part of them, and adds up what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from conformance.evaluation import passes, sources
from conformance.evaluation.sources import Source

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
            self.changed.update(checked.applied)
            if checked.skipped and source.name not in WITHOUT_ANSWER:
                self.skipped[f"{checked.skipped[:120]} ({source.name})"] += 1
            self.findings += [f"{source.name}: {each}" for each in checked.findings]
            for each in checked.findings:
                print(f"FAIL {source.name}: {each}", flush=True)

    def join(self, other: Result) -> None:
        """Adds the totals and findings of other graphs."""
        self.graphs += other.graphs
        for own, added in ((self.changed, other.changed), (self.skipped, other.skipped),
                           (self.lost, other.lost)):  # fmt: skip
            own.update(added)
        self.findings += other.findings
        print(f"{self.graphs:,} graphs, {len(self.findings)} findings", flush=True)


def of_part(what: Sequence[str], random: int, count: int, part: int) -> Result:
    """Returns the result for every `count`-th source, from number `part` on."""
    result = Result()
    for source in islice(_sources(what, random), part, None, count):
        result.add(source)
    return result


def _sources(what: Sequence[str], count: int) -> Iterator[Source]:
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
