"""Intel's instruction set as the cost model reads it, from the assembly of Mesa's brw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import ClassVar

from benchmarks.compiled.cost import Code, Work
from benchmarks.compiled.waiting import GLOBAL, SHARED, Listing, Step, Unit

SIZES = {"Q": 8, "UQ": 8, "DF": 8, "F": 4, "D": 4, "UD": 4, "V": 4, "UV": 4, "VF": 4, "HF": 2,
         "BF": 2, "W": 2, "UW": 2, "B": 1, "UB": 1}  # fmt: skip
FLOATS = {"F", "HF", "DF", "VF", "BF"}
CONTROL = {"sync", "nop", "do", "else", "endif", "while", "if", "break", "cont", "halt"}
FREE = {"do", "endif", "nop"}
ENDS = re.compile(r"(?:\([^)]*\)\s*)?(while|if|else|endif|break|cont|halt)\(")
MATH, INTEGER_PRODUCT = 4.0, 4.0  # times the slots of other instructions
_LINE = re.compile(r"(?:\([^)]*\)\s*)?([a-z]\w*)[\w.]*?\((\d+)\)\s*(.*)")
_KINDS = "|".join(sorted(SIZES, key=len, reverse=True))
_OPERAND = re.compile(rf"-?\(?(?:abs\))?g(\d+)(?:\.\d+)?(<[^>]*>)?({_KINDS})\b")
_IMMEDIATE = re.compile(r"(?<=>)(?:F|HF|D|UD|UW|W)\b")
_WHILE = re.compile(r"(?:\([^)]*\)\s*)?while\(\d+\)\s+JIP:\s+(LABEL\d+)")
_ANSWER, _SENT = (
    re.compile(r"dst_len = (\d+)|rlen (\d+)"),
    re.compile(r"src1_len = (\d+)|ex_mlen (\d+)"),
)


@dataclass(frozen=True, kw_only=True)
class Intel(Unit):
    """`register`: the bytes of one; `lanes` that a vector engine works on per cycle."""

    register: int = 32
    lanes: int = 8

    def code(self, numbers: dict[str, int], assembly: str) -> Made:
        return Made(numbers, assembly, self)

    def cycles(self, code: Code, work: Work) -> dict[str, float]:
        slots = work.sums(code, lambda each: each.slots)
        both = slots["float"], slots["int"]
        return self.limits(code, work, max(both) if self.apart else sum(both), self.held)


def _xe(units: int, ghz: float, dram: float, held: int = 8) -> Intel:
    """Two generations from Lunar Lake on, with registers of 64 bytes."""
    return Intel(units=units, ghz=ghz, schedulers=8, peak=128, bandwidth=128, held=held,
                 register=64, lanes=16, dram=dram)  # fmt: skip


GPUS = {
    "skl": Intel(
        units=3, ghz=1.0, schedulers=8, peak=64, bandwidth=64, held=7, apart=False, dram=34
    ),
    "tgl": Intel(units=6, ghz=1.3, schedulers=16, peak=128, bandwidth=64, held=7, dram=68),
    "dg2": Intel(units=32, ghz=2.1, schedulers=16, peak=128, bandwidth=128, held=8, dram=560),
    "mtl": Intel(units=8, ghz=2.2, schedulers=16, peak=128, bandwidth=128, held=8, dram=120),
    "lnl": _xe(8, 2.0, 136),
    "bmg": _xe(20, 2.6, 456),
}


@dataclass(frozen=True)
class Made(Code):
    """A pipeline that brw compiled."""

    REGISTERS: ClassVar = ("Max live registers",)
    SPILLS: ClassVar = ("Spills",)

    gpu: Intel

    @property
    def waves(self) -> int:
        return self.gpu.held

    @cached_property
    def _listing(self) -> Listing:
        found, lines = Listing(), self.assembly.splitlines()
        for line, following in zip(lines, [*lines[1:], ""], strict=False):
            if label := re.match(r"(LABEL\d+):", line):
                found.label(label[1])
            elif line[:1].strip() and not line.startswith(";"):
                message = following if "send" in line[:40] and "MsgDesc" in following else ""
                if step := _step(line, message, self.gpu):
                    found.blocks[-1].append(step)
                    if jump := _WHILE.match(line):
                        found.back(jump[1])
                    if ENDS.match(line):
                        found.cut()
        return found

    @property
    def blocks(self) -> Sequence[Sequence[Step]]:
        return self._listing.blocks

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        return self._listing.loops


def _step(line: str, message: str, gpu: Intel) -> Step | None:
    found = _LINE.match(line)
    if not found:
        return None
    op, lanes, operands = found[1], int(found[2]), found[3]
    given = [(int(number), region, kind) for number, region, kind in _OPERAND.findall(operands)]
    if op in ("send", "sendc", "sends"):
        return _send(operands, message, gpu, [number for number, _, _ in given])
    if op in CONTROL:
        return Step("other", 0 if op in FREE else 1)
    if op.startswith("dpas"):
        return Step("uncounted")
    kinds = {kind for _, _, kind in given} | set(_IMMEDIATE.findall(operands))
    slots = max(1.0, lanes * max((SIZES[kind] for kind in kinds), default=4) / gpu.register)
    if op == "math":
        slots = max(MATH, lanes / gpu.lanes * MATH)
    if op == "mul" and kinds & {"D", "UD"} and not kinds & ({"UW", "W"} | FLOATS):
        slots *= INTEGER_PRODUCT
    floating = bool(kinds & FLOATS)
    needs = {
        n for number, region, kind in given for n in _touched(number, region, kind, lanes, gpu)
    }
    return Step(
        "float" if floating else "int", slots, needs=tuple(sorted(needs)), delay=slots,
        products=int(floating and op in ("mad", "mac")),
        part=op if floating and op in ("mul", "add") else "",
    )  # fmt: skip


def _touched(number: int, region: str, kind: str, lanes: int, gpu: Intel) -> range:
    """Returns the registers of an operand; a region of stride 0 is one value."""
    count = 1 if "<0," in region else max(1, ceil(lanes * SIZES[kind] / gpu.register))
    return range(number, number + count)


def _send(operands: str, message: str, gpu: Intel, given: Sequence[int]) -> Step:
    """Returns the step of a message to memory or another unit."""
    answer, out = _length(_ANSWER, message), _length(_SENT, message)
    first = re.match(r"g(\d+)", operands)
    makes = tuple(range(int(first[1]), int(first[1]) + answer)) if first and answer else ()
    needs = tuple(given[1 if makes else 0 :])
    if "slm" in message or "shared local" in message.lower():
        moved = (answer or out) * gpu.register
        return Step("shared", 1, moved, needs=needs, makes=makes, after=SHARED)
    if any(name in message for name in ("gateway", "ts/btd", "EOT", "fence")):
        return Step("other", needs=needs, makes=makes, after=SHARED)
    if answer:
        return Step("load", 1, answer * gpu.register, needs=needs, makes=makes, after=GLOBAL)
    return Step("store", 1, out * gpu.register, needs=needs)


def _length(pattern: re.Pattern[str], message: str) -> int:
    found = pattern.search(message)
    return int(next(filter(None, found.groups()))) if found else 0
