"""Ops that pick elements by computed indices: `gather_nd(x, indices): batch, wraps` and
`gather_elements(x, indices): axis, wraps`, as the hosts' operators. They decompose into `pick(x,
indices[n, m]): axis, wraps`, as does a `gather` with computed indices. Each row of `indices`
addresses x along the m axes from `axis` on, which the result replaces by one axis of n. With
`wraps` negative indices count from the end. Indices out of range are clamped, and with `raises`,
where hosts fail, the run is flagged. x, indices and result of a gather_nd share their first `batch`
axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape, geometry, planar
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.symbolic import is_symbolic, larger
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ir.types import type_name
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.movement import ANY
from tflgpu_plugin.ops.packing import VECTOR_BYTES
from tflgpu_plugin.ops.table import Op, unplanned


def _pair(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    return graph.shape(node.operand()), graph.shape(node.operand(1))


def shapes(graph: Graph, node: Node) -> list[Shape]:
    (shape, indices), axis = _pair(graph, node), int(node.attributes["axis"])
    if len(indices) != 2 or not 0 <= axis <= axis + indices[1] <= len(shape):
        raise ValueError(f"indices of shape {list(indices)} do not fit {list(shape)}")
    return [(*shape[:axis], indices[0], *shape[axis + indices[1] :])]


def nd_shapes(graph: Graph, node: Node) -> list[Shape]:
    (shape, indices), batch = _pair(graph, node), batched(node)
    rank = len(indices) - 1
    if not 0 <= batch <= rank or shape[:batch] != indices[:batch]:
        raise ValueError(f"{list(shape)} and {list(indices)} have no {batch} axes in common")
    if not 1 <= indices[-1] <= len(shape) - batch:
        raise ValueError(f"indices of shape {list(indices)} do not fit {list(shape)}")
    return [(*indices[:-1], *shape[batch + indices[-1] :])]


def element_shapes(graph: Graph, node: Node) -> list[Shape]:
    (shape, indices), axis = _pair(graph, node), int(node.attributes["axis"])
    others = [k for k in range(len(shape)) if k != axis]
    if not 0 <= axis < len(shape) == len(indices) or any(indices[k] > shape[k] for k in others):
        raise ValueError(f"indices of shape {list(indices)} do not fit {list(shape)}")
    return [indices]


def batched(node: Node) -> int:
    """Returns the number of axes that x and indices share."""
    return int(node.attributes.get("batch", 0))


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires indices whose shape fits the input."""
    shape, indices = _pair(graph, node)
    if found := unplanned(node.op, SHAPES[node.op], graph, node):
        return found
    if prod(shape) == 0:
        return Refusal(
            "shape.unsupported", f"{node.op} needs axes of at least 1 element, not {list(shape)}."
        )
    first = int(node.attributes.get("axis", batched(node)))
    width = indices[-1] if node.op == "gather_nd" else 1
    if node.op != "pick" and not inside(graph, node, shape[first : first + width]):
        return Refusal(
            "constant.invalid", f"{node.op} cannot be planned: an index is outside {list(shape)}."
        )
    return refuse_indices(graph, node)


def inside(graph: Graph, node: Node, extents: Shape) -> bool:
    """Whether all indices that are constant are in range."""
    listed = graph.constant(node.inputs[1])
    if listed is None:
        return True
    first = -np.asarray(extents) if node.attributes.get("wraps") else 0
    return bool(np.all((listed >= first) & (listed < np.asarray(extents))))


def refuse_indices(graph: Graph, node: Node, position: int = 1) -> Refusal | None:
    """Indices of int32 or int64."""
    indices = graph.tensors[node.operand(position)]
    if quantization.is_integer(indices):
        return None
    held = type_name(indices.dtype)
    said = f"The indices {indices.name!r} hold {held} values; use int32 or int64."
    return Refusal("dtype.unsupported", said)


