"""Parametric relu: x where x >= 0, else x * alpha; alpha broadcasts to x and may be computed at run
time."""

from __future__ import annotations

from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.kernels import EPILOGUE_OPS
from tflgpu_plugin.ops import quantized
from tflgpu_plugin.ops.elementwise import (
    broadcast,
    broadcast_refusal,
    lower_pair,
    pair_epilogue,
)
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.table import GATE, Op, same_shape


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Alpha broadcasts to the shape of x."""
    reason = broadcast_refusal(graph, node)
    if reason:
        return reason
    x, alpha = (graph.shape(node.operand(k)) for k in range(2))
    if broadcast(x, alpha) != x:
        return (
            f"prelu has alpha of shape {list(alpha)}, which does not broadcast to {list(x)}; "
            "give alpha the shape of x or of its last axes."
        )
    return None


def lower(low: Lowering, node: Node) -> None:
    lower_pair(low, node, EPILOGUE_OPS["prelu"])


OPS = (
    Op("prelu", refuse, same_shape, lower, "elementwise", kind="elementwise", fuses=True,
       errors=GATE, as_epilogue=pair_epilogue("prelu", None), follows="elementwise",
       quantize=quantized.prelu),
)  # fmt: skip
