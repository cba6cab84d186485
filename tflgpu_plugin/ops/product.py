"""The launches of conv.wgsl and related kernels: products of weights in blocks with an input that
is addressed in one of several ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from tflgpu_plugin import kernels, ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Node
from tflgpu_plugin.kernels import variants
from tflgpu_plugin.ops.blocks import Blocks, weight_parts
from tflgpu_plugin.ops.lowering import (
    MAX_LOOP_ROUNDS,
    Access,
    Constant,
    Kernel,
    Lowering,
    Source,
    Stores,
)
from tflgpu_plugin.ops.tiles import Tile, along_row, point_tile, waiting

STAGE = 8  # iterations whose weights share workgroup memory at a time
STAGED_WORDS = 64  # vec4 of them, where they are words of bytes
# Channels of a partial sum, chosen by the errors on stock and inexact lavapipe, in shares of the
# tolerance: sums of 64 channels are off by up to 1.72 at once, 1.32 in parts of 32, 1.08 of 16 and
# 0.83 of 8; sums of 96 channels or more by up to 0.77 in parts of 32.
PART, LONG_PART, LONG = 8, 32, 96


class Addressing(NamedTuple):
    """How a product addresses its input and result: `pixels` output pixels in each of `planes`, by
    the method that `taps` names, with its `parameters`.

    `x_slice` is the stride of x's channel slices in vec4. Strides of planes follow from it, and
    strides in the result from `pixels`, unless `parameters` has them. If `strided`, all strides of
    x are in elements, and `x_slice` is that of channels. `threads` is the number per plane
    (default: as many as needed). `width` is the window's, where taps of a row may be loaded
    together."""

    taps: str
    pixels: int
    planes: int
    x_slice: int
    parameters: Mapping[str, object]
    strided: bool = False
    threads: int | None = None
    width: int = 1

    def given(self, **parameters: object) -> Addressing:
        """Returns a copy with these parameters added or replaced."""
        return self._replace(parameters={**self.parameters, **parameters})


class Product(NamedTuple):
    """A launch of `kernel` for each part of the weights that fits a binding.

    `source`, `packed` and `target` replace the node's input, weights and output; no epilogue is
    applied to another target. If `split`, planes are parts of the channels, each with its own
    weights (`w_batch` vec4). If `in_parts`, long sums are computed as sums of partial sums.
    `variant` adds to the kernel's variant, and `more` has further operands. `table` is that of the
    epilogue (see `Stores`)."""

    blocks: Blocks
    tile: Tile
    address: Addressing
    kernel: str = "conv"
    source: Source | None = None
    packed: Source | None = None
    target: int | None = None
    split: bool = False
    in_parts: bool = False
    variant: Mapping[str, object] = MappingProxyType({})
    more: Mapping[str, Source] = MappingProxyType({})
    table: Constant | None = None


class _Loop(NamedTuple):
    """How a thread iterates over the input channels: `steps` iterations per tap, or per `across`
    taps together. `stage` iterations share weights in workgroup memory, or make one `partial` sum
    (0: neither)."""

    tile: Tile
    threads: int
    steps: int
    across: int
    stage: int
    partial: bool


def multiply(low: Lowering, node: Node, product: Product) -> None:
    """Records the launches. Raises Unsupported if channels or taps exceed the limit of loops."""
    loop, blocks = _loop(low, node, product), product.blocks
    low.loops(node, _rounds(product, loop))
    y = node.outputs[0] if product.target is None else product.target
    source: Source = node.operand() if product.source is None else product.source
    packed, gates = product.packed, ops.gates(node)
    parameters, variant = _parameters(product, loop), _variant(product, loop, gates is not None)
    for first, last, part in (
        [(0, blocks.count, packed)] if packed else weight_parts(low, node, blocks)
    ):
        reads: dict[str, Source | Access] = {"x": Access(source, view=loop.tile.step), "w": part}
        reads |= product.more
        if gates is not None:
            reads["gate"] = Access(gates, view=loop.tile.step)
            parameters["gate_batch"] = blocks.channels // loop.tile.step
        low.dispatch(
            Kernel(product.kernel, {"first_block": first, **parameters}, variant),
            node,
            reads,
            {"y": y},
            (-(-loop.threads // loop.tile.lanes), last - first, product.address.planes),
            stores=Stores(fused=product.target is None, table=product.table),
        )


def _loop(low: Lowering, node: Node, product: Product) -> _Loop:
    blocks, address, tile = product.blocks, product.address, product.tile
    threads = -(-address.pixels // tile.pixels) if address.threads is None else address.threads
    if address.taps == "point":
        tile = point_tile(low.target, tile)
    steps = -(-blocks.depth * blocks.merged // tile.step)
    tile = waiting(low.target, tile, threads * blocks.count * address.planes, steps)
    tile, across = along_row(low.target, tile, address.width, steps)
    if max(steps, blocks.taps) > MAX_LOOP_ROUNDS:
        said = f"{blocks.depth} channels or {blocks.taps} taps are too many."
        raise Unsupported.of("shape.too_large", said, node.id)
    length = PART if blocks.depth < LONG else LONG_PART
    partial = product.in_parts and steps * tile.step > length
    staged = max(STAGE, STAGED_WORDS // tile.slices) if product.variant.get("dots") else STAGE
    stage = staged if tile.weights == "memory" else length if partial else 0
    if partial:
        stage = min(stage, length // tile.step)
        tile = replace(tile, ahead=min(tile.ahead, stage))
    return _Loop(tile, threads, steps, across, stage, partial)


def _rounds(product: Product, loop: _Loop) -> int:
    """Returns the total number of iterations that one thread makes in all of its loops."""
    tile, steps = loop.tile, loop.steps
    several = tile.ahead > 1
    rounds = steps // tile.ahead + steps % tile.ahead + several
    staged = -(-steps // loop.stage) * (19 + several) if loop.stage else 0  # 16 rounds to fill it
    lines = 2 * steps + 2 if product.address.taps == "rows" else 0
    stores = tile.slices * (tile.pixels + 2) + 1
    return product.blocks.taps * (2 + rounds + staged + lines) + 1 + stores


def _parameters(product: Product, loop: _Loop) -> dict[str, object]:
    blocks, address, tile = product.blocks, product.address, loop.tile
    found: dict[str, object] = {
        "group_blocks": blocks.group_blocks,
        "group_slices": blocks.group_slices,
        "group_x": blocks.channels // 4 * address.x_slice,
        "x_slice": address.x_slice,
        "tile_slices": tile.slices,
        "tile_pixels": tile.pixels,
        "block_vectors": blocks.block_vectors,
        "steps": loop.steps,
        "planes": address.planes,
        "pixels": address.pixels,
        "x_batch": -(-blocks.depth * blocks.groups // 4) * address.x_slice,
        "y_batch": -(-blocks.outputs // 4) * address.pixels,
        "y_slice": address.pixels,
    }
    if loop.stage:
        found["stage"] = loop.stage
    return found | dict(address.parameters)


def _variant(product: Product, loop: _Loop, gated: bool) -> dict[str, object]:
    tile = loop.tile
    variant = variants.Conv(
        pixels=tile.pixels,
        slices=tile.slices,
        step=tile.step,
        ahead=tile.ahead,
        lanes=tile.lanes,
        shared=tile.shared,
        memory=tile.weights == "memory",
        stage=loop.stage if tile.weights == "memory" else 0,
        taps=product.address.taps,
        strided=product.address.strided,
        split=product.split,
        grouped=product.blocks.dense_groups > 1,
        run=0,
        across=loop.across,
        gated=gated,
        parts=loop.partial,
        eights=tile.weights == "global" and tile.step * tile.slices == kernels.EIGHT,
    )
    return variant._asdict() | dict(product.variant)
