"""A model of a GPU that predicts the cost of a dispatch from the assembly of AMD's compiler.

Instructions of each block, times the number of its executions, give the issue cycles of a SIMD's
waves and the bytes that a compute unit moves; and the time of one wave alone, which waits for its
loads as the assembly says. A dispatch takes the longest of these. The model knows neither caches,
nor DRAM, nor gaps between dispatches, nor how waves of a SIMD overlap beyond that: it is good for
order and ratios, not for milliseconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from math import ceil, log

from benchmarks.compiled.rounds import Loop

UNITS, GHZ = 60, 2.0  # of the nominal GPU
VECTOR, SCALAR, SHARED, STORE = 250, 100, 40, 50  # cycles until memory answers
SLOW = re.compile(r"v_(rcp|rsq|sqrt|exp|log|sin|cos|mul_lo|mul_hi|mad_u64|div_)")  # a quarter rate
PRODUCT = re.compile(r"v_(?:dual_)?(?:pk_)?(?:fma|mad|mac|dot2)\w*_f(?:16|32)")
MATRIX = "v_wmma_"  # 16^3 products of a wave in 32 cycles
INTERMEDIATE = "After lowering to hw instructions"
MOST_CHOICES, NEAR = 5000, 0.3  # of loops; of a logarithm of multiply-adds
QUEUES = {"vmcnt": "vector", "loadcnt": "vector", "lgkmcnt": "scalar", "kmcnt": "scalar",
          "dscnt": "scalar"}  # fmt: skip
_WAIT = re.compile(rf"({'|'.join(QUEUES)})\W+(0x[0-9a-f]+|\d+)")
_WIDE = re.compile(r"_(?:dwordx|b)(\d+)")
_LATENCY = {"vector load": VECTOR, "vector store": STORE, "scalar": SCALAR, "shared": SHARED}


@dataclass(frozen=True)
class Family:
    """A generation of GPUs: SIMDs of a compute unit, bytes per cycle of its vector memory, and the
    cycles in which an instruction of a wave of 32 and of 64 lanes is issued."""

    simds: int
    bandwidth: int
    issue: dict[int, int]
    scalar: int
    halves: bool = True  # it has shader-f16


GCN = Family(4, 64, {64: 4}, 4)
RDNA = Family(2, 128, {32: 1, 64: 2}, 1)
FAMILIES = {"gfx1201": RDNA, "navi31": RDNA, "navi21": RDNA, "vega10": GCN,
            "polaris10": replace(GCN, halves=False)}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """An instruction of the compiled kernel.

    `kind` is one of: vector (vector arithmetic), alu (scalar arithmetic), vector load, vector
    store, scalar (a scalar load), shared (workgroup memory), wait, other. `slots`: the issue slots
    it takes. `bytes`: the bytes that each lane moves. `products`: the multiply-adds that each lane
    does. `part`: 'mul' or 'add' if it may be one half of a multiply-add that was not fused.
    `waits`: pairs of a queue and the number of operations that may still be pending in it."""

    kind: str
    slots: int = 1
    bytes: int = 0
    products: int = 0
    part: str = ""
    waits: tuple[tuple[str, int], ...] = ()


def _as_assembly(line: str) -> str:
    """Returns a line of the compiler's internal form, which it prints for families that its
    disassembler does not know, as assembly: `v1: %3:v[5] = v_add_f32 ...`, `s_branch block:BB2`,
    `s_wait_loadcnt imm:0`."""
    if not line[:1].isspace():
        return f"{line}:" if re.fullmatch(r"BB\d+", line) else line
    halves = (part.split(" = ")[-1].strip() for part in line.split(" :: "))
    return "\t" + " :: ".join(halves).replace("block:", "").replace("imm:", "")


def _instruction(line: str, lanes: int) -> Instruction:
    op = line.split()[0]
    if op.startswith(("buffer_", "global_", "flat_", "scratch_", "image_")):
        if "inv" in op or "wb" in op:
            return Instruction("other", 0)
        return Instruction("vector load" if "load" in op else "vector store", bytes=_bytes(op))
    if op.startswith("ds_"):
        return Instruction("shared", bytes=_bytes(op) * (2 if "2" in op.split("_")[1] else 1))
    if op.startswith(("s_load", "s_buffer_load")):
        return Instruction("scalar")
    if op.startswith(MATRIX):
        return Instruction("vector", 32 * 32 // lanes, products=16**3 // lanes)
    if op.startswith("v_"):
        halves = [part.strip() for part in line.split("::")]
        packed = 2 if "pk_" in op or "dot2" in op else 1
        products = packed * sum(bool(PRODUCT.match(half)) for half in halves)
        part = next((name for name in ("mul", "add") if op.startswith(f"v_{name}_f32")), "")
        return Instruction("vector", 4 if SLOW.match(op) else 1, products=products, part=part)
    if op.startswith("s_wait"):
        waits = ((QUEUES[name], int(left, 0)) for name, left in _WAIT.findall(line))
        return Instruction("wait", 0, waits=tuple(waits))
    idle = ("s_delay", "s_clause", "s_nop", "s_endpgm", "s_inst_pref", "s_sendmsg", "s_code_end")
    return Instruction("other", 0) if op.startswith(idle) else Instruction("alu")


def _bytes(op: str) -> int:
    """Returns the bytes that a lane moves: dwordx4 and b128 are 16, dword is 4, smaller types count
    as 4."""
    found = _WIDE.search(op)
    return (
        4
        if not found
        else int(found[1])
        * (4 if "dwordx" in found[0] else 1)
        // (1 if "dwordx" in found[0] else 8)
    )


@dataclass(frozen=True)
class Made:
    """A compiled pipeline: the compiler's numbers, and its assembly."""

    numbers: dict[str, int]
    assembly: str = field(repr=False)

    @property
    def lanes(self) -> int:
        return self.numbers["Lanes"]

    @property
    def registers(self) -> int:
        return self.numbers["VGPRs"]

    @property
    def spills(self) -> int:
        return self.numbers["Spilled VGPRs"] + self.numbers["Spilled SGPRs"]

    @property
    def waves(self) -> int:
        """Returns the waves that a SIMD holds at a time."""
        return self.numbers["Subgroups per SIMD"]

    @cached_property
    def _named(self) -> list[tuple[str, list[str]]]:
        """Returns the blocks of the assembly: name, lines."""
        found: list[tuple[str, list[str]]] = []
        lines = self.assembly.splitlines()
        for line in map(_as_assembly, lines) if INTERMEDIATE in self.assembly else lines:
            text = line.split(";")[0].rstrip()
            if re.fullmatch(r"BB\d+:", text):
                found.append((text[:-1], []))
            elif found and text[:1].isspace() and text.strip():
                found[-1][1].append(text.strip())
        return found

    @cached_property
    def blocks(self) -> list[list[Instruction]]:
        return [[_instruction(line, self.lanes) for line in lines] for _, lines in self._named]

    @cached_property
    def loops(self) -> list[tuple[int, int]]:
        """Returns the first and last block of each loop, in the order of the code, outer ones
        first."""
        places = {name: k for k, (name, _) in enumerate(self._named)}
        ends: dict[int, int] = {}
        for k, (_, lines) in enumerate(self._named):
            for line in lines:
                jump = re.match(r"s_c?branch\w*\s+(BB\d+)", line)
                if jump and (to := places.get(jump[1], k + 1)) <= k:
                    ends[to] = max(k, ends.get(to, 0))
        return sorted(ends.items())

    def depths(self) -> list[int]:
        return [sum(c <= a and b <= d for c, d in self.loops) for a, b in self.loops]


