"""Pages and pictures that commands write: one file each, which needs no other, for bright and dark
screens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

LIGHT = {
    "ink": "#1c2430", "dim": "#5b6675", "line": "#d5dae1", "page": "#ffffff", "a": "#2f6fd0",
    "b": "#c8811a", "c": "#2d9a5f", "d": "#8a5cc2", "e": "#8a94a2",
}  # fmt: skip
DARK = {
    "ink": "#e3e8ef", "dim": "#9aa6b5", "line": "#333c48", "page": "#14181e", "a": "#6aa1f0",
    "b": "#e0a548", "c": "#57bd88", "d": "#b08be0", "e": "#76818f",
}  # fmt: skip
STYLE = """\
body { margin: 1.5rem; background: var(--page); color: var(--ink);
  font: 14px/1.45 system-ui, sans-serif }
h1 { font-size: 1.25rem } h2 { font-size: 1rem; margin-top: 2rem } p { color: var(--dim) }
.wide { overflow-x: auto } table { border-collapse: collapse }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
th { cursor: pointer; color: var(--dim); font-weight: 600; white-space: nowrap }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.text { overflow-wrap: anywhere }
.bar { background: var(--a); height: .6rem; min-width: 1px; margin-top: .35rem }
.share { width: 8rem }
"""
# Sorts a table by the column whose head is clicked, numbers from the largest.
SCRIPT = """\
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], place = head.cellIndex;
  const told = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
  const number = row => parseFloat(told(row)) || 0, rows = [...body.rows];
  const numeric = rows.every(row => row.cells[place].className !== "text");
  rows.sort((a, b) => numeric ? number(b) - number(a) : told(a).localeCompare(told(b)));
  body.append(...rows);
};
"""


def _variables(colors: Mapping[str, str]) -> str:
    return "; ".join(f"--{name}: {color}" for name, color in colors.items())


def page(title: str, parts: Iterable[str]) -> str:
    """Returns a page of HTML."""
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<style>\n:root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
        f"{STYLE}</style>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + f"\n<script>\n{SCRIPT}</script>\n</html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """Returns a table; a column named "" holds parts of 1, which are drawn as bars."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("".join(map(_cell, head, row)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f"<div class=wide><table><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table>"
        "</div>"
    )


def _cell(name: str, value: str | float | None) -> str:
    if not name and isinstance(value, float):
        bar = f'<div class=bar style="width: {100 * value:.1f}%"></div>'
        return f'<td class=share data-value="{value:.6f}">{bar}</td>'
    if isinstance(value, str):
        return f"<td class=text>{escape(value)}</td>"
    text = "-" if value is None else f"{value:g}" if isinstance(value, int) else f"{value:.3f}"
    return f"<td class=number>{text}</td>"


def picture(width: int, height: int, shapes: Iterable[str], alone: bool = False) -> str:
    """Returns an SVG picture of these shapes. If `alone`, it is a separate file, also for programs
    that do not support CSS variables."""
    ground = f'<rect width="{width}" height="{height}" fill="var(--page)"/>\n' if alone else ""
    made = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif">\n'
        + ground
        + "\n".join(shapes)
        + "\n</svg>\n"
    )
    for name, color in LIGHT.items() if alone else ():
        made = made.replace(f"var(--{name})", color)
    return made


def box(x: float, y: float, width: float, height: float, color: str, told: str = "") -> str:
    """Returns a filled rectangle; `told` is the text of its tooltip."""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{height:g}" '
        f'fill="var(--{color})">{f"<title>{escape(told)}</title>" if told else ""}</rect>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", color: str = "ink") -> str:
    """Returns a text that begins, has its middle, or ends at a position."""
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" font-size="12" '
        f'fill="var(--{color})">{escape(words)}</text>'
    )
