"""What layers with weights share: their operands and windows, and what conv.wgsl is given, the
block order of dense weights and the launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from tflgpu_plugin import kernels, ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Shape
from tflgpu_plugin.ops.lowering import (
    MAX_LOOP_ROUNDS,
    VECTOR_BYTES,
    Access,
    Constant,
    Lowering,
    Source,
    pieces_of,
    put,
    spread,
)
from tflgpu_plugin.ops.tiles import Tile, along_row, point_tile, waiting
from tflgpu_plugin.ops.unary import LIMITS
from tflgpu_plugin.ops.window import Span, bounded, spans

STAGE = 8  # iterations whose weights are in workgroup memory at a time
# Channels of a partial sum where errors of long sums would be too large, by what they are counted
# in shares of the tolerance, which grows with the sum. Measured on stock lavapipe and the inexact
# ones: sums of 64 channels are up to 1.72 off as a whole, 1.32 in parts of 32, 1.08 of 16 and 0.83
# of 8; those of 96 and more up to 0.77 in parts of 32.
PART, LONG_PART, LONG = 8, 32, 96


def operands(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    """Shapes of the input and the weights, filters first. Raises ValueError when one is absent."""
    x, weights = graph.shape(node.operand()), graph.shape(node.operand(1))
    return x, (*weights[-1:], *weights[:-1]) if node.attributes.get("filters_last") else weights


def windows(graph: Graph, node: Node) -> list[Span]:
    """The window of the weights, along each axis between batch and channels."""
    x, weights = operands(graph, node)
    return [bounded(s) for s in spans(x, weights[1:-1], node.attributes)]


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """[B, positions ..., outputs]."""
    x, weights = operands(graph, node)
    row = ops.weights(node)
    assert row is not None
    return [(x[0], *(s.positions for s in windows(graph, node)), weights[row.axis])]


def work(graph: Graph, node: Node) -> int:
    """Multiply-adds: one per output element and weight of it."""
    (shape,) = ops.rows()[node.op].shapes(graph, node)
    return prod(shape) // shape[-1] * prod(graph.shape(node.operand(1)))


def refuse_groups(x: Shape, weights: Shape) -> Refusal | None:
    """The sentence for weights [O, ..., C / groups] that do not divide the channels of x."""
    if x[-1] % weights[-1] or weights[0] % (x[-1] // weights[-1]):
        return Refusal(
            "shape.mismatch", f"{x[-1]} channels and weights of {list(weights)} do not make groups."
        )
    return None


def refuse_epilogue(graph: Graph, node: Node, outputs: int) -> Refusal | None:
    """The sentence for a bias (input 2) that is not one row of values per output, or a fused
    activation other than a limit, such as tanh.

    Hosts' CPU kernels of these ops leave a fused tanh out, so there is no right answer.
    """
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        shape = graph.shape(bias)
        row = shape == (outputs,) or spread(graph, bias, node.outputs[0]) is not None
        if prod(shape) != outputs or not row:
            return Refusal(
                "shape.mismatch", f"The bias has shape {list(shape)} for {outputs} output channels."
            )
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", *LIMITS):
        said = f"A {activation} fused into {node.op} is not supported; make it an op of its own."
        return Refusal("activation.unsupported", said)
    return None


@dataclass(frozen=True)
class Blocks:
    """Weights [outputs, taps, depth] in the order [block][tap][channel][slice] of vec4 over
    outputs.

    `depth` counts input channels of one group. `merged` neighbouring groups form one dense group,
    zeros between them, so that every dense group starts at a whole slice on both sides (an infinite
    input then spoils the merged groups too).
    """

    outputs: int
    taps: int
    depth: int
    groups: int
    slices: int

    @property
    def merged(self) -> int:
        if self.groups == 1:
            return 1
        filters = self.outputs // self.groups
        aligned = max(4 // gcd(4, self.depth), 4 // gcd(4, filters))
        return aligned if self.groups % aligned == 0 else self.groups

    @property
    def filters(self) -> int:
        """Outputs of one dense group."""
        return self.outputs // self.groups * self.merged

    @property
    def dense_groups(self) -> int:
        return self.groups // self.merged

    @property
    def channels(self) -> int:
        """Input channels of one dense group, in whole slices."""
        return -(-self.depth * self.merged // 4) * 4

    @property
    def group_slices(self) -> int:
        return -(-self.filters // 4)

    @property
    def group_blocks(self) -> int:
        return -(-self.group_slices // self.slices)

    @property
    def tap_vectors(self) -> int:
        return self.channels * self.slices

    @property
    def block_vectors(self) -> int:
        return self.taps * self.tap_vectors

    @property
    def count(self) -> int:
        return self.dense_groups * self.group_blocks


def pack(data: Array, blocks: Blocks, first: int, last: int) -> Array:
    """Blocks `first` to `last` of `data` [outputs, ..., depth], float32."""
    depth, merged, rows = blocks.depth, blocks.merged, blocks.slices * 4
    source = data.reshape(blocks.dense_groups, blocks.filters, blocks.taps, depth)
    dense = np.zeros(((last - first) * rows, blocks.taps, blocks.channels), np.float32)
    each = blocks.filters // merged
    for group in range(first // blocks.group_blocks, -(-last // blocks.group_blocks)):
        origin = (group * blocks.group_blocks - first) * rows  # of the group's filters in `dense`
        for k in range(merged):
            part = slice(max(k * each, -origin), min((k + 1) * each, len(dense) - origin))
            if part.start < part.stop:
                where = slice(part.start + origin, part.stop + origin)
                put(dense[where, :, k * depth : (k + 1) * depth], source[group, part])
    split = dense.reshape(last - first, blocks.slices, 4, blocks.taps, blocks.channels)
    return np.ascontiguousarray(split.transpose(0, 3, 4, 1, 2))


def weight_parts(low: Lowering, node: Node, blocks: Blocks) -> Iterator[tuple[int, int, Source]]:
    """(first block, last block, source) of each part; several when one is over the limit."""
    weights, block_bytes = node.operand(1), blocks.block_vectors * VECTOR_BYTES
    what = f"The weights of {blocks.slices * 4} output channels take {block_bytes:,} bytes,"
    for first, last in low.fitting(blocks.count, block_bytes, what, told=True):
        if low.graph.constant(weights) is None:
            yield first, last, _packed_on_device(low, node, weights, blocks, first, last)
        else:
            yield first, last, _packed(low, weights, blocks, first, last)


def _packed(low: Lowering, weights: int, blocks: Blocks, first: int, last: int) -> Constant:
    vectors = (last - first) * blocks.block_vectors
    how = ("blocks", blocks, first, last)
    return low.constant(
        weights,
        *how,
        vectors=vectors,
        pack=lambda data: pieces(data, blocks, first, last),
        half=True,
    )


def pieces(data: Array, blocks: Blocks, first: int, last: int) -> Iterator[Array]:
    """`pack`, some blocks at a time."""
    step = pieces_of(blocks.block_vectors * VECTOR_BYTES)
    for start in range(first, last, step):
        yield pack(data, blocks, start, min(start + step, last))


def _packed_on_device(
    low: Lowering, node: Node, weights: int, blocks: Blocks, first: int, last: int
) -> int:
    """Runtime weights are put in block order by a kernel, into a temporary."""
    vectors = (last - first) * blocks.block_vectors
    packed = low.temporary(vectors, copied=weights)
    low.dispatch(
        "conv_weights",
        node,
        reads={"w": Access(weights, view=1)},
        writes={"y": packed},
        workgroups=(-(-vectors // 64), 1, 1),
        parameters={
            "vectors": vectors,
            "slices": blocks.slices,
            "channels": blocks.channels,
            "taps": blocks.taps,
            "first_block": first,
            "group_blocks": blocks.group_blocks,
            "filters": blocks.filters // blocks.merged,
            "merged": blocks.merged,
            "depth": blocks.depth,
            "depth_slices": -(-blocks.depth // 4),
            "four": 4,
        },
        fused=False,
    )
    return packed


def convolve(
    low: Lowering,
    node: Node,
    blocks: Blocks,
    tile: Tile,
    *,
    kernel: str,
    taps: str,
    pixels: int,
    planes: int,
    x_slice: int,
    parameters: Mapping[str, object],
    source: Source | None = None,
    strided: bool = False,
    packed: Source | None = None,
    target: int | None = None,
    threads: int | None = None,
    split: bool = False,
    variant: Mapping[str, object] | None = None,
    width: int = 1,
    in_parts: bool = False,
) -> None:
    """Launch `kernel` once per part of the weights: `pixels` output pixels in each of `planes`.

    `x_slice` is the distance of channel slices of x in vec4; those of planes follow from it, and
    those in the result from `pixels`, where `parameters` does not tell others. It adds those of the
    `taps` variant. `source`, `packed` and `target` stand for the node's own input, weights and
    output; no epilogue is applied to another target. `threads` make the pixels of one plane; if not
    given, as many as are needed. If `strided`, all distances in x are in elements, and `x_slice` is
    that of channels. If `split`, planes are parts of the channels, each with weights of its own
    (`w_batch` vec4). If `in_parts`, sums of many channels are computed as sums of partial sums.
    """
    threads = -(-pixels // tile.pixels) if threads is None else threads
    if taps == "point":
        tile = point_tile(low.target, tile)
    x_source: Source = node.operand() if source is None else source
    y = node.outputs[0] if target is None else target
    whole = [(0, blocks.count, packed)] if packed else weight_parts(low, node, blocks)
    steps = -(-blocks.depth * blocks.merged // tile.step)
    tile = waiting(low.target, tile, threads * blocks.count * planes, steps)
    tile, across = along_row(tile, width, steps)
    if max(steps, blocks.taps) > MAX_LOOP_ROUNDS:
        said = f"{blocks.depth} channels or {blocks.taps} taps are too many."
        raise Unsupported.of("shape.too_large", said, node.id)
    length = PART if blocks.depth < LONG else LONG_PART
    parts = in_parts and steps * tile.step > length
    in_stages = tile.weights == "memory" or parts
    stage = STAGE if tile.weights == "memory" else length
    if parts:
        stage = min(stage, length // tile.step)
        tile = replace(tile, ahead=min(tile.ahead, stage))
    several = tile.ahead > 1
    rounds = steps // tile.ahead + steps % tile.ahead + several
    staged = -(-steps // stage) * (19 + several) if in_stages else 0  # 16 to fill it
    lines = 2 * steps + 2 if taps == "rows" else 0
    stores = tile.slices * (tile.pixels + 2) + 1
    low.loops(node, blocks.taps * (2 + rounds + staged + lines) + 1 + stores)
    gates = ops.gates(node)
    for first, last, part in whole:
        reads: dict[str, Source | Access] = {"x": Access(x_source, view=tile.step), "w": part}
        if gates is not None:
            reads["gate"] = Access(gates, view=tile.step)
            parameters = {**parameters, "gate_batch": blocks.channels // tile.step}
        low.dispatch(
            kernel,
            node,
            reads=reads,
            writes={"y": y},
            workgroups=(-(-threads // tile.lanes), last - first, planes),
            parameters={
                "first_block": first,
                "group_blocks": blocks.group_blocks,
                "group_slices": blocks.group_slices,
                "group_x": blocks.channels // 4 * x_slice,
                "x_slice": x_slice,
                "tile_slices": tile.slices,
                "tile_pixels": tile.pixels,
                "block_vectors": blocks.block_vectors,
                "steps": steps,
                "planes": planes,
                "pixels": pixels,
                "x_batch": -(-blocks.depth * blocks.groups // 4) * x_slice,
                "y_batch": -(-blocks.outputs // 4) * pixels,
                "y_slice": pixels,
                **({"stage": stage} if in_stages else {}),
                **parameters,
            },
            variant={
                "pixels": tile.pixels,
                "slices": tile.slices,
                "step": tile.step,
                "ahead": tile.ahead,
                "lanes": tile.lanes,
                "shared": tile.shared,
                "memory": tile.weights == "memory",
                "taps": taps,
                "strided": strided,
                "split": split,
                "run": 0,
                "across": across,
                "gated": gates is not None,
                "parts": parts,
                "eights": tile.weights == "global" and tile.step * tile.slices == kernels.EIGHT,
                **(variant or {}),
            },
            fused=target is None,
        )