@dataclass(frozen=True)
class Cost:
    """The cost of a dispatch: microseconds, what they are spent on, all waves, multiply-adds."""

    us: float
    bound: str
    waves: int
    products: float
    sure: bool  # the loops of the assembly are those of the kernel


def cost(
    made: Made,
    family: Family,
    loops: Sequence[Loop],
    groups: int,
    threads: int,
    products: int | None = None,
) -> Cost:
    """Returns the cost of `groups` workgroups of so many threads, whose loops run as those of one
    thread, and which make so many multiply-adds, where that is known."""
    if products is None:
        rounds, sure = _matched(made, loops)
        counts = [sum(each.products for each in block) for block in made.blocks]
    else:
        rounds, sure, counts = _fitting(made, loops, products)
    runs = _runs(made, rounds)
    sums: Counter[str] = Counter()
    for times, block, count in zip(runs, made.blocks, counts, strict=True):
        sums["products"] += times * count
        for each in block:
            sums[each.kind] += times * each.slots
            sums["moved"] += times * each.bytes * each.kind.startswith("vector ")
            sums["exchanged"] += times * each.bytes * (each.kind == "shared")
    lanes = made.lanes
    of_group = ceil(threads / lanes)
    per_unit = ceil(groups / UNITS) * of_group
    per_simd = ceil(per_unit / family.simds)
    cycles = {
        "arithmetic": per_simd * sums["vector"] * family.issue[lanes],
        "memory": per_unit * sums["moved"] * lanes / family.bandwidth,
        "shared memory": per_unit * sums["exchanged"] * lanes / 128,
        "latency": _alone(made, family, runs) * max(1.0, per_simd / max(1, made.waves)),
    }
    bound = max(cycles, key=lambda name: cycles[name])
    products = sums["products"] * threads * groups
    return Cost(cycles[bound] / GHZ / 1e3, bound, groups * of_group, products, sure)


