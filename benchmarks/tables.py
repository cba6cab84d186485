"""Rows of a benchmark and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = (
    "engine", "device", "warm median ms", "best ms", "x ours", "first result ms",
    "with an empty driver cache", "difference",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One engine on one model, times in milliseconds; `reason` says why it could not be measured.

    `first_ms` counts from the creation of the interpreter to the first result with the driver's
    cache filled by an earlier run, `cold_ms` with an empty one; `difference` is the largest from
    the CPU's output.
    """

    engine: str
    device: str = ""
    median_ms: float | None = None
    best_ms: float | None = None
    first_ms: float | None = None
    cold_ms: float | None = None
    difference: float | None = None
    reason: str = ""


def show(title: str, rows: Sequence[Row]) -> None:
    """Print a Markdown table; "x ours" is the engine's median over that of the first row."""
    ours = rows[0].median_ms
    print(f"\n{title}\n")
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for row in rows:
        if row.reason:
            print(f"| {row.engine} | did not run: {row.reason} |{' |' * (len(HEAD) - 2)}")
            continue
        ratio = row.median_ms / ours if row.median_ms and ours else None
        cells = [row.engine, row.device, _text(row.median_ms), _text(row.best_ms), _text(ratio, 2)]
        cells += [_text(row.first_ms, 0), _text(row.cold_ms, 0)]
        cells.append("-" if row.difference is None else f"{row.difference:.1e}")
        print("| " + " | ".join(cells) + " |")
    print()


def _text(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
