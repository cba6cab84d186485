"""Tests digests of constants: they depend on the values but not on the order in memory, and need no
copy of the entire array."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from tflgpu_plugin.ir import Array, digests
from tflgpu_plugin.ir.digests import of_array

VIEWS: dict[str, Callable[[Array], Array]] = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "swapped": lambda a: a.transpose(1, 0, 2),
    "every second": lambda a: a[:, ::2],
    "backwards": lambda a: a[:, ::-1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_equal_values_have_equal_digests_and_others_have_not(name: str) -> None:
    values = np.random.default_rng(0).standard_normal((6, 5, 4)).astype(np.float32)
    same, other = values.copy(), values.copy()
    other[2, 2, 1] += 1
    digest = of_array(VIEWS[name](values))
    assert digest == of_array(VIEWS[name](same))
    assert digest != of_array(VIEWS[name](other))


def test_an_order_of_axes_is_a_part_of_the_value() -> None:
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert of_array(square) != of_array(square.T)


@pytest.mark.parametrize("name", VIEWS)
def test_no_view_is_copied_as_a_whole(name: str) -> None:
    large = np.zeros((512, 1024, 8), np.float32)  # 16 MB
    tracemalloc.start()
    of_array(VIEWS[name](large))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * digests.ORDERED_BYTES, peak
