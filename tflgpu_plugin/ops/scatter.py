"""Ops that write elements at indices, as the hosts' operators:

* `scatter_elements(x, indices, updates): axis, reduction, wraps`, with indices along an axis
* `scatter_nd(x, indices, updates, count|None): reduction, wraps`, with rows of coordinates on the
  first axes; only the first `count` (an int32 number) of them are looked at
* `scatter_new(indices, updates, shape constant): reduction`, into zeros
* `segments(x, ids, count constant): reduction` of rows with equal ids, constant or computed; an
  empty segment has the initial value of the reduction (0, 1, or the lowest or highest number)

`reduction` is "none" (the last update is kept), "add", "mul", "min" or "max" with the previous
value, in the order of the updates. With `wraps` negative indices count from the end. Updates with
an index out of range are skipped. With `raises`, where hosts fail, such an index flags the run; of
segments, with "above" only one beyond the end does."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import MAX_FLOAT32, Array, Graph, Node, NotConstant, Shape
from tflgpu_plugin.ir.host_op import count_given
from tflgpu_plugin.ir.quantization import UNSIGNED
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.symbolic import integer, is_symbolic
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ir.types import type_name
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.movement import ANY, MAX_AXES
from tflgpu_plugin.ops.pick import inside, refuse_indices
from tflgpu_plugin.ops.scattered import added, assigned, assigned_along
from tflgpu_plugin.ops.stored_numbers import COUNTED, as_int32, keep
from tflgpu_plugin.ops.table import Op, same_shape, unplanned
from tflgpu_plugin.ops.views import taken

MAX_READS = 1 << 28  # indices that all threads of a launch read, in sum
MAX_PLACES = 1 << 24  # positions that planning sorts, with about 60 bytes each
BLOCK = 4096  # updates per inner loop of the kernel
FEW = 16  # updates up to which the kernel searches rather than planning sorts
COMBINED = {
    "none": "u", "add": "v + u", "mul": "v * u", "min": "select(u, v, v < u)",
    "max": "select(v, u, v < u)",
}  # fmt: skip
FIRST: dict[str, float] = {  # initial value of a segment
    "none": 0, "add": 0, "mul": 1, "min": MAX_FLOAT32, "max": -MAX_FLOAT32,
}  # fmt: skip


class Form(NamedTuple):
    """The shape of a scatter: `outer` blocks, each with the indexed `axes` and `inner` elements at
    each index, and the number of `updates` of each block."""

    outer: int
    axes: Shape
    inner: int
    updates: int


def _form(graph: Graph, node: Node) -> Form:
    """Returns the shape of the scatter. Raises ValueError if the operands do not fit."""
    x, indices, updates = (graph.shape(node.operand(k)) for k in range(3))
    if node.op == "scatter_nd":
        width = indices[-1] if indices else 0
        if not 0 < width <= len(x) or updates != (*indices[:-1], *x[width:]):
            raise ValueError(_unfit(indices, updates, x))
        return Form(1, x[:width], prod(x[width:]), prod(indices[:-1]))
    axis, pairs = int(node.attributes["axis"]), list(zip(indices, x, strict=False))
    fits = indices == updates and 0 <= axis < len(indices) == len(x)
    if not fits or any(few > many for few, many in (*pairs[:axis], *pairs[axis + 1 :])):
        raise ValueError(_unfit(indices, updates, x))
    return Form(prod(x[:axis]), x[axis : axis + 1], prod(x[axis + 1 :]), indices[axis])


def _count(node: Node) -> int | None:
    """Returns the tensor that tells how many updates there are, if fewer than its shape says."""
    return node.inputs[3] if len(node.inputs) > 3 else None


def _unfit(indices: Shape, updates: Shape, x: Shape) -> str:
    return f"indices {list(indices)} and updates {list(updates)} do not fit {list(x)}"


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires updates whose shape fits; no reduction of booleans, no sum or product of int64; at
    most 2^28 index reads (elements of the result times indices), unless the indices are constant
    and nothing is reduced."""
    if found := unplanned(node.op, _form, graph, node) or refuse_indices(graph, node):
        return found
    form, reduction = _form(graph, node), node.attributes["reduction"]
    if found := _refuse_type(graph, node.operand(), reduction):
        return found
    given = graph.constant(node.inputs[1])
    if _count(node) is None and not inside(graph, node, form.axes):
        said = f"{node.op} cannot be planned: an index is outside {list(form.axes)}."
        return Refusal("constant.invalid", said)
    shape, indices = graph.shape(node.operand()), graph.shape(node.operand(1))
    if (
        len(shape) > MAX_AXES
        and node.op == "scatter_elements"
        and form.outer * form.updates * form.inner != prod(indices)
    ):
        return Refusal(
            "rank.too_large",
            f"Indices for a part of {len(shape)} axes are not supported; {MAX_AXES} are the most.",
        )
    if given is not None and in_order(node, form):
        return None
    return _refuse_reads(prod(shape), form.updates * len(form.axes))


