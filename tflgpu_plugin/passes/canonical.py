"""Moves bias and fused activation, which each host expresses in its own way, into epilogue ops."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import EpilogueOp, Graph, Node, is_integer
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.table import BIAS
from tflgpu_plugin.ops.unary import LIMITS

ACTIVATIONS = (*LIMITS, "tanh")  # activations that hosts fuse


def canonical(graph: Graph) -> Graph:
    """Turns bias and fused activation into epilogue ops of their node, the bias first. Integer ops
    and ops without an epilogue keep both as they are."""
    return graph.with_nodes([_rewrite(graph, node) for node in graph.nodes])


def _rewrite(graph: Graph, node: Node) -> Node:
    if not ops.rows()[node.op].fuses or is_integer(graph.tensors[node.outputs[0]]):
        return node
    epilogue = list(node.epilogue)
    inputs, attributes = node.inputs, dict(node.attributes)
    bias = ops.bias(node)
    if bias is not None and spread(graph, bias, node.outputs[0]) is not None:
        epilogue.append(EpilogueOp("add", bias))
        inputs = (*inputs[:BIAS], None, *inputs[BIAS + 1 :])
        bias = None
    # An activation must not come before a bias that could not be moved.
    if bias is None and attributes.get("activation") in ACTIVATIONS:
        epilogue.append(EpilogueOp(str(attributes["activation"])))
        attributes["activation"] = "none"
    if len(epilogue) == len(node.epilogue):
        return node
    return replace(node, inputs=inputs, attributes=attributes, epilogue=tuple(epilogue))
