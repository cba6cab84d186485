"""A model of GPUs that predicts the cost of a dispatch from the assembly of their compilers: what
is the same for all instruction sets.

Instructions of each block, times the number of its executions, give the issue cycles of a
scheduler's waves and the bytes that a unit moves; and the time of one wave alone, which waits for
its loads. Constants that a dispatch reads are read from DRAM once. A dispatch takes the longest of
these. The model knows neither caches (all other tensors are taken to be in them), nor gaps between
dispatches, nor how waves of a scheduler overlap beyond that: it is good for order and ratios, not
for milliseconds. Instructions whose rate it does not know (of matrix units) are counted
as uncounted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import ceil, log
from typing import ClassVar

from benchmarks.compiled.rounds import Loop

LOADS, MAX_LOADED = ("load", "vector load", "scalar"), 16  # kinds; bytes of a lane
MAX_CHOICES, NEAR = 5000, 0.3  # of loops; of a logarithm of multiply-adds


@dataclass(frozen=True)
class Instruction:
    """An instruction of the compiled kernel. `slots`: the issue slots that it takes. `bytes`: the
    bytes that each lane moves. `products`: the multiply-adds that each lane does. `part`: 'mul' or
    'add' if it may be one half of a multiply-add that was not fused."""

    kind: str
    slots: float = 1
    bytes: float = 0
    products: int = 0
    part: str = ""


@dataclass(frozen=True)
class Code(ABC):
    """A compiled pipeline: the compiler's numbers, and its assembly. `REGISTERS` and `SPILLS` are
    the compiler's names of these numbers; several are added."""

    REGISTERS: ClassVar[tuple[str, ...]]
    SPILLS: ClassVar[tuple[str, ...]]
    numbers: dict[str, int]
    assembly: str = field(repr=False)

    @property
    def lanes(self) -> int:
        return self.numbers["Lanes"]

    @property
    def registers(self) -> int:
        return sum(self.numbers[name] for name in self.REGISTERS)

    @property
    def spills(self) -> int:
        return sum(self.numbers[name] for name in self.SPILLS)

    @property
    @abstractmethod
    def waves(self) -> int:
        """Returns the waves that a scheduler holds at a time."""

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Sequence[Instruction]]:
        """Returns the basic blocks, those of a loop together."""

    @property
    @abstractmethod
    def loops(self) -> Sequence[tuple[int, int]]:
        """Returns the first and last block of each loop, in the order of the code, outer ones
        first."""

    def depths(self) -> list[int]:
        return [sum(c <= a and b <= d for c, d in self.loops) for a, b in self.loops]


@dataclass(frozen=True)
class Work:
    """The executions of each block, and how many waves run: in all, on a unit, on a scheduler."""

    runs: Sequence[int]
    waves: int
    per_unit: int
    per_scheduler: int

    def sums(self, code: Code, what: Callable[[Instruction], float]) -> dict[str, float]:
        """Returns the sum of something over a wave's instructions, by kind."""
        found: defaultdict[str, float] = defaultdict(float)
        for times, block in zip(self.runs, code.blocks, strict=True):
            for each in block:
                found[each.kind] += times * what(each)
        return found


@dataclass(frozen=True, kw_only=True)
class Gpu(ABC):
    """`units` (compute units, multiprocessors, Xe cores) at `ghz`, with this many `schedulers`
    each; `peak`: multiply-adds of a unit per cycle; `dram`: gigabytes per second, by the maker's
    specification of a card or chip with these units."""

    units: int
    ghz: float
    schedulers: int
    peak: int
    dram: float

    @abstractmethod
    def code(self, numbers: dict[str, int], assembly: str) -> Code: ...

    @abstractmethod
    def cycles(self, code: Code, work: Work) -> dict[str, float]:
        """Returns the cycles that each limit allows at best; the longest counts."""


@dataclass(frozen=True)
class Cost:
    """The cost of a dispatch: microseconds, what they are spent on, all waves, multiply-adds."""

    us: float
    bound: str
    waves: int
    products: float
    sure: bool  # the loops of the assembly are those of the kernel
    counted: bool = True  # the model knows all instructions


