"""Conditions on operand shapes that onnxruntime's kernels check. Without them, our ops would
broadcast or reshape such operands, and return a result where onnxruntime reports an error."""

from __future__ import annotations

from collections.abc import Callable

from tflgpu_plugin.ir import Condition, ImpossibleShapeRefusal, Shape, ShapeError, asks, needs
from tflgpu_plugin.providers import Builder, broadcast


def exactly(page: str, shape: Callable[[Builder], Shape], *positions: int) -> Condition:
    """Returns the condition that the operands at `positions`, if present, have shape `shape(e)`."""

    def met(e: Builder) -> bool:
        return all(e.shape(e.x(k)) == shape(e) for k in positions if e.has(k))

    return needs("shape.mismatch", page, met, kind=ImpossibleShapeRefusal)


def _broadcasts(given: Shape, whole: Shape) -> bool:
    """Whether a tensor of shape `given` broadcasts to exactly the shape `whole`."""
    try:
        return broadcast(given, whole) == whole
    except ShapeError:
        return False


@asks("shape.mismatch", kind=ImpossibleShapeRefusal)
def scale_and_bias(e: Builder) -> bool:
    """Requires a scale and a bias that broadcast to the shape of the input."""
    return all(_broadcasts(e.shape(e.x(k)), e.shape()) for k in (1, 2) if e.has(k))


def by_channel(*positions: int) -> Condition:
    """Returns the condition that these operands have shape [C] for an input [N, C, ...]."""
    page = "Parameters with one value for each channel of the input."
    return exactly(page, lambda e: (e.shape()[1] if e.rank() > 1 else 1,), *positions)


def by_last(*positions: int) -> Condition:
    """Returns the condition that these operands have shape [C] for an input [..., C]."""
    return exactly(
        "One value for each element of the last axis.", lambda e: e.shape()[-1:], *positions
    )


def by_column(bias: int) -> Condition:
    """Returns the condition that the bias has shape [N] for weights [..., N]."""
    page = "A bias of one value for each column of the weights."
    return exactly(page, lambda e: e.shape(e.x(1))[-1:], bias)


def product(weights: int = 1, bias: int = 2) -> Condition:
    """Returns the condition of a Gemm that A is [M, K] and B [K, N] after transposition, and the
    bias broadcasts to [M, N]. `weights` and `bias` are input positions."""

    @asks("shape.mismatch", kind=ImpossibleShapeRefusal)
    def met(e: Builder) -> bool:
        """Requires matrices that can be multiplied, and a bias that broadcasts to their product."""
        rows, inner = _transposed(e.shape(), e.integer("transA"))
        other, columns = _transposed(e.shape(e.x(weights)), e.integer("transB"))
        fits = not e.has(bias) or _broadcasts(e.shape(e.x(bias)), (rows, columns))
        return inner == other and fits

    return met


def _transposed(shape: Shape, transpose: int) -> Shape:
    return shape[::-1] if transpose else shape


@asks("shape.mismatch", kind=ImpossibleShapeRefusal)
def skip_shape(e: Builder) -> bool:
    """Requires a skip input of the input's shape, or of that of one batch of it."""
    shape = e.shape()
    batches = ((1, *shape[1:]), shape[1:]) if len(shape) == 3 else ()
    return e.shape(e.x(1)) in (shape, *batches)
