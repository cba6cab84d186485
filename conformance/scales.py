"""8-bit twins at scales by chance: `python -m conformance.scales [HOST] [--seeds FIRST END]
[--op NAME,...]`, against the host's reference kernels.

The suite has each twin at one scale, which fits its values; factors and halves that go another way
show only at others. Prints what differs by operator. Exit status 1 where a value is more than one
level off, or more than `MOST` of an operator's values are one level off.

Reference kernels end the process, or shift by more than the bits that there are, where more than
255 numbers of a softmax are nearly equal: `BEYOND` is left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from conformance import host as hosts
from conformance.cases import Case, Input
from conformance.host import Feed
from conformance.models import tflite as models
from conformance.variants import quantized
from conformance.variants.quantized import BIASES, FIXED, same_quantization
from tflgpu_plugin.ir.graph import Quantization

MOST = 1e-3
BEYOND = ("SOFTMAX", "channels_1023_quads_256")


@dataclass
class Count:
    """Of one operator: models that ran, values of them, values that differ, the largest difference
    in levels, and what names the first models with any."""

    models: int = 0
    values: int = 0
    off: int = 0
    most: int = 0
    where: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.off} of {self.values:,} values in {self.models} models, by {self.most}: "
            f"{'; '.join(self.where[:3])}"
        )

    def numbers(self) -> tuple[int, int, int]:
        return self.models, self.values, self.off

    @property
    def ok(self) -> bool:
        return self.most <= 1 and self.off <= max(self.models, MOST * self.values)


def rescaled(case: Case, chance: np.random.Generator) -> Case:
    """The case with other scales of its result and its inputs, where hosts take any."""
    result = case.output_quantization
    if same_quantization(case.op):
        return case
    if result is not None and case.op not in FIXED:
        result = _times(result, 2 ** chance.uniform(-2, 1.5))
    inputs = case.inputs
    if case.op not in BIASES:  # whose scales follow from others
        inputs = tuple(None if value is None else _input(value, chance) for value in inputs)
    return replace(case, inputs=inputs, output_quantization=result)


def _input(value: Input, chance: np.random.Generator) -> Input:
    if value.quantization is None or len(value.quantization.scale) != 1:
        return value
    return replace(value, quantization=_times(value.quantization, 2 ** chance.uniform(-0.7, 0.7)))


def _times(given: Quantization, factor: float) -> Quantization:
    return replace(given, scale=tuple(float(np.float32(s * factor)) for s in given.scale))


def shuffled(feeds: Sequence[Feed], chance: np.random.Generator) -> list[Feed]:
    """The same stored numbers at other places."""
    return [[chance.permutation(a.reshape(-1)).reshape(a.shape) if a.dtype in (np.int8, np.uint8)
             else a for a in feed] for feed in feeds]  # fmt: skip


def twins(ops: Sequence[str]) -> Iterator[Case]:
    """Of these operators, or of all."""
    for _, case in quantized.twins():
        beyond = case.op == BEYOND[0] and case.name.endswith(BEYOND[1])
        if beyond or (ops and case.op not in ops):
            continue
        try:
            yield quantized.quantize(case)
        except ValueError:
            continue  # the host finds no results to choose a scale from


def tried(case: Case, seed: int, name: str, count: Count) -> None:
    """Run the case at the scales of this seed; models that the host or we refuse do not count."""
    chance = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    twin = rescaled(case, chance)
    try:
        model = models.build(twin)
        told, kernels = hosts.oracle(model, name)
        feeds = shuffled(hosts.case_feeds(twin, 1), chance)
        (wanted,) = hosts.run_on_cpu(model, feeds, told, kernels)
    except (RuntimeError, ValueError):
        return
    run = hosts.run_on_gpu(model, feeds, told, None, kernels)
    if run.placement.on_gpu < run.placement.total:
        return
    count.models += 1
    for expected, got in zip(wanted, run.outputs[0], strict=True):
        apart = np.abs(expected.astype(np.float64) - got)
        count.values += apart.size
        count.off += int((apart > 0).sum())
        count.most = max(count.most, int(apart.max(initial=0)))
        if apart.any():
            count.where.append(f"{case.name} {seed}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="8-bit twins at scales by chance")
    parser.add_argument("host", nargs="?", default=hosts.installed()[0])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 5), metavar=("FIRST", "END"))
    parser.add_argument("--op", default="")
    given = parser.parse_args(arguments)
    os.environ.setdefault("LP_NUM_THREADS", "0")
    counts: dict[str, Count] = {}
    for case in twins([op for op in given.op.split(",") if op]):
        for seed in range(*given.seeds):
            tried(case, seed, given.host, counts.setdefault(case.op, Count()))
    for op, count in sorted(counts.items()):
        if count.off:
            print("ok  " if count.ok else "FAIL", f"{op}: {count}")
    ran, values, off = (
        sum(column) for column in zip(*map(Count.numbers, counts.values()), strict=True)
    )
    print(f"{given.host}: {ran:,} models, {values:,} values, {off:,} differ")
    return 0 if ran and all(count.ok for count in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
