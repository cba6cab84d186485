"""`update_slice(x, updates, starts): axis, circular, ends, raises, heads`: x with a part replaced.
`starts` has an index for each axis or, with an `axis`, one for each batch. With `circular` the part
wraps around the end of the axis; otherwise starts are clamped so that it fits, and with `raises`,
where hosts fail, the run is flagged. `ends`, with an `axis`: elements after the part are zero. With
`heads`, x is [batch, heads, positions, depth], and updates may be [batch, length, heads * depth],
where depth is a multiple of 4."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Geometry, Graph, Node, Refusal, Shape, Target, geometry
from tflgpu_plugin.ir.symbolic import larger
from tflgpu_plugin.ops.attention import with_heads
from tflgpu_plugin.ops.host_order import flat, home, settle
from tflgpu_plugin.ops.lowering import CHECK, Access, Kernel, Lowering, Raw, Source, Stores
from tflgpu_plugin.ops.movement import ANY, host_buffer, workgroups
from tflgpu_plugin.ops.pick import refuse_indices
from tflgpu_plugin.ops.table import MOVED, Op, same_shape

MAX_ZEROS = 16  # vec4 of zeros that a thread writes
Level = tuple[int | None, int, int]  # an axis: see `_levels`


def _shapes(graph: Graph, node: Node) -> tuple[Shape, Shape, Shape]:
    """Returns the shapes of x, of the updates with their heads on an axis, and of the starts."""
    x, update, starts = (graph.shape(node.operand(k)) for k in range(3))
    heads = int(node.attributes.get("heads", 0))
    return x, with_heads(update, heads) if heads and len(update) == 3 else update, starts


def _side_by_side(graph: Graph, node: Node) -> bool:
    """Whether the heads of the updates are stored next to each other, not on an axis."""
    return bool(node.attributes.get("heads")) and len(graph.shape(node.operand(1))) == 3


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an update that is not larger on any axis; a start for each axis, or for each
    batch."""
    try:
        (x, update, starts), axis = _shapes(graph, node), node.attributes.get("axis")
    except ValueError as error:
        return Refusal("shape.mismatch", f"The update does not fit: {error}.")
    if _side_by_side(graph, node) and update[-1] % 4:
        return Refusal("shape.unsupported", f"Heads of {update[-1]} values do not fill vec4.")
    cut = [k for k, (many, few) in enumerate(zip(x, update, strict=False)) if few != many]
    if len(x) != len(update) or any(update[k] > x[k] for k in cut) or 0 in update:
        return Refusal("shape.mismatch", f"An update of {list(update)} does not fit {list(x)}.")
    if axis is None and starts != (len(x),):
        return Refusal(
            "shape.mismatch", f"A part of {list(x)} has starts of the shape {list(starts)}."
        )
    if axis is not None and (not 0 < axis < len(x) or starts != x[:1] or {*cut} - {axis}):
        said = f"Batches of {list(x)} have updates of {list(update)} and starts of {list(starts)}."
        return Refusal("shape.mismatch", said)
    return refuse_indices(graph, node, 2)


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with four elements of the result per thread."""
    (shape, update, _), axis = _shapes(low.graph, node), node.attributes.get("axis")
    source, target, stored = _where(low, node)
    given = low.geometry(node.operand(1))
    if _side_by_side(low.graph, node):  # a head is stored as a tensor of this shape is
        given = geometry((1, *update[2:]))
    parameters: dict[str, object] = {
        "channels": stored.channels, "spatial": stored.spatial, "slices": stored.slices,
        "update_channels": given.channels,
        "update_spatial": given.spatial, "update_slices": given.slices,
    }  # fmt: skip
    levels, raises = _levels(shape, update, axis), bool(node.attributes.get("raises"))
    number, many, few = levels[-1]
    rows = isinstance(target, Raw) and number is None
    inside = rows and _is_only_updated(low, node)
    if rows:
        levels[-1] = None, many // 4, few // 4
    for k, (_, many, few) in enumerate(levels):
        behind = levels[k + 1 :]
        parameters |= {
            f"extent{k}": many, f"span{k}": few, f"stride{k}": prod(n for _, n, _ in behind),
            f"apart{k}": prod(n for _, _, n in behind),
        }  # fmt: skip
    reads: dict[str, Source | Access] = {
        "updates": Access(low.stored(node.operand(1)), 4 if rows else 1),
        "starts": Access(low.stored(node.operand(2)), 1),
    }
    if inside:
        low.shared[node.operand()] = node.outputs[0]
    else:
        reads = {"x": source, **reads}
    ends = bool(node.attributes.get("ends"))
    own = _own(levels, ends)
    if inside and ends:
        parameters |= {f"own{k}": number for k, number in enumerate(own)}
    vectors = prod(own) if inside else stored.vectors
    parameters["vectors"] = vectors
    low.dispatch(
        Kernel(
            "update_slice",
            parameters,
            {
                "starts": tuple((k, number) for k, (number, _, _) in enumerate(levels)),
                "batch": axis is not None, "circular": bool(node.attributes.get("circular")),
                "ends": ends, "raises": raises, "rows": rows, "inside": inside,
            },
        ),
        node,
        reads,
        {"out": target, **({"check": Access(CHECK, 0)} if raises else {})},
        workgroups(vectors),
        stores=Stores(fused=False),
    )  # fmt: skip


def _where(low: Lowering, node: Node) -> tuple[Source, Source, Geometry]:
    """Returns the source of x, the destination of the result, and their common layout: the host's
    buffers if both can be there, else device storage."""
    x, output = node.operand(), node.outputs[0]
    given, made = host_buffer(low, x, alone=False), home(low, output)
    if given is None or made is None:
        return low.stored(x), output, low.geometry(x)
    return given, settle(low, output), flat(low.graph.shape(x))


def _is_only_updated(low: Lowering, node: Node) -> bool:
    """Whether x is an input of the partition that nothing else reads: the run's bytes are then
    written to the buffer of the result, where the kernel replaces a part."""
    raw = host_buffer(low, node.operand())
    return raw == Raw("input", node.operand())


def _own(levels: list[Level], ends: bool) -> list[int]:
    """Returns the number of threads on each axis: those of the update or, where `ends`, enough that
    each has few zeros to write."""
    return [
        larger(few, -(-many // MAX_ZEROS)) if ends and number is not None else few
        for number, many, few in levels
    ]


def _levels(shape: Shape, update: Shape, axis: int | None) -> list[Level]:
    """Returns the axes that have a start, by the number of that start; axes in between are merged,
    except the batch. Each entry has the extent of the axis in x and in the update."""
    levels: list[Level] = []
    for k, (many, few) in enumerate(zip(shape, update, strict=True)):
        starts = many != few if axis is None else k == axis
        alone = starts or not levels or levels[-1][0] is not None
        if alone or (axis is not None and k == 1):
            levels.append((k if starts else None, many, few))
        else:
            levels[-1] = (None, levels[-1][1] * many, levels[-1][2] * few)
    return levels


ATTRIBUTES = "axis circular ends heads raises"
OPS = (
    Op("update_slice", refuse, same_shape, lower, "exact", types=ANY, kind="movement",
       keeps="any", operands="xxx", errors=MOVED),
)  # fmt: skip
