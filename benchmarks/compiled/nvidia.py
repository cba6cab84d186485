"""NVIDIA's instruction set as the cost model reads it, from the assembly of Mesa's NAK."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from benchmarks.compiled.cost import Code, Work
from benchmarks.compiled.flow import in_order
from benchmarks.compiled.waiting import CONSTANT, GLOBAL, SHARED, SPECIAL, Step, Unit

LANES = 32
SPECIALS = {"mufu": 8, "i2f": 4, "f2i": 4, "f2f": 4, "s2r": 4, "r2ur": 4, "popc": 4}  # slots
FLOATS = ("fadd", "fmul", "fmnmx", "fsetp", "fset", "hadd2", "hmul2")
PARTS = {"fadd": "add", "fmul": "mul"}
IDLE = ("nop", "bssy", "bsync", "bclear", "bra", "exit", "membar", "bar")
MATRIX = ("hmma", "imma")
WAIT, STORED = 5, 20  # cycles of arithmetic, and until a store lets its registers go
_LINE = re.compile(r"(?:@!?u?p\d+)?\s*(?:.*?\s+=\s+)?([a-z]\w*(?:\.[\w.]+)*)\s*.*?\s*//\s*(.*)$")
_WIDTH = re.compile(r"\.b(\d+)")
_BLOCK, _AFTER = re.compile(r"block\S*\s+\d+\s"), re.compile(r"\}\s*->\s*\[([\d, ]*)\]")


@dataclass(frozen=True, kw_only=True)
class Nvidia(Unit):
    """`lanes` of floats that a scheduler starts per cycle; `groups` that a unit holds; `packed`:
    cycles of an instruction with two float16 products per lane."""

    schedulers: int = 4
    lanes: int = 32
    groups: int = 16
    packed: float = 2

    def code(self, numbers: dict[str, int], assembly: str) -> Made:
        return Made(numbers, assembly, self)

    def cycles(self, code: Code, work: Work) -> dict[str, float]:
        slots = work.sums(code, lambda each: each.slots)
        issued = sum(work.sums(code, lambda each: 1).values())
        return self.limits(code, work, max(issued, slots["float"], slots["int"]), code.waves)


GPUS = {
    "tu102": Nvidia(units=68, ghz=1.6, peak=64, bandwidth=64, held=8, lanes=16, dram=616),
    "ga102": Nvidia(units=82, ghz=1.7, peak=128, bandwidth=128, held=12, apart=False, dram=936),
    "ad102": Nvidia(
        units=128, ghz=2.5, peak=128, bandwidth=128, held=12, apart=False, groups=24, dram=1008
    ),
}


@dataclass(frozen=True)
class Made(Code):
    """A pipeline that NAK compiled."""

    REGISTERS: ClassVar = ("Number of GPRs",)
    SPILLS: ClassVar = ("Spills to memory",)

    gpu: Nvidia

    @property
    def waves(self) -> int:
        return max(1, self.numbers["Max warps/SM"] // self.gpu.schedulers)

    @cached_property
    def _listing(self) -> tuple[list[list[Step]], list[tuple[int, int]]]:
        blocks: list[list[Step]] = []
        after: list[list[int]] = []
        for line in self.assembly.splitlines():
            if _BLOCK.match(line):
                blocks.append([])
            elif end := _AFTER.match(line):
                after.append([int(number) for number in end[1].split(",") if number.strip()])
            elif blocks and (step := _step(line.strip(), self.gpu)):
                blocks[-1].append(step)
        after += [[]] * (len(blocks) - len(after))
        order, loops = in_order(after)
        return [blocks[k] for k in order], loops

    @property
    def blocks(self) -> Sequence[Sequence[Step]]:
        return self._listing[0]

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        return self._listing[1]


def _step(line: str, gpu: Nvidia) -> Step | None:
    found = _LINE.match(line)
    if not found:
        return None
    op, schedule = found.groups()
    awaits = re.search(r"wt=([01]+)", schedule)
    bits = enumerate(reversed(awaits[1])) if awaits else ()
    needs = tuple(number for number, bit in bits if bit == "1")
    makes = tuple(int(number) for number in re.findall(r"wr:(\d)", schedule))
    frees = tuple(int(number) for number in re.findall(r"rd:(\d)", schedule))
    delay = re.search(r"delay=(\d+)", schedule)
    kind, slots, moved, after, products = _kind(op, gpu)
    return Step(
        kind, slots, moved, products, PARTS.get(op.split(".")[0], ""), needs, makes, frees, after,
        float(delay[1]) if delay else 1.0,
    )  # fmt: skip


def _kind(op: str, gpu: Nvidia) -> tuple[str, float, int, int, int]:
    """Returns kind, slots, bytes, cycles until the result is there, and products."""
    name = op.split(".")[0]
    if name in ("ld", "ldg", "st", "stg", "lds", "sts", "shfl", "atom"):
        return _memory(name, op)
    if name == "ldc":
        return "other", 1, 0, CONSTANT, 0
    if name == "ffma":
        return "float", LANES / gpu.lanes, 0, 0, 1
    if name == "hfma2":
        return "float", gpu.packed, 0, 0, 2
    if name in FLOATS:
        return "float", LANES / gpu.lanes, 0, WAIT, 0
    if name in SPECIALS:
        return "int", SPECIALS[name], 0, SPECIAL, 0
    if name in IDLE:
        return "other", 1, 0, SPECIAL, 0
    if name in MATRIX:
        return "uncounted", 1, 0, SPECIAL, 0
    slots = LANES / gpu.lanes if gpu.lanes < LANES else 2 if name == "imad" else 1
    return "int", slots, 0, WAIT, 0


def _memory(name: str, op: str) -> tuple[str, float, int, int, int]:
    wide = _WIDTH.search(op)
    size = LANES * (int(wide[1]) // 8 if wide else 4)
    if "shared" in op or name in ("lds", "sts", "shfl"):
        return "shared", 1, size, SHARED, 0
    if name in ("st", "stg") and "local" not in op:
        return "store", 1, size, STORED, 0
    return "load", 1, size, GLOBAL, 0
