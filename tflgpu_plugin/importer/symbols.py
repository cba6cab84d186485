"""Numbers for the open extents of a graph, so that it can be planned before it is run: what is
planned for them is planned anew for the shapes of each run.

Which numbers go together, the graph itself tells: a reading whose shapes do not is read again with
one number changed, so that it becomes what the node that failed has beside it. Nothing here knows
an operator or a host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, permutations, product
from math import prod
from operator import attrgetter
from typing import Any, TypeVar

from tflgpu_plugin.errors import defect
from tflgpu_plugin.importer import support
from tflgpu_plugin.importer.expressions import HUGE, value
from tflgpu_plugin.importer.imported import Facts, Imported, Table
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostModel
from tflgpu_plugin.ir import Shape, Target

COLOURS = 3
# Sizes that models are made for, and one that has many divisors; the first that fits is used. With
# the last ones much fits that would not with others.
SIZES = (224, 64, 320, 640, 512, 32, 16, 7, 60)
LAST = (2, 1)
SOLVED = 4  # guesses with the fewest doubts, which may become better ones
TRIALS = 40  # readings for one kind of misfit
READINGS = 24  # of one graph: whole ones, or more of its first nodes
VISITS = 3000  # of nodes, which any graph may have
MAX_KNOWN_ELEMENTS = 16  # elements of a known input whose values may be extents

DOUBTS = attrgetter("doubts")  # of a guess
T = TypeVar("T")


@dataclass(frozen=True)
class Misfit:
    """A node that cannot be with these numbers, and perhaps with others; `kind` is the same for
    nodes that fail alike. `numbers` are the extents that it sees, largest first; `unlike` is on how
    many axes its inputs differ; `host` is the host's node."""

    host: int
    kind: tuple[Any, ...]
    numbers: tuple[int, ...]
    unlike: int


@dataclass
class Guess:
    """Numbers for symbols, what the graph reads like with them, and what is wrong with that:
    `doubts` count nodes first."""

    symbols: Mapping[str, int]
    reading: Imported
    misfits: list[Misfit]
    doubts: tuple[int, int, int]

    @property
    def wrong(self) -> set[int]:
        """The host's nodes that cannot be with these numbers."""
        return {*self.reading.refusals, *(misfit.host for misfit in self.misfits)}


@dataclass
class Solver:
    """Imports of one model, or of its first nodes, with numbers for its open extents."""

    graph: HostModel
    table: Table
    visits: int = 0  # of nodes
    fitting: set[int] = field(default_factory=set)  # nodes that some numbers suited

    @property
    def tired(self) -> bool:
        """Enough was tried."""
        return self.visits > max(READINGS * len(self.graph.nodes), VISITS)

    def solved(self, best: Guess) -> Guess:
        """The best guess near this one: one number changed after the other, while that helps."""
        hopeless: set[tuple[Any, ...]] = set()
        while misfit := next((m for m in best.misfits if m.kind not in hopeless), None):
            if self.tired:
                break
            better = self._mended(best, misfit)
            if better is None:
                hopeless.add(misfit.kind)
            best = better or best
        return best

    def guess(self, symbols: Mapping[str, int], nodes: int | None = None) -> Guess:
        """The graph with these numbers, or its first nodes; names that are expressions of others
        follow them."""
        followed = {name: value(name, symbols) for name in symbols if not name.isidentifier()}
        whole = {**symbols, **{name: n for name, n in followed.items() if n is not None}}
        visited = self.graph.nodes[:nodes]
        self.visits += len(visited)
        part = replace(self.graph, nodes=visited)
        reading = import_(part, self.table, Facts(symbols=whole))
        misfits = list(misfits_of(reading))
        huge = sum(prod(tensor.shape) > HUGE for tensor in reading.graph.tensors.values())
        refused = len(reading.refusals.keys() - reading.unfit)
        differing = sum(misfit.unlike for misfit in misfits)
        doubts = refused + len(misfits) + huge, differing, reading.contradictions
        found = Guess(whole, reading, misfits, doubts)
        self.fitting.update({node.id for node in visited} - found.wrong)
        return found

    def _mended(self, guess: Guess, misfit: Misfit) -> Guess | None:
        """A better guess where this node is none. Changes are tried up to the node first."""
        place = next(k for k, node in enumerate(self.graph.nodes) if node.id == misfit.host)
        needed, there = self._open_extents(place), self.guess(guess.symbols, place + 1)
        free = [name for name in reversed([*guess.symbols]) if name in needed]
        for symbols in islice(changes(guess.symbols, free, misfit.numbers), TRIALS):
            if self.tired:
                return None
            near = self.attempt(symbols, place + 1)
            if near and near.doubts < there.doubts:
                other = self.attempt(symbols)
                if other and other.doubts < guess.doubts:
                    return other
        return None

    def attempt(self, symbols: Mapping[str, int], nodes: int | None = None) -> Guess | None:
        """Like `guess`; None where a defect of ours shows with numbers that no run may have."""
        try:
            return self.guess(symbols, nodes)
        except Exception as error:
            defect(error, "Imported")
            return None

    def _open_extents(self, place: int) -> set[int | str]:
        """The open extents of the graph's inputs that a node's own inputs are made of."""
        wanted = set(self.graph.nodes[place].reads)
        for node in reversed(self.graph.nodes[:place]):
            if wanted.intersection(node.writes):
                wanted.update(node.reads)
        shapes = [self.graph.values[n].shape for n in wanted.intersection(self.graph.inputs)]
        return {extent for shape in shapes for extent in shape or ()}


