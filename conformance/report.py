"""The report of a run: report.json (every case), report.md (a page) and report.html (a page in one
file). `python -m conformance.report report.json` writes the pages again;
`python -m conformance.report --keep DIR report.json ...` writes what a repository keeps: for each
report, in a folder named as the one it lies in, report.json.gz (every case) and report.md."""

from __future__ import annotations

import argparse
import gzip
import json
import operator
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from conformance.plugin.record import FAIL, OUTCOMES, Header, from_json
from conformance.report_page import as_html
from conformance.results import Report, by_kind, judged, matrix, times, title, verdict

FORMAT = 1


def write(report: Report, folder: Path) -> None:
    """Writes report.json, report.md and report.html into `folder`, which is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(as_json(report))
    (folder / "report.md").write_text(as_markdown(report))
    (folder / "report.html").write_text(as_html(report))


def as_json(report: Report) -> str:
    """Returns JSON with one record per line, so that versions of a committed report differ in few
    lines."""
    key = operator.attrgetter("kind", "op", "case", "host", "dtype", "test")
    records = sorted((r.brief() for r in report.records), key=key)
    lines = ",\n".join(json.dumps(r.as_json()) for r in records)
    head = {
        "format": FORMAT,
        "header": asdict(report.header),
        "seconds": round(report.seconds, 1),
        "counts": dict(report.counts()),
        "stale": list(report.stale),
    }
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "records": [\n{lines}\n]\n}}\n'


def keep(path: Path, folder: Path) -> None:
    """Returns a report.json as a repository keeps it, with the seconds of each record rounded to
    integers; the same report gives the same bytes."""
    report = read(path)
    briefly = [replace(record, seconds=round(record.seconds)) for record in report.records]
    report = replace(report, records=briefly)
    place = folder / path.resolve().parent.name
    place.mkdir(parents=True, exist_ok=True)
    content = as_json(report).encode()
    (place / "report.json.gz").write_bytes(gzip.compress(content, mtime=0))
    (place / "report.md").write_text(as_markdown(report))


def read(path: Path) -> Report:
    """Returns a report.json, or the report.json.gz in its place. Raises ValueError if it is not a
    report."""
    if not path.exists() and path.suffix != ".gz":
        path = path.with_name(f"{path.name}.gz")
    content = path.read_bytes()
    try:
        found = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        records = [from_json(values) for values in found["records"]]
        header = Header(**found["header"])
    except (KeyError, TypeError, ValueError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is no report.json of this suite ({error!r}).") from error
    return Report(header, records, float(found["seconds"]), found["stale"])


def as_markdown(report: Report) -> str:
    """Returns a page for a repository or an issue."""
    cells, types = matrix(report.records)
    body = [[op, host, *(str(row.get(t, "")) for t in types)] for (op, host), row in cells.items()]
    kinds = [
        [name, *(str(counts[o] or "") for o in OUTCOMES)]
        for name, counts in by_kind(report.records).items()
    ]
    spent = [[n, str(c), f"{s:.1f}"] for n, (c, s) in times(report.records).items()]
    parts = [
        f"# Conformance: {title(report.header)}",
        f"{verdict(report)} {report.seconds:.0f} s.",
        "\n".join(f"* {line}" for line in report.header.lines()),
        "## Outcomes",
        _table(["tests", *OUTCOMES], kinds),
        "## Judges",
        _table(["expected values are those of", "tests"], judged(report)),
        "## Operators",
        "*worst* is the largest error as a share of its tolerance.",
        _table(["operator", "host", *types], body),
        *_failures_markdown(report),
        "## Time",
        _table(["family", "tests", "seconds"], spent),
    ]
    if report.stale:
        parts += ["## Stale expectations", "\n".join(f"* {line}" for line in report.stale)]
    return "\n\n".join(parts) + "\n"


def _failures_markdown(report: Report) -> list[str]:
    found = [r for r in report.records if r.outcome == FAIL]
    if not found:
        return []
    body = [[r.op, r.case, r.host, r.text] for r in found]
    return ["## Failures", _table(["operator", "case", "host", "what"], body)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in row) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Writes report.md and report.html beside each report.json, or beside its compressed copy."""
    parser = argparse.ArgumentParser(prog="python -m conformance.report", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("reports", type=Path, nargs="+")
    chosen = parser.parse_args(arguments)
    for path in chosen.reports:
        if chosen.keep:
            keep(path, chosen.keep)
            continue
        report = read(path)
        path.with_name("report.md").write_text(as_markdown(report))
        path.with_name("report.html").write_text(as_html(report))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
