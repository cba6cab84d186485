"""`concat` along any axis, and `stack(inputs): axis` along a new one. Each launch copies some
inputs to their places in the result; inputs that are only moved are read where they come from, and
an input may be produced in its place. With `rescales`, hosts requantize inputs to the quantization
of the result; otherwise they have it already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tflgpu_plugin.ir import (
    Array,
    Geometry,
    Graph,
    Node,
    Refusal,
    Shape,
    ShapeError,
    Target,
    geometry,
    merged,
    planar,
    quantization,
)
from tflgpu_plugin.ops.axes import Axis
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.host_order import flat, home, settle
from tflgpu_plugin.ops.lookup import COUNT
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.movement import ANY, Reading, host_buffer, moves, read, view_of, workgroups
from tflgpu_plugin.ops.table import MOVED, Op, unplanned
from tflgpu_plugin.ops.views import axis_of, identity, part

TOGETHER, MAX_TOGETHER = 3, 14  # parts of a launch, and all their axes: they fit a uniform block
BYTES = 1 << 8  # numbers of uint8
NEAR = 1 / (1 << 13)  # most that float32 differs from the exact quotient of such numbers
JOINED = 4  # parts of a launch to host buffers, which needs two parameters less


@dataclass(frozen=True)
class Part:
    """An input of a concatenation: its offset and extent along the axis of the output, and how it
    could be read back from the output."""

    tensor: int
    axis: int
    offset: int
    extent: int
    reading: Reading


def _given(node: Node) -> list[int]:
    return [tensor for tensor in node.inputs if tensor is not None]


def shapes(graph: Graph, node: Node) -> list[Shape]:
    given = [graph.shape(tensor) for tensor in _given(node)]
    first = given[0]
    axis = axis_of(node.attributes["axis"], len(first))
    for shape in given:
        if shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :] or len(
            shape
        ) != len(first):
            # Hosts skip empty inputs.
            kind = ValueError if any(0 in other for other in given) else ShapeError
            raise kind(f"shapes {list(first)} and {list(shape)} differ outside axis {axis}")
    return [(*first[:axis], sum(shape[axis] for shape in given), *first[axis + 1 :])]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires inputs whose shapes are equal except along the axis; no fused activation (hosts have
    none)."""
    if node.attributes.get("activation", "none") != "none" or node.epilogue:
        said = "Concatenation has a fused activation; apply the activation to its result instead."
        return Refusal("activation.unsupported", said)
    return unplanned("Concatenation", shapes, graph, node)


def lower(low: Lowering, node: Node) -> None:
    """Records copies of vec4 if every part begins at a vec4, else copies of floats."""
    parts, output, makers = _parts(low.graph, node), node.outputs[0], low.graph.producers()
    if len(parts) == 1:
        low.alias(output, parts[0].tensor)
        return
    if output in low.hosted:
        return  # the launch of the node before computes it
    if copies := _at_home(low, makers, node):
        _lower_at_home(low, makers, node, copies)
        return
    if _by_vectors(parts):
        copies = [_copy(low, makers, p, p.reading.block) for p in parts]
        for group in _groups(copies):
            _launch(low, node, {"y": output}, [group])
        return
    for p in parts:
        _floats(low, node, p, p is parts[-1])


def _at_home(low: Lowering, makers: Mapping[int, Node], node: Node) -> list[Copy]:
    """Returns the copies of the parts to the output if the output can be computed in the host's
    buffer; an empty list if it needs device storage."""
    output = node.outputs[0]
    parts = _parts(low.graph, node, flat(low.graph.shape(output)))
    if len(parts) == 1 or not _by_vectors(parts) or home(low, output) is None:
        return []
    return [_copy(low, makers, p, None) for p in parts]


