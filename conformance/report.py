"""The report of a run: report.json (every case), report.md (a page) and report.html (a page in one
file, with every case). `python -m conformance.report report.json` writes the pages again;
`python -m conformance.report --keep DIR report.json ...` writes what a repository keeps: for each
report, in a folder named as the one it lies in, report.json.gz (every case) and report.md."""

from __future__ import annotations

import argparse
import gzip
import html
import json
import operator
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance.plugin.record import FAIL, OUTCOMES, PASS, Header, Record, from_json

FORMAT = 1
# Columns of the matrix; others, which no row takes, share one.
TYPES, OTHER = ("f32", "f16", "bf16", "i8", "u8", "bool"), "other"
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


def write(report: Report, folder: Path) -> None:
    """Write report.json, report.md and report.html into `folder`, which is made if needed."""
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
    """A report.json as a repository keeps it, with the whole seconds of each record; the same
    report gives the same bytes."""
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


def _title(header: Header) -> str:
    driver = header.adapter["driver"] or header.package
    return f"{header.adapter['name']}, {driver}" if driver else str(header.adapter["name"])


def _verdict(report: Report) -> str:
    bad = [r for r in report.records if not r.good]
    if bad:
        return f"{len(bad)} of {len(report.records)} tests FAIL: do not trust what is marked below."
    return f"All {len(report.records)} tests are as they must be."


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
        f"# Conformance: {_title(report.header)}",
        f"{_verdict(report)} {report.seconds:.0f} s.",
        "\n".join(f"* {line}" for line in report.header.lines()),
        "## Outcomes",
        _table(["tests", *OUTCOMES], kinds),
        "## Judges",
        _table(["expected values are those of", "tests"], _judged(report)),
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


def _judged(report: Report) -> list[list[str]]:
    return [[name, str(count)] for name, count in judges(report.records).most_common()]


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


STYLE = """
:root { --fg: #1c1e21; --bg: #fff; --line: #d6d9dd; --soft: #f3f4f6; --pass: #1a7f37;
  --fail: #b42318; --note: #7a5b00; --bar: #9ec5fe; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6e6e6; --bg: #16181c; --line: #3a3f46;
  --soft: #22262c; --pass: #4ac26b; --fail: #ff7b72; --note: #e3b341; --bar: #2f4f7f; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .3rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { background: var(--soft); position: sticky; top: 0; } td.n { text-align: right; }
code, .text { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.PASS { color: var(--pass); } .FAIL { color: var(--fail); font-weight: 600; }
.REFUSED, .NOT-CONVERTIBLE { color: var(--note); }
.share { display: inline-block; width: 5rem; height: .6rem; background: var(--soft);
  border: 1px solid var(--line); } .share i { display: block; height: 100%;
  background: var(--bar); }
.verdict { font-size: 1.1rem; } dl { display: grid; grid-template-columns: max-content 1fr;
  gap: .15rem 1rem; } dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .2rem 0; } details { margin: .1rem 0; }
"""


def as_html(report: Report) -> str:
    """Returns a page in one file, without scripts and without anything that is loaded."""
    title = f"Conformance: {html.escape(_title(report.header))}"
    bad = not all(r.good for r in report.records)
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="verdict {FAIL if bad else PASS}">{html.escape(_verdict(report))} '
        f"{report.seconds:.0f} s.</p>",
        _header_html(report.header),
        "<h2>Outcomes</h2>" + _outcomes_html(report),
        "<h2>Judges</h2>" + _html_table(["expected values are those of", "tests"], _judged(report)),
        *_list_html("Failures", [r for r in report.records if r.outcome == FAIL]),
        "<h2>Operators</h2><p>The bar is the worst error as a share of its tolerance.</p>",
        _matrix_html(report),
        "<h2>Time</h2>" + _times_html(report),
        "<h2>Every test</h2>" + _cases_html(report),
    ]
    if report.stale:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in report.stale)
        parts.append(f"<h2>Stale expectations</h2><ul>{lines}</ul>")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _header_html(header: Header) -> str:
    pairs: list[tuple[str, Any]] = [
        (name, value)
        for name, value in header.adapter.items()
        if name not in ("features", "limits") and value not in ("", None)
    ]
    if header.package:
        pairs.append(("driver package", header.package))
    pairs.append(("features", ", ".join(header.adapter["features"])))
    pairs += [(f"limit: {name}", f"{value:,}") for name, value in header.adapter["limits"].items()]
    pairs += [(name, value) for name, value in header.versions.items()]
    pairs += [("machine", header.machine), ("commit", header.commit)]
    rows = "".join(
        f"<dt>{html.escape(str(k).replace('_', ' '))}</dt><dd>{html.escape(str(v))}</dd>"
        for k, v in pairs
    )
    return f"<dl>{rows}</dl>"


def _outcomes_html(report: Report) -> str:
    rows = [
        [html.escape(name), *(_count(o, counts[o]) for o in OUTCOMES)]
        for name, counts in by_kind(report.records).items()
    ]
    total = report.counts()
    rows.append(["<b>all</b>", *(_count(o, total[o]) for o in OUTCOMES)])
    return _html_table(["tests", *OUTCOMES], rows)


def _count(outcome: str, number: int) -> str:
    return f'<span class="{outcome}">{number}</span>' if number else ""


def _matrix_html(report: Report) -> str:
    cells, types = matrix(report.records)
    rows = [
        [f"<code>{html.escape(op)}</code>", html.escape(host), *(_cell(row.get(t)) for t in types)]
        for (op, host), row in cells.items()
    ]
    return _html_table(["operator", "host", *types], rows)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    texts = [
        f'<span class="{o}">{cell.outcomes[o]} {o.lower()}</span>'
        for o in OUTCOMES
        if cell.outcomes[o]
    ]
    return f"{_bar(cell.share)} {', '.join(texts)}"


def _bar(share: float) -> str:
    width = min(100.0, 100.0 * share)
    return f'<span class="share" title="{share:.3f}"><i style="width:{width:.0f}%"></i></span>'


def _times_html(report: Report) -> str:
    rows = [
        [html.escape(name), str(count), f"{seconds:.1f} s"]
        for name, (count, seconds) in times(report.records).items()
    ]
    return _html_table(["family", "tests", "time"], rows)


def _cases_html(report: Report) -> str:
    groups: dict[str, list[Record]] = {}
    for r in sorted(report.records, key=lambda r: (r.op or r.kind, r.host, r.kind, r.case)):
        groups.setdefault(f"{r.op or r.kind} {r.host}".strip(), []).append(r)
    return "".join(
        f"<details><summary>{html.escape(name)} ({len(found)})</summary>{_records_html(found)}"
        "</details>"
        for name, found in groups.items()
    )


def _list_html(title: str, found: Sequence[Record]) -> list[str]:
    return [f"<h2>{title}</h2>" + _records_html(found)] if found else []


def _records_html(found: Sequence[Record]) -> str:
    rows = [
        [
            html.escape(r.case or r.test),
            html.escape(r.kind),
            f'<span class="{r.outcome}">{r.outcome}</span>',
            f"{r.share:.3f}" if r.share else "",
            f"{r.ulp:.1f}" if r.ulp else "",
            r.judge,
            f'<span class="text">{html.escape(r.text)}</span>' if r.text else "",
        ]
        for r in (given.brief() for given in found)
    ]
    head = ["case", "kind", "outcome", "share of tolerance", "ULP", "judge", "what was seen"]
    return _html_table(head, rows)


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "\n".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>"


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
