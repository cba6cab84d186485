"""Means of groups of channels over all axes between batch and channels. They implement
normalizations of groups that are too large for one launch or do not begin at a slice.

* `mean_of_groups(x [B, ..., C]): groups` -> [B, 1, ..., groups]
* `mean_square_of_groups(x, None, centre [B, 1, ..., groups]): groups`: mean squares of x -
centre"""

from __future__ import annotations

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, planar
from tflgpu_plugin.ops.forms import Forms
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.reduce_forms import FORMS, REDUCTIONS, Reduced
from tflgpu_plugin.ops.table import AVERAGED, Op, elements

OF = {"mean_of_groups": "mean", "mean_square_of_groups": "reduce_mean_square"}


def divides(shape: Shape, groups: int) -> bool:
    """Whether the number of channels is divisible by `groups`, and the tensor has further axes."""
    fits = planar(shape) and len(shape) > 2 and 0 not in shape
    return fits and 0 < groups <= shape[-1] and shape[-1] % groups == 0


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an image or a volume, and groups that divide its channels."""
    shape, groups = graph.shape(node.operand()), int(node.attributes["groups"])
    if not divides(shape, groups):
        return Refusal(
            "shape.mismatch", f"{node.op} does not support {groups} groups of {list(shape)}."
        )
    return None


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    shape = graph.shape(node.operand())
    return [(shape[0], *(1,) * (len(shape) - 2), int(node.attributes["groups"]))]


def _reduced(low: Lowering, node: Node) -> Reduced:
    """Returns the reduction of a node, in which the channels are two axes: groups, and channels
    within a group."""
    batch, *image, channels = low.graph.shape(node.operand())
    groups = int(node.attributes["groups"])
    shape = (batch, *image, groups, channels // groups)
    gone = {*range(1, len(shape) - 2), len(shape) - 1}
    return Reduced(low, node, REDUCTIONS[OF[node.op]], shape, frozenset(gone))


ATTRIBUTES = "groups!"
OPS = tuple(
    Op(name, _refuse, _shapes, Forms(_reduced, FORMS), "reduction", work=elements(),
       kind="reduction", fuses=True, accumulates=True, operands="x??", errors=AVERAGED)
    for name in OF
)  # fmt: skip
