"""The results of a run by operator, type, kind and family: what the pages of a report show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.plugin.record import OUTCOMES, PASS, Header, Record

# Columns of the matrix; others, which no row takes, share one.
TYPES, OTHER = ("f32", "f16", "bf16", "i8", "u8", "i16", "bool"), "other"
HOST = "the host's CPU kernels"  # who judges where a record does not say


@dataclass(frozen=True)
class Report:
    """A whole run. `stale` names entries of `expect/` that nothing needed."""

    header: Header
    records: Sequence[Record]
    seconds: float
    stale: Sequence[str] = ()

    def counts(self) -> Counter[str]:
        return Counter(r.outcome for r in self.records)


@dataclass
class Cell:
    """A cell of the matrix: one operator, host and type."""

    outcomes: Counter[str] = field(default_factory=Counter)
    share: float = 0.0
    bad: int = 0

    def add(self, record: Record) -> None:
        self.outcomes[record.outcome] += 1
        self.bad += not record.good
        if record.outcome == PASS:
            self.share = max(self.share, record.share)

    def __str__(self) -> str:
        parts = [f"{self.outcomes[o]} {o.lower()}" for o in OUTCOMES if self.outcomes[o]]
        worst = f", worst {self.share:.2f}" if self.share else ""
        return ", ".join(parts) + worst


Matrix = dict[tuple[str, str], dict[str, Cell]]


def matrix(records: Iterable[Record]) -> tuple[Matrix, list[str]]:
    """Returns cells by (operator, host) and type, and the types that occur, in the order of
    TYPES."""
    cells: Matrix = {}
    for r in records:
        if r.op:
            dtype = r.dtype if r.dtype in TYPES else OTHER
            cells.setdefault((r.op, r.host), {}).setdefault(dtype, Cell()).add(r)
    found = {dtype for row in cells.values() for dtype in row}
    return dict(sorted(cells.items())), [dtype for dtype in (*TYPES, OTHER) if dtype in found]


def by_kind(records: Iterable[Record]) -> dict[str, Counter[str]]:
    """Returns outcomes by kind of test and host."""
    found: dict[str, Counter[str]] = {}
    for r in records:
        name = f"{r.kind} ({r.host})" if r.host else r.kind
        found.setdefault(name, Counter())[r.outcome] += 1
    return found


def judges(records: Iterable[Record]) -> Counter[str]:
    """Returns how many tests took their expected values from each source."""
    return Counter(r.judge or HOST for r in records)


def times(records: Iterable[Record]) -> dict[str, tuple[int, float]]:
    """Returns tests and seconds by family, or by kind for tests without one; the longest first."""
    found: dict[str, tuple[int, float]] = {}
    for r in records:
        name = r.family or r.kind
        count, seconds = found.get(name, (0, 0.0))
        found[name] = (count + 1, seconds + r.seconds)
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def title(header: Header) -> str:
    """Returns the name of the adapter with its driver."""
    driver = header.adapter["driver"] or header.package
    return f"{header.adapter['name']}, {driver}" if driver else str(header.adapter["name"])


def verdict(report: Report) -> str:
    """Returns the sentence that says whether the adapter can be trusted."""
    bad = [r for r in report.records if not r.good]
    if bad:
        return f"{len(bad)} of {len(report.records)} tests FAIL: do not trust what is marked below."
    return f"All {len(report.records)} tests are as they must be."


def judged(report: Report) -> list[list[str]]:
    """Returns who judged, with the number of tests; the most frequent first."""
    return [[name, str(count)] for name, count in judges(report.records).most_common()]
