"""Qualcomm's instruction set as the cost model reads it, from the assembly of Mesa's ir3."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from benchmarks.compiled.cost import Code, Work
from benchmarks.compiled.waiting import GLOBAL, SHARED, SPECIAL, Listing, Step, Unit

QUEUES = {"sy": 0, "ss": 1}  # awaited by a flag: loads; special functions and workgroup memory
FLOATS = ("add.f", "mul.f", "max.f", "min.f", "sel.f", "cmps.f", "mad.f", "floor.f", "abs.f")
SPECIALS = {"rcp", "rsq", "sqrt", "sin", "cos", "exp2", "log2", "hrsq", "hexp2", "hlog2"}
LOADS = ("isam", "ldib", "ldg", "ldc", "ldp", "sam")
STORES = ("stib", "stg", "stp")
SHARES = ("ldl", "stl", "brcst", "shfl", "getfiberid")
SLOW = 4  # slots of a special function
_LABEL = re.compile(r"(l\d+):")
_LINE = re.compile(r"((?:\([a-z0-9]+\)\s*)*)([a-z][\w.]*)\s*(.*)")
_JUMP = re.compile(r"#(l\d+)")
_REPEATED = re.compile(r"\(rpt(\d+)\)")
_IDLE = re.compile(r"\(nop(\d+)\)")


@dataclass(frozen=True, kw_only=True)
class Adreno(Unit):
    """A unit is a shader processor; one of its schedulers starts `lanes` per cycle."""

    lanes: int = 64

    def code(self, numbers: dict[str, int], assembly: str) -> Made:
        return Made(numbers, assembly, self)

    def cycles(self, code: Code, work: Work) -> dict[str, float]:
        slots = sum(work.sums(code, lambda each: each.slots).values())
        return self.limits(code, work, slots * code.lanes / self.lanes, code.waves)


GPUS = {"a740": Adreno(units=6, ghz=0.68, schedulers=4, peak=256, bandwidth=128, held=8, dram=67)}


@dataclass(frozen=True)
class Made(Code):
    """A pipeline that ir3 compiled."""

    REGISTERS: ClassVar = ("Registers used",)
    SPILLS: ClassVar = ("STP Count",)

    gpu: Adreno

    @property
    def waves(self) -> int:
        """Returns the waves of a scheduler, two of which share the waves of a core's half."""
        return max(1, self.numbers["Max Waves Per Core"] // 2)

    @cached_property
    def _listing(self) -> Listing:
        found = Listing()
        for line in self.assembly.splitlines():
            text = line.strip()
            if label := _LABEL.match(text):
                found.label(label[1])
            elif match := _LINE.fullmatch(text):
                flags, op, rest = match.groups()
                found.blocks[-1].append(_step(flags, op, self.lanes))
                if op.startswith(("jump", "br")):
                    if jump := _JUMP.search(rest):
                        found.back(jump[1])
                    found.cut()
        return found

    @property
    def blocks(self) -> Sequence[Sequence[Step]]:
        return self._listing.blocks

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        return self._listing.loops


def _step(flags: str, op: str, lanes: int) -> Step:
    """Returns the step of an instruction, repeated for this many registers in a row."""
    times = 1 + sum(map(int, _REPEATED.findall(flags)))
    needs = tuple(number for flag, number in QUEUES.items() if f"({flag})" in flags)
    delay = times + sum(map(int, _IDLE.findall(flags)))
    name = op.split(".")[0]
    if name in SPECIALS:
        slots = SLOW * times
        return Step(
            "special", slots, needs=needs, makes=(QUEUES["ss"],), after=SPECIAL, delay=slots
        )
    if name in SHARES:
        moved = 16 * lanes
        return Step("shared", 1, moved, needs=needs, makes=(QUEUES["ss"],), after=SHARED)
    if name in LOADS:
        return Step("load", 1, 16 * lanes, needs=needs, makes=(QUEUES["sy"],), after=GLOBAL)
    if name in STORES:
        return Step("store", 1, 16 * lanes, needs=needs)
    if name == "mad" and ".f" in op:
        return Step("float", times, products=times, needs=needs, delay=delay)
    part = name if op in ("mul.f", "add.f") else ""
    kind = "float" if op.startswith(FLOATS) else "int"
    return Step(kind, times, part=part, needs=needs, delay=delay)
