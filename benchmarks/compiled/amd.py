"""AMD's instruction set as the cost model reads it, from the assembly of Mesa's ACO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from benchmarks.compiled.cost import Code, Gpu, Instruction, Work, alone

UNITS, GHZ = 60, 2.0  # of the nominal GPU
VECTOR, SCALAR, SHARED, STORE = 250, 100, 40, 50  # cycles until memory answers
SLOW = re.compile(r"v_(rcp|rsq|sqrt|exp|log|sin|cos|mul_lo|mul_hi|mad_u64|div_)")  # a quarter rate
PRODUCT = re.compile(r"v_(?:dual_)?(?:pk_)?(?:fma|mad|mac|dot2)\w*_f(?:16|32)")
MATRIX = "v_wmma_"  # 16^3 products of a wave in 32 cycles
INTERMEDIATE = "After lowering to hw instructions"
QUEUES = {"vmcnt": "vector", "loadcnt": "vector", "lgkmcnt": "scalar", "kmcnt": "scalar",
          "dscnt": "scalar"}  # fmt: skip
_WAIT = re.compile(rf"({'|'.join(QUEUES)})\W+(0x[0-9a-f]+|\d+)")
_WIDE = re.compile(r"_(?:dwordx|b)(\d+)")
_LATENCY = {"vector load": VECTOR, "vector store": STORE, "scalar": SCALAR, "shared": SHARED}


@dataclass(frozen=True)
class Step(Instruction):
    """`kind` is one of: vector (vector arithmetic), alu (scalar arithmetic), vector load, vector
    store, scalar (a scalar load), shared (workgroup memory), wait, other. `waits`: pairs of a queue
    and the number of operations that may still be pending in it."""

    waits: tuple[tuple[str, int], ...] = ()


def _as_assembly(line: str) -> str:
    """Returns a line of the compiler's internal form, which it prints for families that its
    disassembler does not know, as assembly: `v1: %3:v[5] = v_add_f32 ...`, `s_branch block:BB2`,
    `s_wait_loadcnt imm:0`."""
    if not line[:1].isspace():
        return f"{line}:" if re.fullmatch(r"BB\d+", line) else line
    halves = (part.split(" = ")[-1].strip() for part in line.split(" :: "))
    return "\t" + " :: ".join(halves).replace("block:", "").replace("imm:", "")


def _instruction(line: str, lanes: int) -> Step:
    op = line.split()[0]
    if op.startswith(("buffer_", "global_", "flat_", "scratch_", "image_")):
        if "inv" in op or "wb" in op:
            return Step("other", 0)
        return Step("vector load" if "load" in op else "vector store", bytes=_bytes(op))
    if op.startswith("ds_"):
        return Step("shared", bytes=_bytes(op) * (2 if "2" in op.split("_")[1] else 1))
    if op.startswith(("s_load", "s_buffer_load")):
        return Step("scalar")
    if op.startswith(MATRIX):
        return Step("vector", 32 * 32 // lanes, products=16**3 // lanes)
    if op.startswith("v_"):
        halves = [part.strip() for part in line.split("::")]
        packed = 2 if "pk_" in op or "dot2" in op else 1
        products = packed * sum(bool(PRODUCT.match(half)) for half in halves)
        part = next((name for name in ("mul", "add") if op.startswith(f"v_{name}_f32")), "")
        return Step("vector", 4 if SLOW.match(op) else 1, products=products, part=part)
    if op.startswith("s_wait"):
        waits = ((QUEUES[name], int(left, 0)) for name, left in _WAIT.findall(line))
        return Step("wait", 0, waits=tuple(waits))
    idle = ("s_delay", "s_clause", "s_nop", "s_endpgm", "s_inst_pref", "s_sendmsg", "s_code_end")
    return Step("other", 0) if op.startswith(idle) else Step("alu")


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
class Made(Code):
    """A pipeline that ACO compiled."""

    REGISTERS: ClassVar = ("VGPRs",)
    SPILLS: ClassVar = ("Spilled VGPRs", "Spilled SGPRs")

    @property
    def waves(self) -> int:
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
    def blocks(self) -> Sequence[Sequence[Step]]:
        return [[_instruction(line, self.lanes) for line in lines] for _, lines in self._named]

    @cached_property
    def loops(self) -> Sequence[tuple[int, int]]:
        places = {name: k for k, (name, _) in enumerate(self._named)}
        ends: dict[int, int] = {}
        for k, (_, lines) in enumerate(self._named):
            for line in lines:
                jump = re.match(r"s_c?branch\w*\s+(BB\d+)", line)
                if jump and (to := places.get(jump[1], k + 1)) <= k:
                    ends[to] = max(k, ends.get(to, 0))
        return sorted(ends.items())


@dataclass(frozen=True, kw_only=True)
class Family(Gpu):
    """A generation of GPUs: bytes per cycle of a unit's vector memory, and the cycles in which an
    instruction of a wave of 32 and of 64 lanes is issued."""

    units: int = UNITS
    ghz: float = GHZ
    peak: int = 64
    bandwidth: int
    issue: dict[int, int]
    scalar: int
    halves: bool = True  # it has shader-f16

    def code(self, numbers: dict[str, int], assembly: str) -> Made:
        return Made(numbers, assembly)

    def cycles(self, code: Code, work: Work) -> dict[str, float]:
        slots = work.sums(code, lambda each: each.slots)
        moved = work.sums(code, lambda each: each.bytes)
        vector = moved["vector load"] + moved["vector store"]
        clock = _Clock(self, code.lanes)
        one = alone(code, work.runs, clock.run)
        return {
            "arithmetic": work.per_scheduler * slots["vector"] * self.issue[code.lanes],
            "memory": work.per_unit * vector * code.lanes / self.bandwidth,
            "shared memory": work.per_unit * moved["shared"] * code.lanes / 128,
            "latency": one * max(1.0, work.per_scheduler / max(1, code.waves)),
        }


GCN = Family(schedulers=4, bandwidth=64, issue={64: 4}, scalar=4, dram=484)
RDNA = Family(schedulers=2, bandwidth=128, issue={32: 1, 64: 2}, scalar=1, dram=624)
FAMILIES = {"gfx1201": replace(RDNA, dram=640), "navi31": RDNA, "navi21": replace(RDNA, dram=512),
            "vega10": GCN, "polaris10": replace(GCN, halves=False, dram=256)}  # fmt: skip


class _Clock:
    """Simulates one wave in order; queues hold the times at which pending loads complete."""

    def __init__(self, family: Family, lanes: int) -> None:
        self.issue, self.scalar = family.issue[lanes], family.scalar
        self.now = 0.0
        self.queues: dict[str, list[float]] = {"vector": [], "scalar": []}

    def run(self, block: Sequence[Instruction]) -> float:
        start = self.now
        for each in block:
            assert isinstance(each, Step)
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
