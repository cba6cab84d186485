"""A judge of quantized ONNX models that owes nothing to the CPU: sums of integers without an
error, and the rounding that the operators document (to the nearest, halves to even).

onnxruntime's own kernels are a second witness where `host_is_exact`: x86 without VNNI adds two
products of uint8 and int8 in 16 bits, which saturates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from conformance.references import float64
from conformance.references.pools import pool
from conformance.variants import integer_groups
from tflgpu_plugin.harness import onnx as runner
from tflgpu_plugin.ir import Array

EXACT, WITH_HOST = "exact integers", "exact integers + host"
MICROSOFT = "com.microsoft"
PROBE_DEPTH = 64  # products per sum of the probe: their 16-bit halves overflow many times


def evaluate(model: bytes, feed: Mapping[str, Array]) -> list[Any]:
    """Returns the outputs of a quantized model; float32 becomes float64, which holds every sum of
    products of 8 or 16 bits exactly."""
    whole = integer_groups.grouped(onnx.load_model_from_string(model))
    return float64.evaluate(whole, feed, OPERATORS)


@cache
def host_is_exact() -> bool:
    """Whether onnxruntime multiplies all pairs of 8-bit types without an error on this CPU."""
    kinds = (np.uint8, np.int8)
    return all(_agrees(a, b) for a in kinds for b in kinds)


def judge() -> str:
    """Returns the name of the reference for integer operators here, for records."""
    return WITH_HOST if host_is_exact() else EXACT


def witnesses(model: bytes, feed: Mapping[str, Array], host: Any) -> Iterator[list[Array]]:
    """Returns the right outputs of a model: by exact arithmetic, and by the session `host` where
    its kernels are exact."""
    told = list(host.run(None, feed))
    yield [np.asarray(a, b.dtype) for a, b in zip(evaluate(model, feed), told, strict=True)]
    if host_is_exact():
        yield told


def _agrees(first: type, second: type) -> bool:

    chance = np.random.default_rng(64)
    fed: dict[str, Array] = {}
    for name, kind, shape in (("a", first, (8, PROBE_DEPTH)), ("b", second, (PROBE_DEPTH, 16))):
        ends: Any = np.iinfo(kind)
        fed[name] = chance.integers(ends.min, ends.max + 1, shape).astype(kind)
        fed[name][:2, :2] = ends.max
    node = onnx.helper.make_node("MatMulInteger", list(fed), ["y"])
    given = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in fed.items()
    ]
    made = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)
    graph = onnx.helper.make_graph([node], "probe", given, [made])
    opset = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    (got,) = runner.opened(model.SerializeToString(), runner.settings()).run(None, fed)
    return np.array_equal(got, fed["a"].astype(np.int64) @ fed["b"].astype(np.int64))


def _along(values: Any, x: Array, axis: int, block: int = 0) -> Any:
    """Returns scales or zero points in a shape that broadcasts over x: a single one, one per index
    of `axis`, or one per block of this many indices."""
    values = np.asarray(0 if values is None else values)
    if block and values.ndim == x.ndim:
        return np.repeat(values, block, axis).take(np.arange(x.shape[axis]), axis)
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


def _less(x: Array, zero: Any, axis: int = 0, block: int = 0) -> Array:
    """Returns stored numbers minus their zero points: integers in float64."""
    return np.asarray(x.astype(np.float64) - _along(zero, x, axis, block))


def _stored(steps: Array, zero: Any, dtype: Any = np.uint8) -> Array:
    """Returns stored numbers for integers; `dtype` is used where no zero point determines the
    type."""
    kind = dtype if zero is None else np.asarray(zero).dtype
    ends = np.iinfo(kind)
    placed = np.rint(steps) + (0 if zero is None else np.asarray(zero).astype(np.float64))
    return np.asarray(np.clip(placed, ends.min, ends.max).astype(kind))


def _rescaled(sums: Array, first: Any, second: Any, ys: Any, yz: Any) -> Array:
    """Returns integer sums times the product of three scales, computed in float32 as in hosts: so
    results close to a half are rounded in the same direction."""
    a, b, y = (np.asarray(scale).astype(np.float32) for scale in (first, second, ys))
    return _stored(sums.astype(np.float32) * (a * b / y), yz)


class QuantizeLinear(OpRun):
    """Divides float32 values in float32, as the operator specifies. Other values, inside of a
    group, are not rounded, so that halves stay halves."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1,
             block_size: int = 0, output_dtype: int = 0, **_: object) -> tuple[Array]:  # fmt: skip
        step = _along(scale, x, axis, block_size)
        narrow = x.astype(np.float32)
        steps = np.where(narrow == x, narrow / step.astype(np.float32), x / step)
        place = None if zero is None else _along(zero, x, axis, block_size)
        kind = onnx.helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else np.uint8
        return (_stored(steps, place, kind),)