def _lower_at_home(
    low: Lowering, makers: Mapping[int, Node], node: Node, copies: list[Copy]
) -> None:
    """Records launches that write to the host's buffer. If the next node concatenates, too, as keys
    and values of a decoder's cache do, one launch serves both nodes."""
    made, (after, moved) = settle(low, node.outputs[0]), _next(low, node)
    more = [] if after is None else _at_home(low, makers, after)
    axes = sum(len(copy.axes) for copy in (*copies, *more))
    early = moved.isdisjoint(copy.source for copy in more)
    if after and more and early and len(copies) + len(more) <= JOINED and axes <= MAX_TOGETHER:
        targets = {"y": made, "z": settle(low, after.outputs[0])}
        _launch(low, replace(node, **merged(node, after)), targets, [copies, more])
        return
    for group in _groups(copies):
        _launch(low, node, {"y": made}, [group])


def _next(low: Lowering, node: Node) -> tuple[Node | None, set[Source]]:
    """Returns the next node if it is a concatenation, too, and the results of the nodes in between,
    which only move data."""
    moved = set[Source]()
    after = low.following.get(node.outputs[0])
    while after is not None and moves(after):
        moved.add(after.outputs[0])
        after = low.following.get(after.outputs[0])
    return after if after is not None and after.op == node.op else None, moved


def in_place(graph: Graph, node: Node) -> list[int]:
    """Returns the inputs that may be produced directly in the output."""
    parts = _parts(graph, node)
    return [p.tensor for p in parts if p.reading.block is not None] if _by_vectors(parts) else []


def _by_vectors(parts: Sequence[Part]) -> bool:
    return all(p.reading.form == "vectors" for p in parts)


def _parts(graph: Graph, node: Node, stored: Geometry | None = None) -> list[Part]:
    """Returns the parts that are not empty; `stored` is the layout of the output."""
    whole, found, start = graph.shape(node.outputs[0]), list[Part](), 0
    axis = axis_of(node.attributes["axis"], len(whole))
    for tensor in _given(node):
        shape = graph.shape(tensor)
        if prod(shape):
            view = part(whole, axis, start, shape[axis])
            reading = read(view, stored or geometry(whole), geometry(shape))
            found.append(Part(tensor, axis, start, shape[axis], reading))
        start += shape[axis]
    return found


@dataclass(frozen=True)
class Copy:
    """A copy of `vectors` vec4 from `source` to the output, over axes with their strides in both,
    from `start` in the source to `base` in the output. `block`: where the part lies in the output
    if it is contiguous there."""

    source: Source
    vectors: int
    axes: list[tuple[Axis, Axis]]
    start: int
    base: int
    block: int | None = None

    def parameters(self, n: int, end: int) -> dict[str, object]:
        found: dict[str, object] = {f"base{n}": self.base, f"start{n}": self.start, f"end{n}": end}
        for k, (given, made) in enumerate(self.axes):
            found |= {f"d{n}_{k}": given.extent, f"j{n}_{k}": given.stride}
            found |= {f"k{n}_{k}": made.stride}
        return found


def _copy(low: Lowering, makers: Mapping[int, Node], copied: Part, block: int | None) -> Copy:
    """Returns the copy of a part to its position in the output. `block` is the first vec4 of the
    part there, if it is contiguous. Otherwise the copy reads the input of an op that only moves
    data, and the host's buffer where possible, so that neither needs a launch."""
    tensor, into = copied.tensor, copied.reading
    stored = low.geometry(tensor)
    straight = Reading("vectors", [(Axis(stored.vectors, 1),)], 0)
    if block is None:
        node = makers.get(tensor)
        view = view_of(low.graph, node) if node is not None and not node.epilogue else None
        given = tensor if node is None or view is None else node.operand()
        view, inside = view or identity(low.graph.shape(tensor)), low.geometry(given)
        source, raw = low.stored(given), host_buffer(low, given)
        if raw is not None:
            source, inside = raw, flat(low.graph.shape(given))
        found = read(view, inside, stored)
        axes = _both(found, into) if found.form == "vectors" else None
        if axes is not None:
            return Copy(source, stored.vectors, axes, found.base, into.base)
    axes = _both(straight, into) or []
    return Copy(low.stored(tensor), stored.vectors, axes, 0, into.base, block)


