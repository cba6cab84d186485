"""Imports a snapshot of a TFLite graph."""

from __future__ import annotations

from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.providers import Facts, Imported, Judge, symbols

from .ops import TABLE
from .snapshot import Snapshot


def read(taken: Snapshot, judge: Judge | None, fixed: bool = False) -> Imported:
    """Imports the graph with the host's present shapes. Where these are only placeholders, it is
    imported for larger inputs, unless `fixed`."""
    if fixed:
        return import_(taken, TABLE, Facts(symbols=taken.present, judge=judge))
    return symbols.import_dynamic(taken, TABLE, judge)
