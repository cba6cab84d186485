"""Compares two adapters: `python -m conformance.compare A/report.json B/report.json`.

Prints differences of the headers, tests that only one has, outcomes that differ, and errors that
are several times larger on one of the two. Exit status 1 when an outcome differs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from conformance.plugin.record import Record
from conformance.report import read
from conformance.results import Report

Key = tuple[str, str, str, str]
LIKE = 2.0  # errors within this factor count as alike
SMALL = 0.05  # of the tolerance: below this an error is not worth a line


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.compare", description=__doc__)
    parser.add_argument("a", type=Path, help="a report.json, or the folder that holds it")
    parser.add_argument("b", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        a, b = (read(_file(path)) for path in (chosen.a, chosen.b))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print("\n".join(differences(a, b)))
    return int(bool(list(_outcomes(_keyed(a), _keyed(b)))))


def _file(path: Path) -> Path:
    return path / "report.json" if path.is_dir() else path


def differences(a: Report, b: Report) -> list[str]:
    """Returns lines with the differences; never empty."""
    first, second = _keyed(a), _keyed(b)
    sections = {
        "who was tested": list(_headers(a, b)),
        "only in the first": [_name(k) for k in first if k not in second],
        "only in the second": [_name(k) for k in second if k not in first],
        "outcomes": list(_outcomes(first, second)),
        f"errors that differ by more than {LIKE:g} times": list(_errors(first, second)),
    }
    lines = []
    for title, found in sections.items():
        lines += [f"{title}: {len(found) or 'no difference'}", *(f"  {line}" for line in found)]
    return lines


def _keyed(report: Report) -> dict[Key, Record]:
    """Returns records by kind, operator, case and host without its version."""
    return {(r.kind, r.op, r.case or r.test, r.host.split(" ")[0]): r for r in report.records}


def _name(key: Key) -> str:
    return " ".join(part for part in key if part)


def _headers(a: Report, b: Report) -> Iterator[str]:
    for name in dict.fromkeys([*a.header.adapter, *b.header.adapter]):
        x, y = a.header.adapter.get(name), b.header.adapter.get(name)
        if x != y:
            yield f"{name}: {x} | {y}"
    for name in dict.fromkeys([*a.header.versions, *b.header.versions]):
        x, y = a.header.versions.get(name), b.header.versions.get(name)
        if x != y:
            yield f"{name}: {x} | {y}"


def _outcomes(first: dict[Key, Record], second: dict[Key, Record]) -> Iterator[str]:
    for key, x in first.items():
        y = second.get(key)
        if y is not None and x.outcome != y.outcome:
            why = next((r.text for r in (x, y) if not r.good), x.text or y.text)
            yield f"{_name(key)}: {x.outcome} | {y.outcome}: {why}"


def _errors(first: dict[Key, Record], second: dict[Key, Record]) -> Iterator[str]:
    found = []
    for key, x in first.items():
        y = second.get(key)
        if y is None or max(x.share, y.share) < SMALL:
            continue
        factor = max(x.share, y.share) / max(min(x.share, y.share), 1e-9)
        if factor > LIKE:
            found.append((factor, f"{_name(key)}: {x.share:.3f} | {y.share:.3f} of the tolerance"))
    yield from (line for _, line in sorted(found, reverse=True))


if __name__ == "__main__":
    sys.exit(main())
