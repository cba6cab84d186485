"""Conditions on operand shapes that onnxruntime's kernels check. Without them, our ops would
broadcast such operands or reshape the input, and return a result instead of the error."""

from __future__ import annotations

from collections.abc import Callable

from tflgpu_plugin.ir import Condition, Impossible, Misfit, Shape, asks, needs
from tflgpu_plugin.providers import Builder, broadcast


def exactly(page: str, shape: Callable[[Builder], Shape], *positions: int) -> Condition:
    """Returns a condition: each of these operands, if present, has the shape `shape(e)`."""

    def met(e: Builder) -> bool:
        return all(e.shape(e.x(k)) == shape(e) for k in positions if e.has(k))

    return needs("shape.mismatch", page, met, kind=Impossible)


def _broadcasts(given: Shape, whole: Shape) -> bool:
    """Whether `given` broadcasts to `whole` without enlarging it."""
    try:
        return broadcast(given, whole) == whole
    except Misfit:
        return False


@asks("shape.mismatch", kind=Impossible)
def scale_and_bias(e: Builder) -> bool:
    """A scale and bias that broadcast to the input."""
    return all(_broadcasts(e.shape(e.x(k)), e.shape()) for k in (1, 2) if e.has(k))


def by_channel(*positions: int) -> Condition:
    """Returns a condition: these operands have shape [C], of an input [N, C, ...]."""
    page = "One value for each channel of the input."
    return exactly(page, lambda e: (e.shape()[1] if e.rank() > 1 else 1,), *positions)


def by_last(*positions: int) -> Condition:
    """Returns a condition: these operands have shape [C], of an input [..., C]."""
    return exactly(
        "One value for each element of the last axis.", lambda e: e.shape()[-1:], *positions
    )


def by_column(bias: int) -> Condition:
    """Returns a condition: the bias has shape [N], of weights [..., N]."""
    page = "A bias of one value for each column of the weights."
    return exactly(page, lambda e: e.shape(e.x(1))[-1:], bias)


def product(weights: int = 1, bias: int = 2) -> Condition:
    """Returns a condition on a Gemm: A [M, K] and B [K, N] after transposition, and a bias that
    broadcasts to [M, N]."""

    @asks("shape.mismatch", kind=Impossible)
    def met(e: Builder) -> bool:
        """Matrices that can be multiplied, and a bias that spreads over their product."""
        rows, inner = _transposed(e.shape(), e.integer("transA"))
        other, columns = _transposed(e.shape(e.x(weights)), e.integer("transB"))
        fits = not e.has(bias) or _broadcasts(e.shape(e.x(bias)), (rows, columns))
        return inner == other and fits

    return met


def _transposed(shape: Shape, transpose: int) -> Shape:
    return shape[::-1] if transpose else shape


@asks("shape.mismatch", kind=Impossible)
def skip_shape(e: Builder) -> bool:
    """A second input of the shape of the first, or of one batch."""
    shape = e.shape()
    batches = ((1, *shape[1:]), shape[1:]) if len(shape) == 3 else ()
    return e.shape(e.x(1)) in (shape, *batches)