def decompose_nd(steps: Decomposition, node: Node) -> bool:
    """Flattens the indices to rows, and restores their axes in the result."""
    x, indices = node.operand(), node.operand(1)
    *outer, last = steps.shape(indices)
    indexed, batch = rows(steps, indices, last), batched(node)
    columns: list[Any] = [indexed]
    if batch:  # an additional index: the batch
        shape = steps.shape(x)
        count = prod(shape[:batch])
        x = steps.reshape(x, (count, *shape[batch:]))
        columns.insert(0, repeated(steps, count, prod(outer) // larger(count, 1)))
    pick_by(steps, node, x, columns)
    return True


def decompose_elements(steps: Decomposition, node: Node) -> bool:
    """Picks by the index on the axis and by the positions along the axes before and after it."""
    x, axis = node.operand(), int(node.attributes["axis"])
    shape, indices = steps.shape(x), steps.shape(node.operand(1))
    before, behind = slice(axis), slice(axis + 1, None)
    outer, inner = (
        _numbered(shape[before], indices[before]),
        _numbered(shape[behind], indices[behind]),
    )
    columns: list[Any] = [rows(steps, node.operand(1), 1)]
    extents: Shape = (shape[axis],)
    if prod(shape[before]) > 1:
        columns.insert(0, np.repeat(outer, indices[axis] * len(inner)))
        extents = (prod(shape[before]), *extents)
    if prod(shape[behind]) > 1:
        columns.append(np.tile(inner, len(outer) * indices[axis]))
        extents = (*extents, prod(shape[behind]))
    pick_by(steps, node, steps.reshape(x, extents), columns)
    return True


def _numbered(shape: Shape, used: Shape) -> Array:
    """Returns, for the first elements along each axis, their row-major numbers."""
    numbers = np.arange(prod(shape)).reshape(shape)
    return numbers[tuple(slice(n) for n in used)].reshape(-1)


def repeated(steps: Decomposition, count: int, times: int) -> Any:
    """Returns a column of the first `count` integers, each of them `times` times."""
    if not is_symbolic((count, times)):
        return np.repeat(np.arange(count), times)
    wide = steps.add("expand", steps.column(0, count), steps.indices((count, times)))
    return steps.reshape(wide, (count * times, 1))


def pick_by(steps: Decomposition, node: Node, x: int, columns: Sequence[Any]) -> None:
    """Adds the last nodes of a decomposition: they pick from the first axes of x by one column of
    indices per axis. A column is a tensor [n, m] or a constant."""
    parts = [c if isinstance(c, int) else steps.indices(c.reshape(-1, 1)) for c in columns]
    indexed = parts[0]
    if len(parts) > 1:
        indexed = steps.add("concat", *parts, axis=1, activation="none")
    picked = steps.add("pick", x, indexed, axis=0, **outside(steps, node))
    steps.last("reshape", picked, None, shape=steps.shape(node.outputs[0]))


def outside(steps: Decomposition, node: Node) -> dict[str, bool]:
    """Returns the node's attributes that say how indices out of range are treated."""
    return {name: bool(node.attributes.get(name)) for name in ("wraps", "raises")}


def rows(steps: Decomposition, indices: int, count: int) -> int:
    """Returns the indices as rows [n, count]."""
    data, shape = steps.data(indices), (-1, count)
    if data is not None:
        return steps.indices(data.reshape(shape))
    return steps.reshape(indices, (prod(steps.shape(indices)) // count, count))


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with four lanes of the result per thread, or one for each part of a
    constant above the binding limit, which writes the elements found in that part."""
    x, indices = node.operand(), node.operand(1)
    (shape, (count, width)), axis = _pair(low.graph, node), int(node.attributes["axis"])
    out, data, listed = low.geometry(node.outputs[0]), geometry(shape), geometry((count, width))
    inner = prod(shape[axis + width :])
    parameters: dict[str, object] = {
        "channels": out.channels, "in_slices": data.slices, "in_spatial": data.spatial,
        "in_channels": data.channels, "row_slices": listed.slices, "row_spatial": listed.spatial,
        "width": width, "count": count, "inner": inner, "outer": prod(shape[axis:]),
    }  # fmt: skip
    for k in range(width):
        parameters |= {f"extent{k}": shape[axis + k], f"stride{k}": prod(shape[axis + k + 1 :])}
    variant = {name: bool(node.attributes.get(name)) for name in ("wraps", "raises")}
    rows = axis + width < len(shape) and planar(shape)  # a row of the last axis fills vec4
    for part, limits in _parts(low, x, shape, axis + width):
        low.each_vector(
            Kernel(
                "pick",
                parameters | limits,
                {"axes": width, "parts": bool(limits), "rows": rows, **variant},
            ),
            node,
            {"x": Access(part, 4 if rows else 1), "indices": Access(low.stored(indices), 1)},
            checked=variant["raises"],
            stores=Stores(fused=False),
        )


def _parts(
    low: Lowering, x: int, shape: Shape, inner: int
) -> Iterator[tuple[Source, dict[str, object]]]:
    """Yields x, or its parts with their element limits: ranges of rows of the first axis, so that
    the four lanes of a thread read one part. Picks from the last axis are not split."""
    whole = geometry(shape).vectors * VECTOR_BYTES <= low.target.storage_bytes
    if whole or inner >= len(shape) or not planar(shape):
        yield low.stored(x), {}
        return
    row = prod(shape[1:])
    for first, last, part in low.stored_parts(x, shape):
        yield part, {"first": first * row, "last": last * row}


SHAPES = {"gather_nd": nd_shapes, "gather_elements": element_shapes, "pick": shapes}


def picked(data: Array, indices: Array, batch: int = 0, wraps: bool = False) -> Array:
    """Returns the elements, or sub-arrays, at each row of indices."""
    if batch or (not wraps and np.any(indices < 0)):
        raise ValueError("batches are not worked out, and indices do not count from the end")
    return np.asarray(data[tuple(np.moveaxis(indices, -1, 0))])


ATTRIBUTES = {"gather_elements": "axis! raises wraps", "gather_nd": "batch raises wraps"}
OPS = (
    Op("gather_elements", refuse, element_shapes, lower_decomposed, "exact", types=ANY,
       decompose=decompose_elements, operands="xx", kind="movement", keeps="first"),
    Op("gather_nd", refuse, nd_shapes, lower_decomposed, "exact", decompose=decompose_nd,
       types=ANY, operands="xx", kind="movement", keeps="first", meaning=picked),
    Op("pick", refuse, shapes, lower, "exact", types=ANY,
       operands="xx", kind="movement", keeps="first"),
)  # fmt: skip
