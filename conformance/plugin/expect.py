"""Expectation files: refusals and tolerance notes of one adapter and driver, each with its reason.

`expect/<name>.txt` holds for adapters whose slug (see `slug`) begins with <name>; "llvmpipe.txt"
for every llvmpipe, "llvmpipe-mesa-22.3.6.txt" for that version, "every-adapter.txt" for all. A line
is

    REFUSED    <host> <op> <case> # <reason, with where it is reported>
    TOLERANCE  <host> <op> <case> <factor> # <reason>

where host, op and case may have shell wildcards and a case with blanks stands in quotes. A wrong
value is never only written down here: it needs a row in `ir.quirks`, which makes it a
refusal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.plugin.record import REFUSED, Header, Record

FOLDER = Path(__file__).parents[1] / "expect"
TOLERANCE = "TOLERANCE"
EVERY = "every-adapter"
# A factor beyond this is a wrong value, not a note on accuracy.
LARGEST_FACTOR = 16.0


class BadExpectation(ValueError):
    """An error for a line that cannot be read; the text says which and what it should be."""


@dataclass(frozen=True)
class Entry:
    """One line. `factor` multiplies the tolerance."""

    what: str
    host: str
    op: str
    case: str
    reason: str
    place: str
    factor: float = 1.0

    def matches(self, record: Record) -> bool:
        """Whether the record is of this host (whatever its version), operator and case."""
        host = record.host.partition(" ")[0]
        pairs = ((host, self.host), (record.op, self.op), (record.case, self.case))
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)

    def needed(self, record: Record) -> bool:
        """Whether the record would have failed, or claimed less, without this entry."""
        if not self.matches(record):
            return False
        return record.outcome == REFUSED if self.what == REFUSED else record.share > 1.0


def slug(header: Header) -> str:
    """Returns a name for files: first words of adapter and driver in lower case, with its
    version."""
    adapter = re.sub(r"\(.*?\)|device", " ", str(header.adapter["name"]), flags=re.IGNORECASE)
    driver = re.sub(r"\(.*?\)", " ", str(header.adapter["driver"] or header.package))
    words = re.findall(r"[a-z0-9.]+", f"{adapter} {driver}".lower())
    return "-".join(dict.fromkeys(words))


def load(name: str, folder: Path = FOLDER) -> list[Entry]:
    """Returns all entries for an adapter's slug. Raises BadExpectation."""
    found = []
    for path in sorted(folder.glob("*.txt")):
        if path.stem == EVERY or name == path.stem or name.startswith(f"{path.stem}-"):
            found += read(path)
    return found


def read(path: Path) -> list[Entry]:
    """Returns the entries of one file. Raises BadExpectation."""
    lines = enumerate(path.read_text().splitlines(), start=1)
    return [
        _entry(line, f"{path.name}:{number}")
        for number, line in lines
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _entry(line: str, place: str) -> Entry:
    body, separator, reason = line.partition(" #")
    if not separator or len(reason.split()) < 3:
        raise BadExpectation(f"{place}: an entry ends with # and a reason.")
    words = shlex.split(body)
    wanted = {REFUSED: 4, TOLERANCE: 5}.get(words[0] if words else "")
    if wanted != len(words):
        raise BadExpectation(
            f"{place}: write REFUSED host op case, or TOLERANCE host op case factor."
        )
    factor = float(words[4]) if wanted == 5 else 1.0
    if not 1.0 <= factor <= LARGEST_FACTOR:
        raise BadExpectation(
            f"{place}: a factor is between 1 and {LARGEST_FACTOR:g}; a larger error is a wrong "
            "value, which belongs in ir.quirks."
        )
    return Entry(words[0], words[1], words[2], words[3], reason.strip(), place, factor)


def refusal(entries: Iterable[Entry], record: Record) -> Entry | None:
    """Returns the entry that lists this refusal."""
    return next((e for e in entries if e.what == REFUSED and e.matches(record)), None)


def allowance(entries: Iterable[Entry], record: Record) -> float:
    """Returns the factor on the tolerance of a case, 1 without a note."""
    notes = [e.factor for e in entries if e.what == TOLERANCE and e.matches(record)]
    return max(notes, default=1.0)


def stale(entries: Sequence[Entry], records: Sequence[Record], complete: bool) -> list[Entry]:
    """Returns entries that no record needed. After an incomplete run only entries whose cases ran
    count."""
    unused = [e for e in entries if not any(e.needed(r) for r in records)]
    if complete:
        return unused
    return [e for e in unused if any(e.matches(r) for r in records)]
