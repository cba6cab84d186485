"""`gather_blocks(indices, weights [rows, blocks, words], scales [rows, blocks], zeros | None):
bits, block, width, raises` -> [..., width]: rows of a table that stays in 4 or 8 bits in memory,
dequantized as in `matmul_blocks`; all operands but the indices are constants. Negative indices
count from the end. Indices out of range are clamped, and with `raises`, where hosts fail, the run
is flagged."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, geometry
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering
from tflgpu_plugin.ops.matmul_blocks import (
    constant_blocks,
    count_blocks,
    refuse_constants,
    row_bytes,
)
from tflgpu_plugin.ops.pick import refuse_indices
from tflgpu_plugin.ops.table import Op, unplanned

MAX_RANK = 4  # of indices


def shapes(graph: Graph, node: Node) -> list[Shape]:
    width = int(node.attributes["width"])
    count_blocks(graph, node, width)
    return [(*graph.shape(node.operand()), width)]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant rows in blocks of a power of two of at least 16 numbers; indices of rank 4
    at most."""
    reason = unplanned("A table of blocks", shapes, graph, node) or refuse_constants(graph, node)
    if reason:
        return reason
    given = graph.shape(node.operand())
    if len(given) > MAX_RANK:
        said = f"Rows of blocks are gathered by indices up to rank {MAX_RANK}, not {len(given)}."
        return Refusal("rank.too_large", said)
    if 0 in (*graph.shape(node.operand(1)), *given):
        return Refusal("shape.empty", "Gathering no rows or from an empty table is not supported.")
    return refuse_indices(graph, node, 0)


def lower(low: Lowering, node: Node) -> None:
    """Records a launch for each part of the table that fits a binding; it writes the rows found
    there."""
    indices, (rows, *_) = node.operand(), low.graph.shape(node.operand(1))
    width, data = int(node.attributes["width"]), geometry(low.graph.shape(indices))
    raises = bool(node.attributes.get("raises"))
    for first, last in low.fitting(rows, row_bytes(low, node), "A row of the table is"):
        here = slice(first, last)
        reads, parameters, variant = constant_blocks(low, node, here)
        parts = {"first": first, "last": last} if last - first < rows else {}
        low.each_vector(
            Kernel(
                "gather_blocks",
                {
                    **parameters, **parts, "rows": rows, "width": width, "in_slices": data.slices,
                    "in_spatial": data.spatial, "in_channels": data.channels,
                },
                {**variant, "parts": bool(parts), "raises": raises},
            ),
            node,
            {"indices": Access(low.stored(indices), 1), **reads},
            checked=raises,
        )  # fmt: skip


def _work(graph: Graph, node: Node) -> int:
    return prod(shapes(graph, node)[0])


ATTRIBUTES = "bits! block! raises width!"
OPS = (
    Op("gather_blocks", refuse, shapes, lower, "exact", types=("f32", "i32"), work=_work,
       kind="product", operands="xxx?", fuses=True, accumulates=False),
)  # fmt: skip
