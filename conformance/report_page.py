"""report.html: a page in one file that loads nothing. Passing cases are only in report.json."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

from conformance.plugin.record import FAIL, OUTCOMES, PASS, Header, Record
from conformance.results import Cell, Report, by_kind, judged, matrix, times, title, verdict

GREEN, AMBER, RED = 135, 42, 4  # hues: no error, an error as large as its tolerance, a failure
SECTIONS = {
    "operators": "Operators", "rest": "What did not pass", "outcomes": "Outcomes",
    "judges": "Judges", "time": "Time", "tested": "What was tested",
}  # fmt: skip
STYLE = """
:root { --fg: #1c1e21; --bg: #fff; --line: #d6d9dd; --soft: #f3f4f6; --pass: #1a7f37;
  --fail: #b42318; --note: #7a5b00; --link: #0b57d0; --light: 86%; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6e6e6; --bg: #16181c; --line: #3a3f46;
  --soft: #22262c; --pass: #4ac26b; --fail: #ff7b72; --note: #e3b341; --link: #8ab4f8;
  --light: 24%; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin-bottom: .3rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
a { color: var(--link); } nav { margin-top: 1.5rem; }
nav a { display: inline-block; margin-right: 1rem; } td a { color: inherit; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { background: var(--soft); position: sticky; top: 0; }
code, .text { font: 13px/1.4 ui-monospace, monospace; }
code, .case, .text, dd { overflow-wrap: anywhere; }
.PASS { color: var(--pass); } .FAIL { color: var(--fail); font-weight: 600; }
.REFUSED, .NOT-CONVERTIBLE { color: var(--note); }
.heat { display: inline-block; min-width: 4.5rem; padding: 0 .4rem; border-radius: .2rem;
  background: hsl(var(--hue) 62% var(--light)); } .heat small, .few { opacity: .75; }
.verdict { font-size: 1.1rem; } dl { display: grid; gap: .15rem 1rem;
  grid-template-columns: minmax(6rem, max-content) minmax(0, 1fr); }
dt { font-weight: 600; } dd { margin: 0; }
summary { cursor: pointer; padding: .2rem 0; } details { margin: .1rem 0; }
input[type=search] { font: inherit; padding: .2rem .5rem; width: 16rem; max-width: 100%; }
#matrix:not(.all) .idle { display: none; } label { display: inline-block; margin: .3rem 1rem 0 0; }
@media (max-width: 67rem) { dl { grid-template-columns: 1fr 1fr; } thead { display: none; }
  tr { display: block; padding: .3rem 0; border-bottom: 1px solid var(--line); }
  td { display: inline-block; border: 0; padding: .1rem .5rem .1rem 0; } td:empty { display: none; }
  td[data-t]::before { content: attr(data-t) " "; opacity: .65; font-size: .85em; } }
"""
SCRIPT = """
const rows = [...document.querySelectorAll("#matrix tbody tr")];
const find = document.getElementById("find"), every = document.getElementById("every");
function show() {
  const wanted = find.value.trim().toLowerCase();
  document.getElementById("matrix").classList.toggle("all", every.checked || wanted !== "");
  for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
}
find.addEventListener("input", show); every.addEventListener("change", show); show();
"""


def as_html(report: Report) -> str:
    """Returns the page: the verdict and the failures first."""
    name = f"Conformance: {html.escape(title(report.header))}"
    failures = [r for r in report.records if r.outcome == FAIL]
    bad = not all(r.good for r in report.records)
    sections = {
        "operators": _operators(report),
        "rest": _rest(report),
        "outcomes": _outcomes(report),
        "judges": _table(["expected values are those of", "tests"], judged(report)),
        "time": _times(report),
        "tested": _header(report.header),
    }
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="verdict {FAIL if bad else PASS}">{html.escape(verdict(report))} '
        f"{report.seconds:.0f} s.</p>",
        *([f'<h2 id="failures">Failures</h2>{_records(failures)}'] if failures else []),
        *_stale(report),
        "<nav>" + "".join(f'<a href="#{k}">{v}</a>' for k, v in SECTIONS.items()) + "</nav>",
        *(f'<h2 id="{k}">{v}</h2>{sections[k]}' for k, v in SECTIONS.items()),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _stale(report: Report) -> list[str]:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in report.stale)
    return [f"<h2>Stale expectations</h2><ul>{lines}</ul>"] if lines else []


def _header(header: Header) -> str:
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


def _outcomes(report: Report) -> str:
    rows = [
        [html.escape(name), *(_count(o, counts[o]) for o in OUTCOMES)]
        for name, counts in by_kind(report.records).items()
    ]
    total = report.counts()
    rows.append(["<b>all</b>", *(_count(o, total[o]) for o in OUTCOMES)])
    return _table(["tests", *OUTCOMES], rows)


def _count(outcome: str, number: int) -> str:
    return f'<span class="{outcome}">{number}</span>' if number else ""


def _operators(report: Report) -> str:
    """Returns the matrix. Rows without a result of the device are hidden at first."""
    cells, types = matrix(report.records)
    rows, idle = list[list[str]](), set[int]()
    for (op, host), row in cells.items():
        ran = any(cell.outcomes[PASS] or cell.outcomes[FAIL] for cell in row.values())
        if not ran:
            idle.add(len(rows))
        name = html.escape(anchor(op, host))
        link = f'<a id="{name}" href="#{name}"><code>{html.escape(op)}</code></a>'
        rows.append([link, html.escape(host), *(_cell(row.get(t)) for t in types)])
    legend = " ".join(
        f'<span class="heat" style="--hue:{hue}">{text}</span>'
        for hue, text in ((GREEN, "0.00"), (_hue(0.5), "0.50"), (AMBER, "1.00"), (RED, "FAIL"))
    )
    return (
        f"<p>{legend}<br>The number is the worst error as a share of its tolerance; beside it is "
        "the number of tests that passed. Grey numbers are tests without a result of the device."
        '</p><p><input type="search" id="find" placeholder="operator, host" aria-label="filter"> '
        f'<label><input type="checkbox" id="every"> {len(idle)} rows without a result of the '
        f'device</label></p><div id="matrix">{_table(["operator", "host", *types], rows, idle)}'
        "</div>"
    )


def anchor(op: str, host: str) -> str:
    """Returns the name of a row of the matrix in addresses."""
    return re.sub(r"[^\w.-]+", "-", f"{op}-{host}".rstrip("-"))


def _hue(share: float) -> int:
    return round(GREEN + (AMBER - GREEN) * min(1.0, share))


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    passed, failed = cell.outcomes[PASS], cell.outcomes[FAIL]
    said = html.escape(str(cell))
    if failed:
        return f'<span class="heat FAIL" style="--hue:{RED}" title="{said}">{failed} FAIL</span>'
    if passed:
        return (
            f'<span class="heat" style="--hue:{_hue(cell.share)}" title="{said}">'
            f"{cell.share:.2f} <small>{passed}</small></span>"
        )
    return f'<span class="few" title="{said}">{cell.outcomes.total()}</span>'


def _times(report: Report) -> str:
    rows = [
        [html.escape(name), str(count), f"{seconds:.1f} s"]
        for name, (count, seconds) in times(report.records).items()
    ]
    return _table(["family", "tests", "time"], rows)


def _rest(report: Report) -> str:
    """Returns the tests without a result of the device, by operator."""
    groups: dict[str, list[Record]] = {}
    for r in sorted(report.records, key=lambda r: (r.op or r.kind, r.host, r.kind, r.case)):
        if r.outcome not in (PASS, FAIL):
            groups.setdefault(f"{r.op or r.kind} {r.host}".strip(), []).append(r)
    return "<p>report.json has every test, those that pass included.</p>" + "".join(
        f"<details><summary>{html.escape(name)} ({len(found)})</summary>{_records(found)}</details>"
        for name, found in groups.items()
    )


def _records(found: Sequence[Record]) -> str:
    rows = [
        [
            f"<code>{html.escape(r.op)}</code>" if r.op else "",
            f'<span class="case">{html.escape(r.case or r.test)}</span>',
            html.escape(r.kind),
            f'<span class="{r.outcome}">{r.outcome}</span>',
            f"{r.share:.3f}" if r.share else "",
            f"{r.ulp:.1f}" if r.ulp else "",
            r.judge,
            f'<span class="text">{html.escape(r.text)}</span>' if r.text else "",
        ]
        for r in (given.brief() for given in found)
    ]
    head = ["operator", "case", "kind", "outcome", "share of tolerance", "ULP", "judge", "seen"]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], idle: Iterable[int] = ()) -> str:
    """Returns a table; each cell names its column, for narrow screens, which show no heads."""
    hidden = {*idle}
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = []
    for number, row in enumerate(rows):
        cells = (
            f'<td data-t="{html.escape(name)}">{cell}</td>' if cell else "<td></td>"
            for name, cell in zip(head, row, strict=True)
        )
        kind = ' class="idle"' if number in hidden else ""
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    body = "\n".join(lines)
    return f"<table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>"
