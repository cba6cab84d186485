"""Shared parts of layers with weights: operands, windows, and the block order of dense weights that
conv.wgsl reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Shape
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.lowering import Access, Constant, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.packing import VECTOR_BYTES, pieces_of, put
from tflgpu_plugin.ops.unary import LIMITS
from tflgpu_plugin.ops.window import Span, bounded, spans


def operands(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    """Returns the shapes of the input and the weights, filters first. Raises ValueError if one is
    absent."""
    x, weights = graph.shape(node.operand()), graph.shape(node.operand(1))
    return x, (*weights[-1:], *weights[:-1]) if node.attributes.get("filters_last") else weights


def windows(graph: Graph, node: Node) -> list[Span]:
    """Returns the window of the weights along each axis between batch and channels."""
    x, weights = operands(graph, node)
    return [bounded(s) for s in spans(x, weights[1:-1], node.attributes)]


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the result's shape, [B, positions ..., outputs]."""
    x, weights = operands(graph, node)
    row = ops.weights(node)
    assert row is not None
    return [(x[0], *(s.positions for s in windows(graph, node)), weights[row.axis])]


def work(graph: Graph, node: Node) -> int:
    """Returns the number of multiply-adds: one per output element and weight of it."""
    (shape,) = ops.rows()[node.op].shapes(graph, node)
    return prod(shape) // shape[-1] * prod(graph.shape(node.operand(1)))


def refuse_groups(x: Shape, weights: Shape) -> Refusal | None:
    """Refuses weights [O, ..., C / groups] that do not divide the channels of x into groups."""
    if x[-1] % weights[-1] or weights[0] % (x[-1] // weights[-1]):
        return Refusal(
            "shape.mismatch", f"{x[-1]} channels and weights of {list(weights)} do not make groups."
        )
    return None


def refuse_epilogue(graph: Graph, node: Node, outputs: int) -> Refusal | None:
    """Refuses a bias (input 2) without one value per output channel, and fused activations other
    than limits (tanh: hosts' CPU kernels ignore it, so there is no reference)."""
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

    `depth` counts input channels of a group. `merged` neighbouring groups form a dense group, with
    zeros between them, so that each dense group starts at a slice in input and output. (An infinite
    input then also spoils the results of the groups merged with its own.)"""

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
        """Returns the number of outputs of a dense group."""
        return self.outputs // self.groups * self.merged

    @property
    def dense_groups(self) -> int:
        return self.groups // self.merged

    @property
    def channels(self) -> int:
        """Returns the number of input channels of a dense group, rounded up to slices."""
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
    """Returns blocks `first` to `last` of `data` [outputs, ..., depth] as float32."""
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
    """Yields (first block, last block, source) of each part of the weights: one, or several if they
    exceed a limit of the device."""
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
    """Yields the result of `pack` in pieces of some blocks."""
    step = pieces_of(blocks.block_vectors * VECTOR_BYTES)
    for start in range(first, last, step):
        yield pack(data, blocks, start, min(start + step, last))


def _packed_on_device(
    low: Lowering, node: Node, weights: int, blocks: Blocks, first: int, last: int
) -> int:
    """Records a launch that packs weights computed at run time, into a temporary."""
    vectors = (last - first) * blocks.block_vectors
    packed = low.temporary(vectors, copied=weights)
    low.dispatch(
        Kernel(
            "conv_weights",
            {
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
        ),
        node,
        {"w": Access(weights, view=1)},
        {"y": packed},
        (-(-vectors // 64), 1, 1),
        stores=Stores(fused=False),
    )
    return packed
