"""One change of a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Characters `start` to `end` become `new`; `kind` says what is tried."""

    start: int
    end: int
    new: str
    kind: str
