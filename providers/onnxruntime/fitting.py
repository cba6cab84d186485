"""What shapes operands beside the first may have. Others are an error of onnxruntime's kernels, but
would spread here, or be cut up in another way."""

from __future__ import annotations

from collections.abc import Callable

from tflgpu_plugin.ir.graph import Misfit, Shape
from tflgpu_plugin.ir.host_op import Condition, Impossible, needs
from tflgpu_plugin.ops.elementwise import broadcast

from .expansion import Expansion

STATES = (5, 6)  # of a recurrent layer


def exactly(page: str, shape: Callable[[Expansion], Shape], *positions: int) -> Condition:
    """These operands, where they are there, have the shape that `shape` tells."""

    def met(e: Expansion) -> bool:
        return all(e.shape(e.x(k)) == shape(e) for k in positions if e.has(k))

    return needs(page, met, kind=Impossible)


def _spreads(given: Shape, whole: Shape) -> bool:
    """Whether a shape broadcasts to a whole one, which stays as it is."""
    try:
        return broadcast(given, whole) == whole
    except Misfit:
        return False


def spreading(page: str, *positions: int) -> Condition:
    """These operands, where they are there, broadcast to the first."""

    def met(e: Expansion) -> bool:
        return all(_spreads(e.shape(e.x(k)), e.shape()) for k in positions if e.has(k))

    return needs(page, met, kind=Impossible)


def by_channel(*positions: int) -> Condition:
    page = "One value for each channel of the input."
    return exactly(page, lambda e: (e.shape()[1] if e.rank() > 1 else 1,), *positions)


def by_last(*positions: int) -> Condition:
    return exactly(
        "One value for each element of the last axis.", lambda e: e.shape()[-1:], *positions
    )


def by_column(weights: int, bias: int) -> Condition:
    """Of a product with `weights`."""
    page = "A bias of one value for each column of the weights."
    return exactly(page, lambda e: e.shape(e.x(weights))[-1:], bias)


def product(weights: int = 1, bias: int = 2) -> Condition:
    """The operands of a Gemm."""

    def met(e: Expansion) -> bool:
        rows, inner = _turned(e.shape(), e.integer("transA"))
        other, columns = _turned(e.shape(e.x(weights)), e.integer("transB"))
        fits = not e.has(bias) or _spreads(e.shape(e.x(bias)), (rows, columns))
        return inner == other and fits

    page = "Matrices that can be multiplied, and a bias that spreads over their product."
    return needs(page, met, kind=Impossible)


def _turned(shape: Shape, turn: int) -> Shape:
    return shape[::-1] if turn else shape


def _skips(e: Expansion) -> bool:
    """onnxruntime spreads the second over batches, and nothing else."""
    shape = e.shape()
    return e.shape(e.x(1)) in (shape, (1, *shape[1:]), shape[1:])


SKIPPED = needs(
    "A second input of the shape of the first, or of one batch.", _skips, kind=Impossible
)


def _states(e: Expansion) -> Shape:
    directions = e.shape(e.x(2))[0]
    units = e.integer("hidden_size") or e.shape(e.x(2))[-1]
    layout = bool(e.integer("layout"))
    batch = e.shape()[0 if layout else 1]
    return (batch, directions, units) if layout else (directions, batch, units)


FROM = exactly("States for each direction, batch and unit.", _states, *STATES)