def cost(
    made: Code,
    gpu: Gpu,
    loops: Sequence[Loop],
    groups: int,
    threads: int,
    products: int | None = None,
    constants: int = 0,
) -> Cost:
    """Returns the cost of `groups` workgroups of this many threads, whose loops run as those of one
    thread, and which make this many multiply-adds, where that is known. `constants`: the bytes of
    constants that they may read."""
    if products is None:
        rounds, sure = _matched(made, loops)
        counts = [sum(each.products for each in block) for block in made.blocks]
    else:
        rounds, sure, counts = _fitting(made, loops, products)
    runs = _runs(made, rounds)
    of_lane = sum(times * count for times, count in zip(runs, counts, strict=True))
    of_group = ceil(threads / made.lanes)
    per_unit = ceil(groups / gpu.units) * of_group
    work = Work(runs, groups * of_group, per_unit, ceil(per_unit / gpu.schedulers))
    read = min(constants, work.waves * _loads(made, work) * made.lanes * MAX_LOADED)
    cycles = gpu.cycles(made, work) | {"DRAM": read / gpu.dram * gpu.ghz}
    bound = max(cycles, key=lambda name: cycles[name])
    counted = all(each.kind != "uncounted" for block in made.blocks for each in block)
    us = cycles[bound] / gpu.ghz / 1e3
    return Cost(us, bound, work.waves, of_lane * threads * groups, sure, counted)


def _loads(made: Code, work: Work) -> float:
    """Returns the loads that a wave executes."""
    executed = work.sums(made, lambda _: 1)
    return sum(count for kind, count in executed.items() if kind in LOADS)


def alone(made: Code, runs: Sequence[int], take: Callable[[Sequence[Instruction]], float]) -> float:
    """Returns the cycles of one wave, where `take` runs a block. Loops are simulated for two
    iterations: the second one waits for the loads of the first as all later ones do."""
    taken = [0.0] * len(made.blocks)

    def walk(first: int, last: int, inside: int) -> None:
        k = first
        while k <= last:
            ends = [end for start, end in made.loops[inside:] if start == k and end <= last]
            if ends:
                place = made.loops.index((k, ends[0]))
                for _ in range(2):
                    walk(k, ends[0], place + 1)
                k = ends[0] + 1
            else:
                taken[k] = take(made.blocks[k])
                k += 1

    walk(0, len(made.blocks) - 1, 0)
    return sum(times * cycles for times, cycles in zip(runs, taken, strict=True))


def _matched(made: Code, loops: Sequence[Loop]) -> tuple[list[int], bool]:
    """Returns the iterations of each loop of the assembly, which has the kernel's loops in their
    order except those that the compiler removed; and whether the match is unique."""
    depths = made.depths()
    if depths == [loop.depth for loop in loops]:
        return [loop.rounds for loop in loops], True
    waiting, found = list(loops), []
    for depth in depths:
        same = [loop for loop in waiting if loop.depth == depth] or [Loop(depth, 1, 1)]
        found.append(same[0].rounds)
        if same[0] in waiting:
            waiting = waiting[waiting.index(same[0]) + 1 :]
    return found, False


def _loose(block: Sequence[Instruction]) -> int:
    """Returns the multiply-adds that are not fused."""
    parts = Counter(each.part for each in block)
    return min(parts["mul"], parts["add"])


def _fitting(made: Code, loops: Sequence[Loop], products: int) -> tuple[list[int], bool, list[int]]:
    """Returns the same, selected by the multiply-adds that the loops of the assembly would execute,
    fused or, if that matches better, also in two instructions; and those of each block."""
    depths = made.depths()
    pool = [*loops, *[Loop(1, 1, 1)] * (len(depths) - len(loops))]
    fused = [sum(each.products for each in block) for block in made.blocks]
    loose = [_loose(block) for block in made.blocks]

    def off(chosen: Sequence[Loop], of_block: Sequence[int]) -> float:
        runs = _runs(made, [loop.rounds for loop in chosen])
        found = sum(times * count for times, count in zip(runs, of_block, strict=True))
        shallow = sum(a.depth < depth for a, depth in zip(chosen, depths, strict=True))
        return abs(log((found + 1) / (products + 1))) + 0.3 * shallow

    found = []
    for of_block in (fused, [a + b for a, b in zip(fused, loose, strict=True)]):
        chosen = islice(combinations(pool, len(depths)), MAX_CHOICES)
        best = min(chosen, key=lambda each: off(each, of_block))
        found.append((off(best, of_block), [loop.rounds for loop in best], of_block))
    away, rounds, of_block = min(found, key=lambda each: each[0])
    return rounds, away < NEAR, of_block


def _runs(made: Code, rounds: Sequence[int]) -> list[int]:
    """Returns the executions of each block: those of the innermost loop that contains it."""
    runs = [1] * len(made.blocks)
    for (first, last), times in zip(made.loops, rounds, strict=True):
        runs[first : last + 1] = [times] * (last + 1 - first)
    return runs
