"""Table rows and builders for block quantization: one scale and zero point per block of an axis
(block_size of QuantizeLinear-23), and weights stored in blocks (MatMulNBits and
GatherBlockQuantized of com.microsoft)."""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import (
    Array,
    ImpossibleShapeRefusal,
    Refusal,
    Shape,
    ShapeRefusal,
    asks,
    packed,
)
from tflgpu_plugin.ops.gather_blocks import MAX_RANK
from tflgpu_plugin.providers import Builder

from .presence import absent
from .rearranging import part


def counts(axis: int, block: int, shape: Shape) -> Shape:
    """Returns `shape` with the extent of `axis` replaced by its number of blocks, rounded up."""
    return (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])


def repeated(values: Array, axis: int, block: int, shape: Shape) -> Array:
    """Repeats `values`, one per block of `axis`, to one per element of `shape`."""
    return np.repeat(values, block, axis).take(range(shape[axis]), axis)


def spread(e: Builder, values: int, axis: int, block: int, shape: Shape) -> int:
    """Repeats the float32 tensor `values`, one per block of `axis`, to one per element of `shape`.
    All blocks must be full unless `values` is constant."""
    if e.constant(values) is not None:
        return e.derived(
            values, "blocks", axis, block, shape,
            make=lambda data: repeated(data, axis, block, shape),
        )  # fmt: skip
    given = e.shape(values)
    parted = e.reshape(values, (*given[: axis + 1], 1, *given[axis + 1 :]))
    wide = e.add("expand", parted, e.index((*given[: axis + 1], block, *given[axis + 1 :])))
    return e.reshape(wide, shape)


