"""Random chains of operators that only move data, in models of which all extents are open."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime

from tests.support.onnx_models import model, node, session

MAX_SECONDS = 30  # of a run's CPU time, in which a plan may be made; usual are 0.1 to 2
MAX_RANK = 6
SLICES = ((1, 2**31 - 1, 1), (0, -1, 1), (-2, 2**31 - 1, 1), (-1, -(2**31), -1), (0, 2**63 - 1, 2))


@dataclass
class Chain:
    """Nodes of a model, of which the last one's output is a tensor of this rank."""

    chance: random.Random
    rank: int
    last: str = "x"
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)

    def constant(self, *numbers: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(numbers, np.int64)
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [name], **attributes))
        return name

    def extents(self, first: int, end: int) -> list[str]:
        """Returns the tensor of these extents, in a list that is empty if there are none."""
        if first >= end:
            return []
        return [self.add("Shape", self.last, start=first, end=end)]

    def transpose(self) -> None:
        axes = self.chance.sample(range(self.rank), self.rank)
        self.last = self.add("Transpose", self.last, perm=axes)

    def pad(self) -> None:
        mode = self.chance.choice(["constant", "edge", "reflect"])
        margins = [0, 0, 1, -1] if mode == "reflect" else [0, 0, 1, -1, 2]
        pads = self.constant(*self.chance.choices(margins, k=2 * self.rank))
        self.last = self.add("Pad", self.last, pads, mode=mode)

    def slice(self) -> None:
        start, end, step = self.chance.choice(SLICES)
        numbers = (start, end, self.chance.randrange(self.rank), step)
        self.last = self.add("Slice", self.last, *map(self.constant, numbers))

    def concat(self) -> None:
        self.last = self.add("Concat", self.last, self.last, axis=self.chance.randrange(self.rank))

    def expand(self) -> None:
        if self.rank < MAX_RANK:
            shape = self.add("Concat", self.constant(2), *self.extents(0, self.rank), axis=0)
            self.last, self.rank = self.add("Expand", self.last, shape), self.rank + 1

    def reshape(self) -> None:
        """Merges two axes, or exchanges their extents."""
        if self.rank == 1:
            return
        k = self.chance.randrange(self.rank - 1)
        merges = self.chance.random() < 0.5
        middle = (
            [self.constant(-1)] if merges else self.extents(k + 1, k + 2) + self.extents(k, k + 1)
        )
        shape = self.extents(0, k) + middle + self.extents(k + 2, self.rank)
        self.last = self.add("Reshape", self.last, self.add("Concat", *shape, axis=0))
        self.rank -= merges


STEPS = (Chain.transpose, Chain.transpose, Chain.pad, Chain.pad, Chain.slice, Chain.concat,
         Chain.expand, Chain.reshape)  # fmt: skip


def chain(seed: int, steps: int, rank: int) -> bytes:
    """Returns the model of a random chain."""
    made = Chain(random.Random(seed), rank)
    for step in made.chance.choices(STEPS, k=steps):
        step(made)
    made.nodes.append(node("Identity", [made.last], ["y"]))
    extents = [f"d{k}" for k in range(rank)]
    return model(made.nodes, {"x": extents}, {"y": None}, made.constants, opset=19)


def inputs(seed: int, rank: int, count: int = 4) -> Iterator[Any]:
    """Returns inputs of random shapes."""
    chance = np.random.default_rng(seed)
    for _ in range(count):
        yield chance.normal(size=chance.integers(4, 8, rank)).astype(np.float32)


def compare(given: bytes, arrays: Iterator[Any]) -> int:
    """Asserts that a model gives the CPU provider's results, each within the time limit; returns
    how many were compared: all for which the CPU provider has a result."""
    cpu = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    ours, count = session(given), 0
    for array in arrays:
        try:
            (wanted,) = cpu.run(None, {"x": array})
        except Exception:  # negative padding of an extent that a slice has made too small
            continue
        begun = time.process_time()
        (found,) = ours.run(None, {"x": array})
        spent = time.process_time() - begun
        assert spent < MAX_SECONDS, f"{spent:.0f} s for {array.shape}"
        np.testing.assert_array_equal(found, wanted)
        count += 1
    return count