def in_order(node: Node, form: Form) -> bool:
    """Whether the node is decomposed to a gather if its indices are constant: they then determine
    which update, or element of x, each element of the result comes from. For symbolic extents, the
    kernel searches, so that its plan holds for others."""
    places = form.outer * prod(form.axes) * (1 if node.op == "scatter_nd" else form.inner)
    many = node.attributes["reduction"] == "none" and form.updates > FEW and _count(node) is None
    return many and not is_symbolic((places,)) and places <= MAX_PLACES


def _refuse_type(graph: Graph, tensor: int, reduction: str) -> Refusal | None:
    dtype = graph.tensors[tensor].dtype
    sums = ("add", "mul")
    if (dtype in ("bool", BFLOAT16) and reduction != "none") or (
        dtype in ("i64", *UNSIGNED) and reduction in sums
    ):
        said = f"Updates of {type_name(dtype)} with the reduction {reduction!r} are not supported."
        return Refusal("dtype.unsupported", said)
    return None


def _refuse_reads(elements: int, indices: int) -> Refusal | None:
    if elements * indices <= MAX_READS:
        return None
    return Refusal(
        "shape.too_large",
        f"{elements:,} elements that each look through {indices:,} indices are over the limit of "
        f"{MAX_READS:,} in all.",
    )


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with four elements of the result per thread."""
    x, indices, updates = (node.operand(k) for k in range(3))
    form, listed, given = _form(low.graph, node), low.geometry(indices), low.geometry(updates)
    parameters: dict[str, object] = {
        "channels": low.geometry(x).channels, "places": prod(form.axes), "inner": form.inner,
        "count": form.updates, "index_channels": listed.channels,
        "index_spatial": listed.spatial, "index_slices": listed.slices,
        "update_channels": given.channels, "update_spatial": given.spatial,
        "update_slices": given.slices,
    }  # fmt: skip
    for k, extent in enumerate(form.axes):
        parameters |= {f"extent{k}": extent, f"stride{k}": prod(form.axes[k + 1 :])}
    if raises := node.attributes.get("raises", False):
        parameters["total"] = prod(low.graph.shape(x))
    reads: dict[str, Source | Access] = {
        "x": low.stored(x),
        "indices": Access(low.stored(indices), 1),
        "updates": Access(low.stored(updates), 1),
    }
    if (count := _count(node)) is not None:
        reads["valid"] = Access(low.stored(count), 1)
    low.loops(node, form.updates + 2 * -(-form.updates // BLOCK) + 1)
    low.each_vector(
        Kernel(
            "scatter",
            parameters,
            {
                "axes": len(form.axes), "rows": node.op == "scatter_nd",
                "wraps": bool(node.attributes.get("wraps")), "raises": raises,
                "combined": COMBINED[node.attributes["reduction"]], "counted": count is not None,
            },
        ),
        node,
        reads,
        checked=bool(raises),
        stores=Stores(fused=False),
    )  # fmt: skip


def decompose(steps: Decomposition, node: Node) -> bool:
    """Turns many constant indices into a gather, and scatters only to the part of other axes that
    indices cover."""
    form, given = _form(steps.graph, node), steps.data(node.inputs[1])
    if given is not None and in_order(node, form):
        _arrange(steps, node, form, given)
        return True
    if node.op != "scatter_elements":
        return False
    x, indices = steps.shape(node.operand()), steps.shape(node.operand(1))
    axis = int(node.attributes["axis"])
    corner = tuple(n if k == axis else indices[k] for k, n in enumerate(x))
    if corner == x:
        return False
    own = {k: np.arange(n) for k, n in enumerate(corner) if n < x[k]}
    part = steps.add("view", node.operand(), view=taken(x, own))
    made = steps.add(node.op, part, *node.inputs[1:], **node.attributes)
    around = steps.indices([(0, n - have) for n, have in zip(x, corner, strict=True)])
    there = np.zeros([1 if k == axis else n for k, n in enumerate(x)], np.bool_)
    there[tuple(slice(n if k in own else None) for k, n in enumerate(corner))] = True
    spread = steps.add("pad", made, around, mode="constant")
    steps.last("where", steps.editor.constant(there, "bool"), spread, node.operand())
    return True


def _arrange(steps: Decomposition, node: Node, form: Form, given: Array) -> None:
    """Concatenates elements and updates, and gathers the last one written to each position."""
    shape, axes = steps.shape(node.operand()), np.asarray(form.axes)
    at = np.where(given < 0, given + axes, given)
    if node.op == "scatter_nd":
        places, each = (
            np.ravel_multi_index(tuple(at.reshape(-1, len(axes)).T), form.axes),
            form.inner,
        )
    else:
        corner = list(np.indices(given.shape))
        corner[int(node.attributes["axis"])] = at
        places, each = np.ravel_multi_index(tuple(corner), shape).reshape(-1), 1
    source = np.arange(prod(shape) // each)
    source[places] = len(source) + np.arange(len(places))
    x = steps.reshape(node.operand(), (len(source), each))
    updates = steps.reshape(node.operand(2), (len(places), each))
    both = steps.add("concat", x, updates, axis=0, activation="none")
    made = steps.add("gather", both, steps.indices(source), axis=0)
    steps.last("reshape", made, None, shape=shape)


# ---- into new tensors ----------------------------------------------------------------------------


def _given(node: Node) -> tuple[int, int]:
    """Returns indices (or ids) and updates."""
    first, second = node.operand(), node.operand(1)
    return (second, first) if node.op == "segments" else (first, second)


def new_shapes(graph: Graph, node: Node) -> list[Shape]:
    indices, updates = map(graph.shape, _given(node))
    if node.op == "segments":
        count = _segments(graph, node)
        if not indices or updates[: len(indices)] != indices:
            raise ValueError(f"ids of shape {list(indices)} do not fit {list(updates)}")
        return [(count, *updates[len(indices) :])]
    shape = graph.constant(node.inputs[2])
    if shape is None:
        raise NotConstant("the shape must be constant")
    made = tuple(integer(n) for n in shape.reshape(-1))
    width = indices[-1] if indices else 0
    if not 0 < width <= len(made) or updates != (*indices[:-1], *made[width:]):
        raise ValueError(_unfit(indices, updates, made))
    return [made]


def _segments(graph: Graph, node: Node) -> int:
    """Returns the number of segments: as given, or one more than the last constant id."""
    told = graph.constant(node.inputs[2] if count_given(node.inputs) > 2 else node.inputs[1])
    if told is None or (count_given(node.inputs) > 2 and told.size != 1):
        raise NotConstant("the number of segments must be known")
    return integer(told.max()) + (count_given(node.inputs) < 3) if told.size else 0


def refuse_new(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires no booleans; no sum or product of int64; at most 2^28 index reads (elements of the
    result times indices), unless indices are constant and different, and the result has at most
    2^24 positions."""
    if found := unplanned(node.op, new_shapes, graph, node):
        return found
    (indices, updates), (shape,) = _given(node), new_shapes(graph, node)
    found = _refuse_type(graph, updates, node.attributes["reduction"])
    found = found or refuse_indices(graph, node, node.inputs.index(indices))
    if found or apart(graph, node):
        return found
    if not _inside_new(graph, node):
        said = f"{node.op} cannot be planned: an index is outside {list(shape)}."
        return Refusal("constant.invalid", said)
    return _refuse_reads(prod(shape), prod(graph.shape(indices)))


