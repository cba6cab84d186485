"""Compares two results, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.ir import MAX_FLOAT16, MAX_FLOAT32

Array = npt.NDArray[Any]

# Tolerance relative to the largest magnitude; reordered float32 sums differ by a few 1e-6.
TOLERANCE = 1e-4
SPREAD = 4.0  # tolerance as a multiple of the difference between the host's own sets of kernels


@dataclass(frozen=True)
class Agreement:
    """The comparison of one tensor: the largest difference and magnitude, and the difference that
    is allowed. `size` is the number of elements, `nan` how many of them are NaN on both sides,
    which is no difference."""

    name: str
    difference: float
    magnitude: float
    allowed: float
    size: int = 1
    nan: int = 0

    @property
    def empty(self) -> bool:
        """Whether the tensor has no elements, so that nothing was compared."""
        return not self.size

    @property
    def ok(self) -> bool:
        return self.difference <= self.allowed  # False for NaN

    @property
    def relative(self) -> float:
        return self.difference / self.magnitude if self.magnitude else self.difference


def agree(
    names: Sequence[str],
    reference: Sequence[Array],
    optimized: Sequence[Array],
    ours: Sequence[Array],
    tolerance: float = TOLERANCE,
) -> list[Agreement]:
    """Compares results tensor by tensor. The tolerance is larger where the host's own kernels
    differ from each other."""
    found = []
    for name, expected, other, got in zip(names, reference, optimized, ours, strict=True):
        magnitude = float(np.abs(_computed(expected)).max(initial=0))
        allowed = max(tolerance * magnitude, SPREAD * _spread(expected, other))
        apart, nan = difference(expected, got), _nan_in_both(expected, got)
        found.append(Agreement(name, apart, magnitude, allowed, expected.size, nan))
    return found


def difference(expected: Array, got: Array) -> float:
    """Returns the largest elementwise difference; infinite for another shape, NaN where only one
    side is NaN. Equal infinities and NaN on both sides are not a difference."""
    if expected.shape != got.shape:
        return float("inf")
    a, b = expected.astype(np.float64), got.astype(np.float64)
    apart = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return float(np.abs(a[apart] - b[apart]).max(initial=0))


def _nan_in_both(expected: Array, got: Array) -> int:
    """Returns the number of elements that are NaN on both sides; 0 for another shape."""
    if expected.shape != got.shape:
        return 0
    both = np.isnan(expected.astype(np.float64)) & np.isnan(got.astype(np.float64))
    return int(both.sum())


def _computed(values: Array) -> Array:
    """Returns the numbers that determine how large a difference may be, as float64. NaN, infinities
    and the most extreme number of the type, which serves as padding of a maximum and as a mask of
    scores, are replaced by 0."""
    limit = MAX_FLOAT16 if values.dtype == np.float16 else MAX_FLOAT32
    numbers = values.astype(np.float64)
    return np.where(np.abs(numbers) < limit, numbers, 0.0)


def _spread(expected: Array, other: Array) -> float:
    """Returns the largest difference between the results of the host's two sets of CPU kernels,
    over elements for which both have finite numbers."""
    if expected.shape != other.shape:
        return 0.0
    first, second = _computed(expected), _computed(other)
    both = (first == expected) & (second == other)
    return float(np.abs(first[both] - second[both]).max(initial=0))
