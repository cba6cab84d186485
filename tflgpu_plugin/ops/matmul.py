"""`matmul(a [..., M, K], b [..., K, N]): transpose_a, transpose_b` -> [..., M, N] with broadcast
leading axes, for ranks 2 to 5, or more if the leading axes are equal or b is a constant matrix. A
constant matrix b makes it a fully connected layer; the kernel supports transpose_b."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, ShapeError, Target, is_int16
from tflgpu_plugin.ops import rounding, wide_total
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.ops.fully_connected import KEPT
from tflgpu_plugin.ops.lowering import WORKGROUP, Access, Kernel, Lowering
from tflgpu_plugin.ops.movement import MAX_AXES, vector_strides
from tflgpu_plugin.ops.table import Int16, Op, unplanned

ROWS = 4  # per thread
AHEAD = 2  # depth slices that a GPU thread loads at once
CHUNK = 1 << 15  # rounds of the inner loop


def _swapped(shape: Shape, swap: object) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


def _matrices(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    """Returns the shapes of the factors as [..., M, K] and [..., K, N]."""
    a, b = (graph.shape(node.operand(k)) for k in range(2))
    if min(len(a), len(b)) < 2:
        raise ValueError(f"shapes {list(a)} and {list(b)} are not matrices")
    return (
        _swapped(a, node.attributes.get("transpose_a")),
        _swapped(b, node.attributes.get("transpose_b")),
    )


def shapes(graph: Graph, node: Node) -> list[Shape]:
    a, b = _matrices(graph, node)
    if a[-1] != b[-2]:
        raise ShapeError(f"matrices of {list(a)} and {list(b)} cannot be multiplied")
    return [(*broadcast(a[:-2], b[:-2]), a[-2], b[-1])]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires matrices whose shapes fit."""
    if found := unplanned("A matrix product", shapes, graph, node):
        return found
    if 0 in (*shapes(graph, node)[0], _matrices(graph, node)[0][-1]):
        return Refusal("shape.empty", "A matrix product of empty tensors is not supported.")
    return None


def decompose(steps: Decomposition, node: Node) -> bool:
    """Adds a transpose for transpose_a, makes a constant matrix b weights, and merges leading axes
    beyond the kernel's rank."""
    a, b = node.operand(), node.operand(1)
    rank, dense = len(steps.shape(a)), steps.data(b) is not None and len(steps.shape(b)) == 2
    # Products of int16 are computed digit by digit, not as a layer.
    dense = dense and not is_int16(steps.editor.tensors[node.outputs[0]])
    swap = bool(node.attributes.get("transpose_a"))
    joined = max(rank, len(steps.shape(b))) > MAX_AXES
    if not (swap or joined or (dense and rank <= KEPT)):
        return False
    if swap:
        a = steps.add("transpose", a, perm=(*range(rank - 2), rank - 1, rank - 2))
    whole = steps.shape(node.outputs[0])
    inputs: list[int | None]
    if joined and not dense and steps.shape(a)[:-2] != steps.shape(b)[:-2]:
        a, b = (
            steps.add("expand", t, steps.indices((*whole[:-2], *steps.shape(t)[-2:])))
            for t in (a, b)
        )
    if joined:
        a = steps.reshape(a, (-1, *steps.shape(a)[-1 if dense else -2 :]))
    if dense and (joined or rank <= KEPT):
        straight = bool(node.attributes.get("transpose_b"))
        matrix = steps.editor.moved(b, lambda each: each if straight else each.T)
        op, inputs = "fully_connected", [a, matrix, None]
        given = {"keep_num_dims": True, "activation": "none"}
    else:
        b = steps.reshape(b, (-1, *steps.shape(b)[-2:])) if joined else b
        op, inputs = "matmul", [a, b]
        given = {"transpose_b": node.attributes.get("transpose_b", False)}
    if not joined:
        steps.last(op, *inputs, **given)
        return True
    made = steps.editor.tensor((), like=node.outputs[0])
    steps.put(made, op, *inputs, **given)
    steps.last("reshape", made, None, shape=whole)
    return True


def lower(low: Lowering, node: Node) -> None:
    a, b = node.operand(), node.operand(1)
    left, right = _matrices(low.graph, node)
    output = low.graph.shape(node.outputs[0])
    transposed = bool(node.attributes.get("transpose_b"))
    blocks, slices = -(-left[-2] // ROWS), -(-right[-1] // 4)
    outer = (1, 1, 1, *output[:-2])[-3:]
    parameters: dict[str, object] = {
        "rows": left[-2],
        "row_blocks": blocks,
        "columns": right[-1],
        "slices": slices,
        "depth": left[-1],
        "depth_slices": -(-left[-1] // 4),
        "chunk": CHUNK,
        "d1": outer[1],
        "d2": outer[2],
    }
    for name, shape in (("a", low.graph.shape(a)), ("b", low.graph.shape(b)), ("y", output)):
        parameters |= _distances(name, shape)
    low.loops(node, -(-left[-1] // 4) + 3 + left[-1] // (2 * CHUNK))
    low.dispatch(
        Kernel(
            "matmul",
            parameters,
            {"transposed": transposed, "ahead": 1 if low.target.software else AHEAD},
        ),
        node,
        {"a": Access(low.stored(a)), "b": Access(low.stored(b))},
        {"y": node.outputs[0]},
        (-(-blocks * slices // WORKGROUP), prod(outer), 1),
    )


def _distances(name: str, shape: Shape) -> dict[str, object]:
    """Returns the kernel's parameters for an operand: the strides in vec4 of rows, slices and three
    outer axes (0 along axes of extent 1)."""
    strides = vector_strides(shape)
    outer = [0 if e == 1 else s for e, s in zip(shape[:-2], strides[:-2], strict=True)]
    found: dict[str, object] = {f"{name}_row": strides[-2], f"{name}_slice": strides[-1]}
    return found | {f"{name}_b{k}": step for k, step in enumerate(([0] * 3 + outer)[-3:])}


def _work(graph: Graph, node: Node) -> int:
    return prod(shapes(graph, node)[0]) * _matrices(graph, node)[0][-1]


ATTRIBUTES = "transpose_a transpose_b"
OPS = (
    Op("matmul", refuse, shapes, lower, "accumulate", work=_work, kind="product", fuses=True,
       operands="xx", decompose=decompose, accumulates=False, rounding=rounding.MATMUL,
       int16=Int16("product", wide_total.refuse_product)),
)  # fmt: skip