def _matched(made: Made, loops: Sequence[Loop]) -> tuple[list[int], bool]:
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


def _fitting(made: Made, loops: Sequence[Loop], products: int) -> tuple[list[int], bool, list[int]]:
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
        chosen = islice(combinations(pool, len(depths)), MOST_CHOICES)
        best = min(chosen, key=lambda each: off(each, of_block))
        found.append((off(best, of_block), [loop.rounds for loop in best], of_block))
    away, rounds, of_block = min(found, key=lambda each: each[0])
    return rounds, away < NEAR, of_block


def _runs(made: Made, rounds: Sequence[int]) -> list[int]:
    """Returns the executions of each block: those of the innermost loop that contains it."""
    runs = [1] * len(made.blocks)
    for (first, last), times in zip(made.loops, rounds, strict=True):
        runs[first : last + 1] = [times] * (last + 1 - first)
    return runs


def _alone(made: Made, family: Family, runs: Sequence[int]) -> float:
    """Returns the cycles of one wave. Loops are simulated for two iterations: the second one waits
    for the loads of the first as all later ones do."""
    clock, taken = _Clock(family, made.lanes), [0.0] * len(made.blocks)

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
                taken[k] = clock.run(made.blocks[k])
                k += 1

    walk(0, len(made.blocks) - 1, 0)
    return sum(times * cycles for times, cycles in zip(runs, taken, strict=True))


class _Clock:
    """Simulates one wave in order; queues hold the times at which pending loads complete."""

    def __init__(self, family: Family, lanes: int) -> None:
        self.issue, self.scalar = family.issue[lanes], family.scalar
        self.now = 0.0
        self.queues: dict[str, list[float]] = {"vector": [], "scalar": []}

    def run(self, block: Sequence[Instruction]) -> float:
        start = self.now
        for each in block:
            self.now += each.slots * (self.scalar if each.kind == "alu" else self.issue)
            if each.kind == "vector load":
                self.queues["vector"].append(self.now + VECTOR)
            elif each.kind in ("scalar", "shared"):
                self.queues["scalar"].append(self.now + _LATENCY[each.kind])
            for queue, left in each.waits:
                waiting = self.queues[queue]
                done = waiting[: len(waiting) - left]
                self.now = max([self.now, *done])
                del waiting[: len(done)]
        return self.now - start
