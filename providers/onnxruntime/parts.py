"""A snapshot of some nodes as a JSON value and arrays, and back: what a compiled model needs to
plan its nodes for other shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tflgpu_plugin.cache import codec
from tflgpu_plugin.ir.graph import Array

from .snapshot import HostNode, Snapshot, Value

STORED = tuple[tuple[HostNode, ...], Mapping[str, Value], tuple[str, ...]]


def pack(part: Snapshot) -> tuple[Any, dict[str, Array]]:
    """The JSON value, and the arrays that it names."""
    arrays: dict[str, Array] = {}
    return codec.encode((part.nodes, part.values, part.outputs), arrays), arrays


def unpack(found: Any, arrays: Mapping[str, Array]) -> Snapshot:
    """What `pack` was given. Raises Mismatch, KeyError or TypeError for anything else."""
    nodes, values, outputs = codec.decode(STORED, found, arrays)
    for node in nodes:
        if missing := {*node.reads, *node.writes} - set(values):
            raise codec.Mismatch(f"the values {sorted(missing)[:3]} are missing")
    return Snapshot(nodes, values, outputs)
