"""Tests elementwise operators over 8-bit tensors against the host's reference kernels: every stored
number, with scales whose factors have shifts of either sign."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance import host
from conformance.cases import Case, Input
from conformance.models import tflite as models
from tflgpu_plugin.ir.graph import (
    NUMPY_DTYPES,
    Array,
    EpilogueOp,
    Graph,
    Node,
    Quantization,
    Shape,
    Tensor,
)
from tflgpu_plugin.ir.quantization import Levels
from tflgpu_plugin.ops import quantized

pytestmark = pytest.mark.adapter

# (scale, zero point, scale of the result, scale of the other operand as a share of the first one).
SCALES = (
    (0.02, 3, 0.05, 0.7), (0.05, -100, 0.011, 0.7), (0.4, 0, 0.003, 0.7), (0.004, 127, 0.9, 0.7),
    (0.5, 3, 1.0, 0.5), (0.25, -5, 2.0, 2.0),  # halves of integers
)  # fmt: skip
OPTIONS = {
    "PRELU": (1, None, {}),
    "LEAKY_RELU": (2, "LeakyReluOptions", {"alpha": 0.3}),
    "HARD_SWISH": (1, "HardSwishOptions", {}),
    "SQUARED_DIFFERENCE": (2, "SquaredDifferenceOptions", {}),
    "ADD": (2, "AddOptions", {"fusedActivationFunction": "NONE"}),
    "SUB": (2, "SubOptions", {"fusedActivationFunction": "NONE"}),
}
PAIRS = ("PRELU", "SQUARED_DIFFERENCE", "ADD", "SUB")
KINDS = [(op, dtype) for op in OPTIONS for dtype in ("i8", "u8")]
KINDS.remove(("SQUARED_DIFFERENCE", "u8"))  # hosts have no such kernel


def _case(
    op: str, dtype: str, scale: float, zero: int, out: float, share: float
) -> tuple[Case, Array]:
    """Returns a case with all stored numbers (with two operands, all pairs), and its input."""
    version, table, options = OPTIONS[op]
    low = int(np.iinfo(NUMPY_DTYPES[dtype]).min)
    every = np.arange(low, low + 256).astype(NUMPY_DTYPES[dtype])
    pairs = op in PAIRS
    x = np.repeat(every, 256).reshape(1, 256, 1, 256) if pairs else every.reshape(1, 4, 8, 8)
    place = zero + 128 + low
    fed = Input(x.shape, dtype, quantization=Quantization((float(np.float32(scale)),), (place,)))
    quantization = Quantization((float(np.float32(scale * share)),), (low + 99,))
    other = Input((1, 1, 256), dtype, every.reshape(1, 1, 256), quantization=quantization)
    result = Quantization((float(np.float32(out)),), (max(low, place - 20),))
    case = Case(op, op, version, (fed, other) if pairs else (fed,), table, options,
                output_type=dtype, output_quantization=result)  # fmt: skip
    return case, x


def _same(name: str, case: Case, x: host.Array, what: str) -> bool:
    """Whether results equal the reference kernels'; False where these do not take the case."""
    try:
        model = models.build(case)
        (expected,) = host.run_on_cpu(model, [[x]], name)
    except (RuntimeError, ValueError):  # a factor that the kernel does not take
        return False
    run = host.run_on_gpu(model, [[x]], name)
    assert run.placement.on_gpu == 1, run.placement.sentences
    np.testing.assert_array_equal(expected[0], run.outputs[0][0], what)
    return True


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_the_two_factors_of_hard_swish_on_many_scales(dtype: str) -> None:
    """The factors have 16 bits; their products only affect the result with some scales."""
    name, ran = host.installed()[0], 0
    for k in range(1, 25):
        case, x = _case("HARD_SWISH", dtype, 0.003 * 1.37**k, 5 * k - 60, 0.0021 * 1.37**k, 1.0)
        ran += _same(name, case, x, str(k))
    assert ran >= 12


@pytest.mark.parametrize("name", host.installed())
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_every_number_is_that_of_the_reference_kernels(op: str, dtype: str, name: str) -> None:
    assert sum(_same(name, *_case(op, dtype, *given), str(given)) for given in SCALES) >= 2


@pytest.mark.parametrize(("factor", "known"), [(0.4, True), (0.75, True), (1.5, False)])
def test_a_difference_whose_square_would_be_enlarged_is_left(factor: float, known: bool) -> None:
    """The host's kernel only shifts to the right."""
    scales = [np.float32(1.0), np.float32(0.5)]  # over 2, with 7 bits after the point, squared
    levels = Levels(4 / (quantized.DIFFERENCE_UNIT * factor), -128.0, 127.0)
    found = quantized.squared_difference_numbers(
        Node(0, "squared_difference", (0, 1), (2,)), scales, levels
    )
    assert (found is not None) == known
    assert found is None or min(found[3::4]) >= 0


@pytest.mark.parametrize(
    ("other", "joins"),
    [((1, 4, 5, 8), True), ((1, 1, 1, 8), True), ((), True), ((1, 4, 1, 8), False), (None, False)],
)
def test_a_sum_joins_what_makes_either_operand(other: Shape | None, joins: bool) -> None:
    """The sum becomes an epilogue op of either operand's producer, if the other operand is read
    element by element."""
    whole = (1, 4, 5, 8)
    tensors = {k: Tensor(str(k), whole if other is None else s)
               for k, s in enumerate((whole, other or (), whole))}  # fmt: skip
    numbers = tuple(float(n) for n in range(14))
    for place, wanted in ((0, numbers), (1, (*numbers[4:8], *numbers[:4], *numbers[8:]))):
        pair: list[int | None] = [0, None if other is None else 1]
        node = Node(0, "quantized_sum", tuple(pair if place == 0 else pair[::-1]), (2,),
                    {"numbers": numbers})  # fmt: skip
        graph = Graph(tensors, (node,), (0,), (2,))
        found = quantized.step_of_quantized(graph, node, place)
        assert found == (EpilogueOp("quantized_sum", 1, wanted) if joins else None)
    even = replace(node, op="even_sum", inputs=(0, 1))
    if joins:
        ends = [quantized.step_of_quantized(graph, even, place) for place in (0, 1)]
        assert [end and end.parameters[-1] for end in ends] == [13.0, 1.0]
