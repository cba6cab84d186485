"""Computes a softmax of int16 as hosts do: exponentials and the reciprocal of their sum from
tables, multiplied in 32 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Levels, Node, Tensor, quantization
from tflgpu_plugin.ops import lookup, wide_total
from tflgpu_plugin.ops.quantized_int16 import MAX_INT16
from tflgpu_plugin.passes.rewriter import Rewriter

RANGE = 10.0 / 65535.0  # of the hosts' exponentials, in a difference of 1


def split(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node]:
    """Returns the nodes of a softmax of int16 along its last axis."""
    maker = _Maker(e, node)
    scale = np.float32(quantization.parameters(e.tensors[node.operand()])[0])
    factor = float(scale * np.float32(node.attributes["beta"])) / RANGE
    digit = (float(scale), 0.0, float(wide_total.SIZE), 1.0)
    axes = e.constant(np.array([len(graph.shape(node.operand())) - 1], np.int32), dtype="i32")
    numbers = maker.add("digit", node.operand(), numbers=digit)
    most = maker.add("reduce_max", numbers, axes, row=True, keep_dims=True)
    offset = e.constant(np.full((), MAX_INT16, np.float32))
    place = maker.add("add", maker.add("sub", numbers, most), offset)
    powers = maker.looked_up(place, lookup.exponentials(factor))
    whole = maker.add("cast", powers, dtype="i32")
    total = maker.add("reduce_sum", whole, axes, row=True, dtype="i32", keep_dims=True)
    part = maker.looked_up(maker.add("softmax_place", total, row=True), lookup.reciprocals())
    share = replace(node, op="softmax_share", inputs=(powers, part, total),
                    attributes={"scale": levels.scale})  # fmt: skip
    return [*maker.nodes, share]


class _Maker:
    """Makes nodes whose results have the shape of the softmax, or of its rows' sums."""

    def __init__(self, e: Rewriter, node: Node) -> None:
        self.e, self.node = e, node
        self.nodes: list[Node] = []

    def add(
        self, op: str, *inputs: int, row: bool = False, dtype: str = "f32", **attributes: object
    ) -> int:
        held = self.e.tensors[self.node.operand()]
        shape = (*held.shape[:-1], 1) if row else held.shape
        made = self.e.add(Tensor(f"{held.name}, {op}", shape, dtype, keep_f32=True))
        self.nodes.append(self.e.node(op, inputs, (made,), [self.node], **attributes))
        return made

    def looked_up(self, places: int, table: Array) -> int:
        constant = self.e.constant(table.astype(np.float32), name="lookup")
        row = self.e.tensors[places].shape[-1] == 1
        return self.add("lookup", places, constant, row=row, scale=1.0)
