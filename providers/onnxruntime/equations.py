"""Numbers for open extents that make a graph's shapes go together.

Which numbers those are, the graph itself tells: a reading whose shapes do not go together is read
again with one number changed, so that it becomes what the node that failed has beside it. Nothing
here knows an operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice, permutations
from math import prod
from typing import Any

from tflgpu_plugin.errors import defect
from tflgpu_plugin.frontend import support
from tflgpu_plugin.ir.graph import KNOWN, Shape
from tflgpu_plugin.ir.target import Target

from .reader import Reading, read
from .snapshot import Extent, Snapshot
from .symbols import HUGE, value

TRIALS = 40  # readings for one kind of misfit
READINGS = 24  # of one graph: whole ones, or more of its first nodes
VISITS = 3000  # of nodes, which any graph may have
SMALL = 16  # elements of a known input whose values may be extents


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
    reading: Reading
    misfits: list[Misfit]
    doubts: tuple[int, int, int]

    @property
    def wrong(self) -> set[int]:
        """The host's nodes that cannot be with these numbers."""
        return {*self.reading.refused, *(misfit.host for misfit in self.misfits)}


@dataclass
class Solver:
    """Readings of one snapshot."""

    snapshot: Snapshot
    visits: int = 0  # of nodes
    fitting: set[int] = field(default_factory=set)  # nodes that some numbers suited

    @property
    def tired(self) -> bool:
        """Enough was tried."""
        return self.visits > max(READINGS * len(self.snapshot.nodes), VISITS)

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
        part = replace(self.snapshot, nodes=self.snapshot.nodes[:nodes])
        self.visits += len(part.nodes)
        reading = read(part, {}, whole)
        misfits = list(_misfits(reading))
        huge = sum(prod(tensor.shape) > HUGE for tensor in reading.graph.tensors.values())
        refused = len(reading.refused.keys() - reading.unfit)
        unlike = sum(misfit.unlike for misfit in misfits)
        doubts = refused + len(misfits) + huge, unlike, reading.contradictions
        found = Guess(whole, reading, misfits, doubts)
        self.fitting.update({node.id for node in part.nodes} - found.wrong)
        return found

    def _mended(self, guess: Guess, misfit: Misfit) -> Guess | None:
        """A better guess where this node is none. Changes are tried up to the node first."""
        place = next(k for k, node in enumerate(self.snapshot.nodes) if node.id == misfit.host)
        behind, there = self._behind(place), self.guess(guess.symbols, place + 1)
        free = [name for name in reversed([*guess.symbols]) if name in behind]
        for symbols in islice(_changes(guess.symbols, free, misfit.numbers), TRIALS):
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
            defect(error, "Reading")
            return None

    def _behind(self, place: int) -> set[Extent]:
        """The open extents of the graph's inputs that a node's own inputs are made of."""
        wanted = set(self.snapshot.nodes[place].reads)
        for node in reversed(self.snapshot.nodes[:place]):
            if wanted.intersection(node.writes):
                wanted.update(node.reads)
        shapes = [self.snapshot.values[n].shape for n in wanted.intersection(self.snapshot.inputs)]
        return {extent for shape in shapes for extent in shape or ()}


def _misfits(reading: Reading) -> Iterator[Misfit]:
    """In order of execution."""
    graph, target = reading.graph, Target()
    for node in graph.nodes:
        if node.op == KNOWN or (node.refusal is not None and node.id not in reading.unfit):
            continue
        reason = support.support(graph, node, target)
        if reason is None:
            continue
        seen = [graph.tensors[t] for t in node.reads]
        numbers = {extent for tensor in seen for extent in tensor.shape if extent > 0}
        for tensor in seen:
            data = tensor.data
            if data is not None and data.dtype.kind == "i" and data.size <= SMALL:
                listed = [int(n) for n in data.reshape(-1)]
                numbers.update(n for n in (*listed, sum(listed)) if 0 < n < HUGE)
        given = tuple((len(tensor.shape), tensor.data is None) for tensor in seen)
        kind = (node.host_op, re.sub(r"\d+|'[^']*'", "", reason), given)
        largest_first = tuple(sorted(numbers, reverse=True))
        yield Misfit(node.sources[0], kind, largest_first, _unlike([t.shape for t in seen]))


def _unlike(shapes: Sequence[Shape]) -> int:
    """Pairs of extents that differ, axes counted from the right."""
    aligned = (zip(a[::-1], b[::-1], strict=False) for a, b in combinations(shapes, 2))
    return sum(m != n for pairs in aligned for m, n in pairs)


def _changes(
    symbols: Mapping[str, int], free: Sequence[str], numbers: tuple[int, ...]
) -> Iterator[dict[str, int]]:
    """The symbols with others of the `free` ones' numbers, each of these once: one that is an
    extent which the node sees becomes another one, or all that are alike do; one is changed by as
    much as two extents differ; or two become what the node sees."""
    tried = [dict(symbols)]
    ways = (_exact, _shifts, _pairs)
    for change in chain.from_iterable(way(symbols, free, numbers) for way in ways):
        changed = {**symbols, **change}
        if changed not in tried:
            tried.append(changed)
            yield changed


def _exact(
    symbols: Mapping[str, int], free: Sequence[str], numbers: tuple[int, ...]
) -> Iterator[dict[str, int]]:
    seen = [name for name in free if symbols[name] in numbers]
    for wanted in numbers:
        yield from ({name: wanted} for name in seen)
    for wanted in numbers:
        for held in numbers:
            yield {name: wanted for name in seen if symbols[name] == held}


def _shifts(
    symbols: Mapping[str, int], free: Sequence[str], numbers: tuple[int, ...]
) -> Iterator[dict[str, int]]:
    for held, wanted in permutations(numbers, 2):
        changes = ({name: symbols[name] + wanted - held} for name in free)
        yield from (change for change in changes if min(change.values()) > 0)


def _pairs(
    symbols: Mapping[str, int], free: Sequence[str], numbers: tuple[int, ...]
) -> Iterator[dict[str, int]]:
    seen = [name for name in free if symbols[name] in numbers]
    for pair in combinations(seen, 2):
        yield from (dict(zip(pair, wanted, strict=True)) for wanted in permutations(numbers, 2))
