"""Rows for quantized operators: the real values that the inputs stand for, the float32 row, and the
result quantized again; integer operators work on the stored numbers.

Formulas are those of the ONNX operators and of onnxruntime's contrib operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin.ir.quantization import NUMBERS

from . import elementwise as ew
from . import matrices, rearranging, resizing, windows
from .expansion import COUNTED, Expansion
from .host import DTYPES
from .quantize import dynamic_quantize, numbers, real, real_constant, spread_over, stored

Row = Callable[[Expansion], int]
STEPS = 255  # between two numbers of 8 bits


# ---- operators over real values
# ---------------------------------------------------------------------


def conv(e: Expansion) -> int:
    """Convolution with int32 biases, whose scale is the input's times that of the weights."""
    x, weights = real(e, 0), real(e, 3, 0)
    bias = _product_bias(e, 8, e.x(1), e.x(4)) if e.has(8) else None
    return stored(e, windows.conv(e.seen(x, weights, bias)), e.x(6), e.x(7))


def _product_bias(e: Expansion, place: int, *scales: int) -> int:
    """An int32 input times the product of these scales (one, or one per element)."""
    bias, known = e.x(place), [e.constant(scale) for scale in scales]
    found = [scale for scale in known if scale is not None]
    if e.constant(bias) is not None and len(found) == len(known):
        factor = np.ones((), np.float64)
        for one in found:
            factor = np.asarray(factor * (one.reshape(-1) if one.size > 1 else one.reshape(())))
        return e.derived(
            bias, "bias", *scales, make=lambda data: (data * factor).astype(np.float32)
        )
    value = numbers(e, bias)
    for scale in scales:
        value = e.add("mul", value, spread_over(e, scale, e.rank(value), e.rank(value) - 1))
    return value


def matmul(e: Expansion) -> int:
    """A product of matrices: scales per row of the first, per column of the second."""
    a = real(e, 0, max(e.rank(e.x(0)) - 2, 0))
    b = real(e, 3, max(e.rank(e.x(3)) - 1, 0))
    return stored(e, matrices.matmul(e.seen(a, b)), e.x(6), e.x(7))


def gemm(e: Expansion) -> int:
    """QGemm; without a scale for it, the result is float32."""
    straight = bool(e.integer("transB"))
    a, b = real(e, 0), real(e, 3, 0 if straight else 1)
    c = None
    if e.has(6):
        c = _product_bias(e, 6, e.x(1), e.x(4))
        alpha = e.number("alpha", 1.0)
        c = c if alpha == 1 else e.add("mul", c, e.const(alpha))
    y = matrices.gemm(e.seen(a, b, c))
    return stored(e, y, e.x(7), e.x(8)) if e.has(7) else y


def pointwise(row: Row, count: int = 1) -> Row:
    """A float32 row of so many inputs, each with scale and zero point; then the result's."""

    def over_real(e: Expansion) -> int:
        values = [real(e, 3 * k) for k in range(count)]
        zero = e.x(3 * count + 1) if e.has(3 * count + 1) else None
        first = e.tensors.table[e.x()].dtype
        return stored(e, row(e.seen(*values)), e.x(3 * count), zero, first)

    return over_real


def softmax(e: Expansion) -> int:
    """Softmax of the opset that an attribute names."""
    host = replace(e.host, version=13 if e.integer("opset", 13) >= 13 else 1)
    return pointwise(ew.softmax("softmax", beta=1.0))(replace(e, host=host))


def concat(e: Expansion) -> int:
    """Scale and zero point of the result first, then each input with its own."""
    places = range(2, len(e.inputs), 3)
    axis = e.axis(e.integer("axis"), e.rank(e.x(2)))
    values = [real(e, place) for place in places]
    return stored(e, e.add("concat", *values, axis=axis), e.x(0), e.x(1))


def where(e: Expansion) -> int:
    """Of two inputs with scales, after the condition."""
    first, second = real(e, 1), real(e, 4)
    return stored(e, e.add("where", e.x(0), first, second, dtype="f32"), e.x(7), e.x(8))


# ---- moves of stored numbers ---------------------------------------------------------------------


def _holds_numbers(e: Expansion) -> bool:
    return e.tensors.table[e.x()].dtype in COUNTED


def _as_stored(e: Expansion, row: Row, *rest: int | None) -> int:
    """A float32 row whose results are elements of its first input, or quantized alike."""
    held = e.hold(e.x(), NUMBERS)
    y = row(e.seen(e.add("dequantize", e.x(), dtype="f32"), *rest))
    return e.add("quantize", y, dtype=e.tensors.table[e.x()].dtype, quantization=held)