def _inside_new(graph: Graph, node: Node) -> bool:
    """Whether hosts accept these constant indices. Ids without a count must start at 0 and increase
    by at most one (`Prepare` of tensorflow/lite/kernels/segment_sum.cc)."""
    segmented, raises = node.op == "segments", node.attributes.get("raises", False)
    given = graph.constant(_given(node)[0])
    if given is not None and segmented and count_given(node.inputs) < 3:
        steps = np.diff(given.reshape(-1), prepend=0)
        return not steps.size or (given.flat[0] == 0 and bool(np.isin(steps, (0, 1)).all()))
    if given is None or not raises:
        return True
    (shape,) = new_shapes(graph, node)
    width = 1 if segmented else given.shape[-1]
    listed = given.reshape(-1, width)
    low = np.iinfo(given.dtype).min if raises == "above" else 0
    return bool(np.all((listed >= low) & (listed < np.asarray(shape[:width]))))


def apart(graph: Graph, node: Node) -> bool:
    """Whether there are many constant indices and no two are equal, so that each element of the
    result gets at most one update."""
    given = graph.constant(node.operand()) if node.op == "scatter_new" else None
    if given is None or node.attributes["reduction"] != "add":
        return False
    rows = given.reshape(-1, given.shape[-1])
    extents = new_shapes(graph, node)[0][: rows.shape[1]]
    if len(rows) <= FEW or rows.min() < 0:
        return False
    ends = rows.max(0) + 1
    if any(end > n for end, n in zip(ends, extents, strict=True)) or prod(extents) > MAX_PLACES:
        return False
    places = np.sort(np.ravel_multi_index(tuple(rows.T), ends))
    return bool(np.all(places[1:] != places[:-1]))


