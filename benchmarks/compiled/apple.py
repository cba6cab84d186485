"""Apple's GPUs, of whose kernels Mesa's driver tells the numbers, but no assembly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.compiled.cost import Code, Gpu, Instruction, Work
from benchmarks.engine import Unavailable

FILE = 208 << 10  # bytes of registers of a core


@dataclass(frozen=True, kw_only=True)
class Apple(Gpu):
    """A generation of GPUs."""

    def code(self, numbers: dict[str, int], assembly: str) -> Made:
        return Made(numbers, assembly)

    def cycles(self, code: Code, work: Work) -> dict[str, float]:
        raise Unavailable("Mesa's driver shows no assembly for Apple's GPUs")


GPUS = {"m1": Apple(units=8, ghz=1.278, schedulers=4, peak=128, dram=68)}


@dataclass(frozen=True)
class Made(Code):
    """A pipeline that agx compiled."""

    REGISTERS: ClassVar = ("GPRs",)
    SPILLS: ClassVar = ("Spills",)

    @property
    def waves(self) -> int:
        return max(1, self.numbers["Threads"] // self.lanes // 4)

    @property
    def blocks(self) -> Sequence[Sequence[Instruction]]:
        raise Unavailable("Mesa's driver shows no assembly for Apple's GPUs")

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        return []
