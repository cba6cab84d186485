"""Builds DFT-20 and STFT-17 as products with constant matrices.

X[k] = sum over n of x[n] * exp(-2 pi i k n / L); the inverse has the other sign and is divided by
L. Complex numbers are (real, imaginary) on the last axis, which has extent 1 for real numbers."""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import asks, integer, is_symbolic
from tflgpu_plugin.ops.spectrum import matrix
from tflgpu_plugin.providers import Builder

LARGEST = 1 << 22  # limit of elements of a matrix: 1,024 complex numbers need (2 * 1,024)^2


def dft(e: Builder) -> int:
    """Builds DFT: transposes the axis to the end, multiplies by the matrix, and transposes back."""
    shape, axis = e.shape(), _axis(e)
    order = (*(k for k in range(len(shape) - 1) if k != axis), axis, len(shape) - 1)
    moved = e.transpose(e.x(), order)
    outer = [shape[k] for k in order[:-2]]
    rows = e.reshape(moved, (prod(outer), shape[axis] * shape[-1]))
    inverse, half = bool(e.integer("inverse")), bool(e.integer("onesided"))
    weights = matrix(shape[axis], shape[-1], _length(e), half, inverse)
    made = e.add("matmul", rows, e.const(weights))
    if inverse:  # scaled last, so that sums of integers stay exact
        made = e.add("div", made, float(_length(e)))
    parts = 1 if inverse and half else 2
    made = e.reshape(made, (*outer, weights.shape[1] // parts, parts))
    return e.transpose(made, tuple(np.argsort(order)))


def _axis(e: Builder) -> int:
    if e.version < 20:
        return e.axis(e.integer("axis", 1), e.rank())
    return e.axis(int(e.value(2).reshape(-1)[0]) if e.has(2) else -2, e.rank())


def _length(e: Builder) -> int:
    if e.has(1):
        return int(e.value(1).reshape(-1)[0])
    given = e.shape()[_axis(e)]
    return 2 * (given - 1) if e.integer("inverse") and e.integer("onesided") else given


def stft(e: Builder) -> int:
    """Builds STFT: gathers the frames, multiplies them by the window, then by the DFT matrix."""
    batch, parts, length, frames = _frames(e)
    signal = e.reshape(e.x(), (batch, e.shape()[1], parts))
    cut = e.add("gather", signal, _places(e, frames, length), axis=1)
    cut = e.reshape(cut, (batch * frames, length, parts))
    if e.has(2):
        cut = e.add("mul", cut, e.reshape(e.x(2), (1, length, 1)))
    weights = matrix(length, parts, length, bool(e.integer("onesided", 1)))
    made = e.add("matmul", e.reshape(cut, (batch * frames, length * parts)), e.const(weights))
    return e.reshape(made, (batch, frames, weights.shape[1] // 2, 2))


def _places(e: Builder, frames: int, length: int) -> int:
    """Returns the positions of the samples of all frames, one frame after the other."""
    step = _step(e)
    if not is_symbolic((frames, step)):
        return e.index((np.arange(frames)[:, None] * step + np.arange(length)).reshape(-1))
    starts = e.reshape(e.add("mul", e.counting(frames), e.index([step])), (frames, 1))
    return e.reshape(e.add("add", starts, e.counting(length)), (frames * length,))


def _frames(e: Builder) -> tuple[int, int, int, int]:
    """Returns (batch, parts (1 real, 2 complex), frame length, number of frames)."""
    batch, samples, *parts = e.shape()
    length = e.shape(e.x(2))[0] if e.has(2) else 0
    if e.has(3):
        length = integer(e.value(3).reshape(-1)[0])
    return batch, (*parts, 1)[0], length, (samples - length) // _step(e) + 1


def _step(e: Builder) -> int:
    """Returns the distance between the frames of an STFT."""
    return integer(e.value(1).reshape(-1)[0])


# ---- conditions ----------------------------------------------------------------------------------


@asks("shape.unsupported")
def _pairs(e: Builder) -> bool:
    """Requires a last axis of extent 1 (real) or 2 (complex), and a transform of another axis of at
    most 1,024 complex numbers; with onesided a real input, or a complex one with inverse."""
    shape = e.shape()
    one_side = bool(e.integer("onesided"))
    if len(shape) < 2 or shape[-1] not in (1, 2) or _axis(e) == len(shape) - 1:
        return False
    size = shape[_axis(e)] * shape[-1] * 2 * _length(e)
    half = not one_side or shape[-1] == (2 if e.integer("inverse") else 1)
    return half and _length(e) > 0 and 0 < size <= LARGEST and prod(shape) > 0


@asks("shape.unsupported")
def framed(e: Builder) -> bool:
    """Requires real or complex signals, a window of the frame's length, and frames of at most 1,024
    complex numbers that fit into the signal; with onesided a real signal."""
    shape = e.shape()
    if len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (2,)):
        return False
    if not (e.has(2) or e.has(3)) or _step(e) < 1:
        return False
    _, parts, length, frames = _frames(e)
    fits = not e.has(2) or e.shape(e.x(2)) == (length,)
    half = parts == 1 or not e.integer("onesided", 1)
    return fits and half and length > 0 and frames > 0 and 2 * parts * length**2 <= LARGEST


@asks(
    "host.ambiguous",
    "Implementations disagree about a one-sided inverse unless the input has dft_length // 2 + 1 "
    "complex numbers.",
)
def _whole_half(e: Builder) -> bool:
    """Requires dft_length // 2 + 1 complex numbers for a one-sided inverse."""
    # numpy pads other inputs with zeros, onnxruntime with the mirrored half.
    half = e.integer("inverse") and e.integer("onesided")
    return not half or e.shape()[_axis(e)] == _length(e) // 2 + 1


TRANSFORMED = (_pairs, _whole_half)
