"""Numbers for the open extents of a model, so that it can be planned before it is run: what is
planned for them is planned anew for the shapes of each run. So is what hangs on a shape that the
host tells wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .equations import Guess, Solver
from .reader import Reading, read
from .snapshot import Snapshot

# Sizes that models are made for, and one that has many divisors; the first that fits is used. With
# the last ones much fits that would not with others.
SIZES = (224, 64, 320, 640, 512, 32, 16, 7, 60)
LAST = (2, 1)
COLOURS = 3
SOLVED = 4  # guesses with the fewest doubts, which may become better ones


def read_open(snapshot: Snapshot) -> tuple[Reading, bool]:
    """The snapshot read for the best guess at its open extents; and whether a run may have other
    shapes."""
    names = _names(snapshot)
    if not names and not _is_open(snapshot):
        reading = read(snapshot, {})
        return reading, reading.contradictions > 0
    solver = Solver(snapshot)
    best = _best(solver, _guesses(names, SIZES))
    if best is None or best.doubts[0]:
        found = [best, _best(solver, _guesses(names, LAST))]
        best = min(filter(None, found), key=_doubts, default=None)
    if best is None:  # this raises what all of them do
        best = solver.guess(next(_guesses(names, LAST)))
    return replace(best.reading, guessed=frozenset(solver.fitting & best.wrong)), True


def _best(solver: Solver, guesses: Iterable[Mapping[str, int]]) -> Guess | None:
    """The first guess without doubts, as it is or solved; else that with the fewest; None where
    there is none."""
    plain: list[Guess] = []
    for symbols in guesses:
        if guess := solver.attempt(symbols):
            plain.append(guess)
            if not guess.doubts[0]:
                return guess
    solved: list[Guess] = []
    for guess in sorted(plain, key=_doubts)[:SOLVED]:
        solved.append(solver.solved(guess))
        if not solved[-1].doubts[0] or solver.tired:
            break
    return min(solved, key=_doubts, default=None)


def _doubts(guess: Guess) -> tuple[int, int, int]:
    return guess.doubts


def _is_open(snapshot: Snapshot) -> bool:
    """A shape is not known, even if all inputs' are."""
    shapes = (value.shape or () for value in snapshot.values.values())
    return any(isinstance(extent, str) for shape in shapes for extent in shape)


def _names(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    """Open extents of the inputs, with the (axis, rank) of the first that has them."""
    found: dict[str, tuple[int, int]] = {}
    for name in snapshot.inputs:
        shape = snapshot.values[name].shape or ()
        for axis, extent in enumerate(shape):
            if isinstance(extent, str):
                found.setdefault(extent, (axis, len(shape)))
    return found


def _guesses(
    names: Mapping[str, tuple[int, int]], sizes: Sequence[int]
) -> Iterator[dict[str, int]]:
    made: list[dict[str, int]] = []
    for size in sizes:
        guess = {name: _guess(name, *place, size) for name, place in names.items()}
        if guess not in made:
            made.append(guess)
            yield guess


def _guess(name: str, axis: int, rank: int, size: int) -> int:
    if "batch" in name.lower() or axis == 0:
        return 1
    return COLOURS if rank == 4 and axis == 1 else size
