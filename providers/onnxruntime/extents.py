"""Numbers for the open extents of a model, so that it can be planned before it is run: what is
planned for them is planned anew for the shapes of each run. So is what hangs on a shape that the
host tells wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from .reader import Reading, read
from .snapshot import Snapshot

# Sizes that models are made for, and one that has many divisors; the first that fits is used.
SIZES = (224, 64, 320, 640, 512, 32, 16, 7, 60, 2, 1)
COLOURS = 3
HUGE = 1 << 24  # elements of a tensor: no size to guess


def read_open(snapshot: Snapshot) -> tuple[Reading, bool]:
    """The snapshot read for the best guess at its open extents; and whether a run may have other
    shapes."""
    names = _names(snapshot)
    if not names:
        reading = read(snapshot, {})
        return reading, reading.contradictions > 0
    best: Reading | None = None
    for symbols in _guesses(names):
        reading = read(snapshot, {}, symbols)
        if best is None or _doubts(reading) < _doubts(best):
            best = reading
        if not _doubts(reading)[0]:
            break
    assert best is not None
    return best, True


def _doubts(reading: Reading) -> tuple[int, int]:
    huge = sum(prod(tensor.shape) > HUGE for tensor in reading.graph.tensors.values())
    return len(reading.refused) + huge, reading.contradictions


def _names(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    """Open extents with the (axis, rank) of the input that has them first; (-1, 0) for those that
    only appear inside."""
    found: dict[str, tuple[int, int]] = {}
    order = [*snapshot.inputs, *snapshot.values]
    outside = set(snapshot.inputs)
    for name in order:
        shape = snapshot.values[name].shape or ()
        for axis, extent in enumerate(shape):
            if isinstance(extent, str):
                found.setdefault(extent, (axis, len(shape)) if name in outside else (-1, 0))
    return found


def _guesses(names: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    for size in SIZES:
        yield {name: _guess(name, *place, size) for name, place in names.items()}


def _guess(name: str, axis: int, rank: int, size: int) -> int:
    if "batch" in name.lower() or axis == 0 or axis < 0:
        return 1
    return COLOURS if rank == 4 and axis == 1 else size
