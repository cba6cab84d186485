"""Fourier transforms as products with constant matrices: DFT of one axis, STFT of frames.

X[k] = sum over n of x[n] * exp(-2 pi i k n / L), as the operators DFT and STFT of ONNX opset 20 and
17. Complex numbers are pairs on the last axis. Inverse transforms are left to the host: zeros that
its FFT leaves exact come out as rounding errors of sums in float32.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir.graph import Array
from tflgpu_plugin.ir.host_op import needs

from .expansion import Expansion

LARGEST = 1 << 22  # numbers of a matrix; a transform of 1,024 pairs is 2^22


def _matrix(given: int, parts: int, length: int, onesided: bool) -> Array:
    """[n, part, k, part] as a matrix: real and imaginary parts of `given` numbers to those of
    `length` frequencies, or the first half of these."""
    n, k = np.arange(given)[:, None], np.arange(length // 2 + 1 if onesided else length)
    turns = np.where(n < length, (n * k) % length, 0) * (2 * np.pi / length)
    cos, sin = np.cos(turns) * (n < length), np.sin(turns) * (n < length)
    rows = [np.stack([cos, -sin], -1), np.stack([sin, cos], -1)][:parts]
    return np.asarray(np.stack(rows, 1).reshape(given * parts, -1), np.float32)


def dft(e: Expansion) -> int:
    """The axis goes behind the others, into a product, and back."""
    shape, axis = e.shape(), _axis(e)
    order = (*(k for k in range(len(shape) - 1) if k != axis), axis, len(shape) - 1)
    moved = e.transpose(e.x(), order)
    outer = [shape[k] for k in order[:-2]]
    matrix = _dft_matrix(e)
    rows = e.reshape(moved, (prod(outer), shape[axis] * shape[-1]))
    made = e.reshape(e.add("matmul", rows, e.const(matrix)), (*outer, matrix.shape[1] // 2, 2))
    return e.transpose(made, tuple(np.argsort(order)))


def _dft_matrix(e: Expansion) -> Array:
    shape, axis = e.shape(), _axis(e)
    return _matrix(shape[axis], shape[-1], _length(e), bool(e.integer("onesided")))


def _axis(e: Expansion) -> int:
    if e.version < 20:
        return e.axis(e.integer("axis", 1), e.rank())
    return e.axis(int(e.value(2).reshape(-1)[0]) if e.has(2) else -2, e.rank())


def _length(e: Expansion) -> int:
    return int(e.value(1).reshape(-1)[0]) if e.has(1) else e.shape()[_axis(e)]


def stft(e: Expansion) -> int:
    """Frames picked by their places, times the window, into a product."""
    batch, parts, length, frames = _frames(e)
    starts = np.arange(frames) * int(e.value(1).reshape(-1)[0])
    places = e.index((starts[:, None] + np.arange(length)).reshape(-1))
    signal = e.reshape(e.x(), (batch, e.shape()[1], parts))
    cut = e.add("gather", signal, places, axis=1)
    cut = e.reshape(cut, (batch * frames, length, parts))
    if e.has(2):
        cut = e.add("mul", cut, e.reshape(e.x(2), (1, length, 1)))
    matrix = _stft_matrix(e, length, parts)
    made = e.add("matmul", e.reshape(cut, (batch * frames, length * parts)), e.const(matrix))
    return e.reshape(made, (batch, frames, matrix.shape[1] // 2, 2))


def _stft_matrix(e: Expansion, length: int, parts: int) -> Array:
    return _matrix(length, parts, length, bool(e.integer("onesided", 1)))


def _frames(e: Expansion) -> tuple[int, int, int, int]:
    """Batches, parts of a number, the length of a frame, and how many there are."""
    batch, samples, *parts = e.shape()
    length = e.shape(e.x(2))[0] if e.has(2) else 0
    if e.has(3):
        length = int(e.value(3).reshape(-1)[0])
    step = int(e.value(1).reshape(-1)[0])
    return batch, (*parts, 1)[0], length, (samples - length) // step + 1


# ---- what they need ------------------------------------------------------------------------------


def _pairs(e: Expansion) -> bool:
    shape = e.shape()
    one_side = bool(e.integer("onesided"))
    if len(shape) < 2 or shape[-1] not in (1, 2) or _axis(e) == len(shape) - 1:
        return False
    size = shape[_axis(e)] * shape[-1] * 2 * _length(e)
    half = not one_side or shape[-1] == 1
    return half and _length(e) > 0 and 0 < size <= LARGEST and prod(shape) > 0


def _framed(e: Expansion) -> bool:
    shape = e.shape()
    if len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (2,)):
        return False
    if not (e.has(2) or e.has(3)) or int(e.value(1).reshape(-1)[0]) < 1:
        return False
    _, parts, length, frames = _frames(e)
    fits = not e.has(2) or e.shape(e.x(2)) == (length,)
    half = parts == 1 or not e.integer("onesided", 1)
    return fits and half and length > 0 and frames > 0 and 2 * parts * length**2 <= LARGEST


FORWARD = needs("A forward transform.", lambda e: not e.integer("inverse"))
TRANSFORMED = needs(
    "Numbers or pairs of them on the last axis, and a transform of another one, of 1,024 pairs at "
    "most; half of it only of numbers.",
    _pairs,
)
FRAMED = needs(
    "Signals of numbers or pairs, a window of a frame's length, and frames of 1,024 pairs at most "
    "that fit into them; half of a transform only of numbers.",
    _framed,
)
