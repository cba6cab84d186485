"""Imports a snapshot of a TFLite graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.ir import Shape
from tflgpu_plugin.providers import Facts, Imported, Judge

from .ops import TABLE
from .snapshot import Snapshot


def read(taken: Snapshot, judge: Judge | None, shapes: Mapping[int, Shape]) -> Imported:
    """Returns the graph for the host's present shapes, except for inputs that get other `shapes`:
    the host's shapes that depend on these are ignored.
    """
    given = {str(t): shape for t, shape in shapes.items()}
    found = import_(taken.loosened(given), TABLE, Facts(given, taken.present, judge=judge))
    inputs = found.graph.inputs
    return replace(found, open={t: taken.open[t] for t in inputs if t in taken.open})
