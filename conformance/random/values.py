"""Inputs of random graphs: noise around 0, and values as pictures and speech have them, whose
mean is more than half their standard deviation. A defect may show on one of the two only: a
variance that is taken about 0, a zero point or a bias that is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tflgpu_plugin.ir import Array

MEAN, SPREAD = 0.6, 0.3  # of values that are not centred; few of these are negative


def noise(numbers: np.random.Generator, shape: Sequence[int]) -> Array:
    """Returns values between -1 and 1."""
    return numbers.uniform(-1, 1, shape).astype(np.float32)


def offset(numbers: np.random.Generator, shape: Sequence[int]) -> Array:
    """Returns values of the same range that are not centred."""
    values = numbers.normal(MEAN, SPREAD, shape)
    return np.asarray(np.clip(values, -1, 1), np.float32)


def feeds(
    numbers: np.random.Generator, runs: Iterable[Sequence[Sequence[int]]], first: int = 0
) -> list[list[Array]]:
    """Returns values of these shapes for each run, of both kinds alternately: noise first, or where
    `first` is odd the others."""
    kinds = (noise, offset)
    return [
        [kinds[(run + first) % 2](numbers, shape) for shape in shapes]
        for run, shapes in enumerate(runs)
    ]
