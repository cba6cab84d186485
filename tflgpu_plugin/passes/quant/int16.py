"""Rewrites nodes over int16 tensors, and some over int8 tensors, so that they compute what hosts
do: by the rewrite that the op's row names (`Op.int16`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Levels, Node, is_int16, quantization
from tflgpu_plugin.passes.quant import int16_softmax, wide_sums
from tflgpu_plugin.passes.rewriter import Rewriter

Rewrite = Callable[[Rewriter, Graph, Node, Levels], list[Node] | None]


def rewritten(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node] | None:
    """Returns the nodes that replace a node over int16 (or 8 bits, if its row says so); None for
    nodes over other types, without a rewrite, or with more than a bias as epilogue."""
    row = ops.rows()[node.op].int16
    rewrite = REWRITES.get(row.rewrite) if row else None
    if row is None or rewrite is None or not _over_numbers(e, node, row.bytes):
        return None
    if node.epilogue and rewrite is not wide_sums.split:
        return None
    return rewrite(e, graph, node, levels)


def _over_numbers(e: Rewriter, node: Node, bytes_too: bool) -> bool:
    """Whether a node reads int16 (or with `bytes_too` 8 bits), or a constant that was stored so."""
    suits = quantization.quantized if bytes_too else is_int16
    if any(t is not None and suits(e.tensors[t]) for t in node.inputs):
        return True
    return suits(e.tensors[node.outputs[0]]) and quantization.on_levels(e.tensors[node.operand()])


def _looked_up(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node] | None:
    """Returns the node that looks up the host's result for each number; None where the result is
    not int16."""
    row = ops.rows()[node.op].int16
    if row is None or row.table is None or not is_int16(e.tensors[node.outputs[0]]):
        return None
    numbers = np.clip(row.table(graph, node), levels.least, levels.most)
    table = e.constant((numbers * levels.scale).astype(np.float32), name="lookup")
    scale, _ = quantization.parameters(e.tensors[node.operand()])
    raises = {"raises": True} if node.attributes.get("raises") else {}
    return [replace(node, op="lookup", inputs=(node.operand(), table),
                    attributes={"scale": scale, **raises})]  # fmt: skip


REWRITES: Mapping[str, Rewrite] = {
    "layer": wide_sums.split,
    "product": wide_sums.product,
    "mean": wide_sums.mean,
    "sum": wide_sums.total,
    "average": wide_sums.average,
    "shares": int16_softmax.split,
    "table": _looked_up,
}
