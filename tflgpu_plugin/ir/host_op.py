"""A row of a host's table of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class HostOp:
    """A host operator, the op it becomes, and its version ranges (both ends included).

    `versions` is what our kernels honestly support; `documented` maps an edition of the GPU
    delegate documentation ("2019", "current", "quantized") to the range that edition lists.
    `attributes` reads the host's parameters. `constants` names the inputs, by position, whose
    values must be known before a run; `outputs` is how many outputs are supported. `types` are the
    dtypes of all that a node reads and writes, where they are not those of `op`; inputs at the
    positions `indices` hold int32 or int64 besides.
    """

    name: str
    op: str
    versions: tuple[int, int]
    documented: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    attributes: Callable[..., dict[str, Any]] | None = None
    constants: Mapping[int, str] = field(default_factory=dict)
    outputs: int | None = None
    types: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
