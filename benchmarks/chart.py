"""A bar chart of a benchmark's medians, as SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, LABELS, ROW, GAP = 860, 330, 20, 34  # pixels
OURS, OTHERS = "#2d6a9f", "#b9c2cb"


def bars(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Returns one group of bars per model, the shortest first; ours are dark. Milliseconds per
    run."""
    parts: list[str] = []
    top = 10
    for name, rows in results.items():
        measured = sorted((r for r in rows if r["median_ms"]), key=lambda r: r["median_ms"])
        if not measured:
            continue
        longest = measured[-1]["median_ms"]
        parts.append(_text(10, top + 14, name, "bold"))
        top += ROW + 4
        for row in measured:
            parts += _bar(row, top, longest)
            top += ROW
        top += GAP - ROW
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}">'
    style = "<style>text{font:13px sans-serif;fill:#222}</style>"
    white = f'<rect width="{WIDTH}" height="{top}" fill="white"/>'
    return "\n".join([head, style, white, *parts, "</svg>", ""])


def _bar(row: Mapping[str, Any], top: int, longest: float) -> list[str]:
    room = WIDTH - LABELS - 90
    length = max(1.0, row["median_ms"] / longest * room)
    color = OURS if "tflgpu" in row["engine"] else OTHERS
    place = f'x="{LABELS}" y="{top + 3}" width="{length:.1f}" height="{ROW - 6}"'
    return [
        _text(20, top + 14, row["engine"]),
        f'<rect {place} fill="{color}"/>',
        _text(int(LABELS + length + 6), top + 14, f"{row['median_ms']:.1f} ms"),
    ]


def _text(x: int, y: int, content: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{escape(content)}</text>'
