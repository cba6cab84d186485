"""Numbers for the open extents of a model, and for what hangs on a shape that the host tells
wrongly: a run plans for its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tflgpu_plugin.importer import symbols
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.symbols import Solver

from .reader import read
from .snapshot import Snapshot

COLOURS = 3


def read_open(snapshot: Snapshot) -> tuple[Imported, bool]:
    """The snapshot read for the best guess at its open extents; and whether a run may have other
    shapes."""
    if not _is_open(snapshot):
        reading = read(snapshot, {})
        counted = any(tensor.counted for tensor in reading.graph.tensors.values())
        return reading, reading.contradictions > 0 or bool(reading.run_values) or counted
    solver = solver_of(snapshot)
    best = symbols.solve(solver, _likely)
    return replace(best.reading, guessed=frozenset(solver.fitting & best.wrong)), True


def solver_of(snapshot: Snapshot) -> Solver[Imported]:
    """Readings of this snapshot."""

    def part(symbols: Mapping[str, int], nodes: int | None) -> Imported:
        return read(replace(snapshot, nodes=snapshot.nodes[:nodes]), {}, symbols)

    return Solver(snapshot, part)


def _is_open(snapshot: Snapshot) -> bool:
    """A shape is not known, even if all inputs' are."""
    shapes = (value.shape or () for value in snapshot.values.values())
    return any(isinstance(extent, str) for shape in shapes for extent in shape)


def _likely(name: str, axis: int, rank: int, size: int) -> int:
    if "batch" in name.lower() or axis == 0:
        return 1
    return COLOURS if rank == 4 and axis == 1 else size
