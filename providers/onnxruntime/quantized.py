"""Rows for quantized operators: the real values that the inputs stand for, the float32 row, and the
result put on its grid; integer operators work on the stored numbers.

A scale that is known beforehand becomes a tensor's quantization, and nothing is computed to get at
its values. Scales of a run, and several along an axis, become arithmetic on the numbers. Formulas
are those of QuantizeLinear-23, DynamicQuantizeLinear-11 and onnxruntime's contrib operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin import quantization
from tflgpu_plugin.graph import Array, Quantization, Tensor
from tflgpu_plugin.quantization import COUNTS, EVEN, NUMBERS

from . import blocks, matrices, rearranging, resizing, windows
from . import elementwise as ew
from .expansion import COUNTED, Expansion, Unreadable
from .host import DTYPES

Row = Callable[[Expansion], int]
STEPS = 255  # between two numbers of 8 bits


# ---- grids ---------------------------------------------------------------------------------------


def grid(scale: Array | None, zero: Array | None, axis: int = 0) -> Quantization | None:
    """The grid of constant parameters; None when one of them is not known."""
    if scale is None or zero is None:
        return None
    scales = tuple(float(s) for s in scale.reshape(-1))
    zeros = tuple(int(z) for z in zero.reshape(-1))
    return Quantization(scales, zeros * (len(scales) // len(zeros)), axis, EVEN)


def _grid_at(e: Expansion, scale: int, zero: int | None, axis: int = 0) -> Quantization | None:
    """The same of tensors; no zero point is one of 0."""
    zeros = np.zeros(1, np.int32) if zero is None else e.constant(zero)
    return grid(e.constant(scale), zeros, axis)


def numbers(e: Expansion, tensor: int) -> int:
    """The stored numbers of an integer tensor, as float32."""
    if e.constant(tensor) is not None:
        return e.derived(tensor, "numbers", make=lambda data: data.astype(np.float32))
    if e.tensors.table[tensor].dtype in COUNTS:
        return e.add("cast", tensor, dtype="f32")
    e.hold(tensor, NUMBERS)
    values, held = e.add("dequantize", tensor, dtype="f32"), e.tensors.table[tensor].quantization
    assert held is not None
    if (held.scale, held.zero_point) == ((1.0,), (0,)):
        return values
    whole = e.add("round", e.add("mul", values, e.const(1 / held.scale[0])))
    return e.add("add", whole, e.const(float(held.zero_point[0])))


def _spread(e: Expansion, parameter: int, rank: int, axis: int) -> int:
    """A parameter, one per index along the axis, in a shape that broadcasts to this rank."""
    shape = e.shape(parameter)
    if len(shape) > 1:
        return parameter
    wanted = () if shape in ((), (1,)) else (*shape, *(1,) * (rank - 1 - axis))
    return parameter if shape == wanted else e.reshape(parameter, wanted)


def _along(e: Expansion, scale: int, axis: int | None, rank: int) -> int:
    """The axis that several scales go along."""
    return e.axis(axis or 0, rank) if prod(e.shape(scale)) > 1 else 0


def real(e: Expansion, place: int, axis: int | None = None) -> int:
    """float32 values of the input at `place`; its scale and zero point are the two behind it."""
    zero = e.x(place + 2) if e.has(place + 2) else None
    return dequantized(e, e.x(place), e.x(place + 1), zero, axis)


def dequantized(
    e: Expansion, tensor: int, scale: int, zero: int | None, axis: int | None = None
) -> int:
    """float32 values scale * (stored - zero) of a tensor; several scales go along the axis."""
    rank = e.rank(tensor)
    place = _along(e, scale, axis, rank)
    known = _grid_at(e, scale, zero, place)
    counted = e.tensors.table[tensor].dtype in COUNTED
    single = counted and known is not None and len(known.scale) == 1
    if known is not None and e.constant(tensor) is not None and e.rank(scale) < 2:
        return _constant(e, tensor, known)
    if single:
        assert known is not None
        held = e.hold(tensor, known)
        if (held.scale, held.zero_point) == (known.scale, known.zero_point):
            return e.add("dequantize", tensor, dtype="f32")
    values = numbers(e, tensor)
    if zero is not None:
        values = e.add("sub", values, _spread(e, numbers(e, zero), rank, place))
    return e.add("mul", values, _spread(e, scale, rank, place))


def _constant(e: Expansion, tensor: int, known: Quantization) -> int:
    data = e.constant(tensor)
    assert data is not None
    _check_count(known, data.shape)
    key = ("dequantized", tensor, known)
    name = e.tensors.table[tensor].name
    values = e.tensors.constant(key, name, lambda: quantization.dequantize(data, known))
    e.tensors.table[values] = replace(e.tensors.table[values], quantization=known)
    return values


def _check_count(known: Quantization, shape: Sequence[int]) -> None:
    count = len(known.scale)
    if count > 1 and (known.axis >= len(shape) or shape[known.axis] != count):
        raise Unreadable(f"{count} scales do not go along axis {known.axis} of {list(shape)}.")


def stored(
    e: Expansion, values: int, scale: int, zero: int | None, dtype: str = "u8", axis: int = 0
) -> int:
    """float32 values as numbers of a grid: round(values / scale) + zero, saturating."""
    dtype = dtype if zero is None else e.tensors.table[zero].dtype
    rank = e.rank(values)
    known = _grid_at(e, scale, zero)
    if known is not None and len(known.scale) == 1:
        return e.add("quantize", values, dtype=dtype, quantization=known)
    place = _along(e, scale, axis, rank)
    whole = e.add("round", e.add("div", values, _spread(e, scale, rank, place)))
    if zero is not None:
        whole = e.add("add", whole, _spread(e, numbers(e, zero), rank, place))
    return e.add("quantize", whole, dtype=dtype, quantization=NUMBERS)


# ---- between the types ---------------------------------------------------------------------------


def _in_blocks(e: Expansion, zero: int | None) -> tuple[int, int | None]:
    """Scale and zero point (both float32) as one per element of the input."""
    block, shape = e.integer("block_size"), e.shape(e.x())
    axis = e.axis(e.integer("axis", 1), len(shape))
    if not shape or block < 1:
        raise Unreadable(f"Blocks of {block} are not supported.")
    scale = blocks.spread(e, e.x(1), axis, block, shape)
    return scale, zero if zero is None else blocks.spread(e, numbers(e, zero), axis, block, shape)


def quantize_linear(e: Expansion) -> int:
    """To 8 or 16 bits, as a whole, along an axis or in blocks."""
    kinds = {0: "u8", 2: "u8", 3: "i8", 4: "u16", 5: "i16"}
    dtype = kinds.get(e.integer("output_dtype"), "")
    zero = e.x(2) if e.has(2) else None
    if (dtype if zero is None else e.tensors.table[zero].dtype) not in COUNTED:
        raise Unreadable("Quantizing is supported to integers of 8 and 16 bits.")
    if e.integer("block_size"):
        scale, start = _in_blocks(e, zero)
        whole = e.add("round", e.add("div", e.x(), scale))
        whole = whole if start is None else e.add("add", whole, start)
        kind = dtype if zero is None else e.tensors.table[zero].dtype
        return e.add("quantize", whole, dtype=kind, quantization=NUMBERS)
    return stored(e, e.x(), e.x(1), zero, dtype, e.integer("axis", 1))


def dequantize_linear(e: Expansion) -> int:
    """From 8 or 16 bits, as a whole, along an axis or in blocks; a constant also from 32."""
    if e.tensors.table[e.x(1)].dtype != "f32":
        raise Unreadable("Dequantizing is supported to float32.")
    if e.integer("block_size"):
        scale, zero = _in_blocks(e, e.x(2) if e.has(2) else None)
        values = numbers(e, e.x())
        values = values if zero is None else e.add("sub", values, zero)
        return e.add("mul", values, scale)
    return real(e, 0, e.integer("axis", 1))


def known_values(
    inputs: Sequence[Tensor | None], axis: int, name: str, block: int = 0
) -> Tensor | None:
    """The result of a DequantizeLinear of constants, which keeps its quantization unless that is of
    blocks; None when it is not known."""
    data, scale, zero = (*inputs, None)[:3]
    if data is None or scale is None or data.data is None or scale.dtype != "f32":
        return None
    zeros = np.zeros(1, np.int32) if zero is None else zero.data
    axis += data.data.ndim if axis < 0 else 0
    if block:
        return _known_blocks(data.data, scale.data, zeros, axis, block, name)
    found = grid(scale.data, zeros, axis)
    if found is None or len(scale.shape) > 1:
        return None
    if len(found.scale) > 1 and data.data.shape[axis : axis + 1] != (len(found.scale),):
        return None
    values = quantization.dequantize(data.data, found)
    return Tensor(name, values.shape, "f32", values, found)


def _known_blocks(
    data: Array, scale: Array | None, zeros: Array | None, axis: int, block: int, name: str
) -> Tensor | None:
    if scale is None or zeros is None or not 0 <= axis < data.ndim:
        return None
    shift = zeros if zeros.ndim < data.ndim else blocks.repeated(zeros, axis, block, data.shape)
    whole = data.astype(np.int64) - shift
    values = whole.astype(np.float32) * blocks.repeated(scale, axis, block, data.shape)
    return Tensor(name, values.shape, "f32", values)


def dynamic_quantize(e: Expansion) -> list[int]:
    """To uint8 by the range of the values themselves, zero among them."""
    x = e.x()
    axes = e.index(range(e.rank(x)))
    low = e.add("minimum", e.add("reduce_min", x, axes, keep_dims=False), e.const(0.0))
    high = e.add("maximum", e.add("reduce_max", x, axes, keep_dims=False), e.const(0.0))
    width = e.add("mul", e.add("sub", high, low), e.const(1 / 255))
    flat = e.add("equal", width, e.const(0.0), dtype="bool")
    scale = e.add("where", flat, e.const(1.0), width, dtype="f32")
    zero = e.add("round", e.add("div", e.add("neg", low), scale))
    whole = e.add("add", e.add("round", e.add("div", x, scale)), zero)
    y, z = (e.add("quantize", value, dtype="u8", quantization=NUMBERS) for value in (whole, zero))
    return [y, scale, z]


# ---- operators over grids ------------------------------------------------------------------------


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
        value = e.add("mul", value, _spread(e, scale, e.rank(value), e.rank(value) - 1))
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
    """A float32 row of so many inputs, each with its grid; then come those of the result."""

    def over_grids(e: Expansion) -> int:
        values = [real(e, 3 * k) for k in range(count)]
        zero = e.x(3 * count + 1) if e.has(3 * count + 1) else None
        first = e.tensors.table[e.x()].dtype
        return stored(e, row(e.seen(*values)), e.x(3 * count), zero, first)

    return over_grids


def _channels_first(e: Expansion) -> None:
    if e.integer("channels_last"):
        raise Unreadable(f"{e.host.title} with channels_last is not supported.")


def average_pool(e: Expansion) -> int:
    _channels_first(e)
    return pointwise(windows.average_pool)(e)


def global_average_pool(e: Expansion) -> int:
    _channels_first(e)
    return pointwise(ew.pool_all("mean"))(e)


def softmax(e: Expansion) -> int:
    """Softmax of the opset that an attribute names."""
    host = replace(e.host, version=13 if e.integer("opset", 13) >= 13 else 1)
    return pointwise(ew.softmax("softmax", beta=1.0))(replace(e, host=host))


def concat(e: Expansion) -> int:
    """The grid of the result first, then each input with its own."""
    places = range(2, len(e.inputs), 3)
    axis = e.axis(e.integer("axis"), e.rank(e.x(2)))
    values = [real(e, place) for place in places]
    return stored(e, e.add("concat", *values, axis=axis), e.x(0), e.x(1))


def where(e: Expansion) -> int:
    """Of two inputs with grids, after the condition."""
    first, second = real(e, 1), real(e, 4)
    return stored(e, e.add("where", e.x(0), first, second, dtype="f32"), e.x(7), e.x(8))


# ---- moves of stored numbers ---------------------------------------------------------------------


def _holds_numbers(e: Expansion) -> bool:
    return e.tensors.table[e.x()].dtype in COUNTED


def _on_same_grid(e: Expansion, row: Row, *rest: int | None) -> int:
    """A float32 row whose results are elements of its first input, or of its grid."""
    held = e.hold(e.x(), NUMBERS)
    y = row(e.seen(e.add("dequantize", e.x(), dtype="f32"), *rest))
    return e.add("quantize", y, dtype=e.tensors.table[e.x()].dtype, quantization=held)


def resize(e: Expansion) -> int:
    """Resize, of stored numbers to the nearest one."""
    if not _holds_numbers(e):
        return resizing.either(e)
    if e.text("mode", "nearest") != "nearest":
        raise Unreadable("Resizing stored numbers is supported with the mode nearest.")
    return _on_same_grid(e, resizing.either, *e.inputs[1:])


def pad(e: Expansion) -> int:
    """Pad, of stored numbers with a stored number."""
    if not _holds_numbers(e):
        return rearranging.pad(e)
    held = e.hold(e.x(), NUMBERS)
    given = e.constant(e.x(2)) if e.has(2) else np.zeros(1)
    if given is None or e.version < 11:
        raise Unreadable("The value that stored numbers are padded with must be a constant.")
    value = (float(given.reshape(-1)[0]) - held.zero_point[0]) * held.scale[0]
    return _on_same_grid(e, rearranging.pad, e.x(1), e.const(value), *e.inputs[3:])


# ---- integers ------------------------------------------------------------------------------------


def _differences(e: Expansion, place: int, zero: int, axis: int) -> int:
    """stored - zero point, as float32; weights keep what they are stored as."""
    tensor = e.x(place)
    known = e.constant(e.x(zero)) if e.has(zero) else np.zeros(1, np.int32)
    if known is not None and known.size == 1 and e.constant(tensor) is not None:
        return _constant(e, tensor, replace(NUMBERS, zero_point=(int(known.reshape(-1)[0]),)))
    values = numbers(e, tensor)
    if not e.has(zero):
        return values
    return e.add("sub", values, _spread(e, numbers(e, e.x(zero)), e.rank(tensor), axis))


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
    return e.add("quantize", sums, dtype="i32", bound=bound)


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
        y = e.add("mul", y, _spread(e, scale, e.rank(y), e.rank(y) - 1))
    return e.add("add", y, e.x(bias)) if e.has(bias) else y
