"""Shared by elementwise families: numpy broadcasting, and the launch of `f(v, e)` on two operands.

The expression f is written for one vec4; `kernels/binary.wgsl` fetches the operands. Three ways to
fetch one: in place (same storage as the output), by quads (an affine place, lane 0 spread where the
operand has one channel), or, where a row-major tensor of rank 5 or more is broadcast, element by
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tflgpu_plugin.graph import Graph, Node, Shape, geometry
from tflgpu_plugin.lowering import Access, Lowering
from tflgpu_plugin.ops.movement import MAX_AXES, grid, row_strides, storage_order, vector_strides


def broadcast(first: Shape, second: Shape) -> Shape:
    """The common shape, aligned from the right. Raises ValueError when there is none."""
    rank = max(len(first), len(second))
    found = []
    for a, b in zip(_ranked(first, rank), _ranked(second, rank), strict=True):
        if a != b and 1 not in (a, b):
            raise ValueError(
                f"shapes {list(first)} and {list(second)} cannot be broadcast together"
            )
        found.append(b if a == 1 else a)
    return tuple(found)


def broadcast_refusal(graph: Graph, node: Node) -> str | None:
    """A sentence when the two inputs cannot be combined by `lower_pair`."""
    first, second = _operands(node)
    try:
        shape = broadcast(graph.shape(first), graph.shape(second))
    except ValueError as error:
        return f"{node.op}: {error}."
    for tensor in (first, second):
        if _needs_elements(graph.shape(tensor), shape) and len(shape) > MAX_AXES:
            rank = len(shape)
            return f"{node.op} broadcasts rank {rank}; reshape to rank {MAX_AXES} at most."
    if not prod(shape):
        return f"The result of {node.op} is empty; give it at least one element."
    return None


def lower_pair(low: Lowering, node: Node, expression: str) -> None:
    """Launch `expression` (WGSL for vec4 `v` and `e`) over inputs 0 and 1, spread to the output."""
    first, second = _operands(node)
    shape, stored = low.graph.shape(node.outputs[0]), low.geometry(node.outputs[0])
    given = {"a": (first, low.graph.shape(first)), "b": (second, low.graph.shape(second))}
    slow = any(_needs_elements(s, shape) for _, s in given.values())
    reads: dict[str, Access] = {}
    modes: dict[str, str] = {}
    parameters: dict[str, object] = {}
    for name, (tensor, operand) in given.items():
        modes[name] = "element" if slow else "same" if _in_place(operand, shape) else "quad"
        reads[name] = Access(low.stored(tensor), 1 if slow else 4)
        if modes[name] == "quad":
            parameters |= _quad_place(name, operand, shape)
        elif slow:
            parameters |= _element_place(name, operand, shape)
    parameters |= {"vectors": stored.vectors, "spatial": stored.spatial, "quads": stored.quads}
    if set(modes.values()) != {"same"}:
        parameters |= _extents(shape, slow)
    variant = {"mode_a": modes["a"], "mode_b": modes["b"], "expression": expression}
    low.dispatch(
        "binary", node, reads, {"y": node.outputs[0]}, grid(stored.vectors), parameters, variant
    )


def _operands(node: Node) -> tuple[int, int]:
    first, second = node.inputs[:2]
    assert first is not None and second is not None
    return first, second


def _ranked(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def _needs_elements(operand: Shape, shape: Shape) -> bool:
    """Whether an operand of a row-major output is neither the output's shape nor a single value."""
    return len(shape) > 4 and prod(operand) != 1 and not _in_place(operand, shape)


def _in_place(operand: Shape, shape: Shape) -> bool:
    """Whether an operand lies in memory exactly like the output."""
    return _ranked(operand, len(shape)) == shape and geometry(operand) == geometry(shape)


def _steps(operand: Shape, shape: Shape, strides: Sequence[int]) -> list[int]:
    """Per output axis the distance between neighbours in the operand, 0 where it is broadcast."""
    lead = len(shape) - len(operand)
    own = [0] * lead + list(strides)
    return [
        0 if extent == 1 else step
        for extent, step in zip(_ranked(operand, len(shape)), own, strict=True)
    ]


def _quad_place(name: str, operand: Shape, shape: Shape) -> dict[str, object]:
    spread = bool(shape) and (not operand or (operand[-1] == 1 and shape[-1] != 1))
    if len(shape) > 4:
        steps, order = [0] * 4, tuple(range(4))
    else:
        steps, order = _steps(operand, shape, vector_strides(operand)), storage_order(len(shape))
    found = _numbered(f"{name}_k", [steps[k] for k in order], 0)
    return found | {f"{name}_spread": int(spread or (len(shape) > 4))}


def _element_place(name: str, operand: Shape, shape: Shape) -> dict[str, object]:
    stored = geometry(operand)
    found = _numbered(f"{name}_k", _steps(operand, shape, row_strides(operand)), 0)
    found |= {f"{name}_channels": stored.channels, f"{name}_quads": stored.quads}
    return found | {f"{name}_spatial": stored.spatial}


def _extents(shape: Shape, slow: bool) -> dict[str, object]:
    if slow:
        return _numbered("d", list(shape), 1)
    if len(shape) > 4:
        return _numbered("d", [], 1)
    quads = -(-shape[-1] // 4) if shape else 1
    extents = [quads if k == len(shape) - 1 else shape[k] for k in storage_order(len(shape))]
    return _numbered("d", extents, 1)


def _numbered(prefix: str, values: Sequence[int], fill: int) -> dict[str, object]:
    padded = [fill] * (MAX_AXES - len(values)) + list(values)
    return {f"{prefix}{k}": value for k, value in enumerate(padded)}