class DequantizeLinear(OpRun):
    op_domain = ""

    def _run(self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1,
             block_size: int = 0, **_: object) -> tuple[Array]:  # fmt: skip
        step = _along(scale, x, axis, block_size)
        return (_less(x, zero, axis, block_size) * step.astype(np.float64),)


class DynamicQuantizeLinear(OpRun):
    """Quantizes in float32 by the operator's formula, so that the numbers are equal."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, Array, Array]:
        stored, scale, zero = _ranged(x)
        return stored, np.asarray(np.float64(scale)), np.asarray(zero)


def _ranged(x: Array) -> tuple[Array, np.float32, np.uint8]:
    """Quantizes x to uint8 levels that span its range; returns the numbers, the scale and the zero
    point."""
    narrow = x.astype(np.float32)
    high, low = narrow.max(initial=np.float32(0)), narrow.min(initial=np.float32(0))
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    zero = np.uint8(np.clip(np.rint(np.float32(0) - low / scale), 0, 255))
    return _stored(narrow / scale, zero), scale, zero


def _product(a: Array, b: Array, a_zero: Any, b_zero: Any) -> Array:
    """Returns sums of integer products; zero points of `a` are per row, those of `b` per column."""
    return np.asarray(np.matmul(_less(a, a_zero, a.ndim - 2), _less(b, b_zero, b.ndim - 1)))


class MatMulInteger(OpRun):
    op_domain = ""

    def _run(self, a: Array, b: Array, a_zero: Any = None, b_zero: Any = None) -> tuple[Array]:
        return (_product(a, b, a_zero, b_zero).astype(np.int32),)


def _convolved(x: Array, w: Array, x_zero: Any, w_zero: Any, attributes: Any) -> Array:
    return float64.convolve(_less(x, x_zero), _less(w, w_zero), **attributes)


class ConvInteger(OpRun):
    op_domain = ""

    def _run(self, x: Array, w: Array, x_zero: Any = None, w_zero: Any = None,
             **attributes: Any) -> tuple[Array]:  # fmt: skip
        return (_convolved(x, w, x_zero, w_zero, attributes).astype(np.int32),)


class QLinearConv(OpRun):
    op_domain = ""

    def _run(self, x: Array, xs: Array, xz: Array, w: Array, ws: Array, wz: Array, ys: Array,
             yz: Array, bias: Array | None = None, **attributes: Any) -> tuple[Array]:  # fmt: skip
        sums = _convolved(x, w, xz, wz, attributes)
        sums = sums if bias is None else sums + _along(bias, sums, 1)
        return (_rescaled(sums, xs, _along(ws, sums, 1), ys, yz),)


class QLinearMatMul(OpRun):
    op_domain = ""

    def _run(self, a: Array, s: Array, az: Array, b: Array, bs: Array, bz: Array, ys: Array,
             yz: Array) -> tuple[Array]:  # fmt: skip
        sums = _product(a, b, az, bz)
        return (_rescaled(sums, _along(s, sums, -2), _along(bs, sums, -1), ys, yz),)


class Layer(OpRun):
    """Computes a quantized group (dequantize, Gemm, quantize)."""

    op_domain = integer_groups.GROUPS

    def _run(self, a: Array, s: Array, az: Array, b: Array, bs: Array, bz: Array, ys: Array,
             yz: Array, c: Array | None = None, alpha: float = 1.0, beta: float = 1.0,
             **transposed: int) -> tuple[Array]:  # fmt: skip
        assert alpha == beta == 1.0
        a, b = a.T if transposed.get("transA") else a, b.T if transposed.get("transB") else b
        sums = _product(a, b, az, bz) + (0 if c is None else c.astype(np.float64))
        return (_rescaled(sums, s, _along(bs, sums, -1), ys, yz),)


class QGemm(OpRun):
    """Computes QGemm, whose result is float32 if it has no scale."""

    op_domain = MICROSOFT

    def _run(self, a: Array, s: Array, az: Array, b: Array, bs: Array, bz: Array,
             c: Array | None = None, ys: Array | None = None, yz: Array | None = None,
             alpha: float = 1.0, **transposed: int) -> tuple[Array]:  # fmt: skip
        a, b = a.T if transposed.get("transA") else a, b.T if transposed.get("transB") else b
        sums = _product(a, b, az, bz) + (0 if c is None else c.astype(np.float64))
        factor = np.float32(alpha) * s
        if ys is None:
            return (sums * (factor * _along(bs, sums, -1)),)
        return (_rescaled(sums, factor, _along(bs, sums, -1), ys, yz),)


class MatMulIntegerToFloat(OpRun):
    op_domain = MICROSOFT

    def _run(self, a: Array, b: Array, s: Array, bs: Array, az: Any = None, bz: Any = None,
             bias: Array | None = None) -> tuple[Array]:  # fmt: skip
        sums = _product(a, b, az, bz)
        return (sums * s * _along(bs, sums, -1) + (0 if bias is None else bias),)


class DynamicQuantizeMatMul(OpRun):
    op_domain = MICROSOFT

    def _run(self, x: Array, b: Array, bs: Array, bz: Any = None,
             bias: Array | None = None) -> tuple[Array]:  # fmt: skip
        a, scale, zero = _ranged(x)
        sums = _product(a, b, zero, bz)
        step = np.float64(scale) * _along(bs, sums, -1)
        return (sums * step + (0 if bias is None else bias),)


class MatMulNBits(OpRun):
    """Multiplies with weights of `bits` bits in blocks, the lowest bits first; zero points are
    packed alike, or floats."""

    op_domain = MICROSOFT

    def _run(self, x: Array, w: Array, s: Array, zero: Array | None = None, _: Any = None,
             bias: Array | None = None, bits: int = 4, block_size: int = 32,
             **sizes: int) -> tuple[Array]:  # fmt: skip
        inputs, outputs = sizes["K"], sizes["N"]
        count = -(-inputs // block_size)
        if zero is None:
            zero = np.full((outputs, count), 2.0 ** (bits - 1))
        elif zero.dtype == np.uint8:
            zero = _unpacked(zero.reshape(outputs, -1), bits)[:, :count]
        stored = _unpacked(w.reshape(outputs, count, -1), bits) - zero.reshape(outputs, count, 1)
        real = (stored * s.reshape(outputs, count, 1)).reshape(outputs, -1)[:, :inputs]
        return (x @ real.T + (0 if bias is None else bias),)


class GatherBlockQuantized(OpRun):
    """Gathers rows of a table; uint8 holds two 4-bit numbers, which are unsigned with an offset
    unless stated otherwise."""

    op_domain = MICROSOFT

    def _run(self, w: Array, ids: Array, s: Array, zero: Array | None = None, bits: int = 4,
             block_size: int = 128, **_: Any) -> tuple[Array]:  # fmt: skip
        numbers, shift = np.asarray(w, np.float64), np.zeros(s.shape)
        if w.dtype == np.uint8 and w.shape[1] * 8 < s.shape[1] * block_size * bits + 1:
            numbers, shift = _unpacked(w, bits), np.full(s.shape, 2.0 ** (bits - 1))
            zero = None if zero is None else _unpacked(zero, bits)[:, : s.shape[1]]
        shift = shift if zero is None else np.asarray(zero, np.float64)
        blocks = numbers.reshape(*s.shape, block_size) - shift[..., None]
        return ((blocks * s[..., None]).reshape(numbers.shape)[ids],)


def _unpacked(packed: Array, bits: int) -> Array:
    """Returns numbers of this many bits, packed in the bytes of the last axis, as float64."""
    parts = [packed >> shift & 2**bits - 1 for shift in range(0, 8, bits)]
    whole = np.stack(parts, -1).reshape(*packed.shape[:-1], -1)
    return np.asarray(whole, np.float64)


def _real(x: Array, scale: Array, zero: Any) -> Array:
    return np.asarray(_less(x, zero) * np.asarray(scale, np.float64))


def _made(name: str, function: Callable[..., Array]) -> type[OpRun]:
    """Returns an operator of onnxruntime that computes with the real values of its inputs."""

    def run(_: Any, *given: Any, **attributes: Any) -> tuple[Array]:
        return (function(*given, **attributes),)

    return type(name, (OpRun,), {"op_domain": MICROSOFT, "_run": run})


def _binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def run(a: Array, s: Array, az: Any, b: Array, bs: Array, bz: Any, ys: Array,
            yz: Any = None) -> Array:  # fmt: skip
        return _stored(function(_real(a, s, az), _real(b, bs, bz)) / ys, yz, a.dtype)

    return run


def _sum(a: Array, s: Array, az: Any, b: Array, bs: Array, bz: Any, ys: Array, yz: Any) -> Array:
    """Returns the sum of stored numbers times float32 factors, with one rounding a term, like a
    fused multiply-add; so values near a half round in the direction of MLAS (qladd.cpp)."""
    first, second, y = (np.asarray(scale).astype(np.float32) for scale in (s, bs, ys))
    zeros = [np.float64(0 if z is None else z) for z in (az, bz, yz)]
    left, right = (np.float64(scale / y) for scale in (first, second))
    shift = np.float32(left * zeros[0] + np.float64(np.float32(right * zeros[1])))
    start = np.float64(np.float32(zeros[2] - shift))
    inner = (b * right + start).astype(np.float32)
    whole = (a * left + inner.astype(np.float64)).astype(np.float32)
    return _stored(whole - zeros[2], yz, a.dtype)


def _unary(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(x: Array, s: Array, z: Any, ys: Array, yz: Any = None, **attributes: Any) -> Array:
        return _stored(function(_real(x, s, z), **attributes) / ys, yz, x.dtype)

    return run


def _softmax(x: Array, axis: int = -1, opset: int = 13) -> Array:
    flat = x if opset >= 13 else x.reshape(*x.shape[: axis % x.ndim], -1)
    powers = np.exp(flat - flat.max(axis if opset >= 13 else -1, keepdims=True))
    return np.asarray(powers / powers.sum(axis if opset >= 13 else -1, keepdims=True)).reshape(
        x.shape
    )


def _leaky(x: Array, alpha: float = 0.01) -> Array:
    return np.where(x < 0, x * np.float32(alpha), x)


def _average(x: Array, kernel_shape: list[int], strides: list[int] | None = None,
             pads: list[int] | None = None, ceil_mode: int = 0, count_include_pad: int = 0,
             channels_last: int = 0, **_: object) -> Array:  # fmt: skip
    rank = len(kernel_shape)
    pads, strides = pads or [0] * 2 * rank, strides or [1] * rank
    sides = tuple(pads[k + rank * end] for k in range(rank) for end in (0, 1))
    image = x if channels_last else np.moveaxis(x, 1, -1)
    found = pool(
        image, tuple(kernel_shape), tuple(strides), sides, ceil_mode=bool(ceil_mode),
        counted=bool(count_include_pad), kind="average",
    )  # fmt: skip
    return np.asarray(found if channels_last else np.moveaxis(found, -1, 1))


def _global_average(x: Array, channels_last: int = 0) -> Array:
    axes = range(1, x.ndim - 1) if channels_last else range(2, x.ndim)
    return np.asarray(x.mean(tuple(axes), keepdims=True))


def _joined(ys: Array, yz: Any, *triples: Any, axis: int) -> Array:
    parts = zip(triples[::3], triples[1::3], triples[2::3], strict=True)
    return _stored(np.concatenate([_real(*part) for part in parts], axis) / ys, yz)


class Resize(float64.Resize):
    """Resizes stored numbers, whose type does not change."""

    def _run(self, x: Array, *given: Any, **attributes: Any) -> tuple[Array]:
        (y,) = super()._run(x, *given, **attributes)
        return (_stored(y, np.zeros((), x.dtype)) if x.dtype.kind in "iu" else y,)


OPERATORS: tuple[type[OpRun], ...] = (
    QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, MatMulInteger, ConvInteger,
    Layer, QLinearConv, QLinearMatMul, QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul,
    MatMulNBits, GatherBlockQuantized, Resize,
    *(type(op.__name__, (op,), {"op_domain": MICROSOFT})
      for op in (QuantizeLinear, DequantizeLinear)),
    _made("QLinearAdd", _sum), _made("QLinearMul", _binary(np.multiply)),
    _made("QLinearSigmoid", _unary(lambda x: 1 / (1 + np.exp(-x)))),
    _made("QLinearLeakyRelu", _unary(_leaky)), _made("QLinearSoftmax", _unary(_softmax)),
    _made("QLinearAveragePool", _unary(_average)),
    _made("QLinearGlobalAveragePool", _unary(_global_average)), _made("QLinearConcat", _joined),
)  # fmt: skip
