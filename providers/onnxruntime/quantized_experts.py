"""Builds QMoE: a mixture of experts (`experts`) whose weights stay in 4 or 8 bits in memory. The
first layers of all experts are one product; their second layers are one product, too, with the
experts' hidden rows side by side, times the router's shares. As in onnxruntime's CPU kernel, shares
are normalized whatever normalize_routing_weights says."""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import Array, asks, needs
from tflgpu_plugin.providers import Builder

from .experts import ACTIVATIONS, ROUTER, activated, chosen_shares, spread_shares
from .presence import absent

FIRST, SECOND = (2, 3, 4, 11), (5, 6, 7, 12)  # weights, scales, biases and zero points
WITHOUT = (8, 9, 10, 13, 14, *range(15, 21))
MIN_BLOCK = 16  # numbers in a block of the op

INTEGERS = needs(
    "quantization.unsupported",
    "Integers of 4 or 8 bits, the same in both layers, that are not packed for another provider.",
    lambda e: (
        e.text("quant_type", "int") == "int"
        and e.integer("expert_weight_bits", 4) in (4, 8)
        and all(e.integer(f"fc{k}_expert_weight_bits", _bits(e)) == _bits(e) for k in (1, 2))
        and e.integer("weights_prepacked", -1) <= 0
    ),
)
UNGATED = absent("No third layer, and no weights of the router beside its choice.", *WITHOUT)


def _bits(e: Builder) -> int:
    return e.integer("expert_weight_bits", 4)


@asks("constant.required")
def held(e: Builder) -> bool:
    """Requires weights, scales, zero points and finite biases that are known before a run."""
    biases = [e.constant(e.x(k)) for k in (FIRST[2], SECOND[2]) if e.has(k)]
    finite = all(bias is not None and bool(np.isfinite(bias).all()) for bias in biases)
    return finite and e.known(*(e.get(k) for k in (*FIRST, *SECOND)))


@asks("shape.mismatch")
def fitting(e: Builder) -> bool:
    """Requires rows, a router and two layers whose shapes fit each other, with one scale and zero
    point for each row of weights, or for each block of a power of two of at least 16 numbers;
    rows of a multiple of 16 numbers."""
    x, router = e.shape(), e.shape(e.x(ROUTER))
    if len(x) not in (2, 3) or len(router) != 2 or router[0] != prod(x[:-1]):
        return False
    count, wide = router[1], x[-1]
    first = e.shape(e.x(FIRST[0]))
    gated = 2 if e.text("activation_type", "relu") == "swiglu" else 1
    hidden = first[1] // gated if len(first) == 3 else 0
    return 1 <= e.integer("k", 1) <= count and all(
        _fits(e, layer, (count, rows, inner))
        for layer, rows, inner in ((FIRST, gated * hidden, wide), (SECOND, wide, hidden))
    )


def _fits(e: Builder, layer: tuple[int, ...], shape: tuple[int, int, int]) -> bool:
    weights, scales, bias, zeros = (e.shape(e.x(k)) if e.has(k) else None for k in layer)
    (count, rows, inner), bits, block = shape, _bits(e), e.integer("block_size")
    sized = not block or (block >= MIN_BLOCK and not block & (block - 1) and inner % block == 0)
    if not sized or inner % MIN_BLOCK or not prod(shape):
        return False
    blocks = inner // block if block else 1
    packed = (count, rows, -(-blocks * bits // 8)) if block else (count, -(-rows * bits // 8))
    return (
        weights == (count, rows, inner * bits // 8)
        and scales == ((count, rows, blocks) if block else (count, rows))
        and bias in (None, (count, rows))
        and zeros in (None, packed)
    )


QMOE = (INTEGERS, UNGATED, activated, held, fitting)


def qmoe(e: Builder) -> int:
    rows, count = e.shape(e.x(ROUTER))
    shape = e.shape()
    dense = spread_shares(e, *chosen_shares(e, normalized=True), count)
    hidden = _product(e, e.reshape(e.x(), (rows, shape[-1])), FIRST, beside=False)
    wide = e.shape(hidden)[1] // count
    hidden = e.reshape(hidden, (rows, count, wide))
    if e.has(FIRST[2]):
        hidden = e.add("add", hidden, e.x(FIRST[2]))
    hidden = ACTIVATIONS[e.text("activation_type", "relu")](e, hidden)
    shares = e.reshape(dense, (rows, count, 1))
    scaled = e.add("mul", hidden, shares)
    unused = e.add("equal", shares, 0.0, dtype="bool")
    scaled = e.add("where", unused, 0.0, scaled, dtype=e.dtype(scaled))
    y = _product(e, e.reshape(scaled, (rows, prod(e.shape(scaled)[1:]))), SECOND, beside=True)
    if e.has(SECOND[2]):
        y = e.add("add", y, e.run("MatMul", dense, e.x(SECOND[2])))
    return e.reshape(y, shape)


def _product(e: Builder, x: int, layer: tuple[int, ...], beside: bool) -> int:
    """Returns the product of rows with the weights of all experts: their outputs side by side, or
    the sum of their outputs for inputs that are `beside` each other."""
    bits, block = _bits(e), e.integer("block_size")
    count, rows, packed = e.shape(e.x(layer[0]))
    inner = packed * 8 // bits
    size = block or _block(inner)
    blocks = -(-inner // size)

    def placed(data: Array) -> Array:
        """Returns [experts, rows, blocks, ...] as [rows of the op, blocks, ...]."""
        if not beside:
            return np.ascontiguousarray(data.reshape(count * rows, blocks, *data.shape[3:]))
        moved = np.ascontiguousarray(np.moveaxis(data, 0, 1))
        return moved.reshape(rows, count * blocks, *data.shape[3:])

    def words(data: Array) -> Array:
        return placed(np.ascontiguousarray(data).reshape(count, rows, blocks, -1)).view(np.int32)

    def scales(data: Array) -> Array:
        each = data.astype(np.float32).reshape(count, rows, -1)
        return placed(np.broadcast_to(each, (count, rows, blocks)))

    def zeros(data: Array) -> Array:
        numbers = np.stack([data & 15, data >> 4], -1) if bits == 4 else data
        if block:
            numbers = numbers.reshape(count, rows, -1)[..., :blocks]
        else:
            numbers = numbers.reshape(count, -1)[:, :rows, None]
        return scales(numbers)

    key = (layer, bits, size, beside)
    made = [
        e.derived(e.x(position), name, key, make=make) if e.has(position) else None
        for position, name, make in (
            (layer[0], "words", words), (layer[1], "scales", scales), (layer[3], "zeros", zeros)
        )
    ]  # fmt: skip
    return e.add("matmul_blocks", x, *made, bits=bits, block=size)


def _block(inner: int) -> int:
    """Returns the largest block of a power of two that divides a row, up to 128."""
    return max(size for size in (16, 32, 64, 128) if inner % size == 0)
