"""To which parts of a step 8-bit results are rounded first. No device is needed."""

from __future__ import annotations

import pytest

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Graph, Node, Quantization, Shape, Tensor
from tflgpu_plugin.ops import rounding, rows

SCALES = (0.3, 0.7, 0.011)


def tensor(shape: Shape, *scale: float) -> Tensor:
    held = Quantization(scale, (0,) * len(scale)) if scale else None
    return Tensor("t", shape, "i8" if scale else "f32", quantization=held)


def parts(op: str, *tensors: Tensor, **attributes: object) -> tuple[float, ...]:
    """Of a node that makes the last tensor of the others."""
    last = len(tensors) - 1
    node = Node(0, op, tuple(range(last)), (last,), attributes)
    graph = Graph(dict(enumerate(tensors)), (node,), (0,), (last,))
    found = rows()[op].rounding
    assert found
    return found.parts(graph, node)


def fractions(*factors: float) -> tuple[float, ...]:
    most = float(rounding.MOST_PARTS)
    return tuple(min(quantization.fraction(factor), most) for factor in factors)


@pytest.mark.parametrize(
    ("x", "weights", "y", "wanted"),
    [
        (tensor((2, 4), 0.5), tensor((3, 4), 0.3), tensor((2, 3), 0.05),
         fractions(0.5 * 0.3 / 0.05)),
        (tensor((2, 4), 0.5), tensor((3, 4), *SCALES), tensor((2, 3), 0.05),
         fractions(*(0.5 * scale / 0.05 for scale in SCALES))),
        # channels that are no channels of the result, as of layers that reshape it
        (tensor((2, 4), 0.5), tensor((3, 4), *SCALES), tensor((3, 2), 0.05), (1.0,)),
        (tensor((2, 4)), tensor((3, 4), 0.3), tensor((2, 3), 0.05), (1.0,)),
        (tensor((2, 4), 0.5), tensor((3, 4)), tensor((2, 3), 0.05), (1.0,)),
        (tensor((2, 4), 0.5, 0.2), tensor((3, 4), 0.3), tensor((2, 3), 0.05), (1.0,)),
    ],
)  # fmt: skip
def test_of_products(x: Tensor, weights: Tensor, y: Tensor, wanted: tuple[float, ...]) -> None:
    assert parts("fully_connected", x, weights, y) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("height", "width", "wanted"),
    [(2, 2, 4.0), (128, 128, float(rounding.MOST_PARTS)), (128, 129, 1.0)],
)
def test_of_averages(height: int, width: int, wanted: float) -> None:
    """The number of elements in a window, while it fits."""
    x, y = tensor((1, height, width, 4), 0.5), tensor((1, 1, 1, 4), 0.5)
    how = {"window": (height, width), "strides": (1, 1), "padding": "valid"}
    assert parts("average_pool_2d", x, y, **how) == (wanted,)


def test_of_averages_whose_windows_differ() -> None:
    """The least number that all divide: 4 inside, 2 on a side, 1 in a corner."""
    x, y = tensor((1, 3, 3, 4), 0.5), tensor((1, 2, 2, 4), 0.5)
    how = {"window": (2, 2), "strides": (2, 2), "padding": "same"}
    assert parts("average_pool_2d", x, y, **how) == (4.0,)
    x, y = tensor((1, 5, 5, 4), 0.5), tensor((1, 2, 2, 4), 0.5)
    how = {"window": (3, 3), "strides": (3, 3), "padding": "same"}
    assert parts("average_pool_2d", x, y, **how) == (36.0,)
