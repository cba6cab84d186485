"""Parametric relu: x where x >= 0, else x * alpha; alpha broadcasts to x and may be computed at run
time."""

from __future__ import annotations

from tflgpu_plugin.ir.graph import Graph, Node, Shape
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
from tflgpu_plugin.ops.table import GATE, Op


def shapes(graph: Graph, node: Node) -> list[Shape]:
    assert node.inputs[0] is not None
    return [graph.shape(node.inputs[0])]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Alpha broadcasts to the shape of x."""
    reason = broadcast_refusal(graph, node)
    if reason:
        return reason
    x, alpha = node.inputs[:2]
    assert x is not None and alpha is not None
    if broadcast(graph.shape(x), graph.shape(alpha)) != graph.shape(x):
        return (
            f"prelu has alpha of shape {list(graph.shape(alpha))}, which does not broadcast to "
            f"{list(graph.shape(x))}; give alpha the shape of x or of its last axes."
        )
    return None


def lower(low: Lowering, node: Node) -> None:
    lower_pair(low, node, EPILOGUE_OPS["prelu"])


OPS = (
    Op("prelu", refuse, shapes, lower, "elementwise", kind="elementwise", fuses=True, errors=GATE,
       as_epilogue=pair_epilogue("prelu", None), follows="elementwise", quantize=quantized.prelu),
)  # fmt: skip
