"""Rows of a benchmark, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NEWER = "newer lavapipe"  # ends the name of an engine that runs on that driver
WRONG = 0.01  # of the largest value; float16 storage stays below it

HEAD = (
    "engine", "device", "warm median ms", "best ms", "x ours", "first result ms",
    "with an empty driver cache", "error",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One engine on one model, times in milliseconds; `reason` says why there are none.

    `first_ms` counts from the creation of the interpreter to the first result with the driver's
    cache filled by an earlier run, `cold_ms` with an empty one; `error` is the largest difference
    from the CPU's outputs, of the largest value of that output."""

    engine: str
    device: str = ""
    median_ms: float | None = None
    best_ms: float | None = None
    first_ms: float | None = None
    cold_ms: float | None = None
    error: float | None = None
    reason: str = ""


def error(found: list[Array], reference: list[Array]) -> float:
    """Returns the largest difference over the outputs, each relative to its largest value; NaN if
    an output has a NaN or another size."""
    if [value.size for value in found] != [value.size for value in reference]:
        return float("nan")
    least = np.finfo(np.float32).tiny  # for outputs of zeros
    return float(
        np.max(
            [
                np.abs(a.reshape(b.shape) - b).max() / max(np.abs(b).max(), least)
                for a, b in zip(found, reference, strict=True)
            ]
        )
    )


def show(title: str, rows: Sequence[Row]) -> None:
    """Prints a Markdown table; "x ours" is the engine's median divided by that of the first row
    with the same driver."""
    ours: dict[bool, float | None] = {}
    print(f"\n{title}\n")
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for row in rows:
        first = ours.setdefault(row.engine.endswith(NEWER), row.median_ms)
        if row.reason:
            print(f"| {row.engine} | {row.reason} |{' |' * (len(HEAD) - 2)}")
            continue
        ratio = row.median_ms / first if row.median_ms and first else None
        cells = [row.engine, row.device, _text(row.median_ms), _text(row.best_ms), _text(ratio, 2)]
        cells += [_text(row.first_ms, 0), _text(row.cold_ms, 0)]
        cells.append("-" if row.error is None else f"{row.error:.1e}")
        print("| " + " | ".join(cells) + " |")
    print()


def _text(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
