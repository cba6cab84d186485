"""A change of a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """A change: characters `start` to `end` become `new`; `kind` names what is tried."""

    start: int
    end: int
    new: str
    kind: str
