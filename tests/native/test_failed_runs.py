"""A run that fails leaves the state between runs unchanged, and the next run continues from
there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.test_runs import compiled, instance
from tests.support.net import Net
from tflgpu_plugin import native
from tflgpu_plugin.runtime.program import Instance

pytestmark = pytest.mark.adapter
__all__ = ["instance"]
SHAPE = (1, 4, 3, 2)
RIGHT, BEYOND = np.arange(3, dtype=np.int64), np.full(3, 2**40, np.int64)


@pytest.fixture
def counting(instance: Instance) -> Instance:
    """Returns a plan of a sum that is carried from run to run, next to int64 numbers that may
    exceed int32."""
    b = Net()
    x, number, total = b.input(SHAPE), b.input((3,), "i64"), b.tensor(SHAPE)
    more = b.op("add", total, x, activation="none")
    less = b.retyped(b.op("neg", number), "i64")
    graph = b.graph(more, less, states=((total, more),))
    return compiled(graph, instance.program.device)


def test_states_are_those_before_a_run_that_failed(counting: Instance) -> None:
    total, wanted = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    for step, numbers in enumerate((RIGHT, RIGHT, BEYOND, RIGHT, BEYOND, BEYOND, RIGHT, RIGHT)):
        given = np.full(SHAPE, step + 1, np.float32)
        if numbers is BEYOND:
            with pytest.raises(native.NativeError, match="beyond int32"):
                counting.run([given, numbers], [total])
        else:
            wanted = wanted + given
            sums, less = counting.run([given, numbers], [total])
            np.testing.assert_array_equal(sums, wanted)
            np.testing.assert_array_equal(less, -numbers)
        np.testing.assert_array_equal(total, wanted)
