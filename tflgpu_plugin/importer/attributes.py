"""The attributes of nodes from domains whose operators get new ones without a new version. A row
that does not read such an attribute does not know what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

NEUTRAL = (0, b"", "", b"NONE")  # values with which a host's operator stays as it was


class Attributes(Mapping[str, Any]):
    """A node's attributes, which record those that are read."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._read = set[str]()

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def unread(self) -> list[str]:
        """Returns the names of the attributes that nothing has read and that change something."""
        left = (name for name in self._given if name not in self._read)
        return [name for name in left if not _is_neutral(self._given[name])]


def _is_neutral(value: Any) -> bool:
    if isinstance(value, tuple | np.ndarray):
        return not len(value)
    return value in NEUTRAL
