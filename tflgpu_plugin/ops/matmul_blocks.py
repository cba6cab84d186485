"""`matmul_blocks(x [..., K], weights [N, blocks, words], scales [N, blocks], zeros [N, blocks] |
None): bits, block` -> [..., N]: a product with block-quantized weights that stay in 2, 4 or 8 bits
in memory. A row has K numbers; each `block` of them has a scale and a zero point (float32; default:
the middle of the range). An int32 word holds 16, 8 or 4 numbers, the first in its lowest bits. All
operands but x are constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Array, Geometry, Graph, Node, Refusal, Shape, ShapeError, Target
from tflgpu_plugin.ops import row_norms
from tflgpu_plugin.ops.blocks import Blocks
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.fully_connected import KEPT, Rows, are_many, as_point, tiled
from tflgpu_plugin.ops.lowering import (
    MAX_LOOP_ROUNDS,
    WORKGROUP,
    Access,
    Constant,
    Kernel,
    Lowering,
    Stores,
)  # fmt: skip
from tflgpu_plugin.ops.packing import VECTOR_BYTES, pieces_of
from tflgpu_plugin.ops.product import multiply
from tflgpu_plugin.ops.table import Op, unplanned
from tflgpu_plugin.ops.tiles import team_of

MIN_BLOCK = 16  # smallest block; blocks are powers of two
UNIT = 32  # most numbers per iteration
MAX_ROWS = {2: 1, 4: 2, 8: 4}  # rows per thread, by bits
AT_ONCE = 2  # rows for which registers hold all words of a unit


def count_blocks(graph: Graph, node: Node, numbers: int) -> tuple[int, int]:
    """Returns the number of rows of weights, and the number of blocks in a row with this many
    numbers. Raises ValueError if the operands do not fit."""
    block, bits = (int(node.attributes[name]) for name in ("block", "bits"))
    weights, scales = (graph.shape(node.operand(k)) for k in (1, 2))
    count = -(-numbers // block) if block > 0 else 0
    zeros = node.inputs[3] if len(node.inputs) > 3 else None
    given = [scales] + ([graph.shape(zeros)] if zeros is not None else [])
    if (
        bits not in MAX_ROWS or block < MIN_BLOCK or block & (block - 1)
        or weights[1:] != (count, block * bits // 32) or any(s != weights[:2] for s in given)
    ):  # fmt: skip
        raise ShapeError(f"weights of {list(weights)} in {bits} bits do not fit {numbers} inputs")
    return weights[0], count


def _sizes(graph: Graph, node: Node) -> tuple[int, int, int, int]:
    """Returns the numbers of inputs, outputs, blocks per output, and numbers per block. Raises
    ValueError if the operands do not fit."""
    x = graph.shape(node.operand())
    inputs = x[-1] if x else 0
    return inputs, *count_blocks(graph, node, inputs), int(node.attributes["block"])


def refuse_constants(graph: Graph, node: Node) -> Refusal | None:
    """All but the first input is constant."""
    if any(t is not None and graph.constant(t) is None for t in node.inputs[1:]):
        return Refusal(
            "constant.required", "Weights, scales and zero points of blocks are constants."
        )
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    return [(*graph.shape(node.operand())[:-1], _sizes(graph, node)[1])]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant weights in blocks of a power of two of at least 16 numbers."""
    reason = unplanned("A product with blocks", shapes, graph, node)
    reason = reason or refuse_constants(graph, node)
    if reason is None and 0 in (*graph.shape(node.operand()), *graph.shape(node.operand(1))):
        return Refusal("shape.empty", "A matrix product of empty tensors is not supported.")
    return reason


def decompose(steps: Decomposition, node: Node) -> bool:
    """Gives vectors a leading axis, and flattens leading dimensions beyond the kernel's rank."""
    shape = steps.shape(node.operand())
    if 2 <= len(shape) <= KEPT:
        return False
    rows = steps.reshape(node.operand(), (prod(shape[:-1]), shape[-1]))
    made = steps.add("matmul_blocks", rows, *node.inputs[1:], **node.attributes)
    steps.last("reshape", made, None, shape=steps.shape(node.outputs[0]))
    return True


