"""`cumsum(x, axis constant): exclusive, reverse` and `cumprod`: sums or products of all elements up
to each one along an axis. `exclusive` leaves out the element itself; `reverse` begins at the
end."""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Target, planar
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Kernel, Lowering
from tflgpu_plugin.ops.movement import vector_strides, workgroups
from tflgpu_plugin.ops.reduce import refuse_axis
from tflgpu_plugin.ops.reduce_forms import reduced_axes
from tflgpu_plugin.ops.table import Op, same_shape

MAX_LINE = MAX_LOOP_ROUNDS * WORKGROUP  # elements
COMBINED = {"cumsum": {"sign": "+", "empty": 0}, "cumprod": {"sign": "*", "empty": 1}}


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one constant axis."""
    return refuse_axis(graph, node, MAX_LINE)


def lower(low: Lowering, node: Node) -> None:
    """Records one launch; a line is a column of vec4 along any axis but the last."""
    (axis,) = reduced_axes(low.graph, node)
    shape, x = low.graph.shape(node.operand()), low.geometry(node.operand())
    lines, together = x.vectors // shape[axis], _lanes(shape[axis])
    low.loops(node, 2 * (-(-shape[axis] // together) + 1) + together)
    low.dispatch(
        Kernel(
            "scan",
            {
                "lines": lines,
                "count": shape[axis],
                "stride": vector_strides(shape)[axis],
                "lanes": together,
                "each": -(-shape[axis] // together),
                "reverse": int(bool(node.attributes.get("reverse"))),
                "exclusive": int(bool(node.attributes.get("exclusive"))),
            },
            COMBINED[node.op],
        ),
        node,
        {"x": node.operand()},
        {"out": node.outputs[0]},
        workgroups(lines * together),
    )


def _decompose_checked(steps: Decomposition, node: Node) -> bool:
    """Adds float sums beside sums of int64, to check whether int32 holds the results."""
    x, attributes = node.operand(), dict(node.attributes)
    if steps.editor.tensors[node.outputs[0]].dtype != "i64" or attributes.get("unchecked"):
        return False
    near = steps.add(node.op, steps.typed("f32", "cast", x), *node.inputs[1:], **attributes)
    held = steps.add(node.op, x, *node.inputs[1:], **attributes, unchecked=True)
    steps.last("checked", held, near)
    return True


def decompose(steps: Decomposition, node: Node) -> bool:
    """Moves the axis so that lines are columns of vec4, if it is the last or storage is not
    planar."""
    if _decompose_checked(steps, node):
        return True
    shape, value = steps.shape(node.operand()), steps.data(node.inputs[1])
    assert value is not None
    axis = int(value.reshape(-1)[0]) % len(shape)
    if planar(shape) and axis < len(shape) - 1:
        return False
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    x = steps.add("reshape", node.operand(), None, shape=(outer, shape[axis], inner))
    if inner == 1:
        x = steps.add("transpose", x, perm=(1, 2, 0))
    made = steps.add(node.op, x, steps.indices([0 if inner == 1 else 1]), **node.attributes)
    if inner == 1:
        made = steps.add("transpose", made, perm=(2, 0, 1))
    steps.last("reshape", made, None, shape=shape)
    return True


def _lanes(count: int) -> int:
    """Returns the number of threads that share a line."""
    return 1 if count < 16 else 8 if count < 256 else WORKGROUP


def sums(data: Array, axis: Array, exclusive: bool = False, reverse: bool = False) -> Array:
    """Returns the sums of all elements up to each one along an axis."""
    if exclusive or reverse:
        raise ValueError("only plain sums are worked out")
    return np.cumsum(data, axis=int(axis.reshape(-1)[0]), dtype=data.dtype)


ATTRIBUTES = "exclusive reverse"
OPS = tuple(
    Op(name, refuse, same_shape, lower, "reduction", types=("f32", "i32"), kind="reduction",
       decompose=decompose, accumulates=True, meaning=meaning, inexact=True,
       operands="xx")
    for name, meaning in (("cumsum", sums), ("cumprod", None))
)  # fmt: skip
