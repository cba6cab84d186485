"""Compares 8-bit operators with the host's reference kernels at random quantization scales.

Usage: python -m conformance.scales [HOST] [--seeds FIRST END] [--op NAME,...]

The test suite runs each 8-bit twin of a float32 case at one scale. Errors in requantization factors
and in the rounding of ties show only at some scales, so this command draws others. It prints the
differences for each operator. The exit status is 1 if no model ran, if a value differs by more than
one level, if one of an operator that is not in `INEXACT` differs, or if more values differ than
docs/conformance.md says: `MAX_RATE` of one operator, `MAX_TOTAL_RATE` of a run of every operator.

`BEYOND` is skipped: the reference SOFTMAX shifts by 32 bits or more, or aborts, where more than 255
inputs are nearly equal."""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

import numpy as np

from conformance import host as hosts
from conformance.cases import Case, Input
from conformance.host import Feed
from conformance.models import tflite as models
from conformance.variants import quantized
from conformance.variants.quantized import BIASES, FIXED, same_quantization
from tflgpu_plugin.ir import Quantization

# Operators that compute a value in float32 which may fall on a half of a level, or beside it.
INEXACT = (
    "RESIZE_BILINEAR",
    "SOFTMAX",
    "LOG_SOFTMAX",
    "CONV_2D",
    "FULLY_CONNECTED",
    "BATCH_MATMUL",
)
MAX_RATE, MAX_TOTAL_RATE = Fraction(1, 198_147), Fraction(10, 60_000_000)
NONE = Fraction(0)
BEYOND = ("SOFTMAX", "channels_1023_quads_256")


@dataclass
class Count:
    """Totals for one operator: models run, values compared, values that differ, the largest
    difference in levels, and the cases and seeds that differ."""

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

    def ok(self, share: Fraction) -> bool:
        """Whether at most this fraction of the values differ, rounded up, and each by one level."""
        return self.most <= 1 and self.off <= ceil(share * self.values)


def wrong(counts: Mapping[str, Count]) -> list[str]:
    """Returns the operators for which too many values differ."""
    return [op for op, count in counts.items() if not count.ok(MAX_RATE if op in INEXACT else NONE)]


def rescaled(case: Case, chance: np.random.Generator) -> Case:
    """Returns the case with random scales, except where the host prescribes or derives a scale."""
    result = case.output_quantization
    if same_quantization(case.op):
        return case
    if result is not None and case.op not in FIXED:
        result = _times(result, 2 ** chance.uniform(-2, 1.5))
    inputs = case.inputs
    if case.op not in BIASES:  # the bias scale is the product of the other two
        inputs = tuple(None if value is None else _input(value, chance) for value in inputs)
    return replace(case, inputs=inputs, output_quantization=result)


def _input(value: Input, chance: np.random.Generator) -> Input:
    if value.quantization is None or len(value.quantization.scale) != 1:
        return value
    return replace(value, quantization=_times(value.quantization, 2 ** chance.uniform(-0.7, 0.7)))


def _times(given: Quantization, factor: float) -> Quantization:
    return replace(given, scale=tuple(float(np.float32(s * factor)) for s in given.scale))


def shuffled(feeds: Sequence[Feed], chance: np.random.Generator) -> list[Feed]:
    """Returns the feeds with the elements of each 8-bit array permuted."""
    return [[chance.permutation(a.reshape(-1)).reshape(a.shape) if a.dtype in (np.int8, np.uint8)
             else a for a in feed] for feed in feeds]  # fmt: skip


def twins(ops: Sequence[str]) -> Iterator[Case]:
    """Returns the 8-bit twins of these operators, or of all if `ops` is empty."""
    for _, case in quantized.twins():
        beyond = case.op == BEYOND[0] and case.name.endswith(BEYOND[1])
        if beyond or (ops and case.op not in ops):
            continue
        try:
            yield quantized.quantize(case)
        except ValueError:
            continue  # the host finds no results to choose a scale from


def tried(case: Case, seed: int, name: str, count: Count) -> None:
    """Runs the case with the scales of this seed and updates `count`; skips refused models."""
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
    chosen = [op for op in given.op.split(",") if op]
    for case in twins(chosen):
        for seed in range(*given.seeds):
            tried(case, seed, given.host, counts.setdefault(case.op, Count()))
    failed = wrong(counts)
    for op, count in sorted(counts.items()):
        if count.off:
            print("FAIL" if op in failed else "ok  ", f"{op}: {count}")
    every = Count(
        *(sum(column) for column in zip(*map(Count.numbers, counts.values()), strict=True))
    )
    print(f"{given.host}: {every.models:,} models, {every.values:,} values, {every.off:,} differ")
    enough = every.models and (chosen or every.ok(MAX_TOTAL_RATE))
    return 0 if enough and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
