"""Dense products of 8-bit layers by integer dot products (`dot4I8Packed`): a word holds four
channels of the input, and another one their weights for one output.

With x = scale * (b - zero) and weights w = v + shift, for bytes b and v with a sign, a layer's sum
of integers is sum(b v) + shift sum(b) - zero (sum(v) + shift n). The last term is a constant of
each output, with which the sums begin. It is right for padding, too, whose b are `zero`. The
epilogue gets integers, in place of multiples of the input's scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, Node
from tflgpu_plugin.ops import integer_sums, split_depth
from tflgpu_plugin.ops.blocks import Blocks, pack
from tflgpu_plugin.ops.forms import Form, Problem
from tflgpu_plugin.ops.levels import BYTE, level
from tflgpu_plugin.ops.lowering import Constant, Kernel, Lowering, Stores
from tflgpu_plugin.ops.packing import VECTOR_BYTES, pieces_of
from tflgpu_plugin.ops.product import Product, multiply
from tflgpu_plugin.ops.tiles import word_tile

NAME = "byte_products"
MAX_TERMS = 1 << 15  # of a sum of products of 9 bits that int32 holds
STEP = 4  # channels of an iteration
MIN_CHANNELS = 3  # that pay, of these


def form(made: Callable[[Problem], tuple[Lowering, Node, Product] | None]) -> Form[Problem]:
    """Returns the form for a family; `made` converts a problem of the family to a product, or to
    None where the form does not suit."""

    def suits(problem: Problem) -> bool:
        found = made(problem)
        return found is not None and _suits(*found)

    def lower(problem: Problem) -> None:
        found = made(problem)
        assert found is not None
        _lower(*found)

    return Form(NAME, suits, lower, lambda problem: False)


def _suits(low: Lowering, node: Node, product: Product) -> bool:
    """Whether the layer multiplies integers of 8 bits, and its epilogue expects their sums."""
    blocks = product.blocks
    if not node.epilogue or node.epilogue[0].op not in kernels.ROWS:
        return False
    data = low.graph.constant(node.operand(1))
    if data is None or data.dtype.kind != "i" or shift(data) is None:
        return False
    few = blocks.taps * blocks.channels <= MAX_TERMS and blocks.depth >= MIN_CHANNELS
    fits = blocks.count * blocks.block_vectors * VECTOR_BYTES // STEP <= low.target.storage_bytes
    return few and fits and level(low, node.operand()) is not None


def shift(data: Array) -> int | None:
    """Returns the number to which integers, and zeros beside them, are relative as bytes with a
    sign; None where no bytes hold them."""
    least, most = min(int(data.min()), 0), max(int(data.max()), 0)
    if most - least > BYTE.max - BYTE.min:
        return None
    return max(most - int(BYTE.max), 0) or min(least - int(BYTE.min), 0)


def _lower(low: Lowering, node: Node, product: Product) -> None:
    """Records one launch, or those of a product in parts, and that of an input in bytes, which is
    elided where the input itself can be stored in bytes."""
    product = _tiled(low, product)._replace(source=in_bytes(low, node))
    data, x = low.graph.constant(node.operand(1)), level(low, node.operand())
    less = None if data is None else shift(data)
    assert x is not None and less is not None
    weights = Weights(product.blocks, 1, x.zero, less)
    first, *rest = node.epilogue
    table = None
    if made := integer_sums.step(low, node):
        table = integer_sums.table(low, node, weights.start, *weights)
    else:
        made = replace(first, parameters=(1.0, *first.parameters[1:]))
    summed = replace(node, epilogue=(made, *rest))
    count = split_depth.parts(low, node, product)
    if count == 1:
        multiply(low, summed, _of_words(low, node, product, weights, table))
        return
    weights = weights.parted(count)
    sums = low.temporary(count * low.geometry(node.outputs[0]).vectors, int32=table is not None)
    parts = _of_words(low, node, product, weights, table)
    multiply(low, summed, parts._replace(target=sums, split=True))
    split_depth.add_parts(low, summed, sums, count, table)


def _tiled(low: Lowering, product: Product) -> Product:
    """Returns the product with a tile for bytes, except for neighbours in a row."""
    blocks, address, tile = product.blocks, product.address, product.tile
    if address.threads is None and not low.target.software:
        tile = word_tile(low.target, blocks.dense_groups * blocks.group_slices, address.pixels)
        blocks = replace(blocks, slices=tile.slices)
    if "tap_vectors" in address.parameters:
        address = address.given(tap_vectors=blocks.tap_vectors)
    return product._replace(blocks=blocks, address=address, tile=replace(tile, step=STEP))


def _of_words(
    low: Lowering, node: Node, product: Product, weights: Weights, table: Constant | None
) -> Product:
    """Returns the product with its weights in words. A `table` has the first terms of the sums."""
    blocks, count = weights.blocks, weights.parts
    words = blocks.block_vectors // STEP
    address = product.address.given(
        block_vectors=words,
        tap_vectors=blocks.tap_vectors // STEP,
        w_batch=blocks.count * words if count > 1 else 0,
        start_batch=weights.slices if count > 1 else 0,
        shift=np.int32(weights.shift),
    )
    summed = table is not None
    return product._replace(
        blocks=blocks,
        address=address._replace(planes=count) if count > 1 else address,
        packed=_words(low, node, weights),
        more={} if summed else {"start": _start(low, node, weights)},
        variant={
            "dots": True,
            "shifted": weights.shift != 0,
            "eights": False,
            "integers": summed,
            "full": summed and blocks.group_slices % blocks.slices == 0,
        },
        table=table,
    )


def in_bytes(low: Lowering, node: Node) -> int:
    """Returns the input of a layer in bytes, and records the launch that makes it."""
    x = node.operand()
    shape = low.geometry(x)
    made = low.temporary(shape.vectors)
    low.in_bytes[made] = x
    extents = {"vectors": shape.vectors, "spatial": shape.spatial, "slices": shape.slices}
    groups = (-(-shape.vectors // 64), 1, 1)
    stores = Stores(fused=False)
    low.dispatch(Kernel("unary", extents), node, {"x": x}, {"y": made}, groups, stores)
    return made


class Weights(NamedTuple):
    """Weights as words of four channels: in `parts` of the channels with `blocks` each, less
    `shift`, for an input whose byte for 0 is `zero`."""

    blocks: Blocks
    parts: int
    zero: int
    shift: int

    def parted(self, count: int) -> Weights:
        """Returns these weights in this many parts of the channels."""
        blocks = replace(self.blocks, depth=self.blocks.depth // count)
        return self._replace(blocks=blocks, parts=count)

    @property
    def slices(self) -> int:
        """Returns the number of output slices."""
        return self.blocks.dense_groups * self.blocks.group_slices

    def pieces(self, data: Array) -> Iterator[Array]:
        """Yields weights [outputs, ..., depth] as [part][block][tap][channel / 4][slice] of vec4
        over outputs, in pieces of some blocks."""
        b = self.blocks
        step = pieces_of(b.block_vectors * VECTOR_BYTES)
        for k in range(self.parts):
            part = data[..., k * b.depth : (k + 1) * b.depth]
            for first in range(0, b.count, step):
                found = pack(part, b, first, min(first + step, b.count)) - np.float32(self.shift)
                fours = found.reshape(-1, b.taps, b.channels // STEP, STEP, b.slices, 4)
                yield np.ascontiguousarray(fours.transpose(0, 1, 2, 4, 5, 3).astype(np.int8))

    def start(self, data: Array) -> Array:
        """Returns the first terms of the sums as [part][slice] of vec4 over outputs."""
        b = self.blocks
        bytes_ = np.concatenate([*self.pieces(data)])
        sums = bytes_.sum((1, 2, 5), dtype=np.int64) + self.shift * b.taps * b.channels
        each = sums.reshape(self.parts * b.dense_groups, b.group_blocks * b.slices, 4)
        return np.ascontiguousarray(-self.zero * each[:, : b.group_slices], np.int32)


def _words(low: Lowering, node: Node, weights: Weights) -> Constant:
    b = weights.blocks
    vectors = weights.parts * b.count * b.block_vectors // STEP

    def packed(data: Array) -> Iterator[Array]:
        return (piece.view(np.uint8) for piece in weights.pieces(data))

    key = "words", *weights._replace(zero=0)
    return low.constant(node.operand(1), *key, vectors=vectors, pack=packed, int32=True)


def _start(low: Lowering, node: Node, weights: Weights) -> Constant:
    vectors = weights.parts * weights.slices
    key = "start", *weights

    def packed(data: Array) -> Array:
        return weights.start(data).view(np.uint8)

    return low.constant(node.operand(1), *key, vectors=vectors, pack=packed, int32=True)
