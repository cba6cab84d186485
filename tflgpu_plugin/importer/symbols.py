"""Chooses example numbers for the extents that are dynamic in a model, so that it can be planned
before a run. A run with other shapes gets its own plan.

An *unknown* is an extent of an input that has a name instead of a number: the model's own name in
ONNX, one from the snapshot in TFLite. Its candidates follow from its name, its axis, the host's
current number (`present`, TFLite only) and a usual size. A *guess* assigns a number to each
unknown. The model is imported with these numbers; nodes that cannot run with them, but might with
others, are *conflicts*.

All hosts share one search: it tries the present numbers, then the usual sizes in order, all
unknowns at once, and stops at the first guess without conflicts. If there is none, and there are no
present numbers either, it improves the guesses of the lowest cost: it changes a number to an extent
that a conflicting node sees, imports again, and keeps the change if the cost decreases. If a
refused node can run with another guess, its reason says for which shapes it holds. Nothing here
depends on an operator or a host.

Inputs whose values decide shapes have one candidate each, which `likely` derives from the operand's
role and the guessed shapes when the importer asks for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, islice, permutations, product
from math import prod
from operator import attrgetter
from typing import Any

from tflgpu_plugin.errors import defect
from tflgpu_plugin.importer.expressions import HUGE, value
from tflgpu_plugin.importer.imported import Facts, Imported, Table
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostModel
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import Shape, code_of
from tflgpu_plugin.ir.symbolic import is_integer

COLOR_CHANNELS = 3
# Usual sizes: common image sizes and lengths, one with many divisors, then lengths for larger and
# larger windows.
SIZES = (224, 64, 320, 640, 512, 32, 16, 7, 60, *(1 << k for k in range(11, 18, 2)))
FALLBACK_SIZES = (2, 1)  # often possible where no usual size is
MAX_IMPROVED = 4  # guesses of the lowest cost that are improved
MAX_CHANGES = 40  # changes that are tried for one conflict
VISITS_PER_NODE = 24  # imported nodes at most, over all guesses, per node of the graph, ...
MIN_VISIT_LIMIT = 3000  # ... or this many for small graphs
MAX_KNOWN_ELEMENTS = 16  # elements of a known input whose values may be extents
OF_SHAPES = ("shape.", "constant.invalid", "device.limit")  # codes that depend on extents
GUESSED = "With the sizes guessed for its dynamic extents: "

COST = attrgetter("cost")


@dataclass(frozen=True)
class Unknown:
    """An open extent: the first input axis that has it, the input's rank, and the host's present
    number (0: none)."""

    name: str
    axis: int
    rank: int
    present: int = 0

    @property
    def may_be_channels(self) -> bool:
        """Whether the extent can be the number of colour channels of an image."""
        return self.rank == 4 and self.axis == 1 and not self.present


@dataclass(frozen=True)
class Conflict:
    """A node that cannot run with the guessed numbers, but might with others. `host` is the id of
    the host's node, `kind` is equal for nodes that fail in the same way, `numbers` are the extents
    of its inputs, largest first, `given` the integers among its attributes, one of which may be an
    extent, and `differences` is the result of `count_differences` for the inputs."""

    host: int
    kind: tuple[Any, ...]
    numbers: tuple[int, ...]
    given: tuple[int, ...]
    differences: int


@dataclass
class Guess:
    """Numbers for unknowns, the model imported with them, and its conflicts. `cost` orders guesses:
    (nodes that cannot run and tensors that are too large, extents on which the inputs of conflicts
    differ, shapes that contradict the host's)."""

    symbols: Mapping[str, int]
    imported: Imported
    conflicts: list[Conflict]
    fits: bool
    cost: tuple[int, int, int]


@dataclass
class Solver:
    """Searches for numbers of a model's unknowns by importing the model, or its first nodes, with
    candidates."""

    graph: HostModel
    table: Table
    judge: Judge | None = None
    visits: int = 0  # nodes imported so far, over all guesses
    fitting: set[int] = field(default_factory=set)  # host nodes that can run with some guess

    @cached_property
    def unknowns(self) -> dict[str, Unknown]:
        """Returns the dynamic extents of the inputs, by name."""
        found: dict[str, Unknown] = {}
        for key in self.graph.inputs:
            shape = self.graph.values[key].shape or ()
            for axis, name in enumerate(shape):
                if isinstance(name, str):
                    present = self.graph.present.get(name, 0)
                    found.setdefault(name, Unknown(name, axis, len(shape), present))
        return found

    def is_batch(self, one: Unknown) -> bool:
        """Whether the extent is a batch: the first of several, or named so."""
        several = any(other.rank > 1 for other in self.unknowns.values())
        return "batch" in one.name.lower() or (several and one.axis == 0)

    @property
    def is_over_budget(self) -> bool:
        """Whether the search has imported as many nodes as its limit allows."""
        return self.visits > max(VISITS_PER_NODE * len(self.graph.nodes), MIN_VISIT_LIMIT)

    def best(self, sizes: Sequence[int], *given: Guess) -> Guess | None:
        """Returns the first guess that fits: one of the given guesses, or of those by size and,
        without given ones, their improvements. If none fits, returns the one of the lowest cost;
        None if there is none."""
        more = filter(None, map(self.attempt, self.by_size(sizes)))
        tried = [*until_fit(chain(given, more))]
        if tried and tried[-1].fits:
            return tried[-1]
        if given:
            return min(tried, key=COST)
        near = sorted(tried, key=COST)[:MAX_IMPROVED]
        return min(until_fit(map(self.improved, near)), key=COST, default=None)

    def by_size(self, sizes: Sequence[int]) -> Iterator[dict[str, int]]:
        """Yields one guess per item of `sizes` (a number for each unknown extent, usually that
        size), without duplicates."""
        made: list[dict[str, int]] = []
        for size in sizes:
            guess = {name: self._initial(one, size) for name, one in self.unknowns.items()}
            if guess not in made:
                made.append(guess)
                yield guess

    def _initial(self, one: Unknown, size: int) -> int:
        """Returns a number for the extent by its name and axis, or else this usual size."""
        if self.is_batch(one):
            return one.present or 1
        return COLOR_CHANNELS if one.may_be_channels else max(one.present, size)

    def improved(self, best: Guess) -> Guess:
        """Returns the guess after changes of single numbers, each of which reduces its cost."""
        unresolved: set[tuple[Any, ...]] = set()
        while conflict := next((m for m in best.conflicts if m.kind not in unresolved), None):
            if self.is_over_budget:
                break
            better = self._resolved(best, conflict)
            if better is None:
                unresolved.add(conflict.kind)
            best = better or best
        return best

    def guess(self, symbols: Mapping[str, int], nodes: int | None = None) -> Guess:
        """Imports the graph, or its first nodes, with these numbers; names that are expressions of
        others are evaluated."""
        followed = {name: value(name, symbols) for name in symbols if not name.isidentifier()}
        whole = {**symbols, **{name: n for name, n in followed.items() if n is not None}}
        visited = self.graph.nodes[:nodes]
        self.visits += len(visited)
        part = replace(self.graph, nodes=visited)
        facts = Facts(symbols={**self.graph.present, **whole}, judge=self.judge)
        return self.evaluated(whole, import_(part, self.table, facts))

    def evaluated(self, symbols: Mapping[str, int], imported: Imported) -> Guess:
        """Returns the guess whose numbers are `symbols`, for the model imported with them."""
        conflicts = list(conflicts_of(imported))
        huge = sum(prod(tensor.shape) > HUGE for tensor in imported.graph.tensors.values())
        wrong = {*imported.refusals, *(conflict.host for conflict in conflicts)}
        self.fitting.update({node.id for node in imported.model.nodes} - wrong)
        differing = sum(conflict.differences for conflict in conflicts)
        cost = len(wrong) + huge, differing, imported.contradictions
        fits = not (huge or conflicts or any(map(of_shape, imported.refusals.values())))
        return Guess(symbols, imported, conflicts, fits, cost)

    def _resolved(self, guess: Guess, conflict: Conflict) -> Guess | None:
        """Returns a guess of a lower cost, changed to resolve this conflict; None if there is none.
        Each change is first tried on the nodes up to the conflict."""
        index = next(k for k, node in enumerate(self.graph.nodes) if node.id == conflict.host)
        needed, there = self._open_extents(index), self.guess(guess.symbols, index + 1)
        free = [name for name in reversed([*guess.symbols]) if name in needed]
        for symbols in islice(changes(guess.symbols, free, conflict), MAX_CHANGES):
            if self.is_over_budget:
                return None
            near = self.attempt(symbols, index + 1)
            if near and near.cost < there.cost:
                other = self.attempt(symbols)
                if other and other.cost < guess.cost:
                    return other
        return None

    def attempt(self, symbols: Mapping[str, int], nodes: int | None = None) -> Guess | None:
        """Returns `guess`, or None if an input would be huge or the import fails with these
        numbers."""
        shapes = [self.graph.values[name].shape or () for name in self.graph.inputs]
        known = [[n if isinstance(n, int) else symbols[n] for n in shape] for shape in shapes]
        if sum(map(prod, known)) > HUGE:
            return None
        try:
            return self.guess(symbols, nodes)
        except Exception as error:
            defect(error, "Imported")
            return None

    def _open_extents(self, index: int) -> set[int | str]:
        """Returns the extents, names of dynamic ones among them, of the graph inputs that the node
        at index `index` depends on."""
        wanted = set(self.graph.nodes[index].reads)
        for node in reversed(self.graph.nodes[:index]):
            if wanted.intersection(node.writes):
                wanted.update(node.reads)
        shapes = [self.graph.values[n].shape for n in wanted.intersection(self.graph.inputs)]
        return {extent for shape in shapes for extent in shape or ()}


def until_fit(guesses: Iterable[Guess]) -> Iterator[Guess]:
    """Yields the guesses up to the first that fits."""
    for guess in guesses:
        yield guess
        if guess.fits:
            return


def of_shape(reason: str) -> bool:
    """Whether the refusal depends on extents, so that a guess with other extents might avoid it."""
    return code_of(reason).startswith(OF_SHAPES)


def conflicts_of(imported: Imported) -> Iterator[Conflict]:
    """Yields the conflicts in order of execution."""
    graph = imported.graph
    attributes = {node.id: node.attributes for node in imported.model.nodes}
    for node in graph.nodes:
        reason = imported.refusals.get(node.id, "")
        if node.id not in imported.shape_refused and not (
            node.id in imported.judged and of_shape(reason)
        ):
            continue
        seen = [graph.tensors[t] for t in node.reads]
        numbers = {extent for tensor in seen for extent in tensor.shape if extent > 0}
        for tensor in seen:
            data = tensor.data
            if data is not None and data.dtype.kind == "i" and data.size <= MAX_KNOWN_ELEMENTS:
                listed = [int(n) for n in data.reshape(-1)]
                numbers.update(n for n in (*listed, sum(listed)) if 0 < n < HUGE)
        ranks = tuple((len(tensor.shape), tensor.data is None) for tensor in seen)
        kind = (node.host_op, re.sub(r"\d+|'[^']*'", "", reason), ranks)
        host = node.sources[0]
        integers = {n for n in attributes[host].values() if is_integer(n) and 1 < n < HUGE}
        extents, given = (tuple(sorted(each, reverse=True)) for each in (numbers, integers))
        yield Conflict(host, kind, extents, given, count_differences([t.shape for t in seen]))


def count_differences(shapes: Sequence[Shape]) -> int:
    """Returns how many pairs of extents differ, over all pairs of shapes aligned from the right."""
    aligned = (zip(a[::-1], b[::-1], strict=False) for a, b in combinations(shapes, 2))
    return sum(m != n for pairs in aligned for m, n in pairs)


def changes(
    symbols: Mapping[str, int], free: Sequence[str], conflict: Conflict
) -> Iterator[dict[str, int]]:
    """Yields the symbols with the numbers of some `free` ones changed, without duplicates."""
    tried = [dict(symbols)]
    for change in _changes(symbols, free, conflict.numbers, conflict.given):
        changed = {**symbols, **change}
        if changed not in tried:
            tried.append(changed)
            yield changed


def _changes(
    symbols: Mapping[str, int],
    free: Sequence[str],
    numbers: tuple[int, ...],
    given: tuple[int, ...],
) -> Iterator[dict[str, int]]:
    """Yields the symbols with changed numbers. `numbers` are the extents that the node sees. A
    symbol that equals one of them is set to another or to one of `given`, or together with all
    symbols of the same number to another; a symbol is increased by the difference of two of them;
    or two symbols are set to two of them."""
    seen = [name for name in free if symbols[name] in numbers]
    for wanted in (*numbers, *given):
        yield from ({name: wanted} for name in seen)
    for wanted, held in product(numbers, numbers):
        yield {name: wanted for name in seen if symbols[name] == held}
    for held, wanted in permutations(numbers, 2):
        shifted = {name: symbols[name] + wanted - held for name in free}
        yield from ({name: number} for name, number in shifted.items() if number > 0)
    for pair in combinations(seen, 2):
        yield from (dict(zip(pair, wanted, strict=True)) for wanted in permutations(numbers, 2))


# ---- a model whose extents are dynamic -----------------------------------------------------------


def import_dynamic(model: HostModel, table: Table, judge: Judge | None = None) -> Imported:
    """Imports a model with the best guess for its dynamic extents."""
    shapes = (value.shape or () for value in model.values.values())
    if not any(isinstance(extent, str) for shape in shapes for extent in shape):
        return import_(model, table, Facts(judge=judge))
    if model.present:
        return _import_present(model, table, judge)
    solver = Solver(model, table, judge)
    best = solver.best(SIZES)
    if best is None or not best.fits:
        both = [best, solver.best(FALLBACK_SIZES)]
        best = min(filter(None, both), key=COST, default=None)
    best = best or solver.guess(dict.fromkeys(solver.unknowns, 1))
    return replace(prefixed(best.imported, solver.fitting, GUESSED), open=True)


def _import_present(model: HostModel, table: Table, judge: Judge | None) -> Imported:
    """Imports a model in the host's present shapes, or in larger ones if something does not fit
    these or they are placeholders. Then refuses nodes that the CPU can run in the present shapes
    but the GPU cannot."""
    stated = import_(model, table, Facts(symbols=model.present, judge=judge))
    if not (model.tells_open or stated.shape_refused):
        return stated
    solver = Solver(model.loosened(model.inputs), table, judge)
    symbols = {name: one.present for name, one in solver.unknowns.items()}
    now = solver.guess(symbols) if model.tells_open else solver.evaluated(symbols, stated)
    holds = any(one.present == 1 and not solver.is_batch(one) for one in solver.unknowns.values())
    best = solver.best(SIZES, replace(now, fits=now.fits and not holds)) or now
    if now.fits and not holds and stated.refusals:
        solver.attempt(next(solver.by_size(SIZES)))  # finds nodes refused for these shapes only
    said = f"With the present shape {_open_shapes(solver.graph, now)}: "
    if best.symbols == now.symbols:
        return prefixed(stated, solver.fitting, said) if model.tells_open else stated
    larger = best.imported
    if now.conflicts:
        return larger
    again = {
        node: reason.reworded(said + reason)
        for node, reason in now.imported.refusals.items()
        if larger.refusals.get(node) is None
        or (node in larger.judged and larger.refusals[node] != reason)
    }
    return replace(larger, refusals={**larger.refusals, **again})


def prefixed(imported: Imported, nodes: Collection[int], prefix: str) -> Imported:
    """Returns the import with this prefix added to the refusals of these nodes of the host."""
    reasons = {
        node.id: imported.refusals[node.id]
        for node in imported.graph.nodes
        if node.id in imported.refusals and node.sources[0] in nodes
    }
    begun = {node: reason.reworded(prefix + reason) for node, reason in reasons.items()}
    return replace(imported, refusals={**imported.refusals, **begun})


def _open_shapes(graph: HostModel, guess: Guess) -> str:
    """Returns the inputs with dynamic extents and their shapes, as text."""
    values = {key: graph.values[key] for key in graph.inputs}
    return " and ".join(
        f"{list(guess.imported.graph.tensors[guess.imported.ids[key]].shape)} of {value.name!r}"
        for key, value in values.items()
        if any(isinstance(extent, str) for extent in value.shape or ())
    )
