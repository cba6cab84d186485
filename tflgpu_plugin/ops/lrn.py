"""`lrn(x [B, ..., C]): size, alpha, beta, bias`: local response normalization across channels, x /
(bias + alpha / size * sum of squares)^beta. The sum is over `size` channels, floor((size - 1) / 2)
of them before the element's own."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Access, Kernel, Lowering
from tflgpu_plugin.ops.table import Op, same_shape


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 2 to 5 dimensions, a positive size, and a bias that keeps the base of the power
    positive."""
    shape, size = graph.shape(node.operand()), int(node.attributes["size"])
    if not 2 <= len(shape) <= 5:
        said = f"Local response normalization needs rank 2 to 5, this input has {len(shape)}."
        return Refusal("rank.unsupported", said)
    if not 1 <= size <= MAX_LOOP_ROUNDS:
        return Refusal(
            "attribute.unsupported", f"A size of {size} is not from 1 to {MAX_LOOP_ROUNDS:,}."
        )
    if float(node.attributes.get("alpha", 1e-4)) < 0 or float(node.attributes.get("bias", 1)) <= 0:
        said = "Local response normalization needs alpha of at least 0 and a positive bias."
        return Refusal("attribute.unsupported", said)
    return None


def lower(low: Lowering, node: Node) -> None:
    size = int(node.attributes["size"])
    low.loops(node, 4 * (size + 2) + 1)
    low.each_vector(
        Kernel(
            "lrn",
            {
                "channels": low.geometry(node.outputs[0]).channels,
                "before": (size - 1) // 2,
                "after": size // 2,
                "scale": float(node.attributes.get("alpha", 1e-4)) / size,
                "beta": float(node.attributes.get("beta", 0.75)),
                "bias": float(node.attributes.get("bias", 1.0)),
                "four": 4,
            },
        ),
        node,
        {"x": Access(low.stored(node.operand()), 1)},
        writes=("y",),
    )


def _work(graph: Graph, node: Node) -> int:
    return prod(graph.shape(node.operand())) * (int(node.attributes["size"]) + 8)


ATTRIBUTES = "alpha beta bias size!"
OPS = (
    Op("lrn", refuse, same_shape, lower, "transcendental", work=_work, kind="window", fuses=True,),
)  # fmt: skip
