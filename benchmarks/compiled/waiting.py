"""Instructions that wait for what earlier ones return, as the cost model reads them from the
assembly of makers other than AMD: registers (Intel, Qualcomm) or barriers (NVIDIA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.compiled.cost import Code, Gpu, Instruction, Work, alone

GLOBAL, SHARED, CONSTANT, SPECIAL = 250, 40, 60, 30  # cycles until memory or a slow unit answers
READ = 20  # cycles until an instruction has read its registers
SHARED_BYTES = 128  # per cycle of a unit


@dataclass(frozen=True)
class Step(Instruction):
    """`kind` is one of: float, int, load, store, shared (workgroup memory), other, uncounted.
    `bytes` are those of the whole subgroup. `needs` and `makes` are numbers of registers or
    barriers; what is made is there `after` this many cycles. `frees`: barriers that end when the
    registers that it reads may be written again. `delay`: cycles until the next is issued."""

    needs: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    frees: tuple[int, ...] = ()
    after: int = 0
    delay: float = 1


def latency(code: Code, work: Work) -> float:
    """Returns the cycles of one subgroup alone."""
    now, ready = 0.0, dict[int, float]()

    def run(block: Sequence[Instruction]) -> float:
        nonlocal now
        start = now
        for each in block:
            assert isinstance(each, Step)
            now = max([now, *(ready.get(number, 0.0) for number in each.needs)])
            ready.update(dict.fromkeys(each.makes, now + each.after))
            ready.update(dict.fromkeys(each.frees, now + READ))
            now += each.delay
        return now - start

    return alone(code, work.runs, run)


@dataclass(frozen=True, kw_only=True)
class Unit(Gpu):
    """A GPU by its units: the bytes that one loads per cycle, the subgroups that a scheduler holds,
    whether integers are issued beside floats (`apart`)."""

    bandwidth: int
    held: int
    apart: bool = True

    def limits(self, code: Code, work: Work, arithmetic: float, held: int) -> dict[str, float]:
        """Returns the cycles that each limit allows, of which that of arithmetic is given for one
        subgroup, and the subgroups that a scheduler holds."""
        bytes_ = work.sums(code, lambda each: each.bytes)
        rounds = max(1.0, work.per_scheduler / max(1, held))
        return {
            "arithmetic": work.per_scheduler * arithmetic,
            "memory": work.per_unit * (bytes_["load"] + bytes_["store"]) / self.bandwidth,
            "shared memory": work.per_unit * bytes_["shared"] / SHARED_BYTES,
            "latency": latency(code, work) * rounds,
        }


@dataclass(frozen=True)
class Listing:
    """Blocks and loops of an assembly, as they are read line by line."""

    blocks: list[list[Step]] = field(default_factory=lambda: [[]])
    labels: dict[str, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def label(self, name: str) -> None:
        self.blocks.append([])
        self.labels[name] = len(self.blocks) - 1

    def back(self, name: str) -> None:
        """Adds a jump after the current block, which closes a loop if the label was seen."""
        first = self.labels.get(name)
        if first is not None:
            self.ends[first] = max(self.ends.get(first, 0), len(self.blocks) - 1)

    def cut(self) -> None:
        self.blocks.append([])

    @property
    def loops(self) -> list[tuple[int, int]]:
        return sorted(self.ends.items())