def matmul_n_bits(e: Builder) -> int:
    """Builds MatMulNBits: constant weights [outputs, blocks, bytes] of 2, 4 or 8 bits stay
    packed."""
    if not e.known(e.x(1), e.x(2), e.get(3)):
        return _with_run_weights(e)
    bits, block, outputs = e.integer("bits", 4), e.integer("block_size"), e.integer("N")
    shape = outputs, -(-e.integer("K") // block)
    words = e.derived(
        e.x(1), "words", shape,
        make=lambda data: np.ascontiguousarray(data).reshape(*shape, -1).view(np.int32),
    )  # fmt: skip
    scales = e.derived(e.x(2), shape, make=lambda data: data.astype(np.float32).reshape(shape))
    zeros = None
    if e.has(3):
        zeros = e.derived(e.x(3), bits, shape, make=lambda data: _zeros(data, bits, shape))
    return e.plus(e.add("matmul_blocks", e.x(0), words, scales, zeros, bits=bits, block=block),
                  e.get(5))  # fmt: skip


def _with_run_weights(e: Builder) -> int:
    """Builds MatMulNBits with weights that are known only in a run, which dequantizes them."""
    bits, block, outputs = e.integer("bits", 4), e.integer("block_size"), e.integer("N")
    inner, blocks = e.integer("K"), -(-e.integer("K") // block)
    numbers = _parted(e, e.x(1), (outputs, blocks, block), bits)
    scales = e.reshape(_real(e, e.x(2)), (outputs, blocks, 1))
    if not e.has(3):
        moved = e.add("sub", numbers, float(2 ** (bits - 1)))
    elif e.dtype(e.x(3)) == "u8":
        count = -(-blocks * bits // 8) * 8 // bits
        zeros = part(e, _parted(e, e.x(3), (outputs, count), bits), 0, blocks)
        moved = e.add("sub", numbers, e.reshape(zeros, (outputs, blocks, 1)))
    else:
        zeros = e.reshape(_real(e, e.x(3)), (outputs, blocks, 1))
        moved = e.add("sub", numbers, zeros)
    weights = e.reshape(e.add("mul", moved, scales), (outputs, blocks * block))
    if blocks * block > inner:
        weights = part(e, weights, 0, inner)
    if e.dtype() != "f32":
        weights = e.add("cast", weights, dtype=e.dtype())
    return e.plus(e.add("matmul", e.x(0), weights, transpose_b=True), e.get(5))


def _real(e: Builder, tensor: int) -> int:
    """Returns a tensor of floats as float32."""
    return tensor if e.dtype(tensor) == "f32" else e.add("cast", tensor, dtype="f32")


def _parted(e: Builder, tensor: int, shape: Shape, bits: int) -> int:
    """Returns the numbers of 2, 4 or 8 bits in the bytes of a tensor as float32, in this shape; of
    several in a byte, that in the lowest bits is first."""
    given = e.numbers(tensor)
    if bits == 8:
        return e.reshape(given, shape)
    rest, each = e.reshape(given, (prod(shape) * bits // 8, 1)), float(2**bits)
    parts = []
    for _ in range(8 // bits - 1):
        upper = e.add("floor", e.add("mul", rest, 1 / each))
        parts.append(e.add("sub", rest, e.add("mul", upper, each)))
        rest = upper
    return e.reshape(e.add("concat", *parts, rest, axis=1), shape)


def gather_block_quantized(e: Builder) -> int:
    """Builds GatherBlockQuantized: the table of 4 or 8 bits stays packed where `_by_rows` holds,
    else it is dequantized before the run."""
    if not _by_rows(e):
        return _widened(e)
    bits, block, packed = e.integer("bits", 4), e.integer("block_size", 128), _packed(e)
    held, shape, least = e.value(0), e.shape(e.x(2)), 0
    if held.dtype == np.int8:  # the op takes unsigned numbers, so signed ones are offset
        least = -(2 ** (bits - 1))
    words = e.derived(
        e.x(0), "words", bits, block, packed, shape,
        make=lambda data: _words(data if packed else _bytes(data, bits, least), bits, block, shape),
    )  # fmt: skip
    zeros = None
    if e.has(3) and packed:
        zeros = e.derived(e.x(3), bits, shape, make=lambda data: _zeros(data, bits, shape))
    elif e.has(3):
        zeros = e.derived(e.x(3), least, make=lambda data: data.astype(np.float32) - least)
    elif _middle(e) - least != 2 ** (bits - 1):
        zeros = e.const(np.full(shape, _middle(e) - least))
    scales = e.derived(e.x(2), shape, make=lambda data: data.astype(np.float32))
    width = held.shape[1] * (2 if packed else 1)
    return e.add("gather_blocks", e.x(1), words, scales, zeros, bits=bits, block=block, width=width,
                 raises=True, dtype=e.dtype(e.x(2)))  # fmt: skip


def _by_rows(e: Builder) -> bool:
    """Whether the node gathers rows of a matrix whose blocks run along the rows, by indices that
    are not constant, with a block size that is a power of two."""
    axis, block, ids = e.integer("gather_axis"), e.integer("block_size", 128), e.x(1)
    return (
        not e.known(ids) and e.rank(ids) <= MAX_RANK and prod(e.shape(ids)) > 0
        and e.rank() == 2 and prod(e.shape()) > 0 and axis in (0, -2)
        and _quantize_axis(e) == 1 and block & (block - 1) == 0
    )  # fmt: skip


def _words(held: Array, bits: int, block: int, shape: Shape) -> Array:
    """Returns the bytes `held` [rows, n] as int32 [rows, blocks, words], zero-padded."""
    rest = shape[1] * block * bits // 8 - held.shape[1]
    whole = np.pad(held, ((0, 0), (0, rest))) if rest else np.ascontiguousarray(held)
    return np.asarray(whole.view(np.int32).reshape(*shape, -1))


def _bytes(numbers: Array, bits: int, least: int) -> Array:
    """Returns `numbers - least` as bytes; with 4 bits, each byte holds two of them."""
    counted = np.asarray(numbers - numbers.dtype.type(least), np.uint8)
    return counted if bits == 8 else packed.pack(counted, bits)


def _middle(e: Builder) -> int:
    """Returns the default zero point: the middle of the range of unsigned numbers, else 0."""
    unsigned = e.value(0).dtype == np.uint8 and (_packed(e) or e.integer("bits", 4) == 8)
    return int(2 ** (e.integer("bits", 4) - 1)) if unsigned else 0


def _widened(e: Builder) -> int:
    """Builds the lookup in a table that is dequantized to float32 before the run."""
    axis, block = _quantize_axis(e), e.integer("block_size", 128)
    numbers, zeros, scales = e.value(0), e.optional(3), e.value(2)
    if _packed(e):
        numbers = packed.unpack(numbers, 4, False)
        zeros = None if zeros is None else packed.unpack(zeros, 4, False)
    middle = np.full(scales.shape, _middle(e))
    points = middle if zeros is None else zeros[..., : scales.shape[-1]]

    def wide(_: Array) -> Array:
        spread = [
            repeated(part.astype(np.float32), axis, block, numbers.shape)
            for part in (points, scales)
        ]
        return np.asarray((numbers - spread[0]) * spread[1], np.float32)

    table = e.derived(e.x(), "blocks", block, axis, e.x(2), e.get(3), make=wide)
    made: int = e.run("Gather", table, e.x(1), attributes={"axis": e.integer("gather_axis")})
    return made


def _quantize_axis(e: Builder) -> int:
    return e.axis(e.integer("quantize_axis", 1), e.rank())


def _packed(e: Builder) -> bool:
    """Whether each byte of the table holds two numbers of 4 bits: the shape of the scales then
    matches the unpacked shape, not that of the bytes."""
    held = e.value(0)
    return e.integer("bits", 4) == 4 and held.dtype == np.uint8 and not _blocked(e, held.shape)


def _blocked(e: Builder, shape: Shape) -> bool:
    """Whether the scales have one value for each block of a table of `shape`."""
    return e.shape(e.x(2)) == counts(_quantize_axis(e), e.integer("block_size", 128), shape)


def _zeros(given: Array, bits: int, shape: Shape) -> Array:
    """Returns the zero points `given` as float32 of `shape` [outputs, blocks]. Zero points in
    uint8 are packed as the weights are, floats are not."""
    if given.dtype == np.uint8 and bits < 8:
        given = packed.unpack(given.reshape(shape[0], -1), bits, False)[:, : shape[1]]
    return given.reshape(shape).astype(np.float32)


# ---- conditions ----------------------------------------------------------------------------------


def along(e: Builder) -> Refusal | None:
    """Requires one scale, one for each element of the axis, or with block_size one for each block,
    and as many zero points; with scales or zero points that are not constant, an extent that is a
    multiple of block_size."""
    block, shape = e.integer("block_size"), e.shape()
    count = prod(e.shape(e.x(1)))
    if not block and e.has(2) and prod(e.shape(e.x(2))) != count:
        return ImpossibleShapeRefusal(
            "shape.mismatch", f"{e.host.title} needs one zero point for each of its {count} scales."
        )
    if not block and count == 1:
        return None
    if block < 0 or not shape:
        sentence = f"{count} scales for blocks of {block} do not fit an input of rank {len(shape)}."
        return Refusal("shape.mismatch", sentence)
    axis = e.axis(e.integer("axis", 1), len(shape))
    if not block:
        fits = count == shape[axis]
        sentence = f"{count} scales do not match axis {axis} of {list(shape)}."
        return None if fits else ShapeRefusal("shape.mismatch", sentence)
    given = [e.x(k) for k in (1, 2) if e.has(k)]
    if any(e.shape(t) != counts(axis, block, shape) for t in given):
        return Refusal(
            "shape.mismatch",
            f"Scales and zero points of shape {list(e.shape(given[0]))} do not match blocks of "
            f"{block} along axis {axis} of {list(shape)}.",
        )
    if shape[axis] % block and any(e.constant(t) is None for t in given):
        return Refusal(
            "constant.required",
            f"{e.host.title} needs constant scales and zero points if its last block is partial.",
        )
    return None


@asks("shape.mismatch")
def _fit(e: Builder) -> bool:
    """Requires weights, scales and zero points of matching shapes."""
    bits, block, outputs = e.integer("bits", 4), e.integer("block_size"), e.integer("N")
    count = -(-e.integer("K") // block)
    packed, scales = prod(e.shape(e.x(1))), prod(e.shape(e.x(2)))
    together = e.has(3) and e.dtype(e.x(3)) == "u8"
    wanted = outputs * (-(-count * bits // 8) if together else count)
    return (
        packed * 8 == outputs * count * block * bits
        and scales == outputs * count
        and (not e.has(3) or prod(e.shape(e.x(3))) == wanted)
    )


@asks("quantization.unsupported")
def _in_blocks(e: Builder) -> bool:
    """Requires weights in bytes of 2, 4 or 8 bits, in blocks of a power of two of at least 16."""
    bits, block = e.integer("bits", 4), e.integer("block_size")
    sized = bits in (2, 4, 8) and block >= 16 and block & (block - 1) == 0
    return sized and e.dtype(e.x(1)) == "u8" and not e.integer("weight_prepacked")


@asks("shape.mismatch", kind=ImpossibleShapeRefusal)
def _wide(e: Builder) -> bool:
    """Requires rows of K numbers."""
    # The op's last block of weights may be partial, so that other rows fit it, too.
    return e.rank() > 0 and e.shape()[-1] == e.integer("K")


N_BITS = (
    _in_blocks,
    _wide,
    absent("No g_idx (the group of each input channel).", 4),
    _fit,
)


@asks("shape.mismatch")
def table(e: Builder) -> bool:
    """Requires a table of 4 or 8 bits, with scales and zero points of matching shapes."""
    # The shape of the scales tells whether a byte holds one number or two.
    bits, block, held = e.integer("bits", 4), e.integer("block_size", 128), e.value(0)
    if bits not in (4, 8) or block < 16 or not held.ndim:
        return False
    readings = [held.shape]
    if bits == 4 and held.dtype == np.uint8:
        readings.append((*held.shape[:-1], 2 * held.shape[-1]))
    fitting = [shape for shape in readings if _blocked(e, shape)]
    zeros, wanted = e.optional(3), e.shape(e.x(2))
    if fitting and fitting[0] != held.shape:
        wanted = (*wanted[:-1], -(-wanted[-1] // 2))
    return len(fitting) == 1 and (zeros is None or zeros.shape == wanted)