def misfits_of(reading: Imported) -> Iterator[Misfit]:
    """In order of execution."""
    graph, target = reading.graph, Target()
    for node in graph.nodes:
        refusal = reading.refusals.get(node.id)
        if refusal is not None and node.id not in reading.unfit:
            continue
        reason = refusal or support.support(graph, node, target)
        if reason is None:
            continue
        seen = [graph.tensors[t] for t in node.reads]
        numbers = {extent for tensor in seen for extent in tensor.shape if extent > 0}
        for tensor in seen:
            data = tensor.data
            if data is not None and data.dtype.kind == "i" and data.size <= MAX_KNOWN_ELEMENTS:
                listed = [int(n) for n in data.reshape(-1)]
                numbers.update(n for n in (*listed, sum(listed)) if 0 < n < HUGE)
        given = tuple((len(tensor.shape), tensor.data is None) for tensor in seen)
        kind = (node.host_op, re.sub(r"\d+|'[^']*'", "", reason), given)
        largest_first = tuple(sorted(numbers, reverse=True))
        yield Misfit(node.sources[0], kind, largest_first, unlike([t.shape for t in seen]))


def unlike(shapes: Sequence[Shape]) -> int:
    """Pairs of extents that differ, axes counted from the right."""
    aligned = (zip(a[::-1], b[::-1], strict=False) for a, b in combinations(shapes, 2))
    return sum(m != n for pairs in aligned for m, n in pairs)


def changes(
    symbols: Mapping[str, int], free: Sequence[str], numbers: tuple[int, ...]
) -> Iterator[dict[str, int]]:
    """The symbols with others of the `free` ones' numbers, each of these once."""
    tried = [dict(symbols)]
    for change in _changes(symbols, free, numbers):
        changed = {**symbols, **change}
        if changed not in tried:
            tried.append(changed)
            yield changed


def _changes(
    symbols: Mapping[str, int], free: Sequence[str], numbers: tuple[int, ...]
) -> Iterator[dict[str, int]]:
    """One that is an extent which the node sees becomes another one, or all that are alike do; one
    is changed by as much as two extents differ; or two become what the node sees."""
    seen = [name for name in free if symbols[name] in numbers]
    for wanted in numbers:
        yield from ({name: wanted} for name in seen)
    for wanted, held in product(numbers, numbers):
        yield {name: wanted for name in seen if symbols[name] == held}
    for held, wanted in permutations(numbers, 2):
        shifted = {name: symbols[name] + wanted - held for name in free}
        yield from ({name: number} for name, number in shifted.items() if number > 0)
    for pair in combinations(seen, 2):
        yield from (dict(zip(pair, wanted, strict=True)) for wanted in permutations(numbers, 2))


# ---- first guesses -------------------------------------------------------------------------------


def opened(model: HostModel, table: Table) -> tuple[Imported, bool]:
    """The model with the best guess at its open extents; and whether a run may have other
    shapes."""
    shapes = (value.shape or () for value in model.values.values())
    if not any(isinstance(extent, str) for shape in shapes for extent in shape):
        found = import_(model, table, Facts())
        counted = any(tensor.counted for tensor in found.graph.tensors.values())
        return found, found.contradictions > 0 or bool(found.run_values) or counted
    solver = Solver(model, table)
    best = solve(solver)
    return replace(best.reading, guessed=frozenset(solver.fitting & best.wrong)), True


def solve(solver: Solver) -> Guess:
    """The best guess at the open extents of the solver's graph. Raises what all guesses raise."""
    found = names(solver.graph)
    best = _best(solver, _guesses(found, SIZES))
    if best is None or best.doubts[0]:
        both = [best, _best(solver, _guesses(found, LAST))]
        best = min(filter(None, both), key=DOUBTS, default=None)
    return best or solver.guess(next(_guesses(found, LAST)))


def _likely(name: str, axis: int, rank: int, size: int) -> int:
    """A number for an extent by its name and place, with a usual size."""
    if "batch" in name.lower() or axis == 0:
        return 1
    return COLOURS if rank == 4 and axis == 1 else size


def _best(solver: Solver, guesses: Iterable[Mapping[str, int]]) -> Guess | None:
    """The first guess without doubts, as it is or solved; else that with the fewest; None where
    there is none."""
    plain = [*until_fit(filter(None, map(solver.attempt, guesses)), _wrong)]
    if plain and not _wrong(plain[-1]):
        return plain[-1]
    near = sorted(plain, key=DOUBTS)[:SOLVED]
    return min(until_fit(map(solver.solved, near), _wrong), key=DOUBTS, default=None)


def until_fit(found: Iterable[T], wrong: Callable[[T], Any]) -> Iterator[T]:
    """Yields what was found up to the first that has nothing wrong."""
    for one in found:
        yield one
        if not wrong(one):
            return


def _wrong(guess: Guess) -> int:
    return guess.doubts[0]


def names(graph: HostModel) -> dict[str, tuple[int, int]]:
    """Open extents of the inputs, with the (axis, rank) of the first that has them."""
    found: dict[str, tuple[int, int]] = {}
    for name in graph.inputs:
        shape = graph.values[name].shape or ()
        for axis, extent in enumerate(shape):
            if isinstance(extent, str):
                found.setdefault(extent, (axis, len(shape)))
    return found


def _guesses(
    found: Mapping[str, tuple[int, int]], sizes: Sequence[int]
) -> Iterator[dict[str, int]]:
    made: list[dict[str, int]] = []
    for size in sizes:
        guess = {name: _likely(name, *place, size) for name, place in found.items()}
        if guess not in made:
            made.append(guess)
            yield guess
