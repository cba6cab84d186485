"""Elementwise operators over 8-bit tensors against the host's reference kernels: every stored
number, on grids whose factors have shifts of either sign."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import host
from conformance.cases import Case, Input
from conformance.models import tflite as models
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Node, Quantization
from tflgpu_plugin.ir.quantization import Grid
from tflgpu_plugin.ops import quantized

pytestmark = pytest.mark.adapter

GRIDS = ((0.02, 3, 0.05), (0.05, -100, 0.011), (0.4, 0, 0.003), (0.004, 127, 0.9))
OPTIONS = {
    "PRELU": (1, None, {}),
    "LEAKY_RELU": (2, "LeakyReluOptions", {"alpha": 0.3}),
    "HARD_SWISH": (1, "HardSwishOptions", {}),
    "SQUARED_DIFFERENCE": (2, "SquaredDifferenceOptions", {}),
}
KINDS = [(op, dtype) for op in OPTIONS for dtype in ("i8", "u8")]
KINDS.remove(("SQUARED_DIFFERENCE", "u8"))  # hosts have no such kernel


def _case(op: str, dtype: str, scale: float, zero: int, out: float) -> tuple[Case, Array]:
    """All stored numbers, against all of them where there are two operands, and what to feed."""
    version, table, options = OPTIONS[op]
    low = int(np.iinfo(NUMPY_DTYPES[dtype]).min)
    every = np.arange(low, low + 256).astype(NUMPY_DTYPES[dtype])
    pairs = op in ("PRELU", "SQUARED_DIFFERENCE")
    x = np.repeat(every, 256).reshape(1, 256, 1, 256) if pairs else every.reshape(1, 4, 8, 8)
    place = zero + 128 + low
    fed = Input(x.shape, dtype, quantization=Quantization((float(np.float32(scale)),), (place,)))
    grid = Quantization((float(np.float32(scale * 0.7)),), (low + 99,))
    other = Input((1, 1, 256), dtype, every.reshape(1, 1, 256), quantization=grid)
    result = Quantization((float(np.float32(out)),), (max(low, place - 20),))
    case = Case(op, op, version, (fed, other) if pairs else (fed,), table, options,
                output_type=dtype, output_quantization=result)  # fmt: skip
    return case, x


@pytest.mark.parametrize("name", host.installed())
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_every_number_is_that_of_the_reference_kernels(op: str, dtype: str, name: str) -> None:
    ran = 0
    for grids in GRIDS:
        case, x = _case(op, dtype, *grids)
        try:
            model = models.build(case)
            (expected,) = host.run_on_cpu(model, [[x]], name)
        except (RuntimeError, ValueError):  # a factor that the kernel does not take
            continue
        run = host.run_on_gpu(model, [[x]], name)
        assert run.placement.on_gpu == 1, run.placement.sentences
        np.testing.assert_array_equal(expected[0], run.outputs[0][0], str(grids))
        ran += 1
    assert ran >= 2


@pytest.mark.parametrize(("factor", "known"), [(0.4, True), (0.75, True), (1.5, False)])
def test_a_difference_whose_square_would_be_enlarged_is_left(factor: float, known: bool) -> None:
    """The host's kernel shifts to the right only."""
    scales = [np.float32(1.0), np.float32(0.5)]  # over 2, with 7 bits behind the point, squared
    grid = Grid(4 / (quantized.DIFFERENCE_UNIT * factor), -128.0, 127.0)
    found = quantized._squared_difference(Node(0, "squared_difference", (0, 1), (2,)), scales, grid)
    assert (found is not None) == known
    assert found is None or min(found[3::4]) >= 0
