"""`decision_trees(x [n, features], nodes i32 [m, 4], trees i32 [k, 2], starts i32 [slices + 1],
leaves [l, 4]): classes, reduction, steps` -> [n, classes]: the sum, minimum or maximum of what each
decision tree says of a row; all operands but the first are constants.

Four classes are a slice: the trees of slice s are those from starts[s] to starts[s + 1], each with
its root and its first leaf. Roots and children that are at least 0 are nodes; -1 - c is leaf c of
the tree, whose numbers for the classes of the slice are a row of `leaves`. A node is the bits of a
float32 threshold; 16 times the feature that is compared, plus 8 if NaN goes to the first child,
plus an index in COMPARISONS; and two children, where the comparison holds and where not. No path is
longer than `steps`. Each row takes the trees in their order."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Kernel, Lowering
from tflgpu_plugin.ops.table import Op

COMPARISONS = ("<=", "<", ">=", ">", "==", "!=")
MISSING, FEATURE = 8, 16  # factors in a node's second number
WAITING = 1 << 14  # threads that a GPU has work for
# What a thread starts with, by reduction.
STARTS = {"sum": 0.0, "minimum": float("inf"), "maximum": -float("inf")}


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires rows of float32, and constant trees whose nodes and leaves exist."""
    x = graph.shape(node.operand())
    constants = [graph.constant(t) for t in node.inputs[1:]]
    if any(data is None for data in constants):
        return Refusal("constant.required", "Decision trees are constants of the model.")
    if len(x) != 2 or 0 in x:
        return Refusal("shape.unsupported", f"Decision trees read rows, not {list(x)}.")
    found = [data for data in constants if data is not None]
    if not _whole(x[1], int(node.attributes["classes"]), *found):
        return Refusal("constant.invalid", "Decision trees have a node or leaf that is not there.")
    return None


def _whole(features: int, classes: int, *constants: Array) -> bool:
    """Whether nodes, roots, leaves and features that the constants refer to exist."""
    nodes, trees, starts, leaves = constants
    shapes = [array.shape[1:] for array in constants]
    if shapes != [(4,), (2,), (), (4,)] or len(starts) != -(-classes // 4) + 1:
        return False
    slots, bounds = np.concatenate([nodes[:, 2:].ravel(), trees[:, 0]]), starts.tolist()
    if bounds[0] != 0 or bounds != sorted(bounds) or bounds[-1] != len(trees):
        return False
    firsts, read = trees[:, 1], nodes[:, 1] // FEATURE
    if slots.max(initial=-1) >= len(nodes) or -1 - slots.min(initial=-1) >= len(leaves):
        return False
    there = (firsts >= 0) & (firsts < len(leaves))
    return bool(there.all() and (read >= 0).all() and (read < features).all())


def shapes(graph: Graph, node: Node) -> list[Shape]:
    return [(graph.shape(node.operand())[0], int(node.attributes["classes"]))]


def _most(graph: Graph, node: Node) -> int:
    """Returns how many trees a slice has at most."""
    starts = graph.constant(node.operand(3))
    return 0 if starts is None else int(np.diff(starts).max(initial=0))


def lower(low: Lowering, node: Node) -> None:
    """Records one launch: a thread for each row and slice, or threads that share the trees."""
    out, data = low.geometry(node.outputs[0]), low.geometry(node.operand())
    most, steps = _most(low.graph, node), int(node.attributes["steps"])
    together = _together(low.target, most, steps, out.vectors)
    low.loops(node, -(-most // together) * (steps + 1) + 10)
    (nodes, trees, starts, leaves) = (node.operand(k) for k in range(1, 5))
    held = low.graph.constant(nodes)
    assert held is not None
    kinds = np.unique(held[:, 1] % MISSING)
    low.dispatch(
        Kernel(
            "decision_trees",
            {
                "vectors": out.vectors, "spatial": out.spatial, "slices": out.slices,
                "row": 4 * data.slices, "steps": steps, "lanes": together,
                "nothing": STARTS[node.attributes["reduction"]],
            },
            {
                "reduction": node.attributes["reduction"],
                "missing": bool((held[:, 1] & MISSING).any()),
                "comparisons": [(int(k), COMPARISONS[k]) for k in kinds],
            },
        ),
        node,
        {
            "x": Access(low.stored(node.operand()), 1), "nodes": low.stored(nodes),
            "trees": low.stored(trees), "starts": Access(low.stored(starts), 1),
            "leaves": low.stored(leaves),
        },
        {"out": node.outputs[0]},
        (-(-out.vectors * together // WORKGROUP), 1, 1),
    )  # fmt: skip


@heuristic
def _together(target: Target, trees: int, steps: int, results: int) -> int:
    """Returns how many threads share the trees of a result: more where there are few results, and
    on software adapters only where a thread would take too many rounds."""
    found = 1
    while found < WORKGROUP and 2 * found <= trees:
        if target.software and -(-trees // found) * (steps + 1) + 10 <= MAX_LOOP_ROUNDS:
            break
        if not target.software and 2 * found * results > WAITING:
            break
        found *= 2
    return found


def _work(graph: Graph, node: Node) -> int:
    rows, classes = shapes(graph, node)[0]
    return rows * -(-classes // 4) * _most(graph, node) * int(node.attributes["steps"])


ATTRIBUTES = "classes! reduction=sum|minimum|maximum steps!"
OPS = (
    Op("decision_trees", refuse, shapes, lower, "accumulate", work=_work, kind="reduction",
       operands="xxxxx", fuses=True, accumulates=True),
)  # fmt: skip