def _both(given: Reading, made: Reading) -> list[tuple[Axis, Axis]] | None:
    """Pairs the axes of two readings of the same number of vec4: splits them so that each pair has
    one extent. Returns None if that is impossible, or an axis has padding or a lookup."""
    left, right = ([row[0] for row in reading.rows] for reading in (given, made))
    if not all(axis.straight and axis.stride >= 0 for axis in (*left, *right)):
        return None
    found: list[tuple[Axis, Axis]] = []
    while left and right:
        pair = left.pop(), right.pop()
        inner = min(axis.extent for axis in pair)
        for axis, rest in zip(pair, (left, right), strict=True):
            if axis.extent % inner:
                return None
            if axis.extent > inner:
                rest.append(Axis(axis.extent // inner, axis.stride * inner))
        if inner > 1 or not (left or right or found):
            found.insert(0, (Axis(inner, pair[0].stride), Axis(inner, pair[1].stride)))
    return found


def _groups(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Groups copies so that each group is one launch. A part that may be produced in place has a
    launch of its own, which can then be left out."""
    groups: list[list[Copy]] = []
    for copy in copies:
        last = groups[-1] if groups else []
        axes = sum(len(each.axes) for each in (*last, copy))
        open_ = last and last[0].block is None and len(last) < TOGETHER and axes <= MAX_TOGETHER
        if open_ and copy.block is None:
            last.append(copy)
        else:
            groups.append([copy])
    return groups


def _launch(
    low: Lowering, node: Node, targets: Mapping[str, Source], copies: Sequence[Sequence[Copy]]
) -> None:
    """Records a launch that copies the vec4 of parts to each target, in device storage or, if it is
    the host's buffer, in the host's order."""
    stored, rows = low.geometry(node.outputs[0]), node.outputs[0] in low.hosted
    parameters: dict[str, object] = {}
    if not rows:
        parameters = {"spatial": stored.spatial, "slices": stored.slices}
    vectors, together = 0, [copy for group in copies for copy in group]
    for n, copy in enumerate(together):
        vectors += copy.vectors
        parameters |= copy.parameters(n, vectors)
    low.dispatch(
        Kernel(
            "concat",
            parameters | {"vectors": vectors},
            {
                "vectors": True, "ranks": [len(copy.axes) for copy in together],
                "rows": rows, "second": len(copies[0]) if len(copies) > 1 else 0,
            },
        ),
        node,
        {f"x{n}": copy.source for n, copy in enumerate(together)},
        targets,
        workgroups(vectors),
        stores=Stores(fused=False, copies=together[0].block),
    )  # fmt: skip


def _floats(low: Lowering, node: Node, part: Part, last: bool) -> None:
    """Records a launch that copies a part by floats: `outer` rows of `run` channels at `spatial`
    pixels, `row` floats apart in the part and `target_row` in the output. The last part also zeroes
    `tail` pad lanes, of rows from `tail_from` on."""
    shape, stored = low.graph.shape(node.outputs[0]), low.geometry(node.outputs[0])
    if planar(shape):
        if part.axis != len(shape) - 1:  # blocks of vec4, which symbolic extents may hide
            raise ValueError("images that are not joined by vec4")
        outer, spatial, run, offset = stored.batch, stored.spatial, part.extent, part.offset
        row = 4 * low.geometry(part.tensor).slices * spatial
        target_row, tail, tail_from = 4 * stored.slices * spatial, -stored.channels % 4, 0
    else:
        axis = part.axis
        outer, spatial, inner = prod(shape[:axis]), 1, prod(shape[axis + 1 :])
        run = row = part.extent * inner
        offset, target_row = part.offset * inner, shape[axis] * inner
        tail, tail_from = -(outer * target_row) % 4, outer - 1
    channels = run + (tail if last else 0)
    elements = outer * channels * spatial
    low.dispatch(
        Kernel(
            "concat",
            {
                "elements": elements, "channels": channels, "spatial": spatial, "run": run,
                "row": row, "target_row": target_row, "offset": offset, "tail_from": tail_from,
            },
            {"vectors": False},
        ),
        node,
        {"x": Access(low.stored(part.tensor), 1)},
        {"y": Access(node.outputs[0], 1)},
        workgroups(elements),
        stores=Stores(fused=False),
    )  # fmt: skip


def decompose_rescaled(steps: Decomposition, node: Node) -> bool:
    """Looks up the host's number for each one of an input that it requantizes, where that is not
    the nearest one, or where two are about as near."""
    if not node.attributes.get("rescales"):
        return False
    inputs = _given(node)
    found = [_requantized(steps, tensor, node.outputs[0]) for tensor in inputs]
    if found == inputs:
        return False
    steps.last("concat", *found, **node.attributes)
    return True


def _requantized(steps: Decomposition, tensor: int, result: int) -> int:
    """Returns an input, or its numbers looked up in a table, which hosts compute in float32
    (`ConcatenationWithScaling` of tensorflow/lite/kernels/internal/reference/concatenation.h)."""
    (scale, zero), (unit, other) = (
        quantization.parameters(steps.editor.tensors[t]) for t in (tensor, result)
    )
    stored = np.arange(BYTES, dtype=np.float32)
    factor = np.float32(scale) * (np.float32(1) / np.float32(unit))
    hosts = _nearest(stored * factor + np.float32(-zero) * factor, other)
    exact = (stored - zero).astype(np.float64) * scale / unit
    clear = np.abs(exact - np.floor(exact) - 0.5).min() > NEAR
    alike = clear and np.array_equal(hosts, _nearest(exact, other))
    if (scale, zero) == (unit, other) or alike:
        return tensor
    numbers = np.zeros(COUNT, np.float32)
    numbers[COUNT // 2 - int(zero) :][:BYTES] = (hosts - other) * np.float32(unit)
    made = steps.editor.tensor((), like=result)
    steps.put(made, "lookup", tensor, steps.number(numbers), scale=float(scale))
    return made


def _nearest(values: Array, zero: float) -> Array:
    away = np.trunc(values) + np.where(np.abs(values - np.trunc(values)) >= 0.5, np.sign(values), 0)
    return np.asarray(np.clip(away + zero, 0, BYTES - 1))


def _alone(graph: Graph, node: Node) -> tuple[Shape, int]:
    """Returns the shape of each input with a new axis of extent 1, and that axis."""
    first, *others = (graph.shape(tensor) for tensor in _given(node))
    if any(shape != first for shape in others):
        raise ValueError(f"shapes {list(first)} and {[list(shape) for shape in others]} differ")
    axis = axis_of(node.attributes["axis"], len(first) + 1)
    return (*first[:axis], 1, *first[axis:]), axis


def stack_shapes(graph: Graph, node: Node) -> list[Shape]:
    shape, axis = _alone(graph, node)
    return [(*shape[:axis], len(node.inputs), *shape[axis + 1 :])]


def refuse_stack(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires inputs of one shape."""
    return unplanned("Packing", stack_shapes, graph, node)


def decompose_stack(steps: Decomposition, node: Node) -> bool:
    """Gives each input the new axis, and concatenates them."""
    shape, axis = _alone(steps.graph, node)
    parts = [steps.reshape(tensor, shape) for tensor in _given(node)]
    steps.last("concat", *parts, axis=axis, activation="none")
    return True


ATTRIBUTES = {"concat": "axis! activation rescales", "stack": "axis!"}
OPS = (
    Op("concat", refuse, shapes, lower, "exact", types=ANY, kind="movement",
       keeps="any", errors=MOVED, follows="axis", operands="x*", joins=True,
       decompose=decompose_rescaled,
       meaning=lambda *values, axis: np.concatenate(values, axis)),
    Op("stack", refuse_stack, stack_shapes, lower_decomposed, "exact", types=ANY, kind="movement",
       keeps="any", operands="x*", decompose=decompose_stack,
       meaning=lambda *values, axis: np.stack(values, axis)),
)  # fmt: skip
