"""Selects plans for a partition whose input shapes change from run to run.

Extents that are dynamic in the model, and those that differ between runs, become symbols, and a
plan is made with these symbols (a template, see `compile.template`). It also holds for other
shapes, without calling Python. Where a model has no dynamic extents, the first set of shapes gets a
plan for these shapes only. Integers of a run that decide shapes, such as the bounds of a slice,
become symbols if they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tflgpu_plugin import threads
from tflgpu_plugin.importer.model import HostExtent
from tflgpu_plugin.ir import Array, Shape
from tflgpu_plugin.ir.extent import EXTENTS, INTEGERS, Trace
from tflgpu_plugin.ir.heuristics import ExcludesOneError, assuming_one

if TYPE_CHECKING:
    from tflgpu_plugin.cache.plan_file import Stored
    from tflgpu_plugin.compile.template import Template

Flat = tuple[int, ...]  # for each input its rank and extents, then for each run value its numbers
Limits = Mapping[int, tuple[int, int]]  # least and largest value of a symbol, by its position
KEPT = 8  # how many templates, and shapes of earlier runs, are remembered
MARGIN = 4  # a buffer that is too small is made 1 / MARGIN larger than needed, ...
NARROW = 3  # after this many templates in a row that hold for few shapes, no more are made
SMALL = 1 << 25  # bytes of tensors for a few images up to which buffers also suffice for two
STEPS = 32  # ... or larger by this many steps, if it grows in small steps


def flat(shapes: Sequence[Shape]) -> list[int]:
    """Returns the rank of each shape, followed by its extents."""
    return [number for shape in shapes for number in (len(shape), *shape)]


def parted(numbers: Sequence[int]) -> tuple[Shape, ...]:
    """Returns the lists that `flat` joined."""
    found, at = list[Shape](), 0
    while at < len(numbers):
        found.append(tuple(numbers[at + 1 : at + 1 + numbers[at]]))
        at += 1 + numbers[at]
    return tuple(found)


class Lists:
    """The lists of numbers that select a plan (shapes, then values of a run), as parts of one flat
    list."""

    def __init__(self, given: Sequence[Shape]) -> None:
        self.flat = tuple(flat(given))
        ends = accumulate((1 + len(each) for each in given), initial=0)
        self.parts = [(start + 1, end) for start, end in pairwise(ends)]

    def of(self, numbers: Flat) -> tuple[Shape, ...]:
        """Returns other lists of the same lengths, from their flat list."""
        return tuple(numbers[start:end] for start, end in self.parts)

    def limits(self, values: Collection[Array]) -> Limits:
        """Returns the limits of symbols by position. The last lists are numbers of `values`, of
        which integers may be symbols."""
        numbers = [INTEGERS if value.dtype.kind == "i" else None for value in values]
        held = [*[EXTENTS] * (len(self.parts) - len(numbers)), *numbers]
        pairs = zip(held, self.parts, strict=True)
        return {k: ends for ends, (start, end) in pairs if ends for k in range(start, end)}

    def named(self, shapes: Sequence[tuple[HostExtent, ...] | None]) -> frozenset[int]:
        """Returns the positions, in the flat list, of extents that are a name instead of a number
        in these shapes. The shapes are those of the first lists."""
        pairs = zip(shapes, self.parts, strict=False)
        return frozenset(
            k
            for shape, (start, end) in pairs
            for k, extent in zip(range(start, end), shape or (), strict=False)
            if isinstance(extent, str)
        )


def _lists(numbers: Flat) -> list[int]:
    """Returns for each position in a flat list the position at which its tensor, or run value,
    begins."""
    found: list[int] = []
    while len(found) < len(numbers):
        found += [len(found)] * (1 + numbers[len(found)])
    return found


@dataclass
class Symbolic:
    """A template made for the shapes `made`. Its symbols are at `places`: (position in the flat
    list, symbol). Its buffers suffice for each of `rooms`, which are values of the symbols, the
    newest first. `newest` are the values of the latest run that needed a plan. `built`: a plan of
    the template has been built. `stored`: a cache has the template."""

    made: Flat
    places: tuple[tuple[int, int], ...]
    template: Template
    rooms: list[dict[int, int]]
    newest: dict[int, int]
    stored: bool = False
    built: bool = False

    @property
    def symbols(self) -> dict[int, int]:
        """Returns the values that the symbols have for the shapes `made`."""
        return {symbol: self.made[position] for position, symbol in self.places}

    def values(self, given: Flat) -> dict[int, int] | None:
        """Returns the values that the symbols have for these shapes; None if any other number
        differs from `made`."""
        found: dict[int, int] = {}
        at = dict(self.places)
        for position, (number, mine) in enumerate(zip(given, self.made, strict=False)):
            symbol = at.get(position)
            if number != (mine if symbol is None else found.setdefault(symbol, number)):
                return None
        return found if len(given) == len(self.made) else None

    def grown(self, values: dict[int, int]) -> None:
        """Reserves buffers for these values of the symbols, and for larger values of a symbol that
        has exceeded its earlier ones."""
        wide, self.newest = dict(values), values
        for symbol, value in values.items():
            step = value - max(room[symbol] for room in self.rooms)
            if 0 < 2 * MARGIN * step <= value:  # there cannot be many larger steps
                small = STEPS * step <= max(value, STEPS)
                wide[symbol] = value + max(value // MARGIN, STEPS * step if small else 0)
        others = (room for room in self.rooms if any(room[k] > n for k, n in wide.items()))
        self.rooms = [wide, values, *others][: 2 * KEPT]  # sizes may also fall with a symbol

    def shrink(self) -> None:
        """Reserves buffers for the newest values only; called when the others need too much
        memory."""
        self.rooms = [self.newest]


def symbols(
    given: Flat, names: Mapping[int, Hashable], limits: Limits, trace: Trace,
    unit: Hashable = None,
) -> tuple[Flat, tuple[tuple[int, int], ...]]:  # fmt: skip
    """Returns these numbers with symbols of the trace, and their places (position, symbol). There
    is one symbol for all positions of a name whose numbers are within the limits. The extent of the
    name `unit` may also be 1."""
    numbers, found, places = list(given), dict[Hashable, int](), list[tuple[int, int]]()
    for position, name in names.items():
        low, high = limits[position]
        number, is_unit = given[position], name == unit
        if (1 if is_unit else low) <= number <= high:
            symbol = found.setdefault((name, number), len(found))
            numbers[position] = (
                trace.unit(symbol, number) if is_unit else trace.symbol(symbol, number, low, high)
            )
            places.append((position, symbol))
    return tuple(numbers), tuple(places)


def _batch(names: Mapping[int, Hashable], limits: Limits, numbers: Flat) -> Hashable:
    """Returns the name of the first extent of a tensor, usually the batch; None if there is none.
    It may be 1 in some runs and larger in others, like no other extent."""
    lists = _lists(numbers)
    places = (k for k in names if limits[k] == EXTENTS and lists[k] == k - 1 and numbers[k - 1] > 1)
    return next((names[k] for k in places if numbers[k] > 0), None)


def _names(runs: Sequence[Flat], positions: Collection[int]) -> dict[int, Hashable]:
    """Returns, for the position of each number, a name that equal symbols have in common: the
    numbers of all runs at the position, and how many extents of the same tensor before it had the
    same numbers."""
    lists, found = _lists(runs[0]), dict[int, Hashable]()
    before = Counter[tuple[Flat, int]]()
    for k in sorted(positions):
        numbers = tuple(one[k] for one in runs)
        found[k] = numbers, before[numbers, lists[k]]
        before[numbers, lists[k]] += 1
    return found


@dataclass
class Reshaping:
    """The templates of a partition, and the shapes of its earlier runs (`seen`). `open` holds the
    positions in the flat list at which runs differed. `narrow` counts the latest consecutive
    templates that could not be made or hold for a single value of an extent, `failed` those that
    could not be built. `pinned` counts, for the position of each run value, the latest consecutive
    templates that hold for a single value there: such a number may be an axis. `stored` are the
    plans in a cache or a compiled model that hold for a single set of shapes, None before they are
    looked up. `declared` holds the positions of extents that are dynamic in the model."""

    declared: frozenset[int] = frozenset()
    seen: list[Flat] = field(default_factory=list)
    found: list[Symbolic] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    pinned: Counter[int] = field(default_factory=Counter)
    narrow: int = 0
    failed: int = 0
    with_one: bool = True  # whether plans for a batch of 1 may hold for others
    stored: dict[Flat, Stored] | None = None
    lock: Any = field(default_factory=threads.RLock, repr=False)

    def of(
        self, given: Flat, limits: Limits, make: Callable[[Flat, Trace], Template]
    ) -> Symbolic | None:
        """Returns a template for these shapes. Returns None where there is nothing that could
        become a symbol, or no template can be made. Positions that have `limits` may become
        symbols. `make` makes a template for shapes that contain symbols; it may raise any error."""
        with self.lock:
            limits = {k: ends for k, ends in limits.items() if self.pinned[k] < NARROW}
            others = [one for one in self.seen if one != given]
            alike = [one for one in others if self._differ(one, given) <= limits.keys()]
            for one in alike:
                self.open |= self._differ(one, given)
            self.seen = [given, *others][:KEPT]
            for symbolic in self.found:
                values = symbolic.values(given)
                if values is not None and symbolic.template.fits(values):
                    symbolic.grown(values)
                    return symbolic
            if (
                not (alike or self.declared & limits.keys())
                or max(self.narrow, self.failed) >= NARROW
            ):
                return None
            return self._made(given, alike, limits, make)

    def recall(self, exact: dict[Flat, Stored], templates: Sequence[Symbolic]) -> None:
        """Adds stored plans and templates, and treats their shapes as those of earlier runs."""
        self.stored, self.found = exact, [*templates[:KEPT]]
        self.seen = [*exact, *(one.made for one in templates)][:KEPT]

    def drop(self, symbolic: Symbolic) -> None:
        """Forgets a template that cannot be built, or not for some shapes, so that others need
        another one: what a template has in host memory may suffice for no second build."""
        with self.lock:
            self.found = [one for one in self.found if one is not symbolic]
            self.failed += not symbolic.built

    def _differ(self, one: Flat, other: Flat) -> set[int]:
        """Returns the positions at which two lists differ; {-1} for lists of different lengths."""
        if len(one) != len(other):
            return {-1}
        return {k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}

    def _made(
        self, given: Flat, alike: list[Flat], limits: Limits,
        make: Callable[[Flat, Trace], Template],
    ) -> Symbolic | None:  # fmt: skip
        """Makes and returns a new template. Numbers that were equal in all runs share a symbol,
        except axes of one tensor: a picture may be a square by chance."""
        runs = given, *alike
        # Where a template holds for few shapes, the next has only symbols that runs have changed.
        opened = self.open if self.narrow else self.open | self.declared
        names = _names(runs, opened & limits.keys())
        if self.with_one and (unit := _batch(names, limits, given)) is not None:
            try:
                return self._traced(given, runs, names, limits, make, unit)
            except ExcludesOneError:
                self.with_one = False
        return self._traced(given, runs, names, limits, make)

    def _traced(
        self, given: Flat, runs: Sequence[Flat], names: Mapping[int, Hashable], limits: Limits,
        make: Callable[[Flat, Trace], Template], unit: Hashable = None,
    ) -> Symbolic | None:  # fmt: skip
        """Makes and returns a new template whose symbols have these names. Raises ExcludesOneError
        if it cannot hold for a `unit` of 1."""
        trace = Trace()
        numbers, places = symbols(given, names, limits, trace, unit)
        if not places:
            return None
        rooms = [{symbol: one[position] for position, symbol in places} for one in runs]
        values = {position: symbol for position, symbol in places if limits[position] != EXTENTS}
        try:
            with assuming_one(any(names[k] == unit and given[k] == 1 for k, _ in places)):
                template = make(numbers, trace)
        except Exception:
            self._count(True, values)
            raise
        found = trace.pinned
        self._count(bool(trace.fixed), [k for k, symbol in values.items() if symbol in found])
        units = {symbol for k, symbol in places if names[k] == unit and given[k] == 1}
        if units and template.plan.least_bytes <= SMALL:
            rooms.append({**rooms[0], **dict.fromkeys(units, 2)})
        made = Symbolic(given, places, template, rooms, rooms[0])
        self.found = [made, *self.found][:KEPT]
        return made

    def _count(self, narrow: bool, pinned: Collection[int]) -> None:
        """Updates the counters after a template was made, or could not be: `narrow` if it holds for
        few shapes, and `pinned` for these positions of run values."""
        self.narrow = self.narrow + 1 if narrow and not pinned else 0
        given_up = {k: count for k, count in self.pinned.items() if count >= NARROW}
        self.pinned = Counter(given_up | {k: 1 + self.pinned[k] for k in pinned})