def decompose_new(steps: Decomposition, node: Node) -> bool:
    """Scatters into a new tensor with the initial value of the reduction. Stored numbers are added
    as int32, and the results keep their low bits."""
    (shape,), reduction = new_shapes(steps.graph, node), node.attributes["reduction"]
    indices, updates = _given(node)
    if node.op == "segments":
        indices = steps.reshape(indices, (*steps.shape(indices), 1))
    first: Array = np.asarray(FIRST[reduction])
    small = steps.graph.tensors[updates].dtype in COUNTED
    if small:
        updates = as_int32(steps, updates)
    if steps.graph.tensors[updates].dtype == "f32":
        first = first.astype(np.float32)
    else:
        first = np.clip(first, -(2.0**31), 2.0**31 - 1).astype(np.int32)
    start = steps.editor.constant(first, steps.graph.tensors[updates].dtype)
    x = steps.reshape(steps.add("expand", start, steps.indices([prod(shape)])), shape)
    reduction = "none" if apart(steps.graph, node) else reduction
    raises = steps.data(indices) is None and node.attributes.get("raises", False)
    attributes: dict[str, Any] = {"reduction": reduction, "wraps": False, "raises": raises}
    if small:
        keep(steps, steps.add("scatter_nd", x, indices, updates, **attributes))
    else:
        steps.last("scatter_nd", x, indices, updates, **attributes)
    return True


def _work(graph: Graph, node: Node) -> int:
    form = _form(graph, node)
    return prod(graph.shape(node.operand())) * form.updates * len(form.axes)


REDUCTION = "reduction!=none|add|mul|min|max"
ATTRIBUTES = {
    "scatter_elements": f"axis! raises {REDUCTION} wraps",
    "scatter_nd": f"raises {REDUCTION} wraps", "scatter_new": f"raises {REDUCTION}",
    "segments": f"raises=above {REDUCTION}",
}  # fmt: skip
OPS = (
    *(
        Op(name, refuse, same_shape, lower, "reduction", types=(*ANY, BFLOAT16), work=_work,
           decompose=decompose, kind="reduction", accumulates=True, meaning=meaning,
           operands=taken)
        for name, meaning, taken in (
            ("scatter_elements", assigned_along, "xxx"), ("scatter_nd", assigned, "xxx?"))
    ),
    *(
        Op(name, refuse_new, new_shapes, lower_decomposed, "reduction", types=("f32", "i32"),
           decompose=decompose_new, kind="reduction", accumulates=True, meaning=meaning,
           operands=taken, stored=name == "scatter_new")
        for name, meaning, taken in (("scatter_new", added, "xxx"), ("segments", None, "xx?"))
    ),
)  # fmt: skip