# ---- forms ---------------------------------------------------------------------------------------


class BlockProduct(NamedTuple):
    """A matrix product with block-quantized weights."""

    low: Lowering
    node: Node
    inputs: int
    outputs: int

    @classmethod
    def of(cls, low: Lowering, node: Node) -> BlockProduct:
        """Returns the product of this node."""
        inputs, outputs, *_ = _sizes(low.graph, node)
        return cls(low, node, inputs, outputs)

    @property
    def x(self) -> Geometry:
        return self.low.geometry(self.node.operand())

    @property
    def blocks(self) -> Blocks:
        """Returns the order of the weights as float32."""
        return tiled(self.low, self.x, (self.outputs, self.inputs))[1]

    @property
    def vectors(self) -> int:
        return self.blocks.count * self.blocks.block_vectors


def _fits(b: BlockProduct) -> bool:
    """Whether one binding holds the weights, both packed and as float32."""
    most = max(b.vectors * VECTOR_BYTES, row_bytes(b.low, b.node) * b.outputs)
    return most <= b.low.target.storage_bytes and b.inputs <= MAX_LOOP_ROUNDS


def _lower_unpacked(b: BlockProduct) -> None:
    """Records two launches: one dequantizes the weights, into memory that all such layers share,
    and one multiplies."""
    low, node, blocks, x = b.low, b.node, b.blocks, b.x
    packed = low.temporary(b.vectors)
    reads, parameters, variant = constant_blocks(low, node, slice(0, b.outputs))
    groups = -(-blocks.channels * int(node.attributes["bits"]) // 32)
    threads = blocks.count * groups * blocks.slices
    low.dispatch(
        Kernel(
            "matmul_blocks_weights",
            {
                **parameters, "vectors": threads, "channels": blocks.channels, "inputs": b.inputs,
                "slices": blocks.slices, "groups": groups,
            },
            variant,
        ),
        node,
        reads,
        {"y": packed},
        (-(-threads // WORKGROUP), 1, 1),
        stores=Stores(fused=False),
    )  # fmt: skip
    rows = Rows(low, node, x.batch * x.spatial, low.geometry(node.outputs[0]).spatial)
    multiply(low, node, as_point(rows, (b.outputs, b.inputs))._replace(packed=packed))


def _multiply(b: BlockProduct) -> None:
    """Records a launch for each range of outputs whose weights fit a binding; a thread, or a team
    that shares the inputs, computes some rows of x."""
    low, node, x, inputs, outputs = b.low, b.node, b.x, b.inputs, b.outputs
    block, bits = (int(node.attributes[name]) for name in ("block", "bits"))
    rows = x.batch * x.spatial
    together = min(MAX_ROWS[bits], 1 << (rows - 1).bit_length())
    lanes = 8 if low.target.software else 64
    used, unit = -(-inputs * bits // 32), min(block, UNIT) * bits // 32
    units = -(-used // unit)
    team = team_of(low.target, units, -(-outputs // 4) * -(-rows // together))
    low.loops(node, -(-units // team) * (unit + 2) + 1)
    whole = unit % 4 == 0 and inputs * bits % (32 * unit) == 0
    fits = together <= AT_ONCE and whole and not low.target.software
    words = unit if fits else 0
    normed = row_norms.taken(low, node, rows * outputs * inputs)
    given = normed.reads if normed else {"x": low.stored(node.operand())}
    for first, last in low.fitting(outputs, row_bytes(low, node), "4 rows of weights are", 4):
        here, slices = slice(first, last), -(-(last - first) // 4)
        reads, parameters, variant = constant_blocks(low, node, here)
        reads |= {"w": replace(reads["w"], view=4)} if words else {}
        low.dispatch(
            Kernel(
                "matmul_blocks",
                {
                    **parameters, "rows": rows, "slices": slices, "used": used,
                    "in_slices": x.slices, "x_pixels": x.spatial, "units": units,
                    "unit_words": unit, "block_units": block * bits // 32 // unit,
                    "first_slice": first // 4, "y_slices": -(-outputs // 4),
                    **(normed.parameters if normed else {}),
                },
                {
                    **variant, "rows": together, "team": team, "lanes": lanes,
                    "words": words, **(normed.variant if normed else row_norms.PLAIN),
                    "shuffled": low.target.shuffles,
                },
            ),
            node,
            {**given, **reads},
            {"y": node.outputs[0]},
            (-(-slices // (lanes // team)), -(-rows // together), 1),
        )  # fmt: skip


FORMS = Forms(
    BlockProduct.of,
    (
        Form("unpacked_blocks", _fits, _lower_unpacked, lambda b: are_many(b.x)),
        Form("packed_blocks", always, _multiply),
    ),
)


def row_bytes(low: Lowering, node: Node) -> int:
    """Returns the size in bytes of a row of weights (one output)."""
    return 4 * prod(low.graph.shape(node.operand(1))[1:])


def constant_blocks(
    low: Lowering, node: Node, rows: slice
) -> tuple[dict[str, Access], dict[str, object], dict[str, object]]:
    """Returns the operands, parameters and variant of a kernel for some rows of weights."""
    count = low.graph.shape(node.operand(2))[1]
    block, bits = (int(node.attributes[name]) for name in ("block", "bits"))
    zeros = node.inputs[3] if len(node.inputs) > 3 else None
    reads = {
        "w": Access(_words(low, node.operand(1), rows), 0),
        "scale": Access(_scales(low, node.operand(2), zeros, rows), 1 if zeros is None else 2),
    }
    parameters: dict[str, object] = {
        "outputs": rows.stop - rows.start, "words": row_bytes(low, node) // 4, "blocks": count,
        "size": block,
    }  # fmt: skip
    return reads, parameters, {"bits": bits, "zeros": zeros is not None}


def _words(low: Lowering, tensor: int, rows: slice) -> Constant:
    """Returns these rows of the packed weights."""
    size = 4 * prod(low.graph.shape(tensor)[1:]) * (rows.stop - rows.start)
    vectors = -(-size // 16)

    def pack(data: Array) -> Iterator[Array]:
        flat, step = np.ascontiguousarray(data[rows]).reshape(-1).view(np.uint8), pieces_of(1)
        for first in range(0, size, step):
            yield flat[first : first + step]
        yield np.zeros(16 * vectors - size, np.uint8)

    return low.constant(tensor, "words", rows.start, rows.stop, vectors=vectors, pack=pack,
                        int32=True)  # fmt: skip


def _scales(low: Lowering, tensor: int, zeros: int | None, rows: slice) -> Constant:
    """Returns the scales of the blocks in these rows of weights, each followed by its zero point if
    `zeros` is given."""
    each, points = 1 if zeros is None else 2, low.graph.constant(zeros)
    count = low.graph.shape(tensor)[1] * (rows.stop - rows.start) * each
    vectors = -(-count // 4)

    def pack(data: Array) -> Array:
        parts = [part[rows].reshape(-1) for part in (data, points) if part is not None]
        return np.pad(np.stack(parts, 1).astype(np.float32).reshape(-1), (0, 4 * vectors - count))

    how = ("scales", low.digest(zeros), rows.start, rows.stop)
    return low.constant(tensor, *how, vectors=vectors, pack=pack)


def _work(graph: Graph, node: Node) -> int:
    return prod(graph.shape(node.operand())) * _sizes(graph, node)[1]


ATTRIBUTES = "bits! block!"
OPS = (
    Op("matmul_blocks", refuse, shapes, FORMS, "accumulate", types=("f32", "i32"), work=_work,
       kind="product", fuses=True, decompose=decompose,
       operands="xxx?", output_rows=(1, 2, 3), accumulates=False),
)  # fmt: skip