def resize(e: Expansion) -> int:
    """Resize, of stored numbers to the nearest one."""
    if not _holds_numbers(e):
        return resizing.either(e)
    return _as_stored(e, resizing.either, *e.inputs[1:])


def pad(e: Expansion) -> int:
    """Pad, of stored numbers with a stored number."""
    if not _holds_numbers(e):
        return rearranging.pad(e)
    held = e.hold(e.x(), NUMBERS)
    given = e.value(2) if e.has(2) else np.zeros(1)
    value = (float(given.reshape(-1)[0]) - held.zero_point[0]) * held.scale[0]
    return _as_stored(e, rearranging.pad, e.x(1), e.const(value), *e.inputs[3:])


# ---- integers ------------------------------------------------------------------------------------


def _differences(e: Expansion, place: int, zero: int, axis: int) -> int:
    """stored - zero point, as float32; weights keep what they are stored as."""
    tensor = e.x(place)
    known = e.constant(e.x(zero)) if e.has(zero) else np.zeros(1, np.int32)
    if known is not None and known.size == 1 and e.constant(tensor) is not None:
        return real_constant(e, tensor, replace(NUMBERS, zero_point=(int(known.reshape(-1)[0]),)))
    values = numbers(e, tensor)
    if not e.has(zero):
        return values
    return e.add("sub", values, spread_over(e, numbers(e, e.x(zero)), e.rank(tensor), axis))


def conv_integer(e: Expansion) -> int:
    """int32 sums."""
    x, weights = _differences(e, 0, 2, 0), _differences(e, 1, 3, 0)
    axes = range(1, e.rank(weights))
    return _int32(e, windows.conv(e.seen(x, weights)), weights, tuple(axes))


def _integer_factors(e: Expansion, zeros: int) -> tuple[int, int]:
    """Both factors of a product: zero points per row of the first, per column of the second."""
    a = _differences(e, 0, zeros, max(e.rank(e.x(0)) - 2, 0))
    return a, _differences(e, 1, zeros + 1, max(e.rank(e.x(1)) - 1, 0))


def matmul_integer(e: Expansion) -> int:
    """int32 sums."""
    a, b = _integer_factors(e, 2)
    return _int32(e, matrices.matmul(e.seen(a, b)), b, (max(e.rank(b) - 2, 0),))


def _int32(e: Expansion, sums: int, weights: int, axes: tuple[int, ...]) -> int:
    """Sums of products with `weights`, along these axes of them. The other factor, like weights of
    a run, is a difference of two numbers of 8 bits."""
    known = e.constant(weights)
    if known is None:
        bound = STEPS**2 * prod(e.shape(weights)[axis] for axis in axes)
    else:
        bound = STEPS * int(np.abs(known).sum(axis=axes, dtype=np.float64).max(initial=0))
    held = e.add("quantize", sums, dtype="i32", quantization=NUMBERS, bound=bound)
    return e.add("cast", held, dtype="i32")


def cast(e: Expansion) -> int:
    """Cast, also of stored numbers."""
    x, wanted = e.x(), DTYPES.get(e.integer("to"), "")
    held = e.tensors.table[x].dtype
    if held not in COUNTED:
        return ew.cast(e)
    if wanted == held:
        return rearranging.same(e)
    whole = numbers(e, x)
    return rearranging.same(e.seen(whole)) if wanted == "f32" else ew.cast(e.seen(whole))


def matmul_to_float(e: Expansion) -> int:
    """A product of stored numbers times both scales, and a bias."""
    y = matrices.matmul(e.seen(*_integer_factors(e, 4)))
    return _scaled(e, y, (e.x(2), e.x(3)), 6)


def dynamic_matmul(e: Expansion) -> int:
    """The first factor is quantized by its own range."""
    a, scale, zero = dynamic_quantize(e)
    left = e.add("sub", numbers(e, a), numbers(e, zero))
    y = matrices.matmul(e.seen(left, _differences(e, 1, 3, e.rank(e.x(1)) - 1)))
    return _scaled(e, y, (scale, e.x(2)), 4)


def _scaled(e: Expansion, y: int, scales: Sequence[int], bias: int) -> int:
    for scale in scales:
        y = e.add("mul", y, spread_over(e, scale, e.rank(y), e.rank(y) - 1))
    return e.add("add", y, e.x(bias)) if e.has(bias) else y
