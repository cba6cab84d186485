"""Padding around elements, or between them:

* `pad(x, paddings, value)`: before and after any axis, by `mode`: "constant" (default), "reflect"
  (without the edge), "symmetric" (with it), "edge" (its value), "wrap". In place of the second
  input, the attribute `paddings` has (before, after) of each axis; further pairs are ignored
* `dilate(x, steps, value)`: elements along each axis become `steps` apart"""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, NotConstant, Refusal, Shape, Target
from tflgpu_plugin.ir.symbolic import in_range, integer, is_symbolic
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.movement import MAX_AXES, moving
from tflgpu_plugin.ops.table import MOVED, Op, unplanned
from tflgpu_plugin.ops.views import View, folded, padded, region, taken

NEEDS = "Constant, non-negative paddings and a constant value."


def paddings(graph: Graph, node: Node) -> Array | None:
    """Returns the elements added before and after each axis, [rank, 2]; None if not constant."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        rank = len(graph.shape(node.operand()))
        return np.array(node.attributes["paddings"][:rank], np.int64).reshape(-1, 2)
    value = graph.constant(node.inputs[1])
    return None if value is None else value.reshape(-1, 2)


def pad_value(graph: Graph, node: Node) -> float | None:
    """Returns the value of added elements (0 without input 2); None if not constant."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return 0.0
    value = graph.constant(node.inputs[2])
    return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


def views(graph: Graph, node: Node) -> list[View]:
    """Returns the view that adds the padding. Raises ValueError, whose text is the end of a
    sentence, for paddings that are not constant or do not fit."""
    shape, added, value = graph.shape(node.operand()), paddings(graph, node), pad_value(graph, node)
    mode = node.attributes.get("mode", "constant")
    if added is None:
        raise NotConstant("the paddings are computed at run time; make them a constant")
    if len(added) != len(shape):
        raise ValueError(f"paddings for {len(added)} axes do not fit a tensor of rank {len(shape)}")
    if not in_range(added, 0):
        raise ValueError("paddings must not be negative; cut the tensor with a slice instead")
    if value is None:
        raise NotConstant("the pad value must be a constant with one element")
    if mode != "constant" and not _reaches(shape, added, mode):
        raise ValueError(f"padding of mode {mode} is wider than the shape {list(shape)}")
    margins = [(integer(before), integer(after)) for before, after in added]
    return [padded(shape, margins, value) if mode == "constant" else folded(shape, margins, mode)]


def _reaches(shape: Shape, added: Array, mode: str) -> bool:
    """Whether the padding of a mode that repeats elements is short enough to come from one copy of
    the tensor."""
    less = {"reflect": 1, "symmetric": 0, "wrap": 0, "edge": -(1 << 31)}[mode]
    pairs = zip(shape, added, strict=True)
    return all(side <= extent - less for extent, sides in pairs for side in sides)


def _dilations(graph: Graph, node: Node) -> list[int]:
    """Returns the dilation of each axis. Raises ValueError, whose text is the end of a sentence."""
    shape, steps = graph.shape(node.operand()), graph.constant(node.inputs[1])
    if steps is None:
        raise NotConstant("the dilations are computed at run time; make them a constant")
    found = [integer(step) for step in steps.reshape(-1)]
    if len(found) != len(shape) or any(step < 1 for step in found) or 0 in shape:
        raise ValueError(f"dilations {steps.reshape(-1).tolist()} do not fit {list(shape)}")
    if pad_value(graph, node) is None:
        raise NotConstant("the value in between must be a constant with one element")
    return found


def dilated_shapes(graph: Graph, node: Node) -> list[Shape]:
    shape = graph.shape(node.operand())
    pairs = zip(shape, _dilations(graph, node), strict=True)
    return [tuple((extent - 1) * step + 1 for extent, step in pairs)]


def _sources(extent: int, step: int) -> Array:
    """Returns the index of the input's element at each position along a dilated axis; an added
    position has the extent as its index."""
    at, between = np.divmod(np.arange((extent - 1) * step + 1), step)
    return np.where(between, extent, at)


def refuse_dilation(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant dilations and a constant value; up to 5 axes."""
    if len(graph.shape(node.operand())) > MAX_AXES:
        return Refusal("rank.too_large", f"dilate takes tensors of up to {MAX_AXES} axes.")
    return unplanned("dilate", dilated_shapes, graph, node)


def decompose_dilation(steps: Decomposition, node: Node) -> bool:
    """Pads each dilated axis with one element of the value, and gathers: all added positions read
    that element. Dilations that are symbolic would make a list of positions that holds for one of
    them: each element is padded instead, as an axis of its own."""
    x, dilations = node.operand(), _dilations(steps.graph, node)
    shape = steps.shape(x)
    if is_symbolic((*shape, *dilations)) and len(shape) < MAX_AXES:
        made = x
        for k, step in enumerate(dilations):
            if step > 1:
                made = _spread(steps, made, k, step, node.operand(2))
        extents = dilated_shapes(steps.graph, node)[0]
        steps.last("view", made, view=region(steps.shape(made), [0] * len(shape), extents))
        return True
    pairs = enumerate(zip(shape, dilations, strict=True))
    places = {k: _sources(integer(n), int(step)) for k, (n, step) in pairs if step > 1}
    ends = steps.indices([(0, int(k in places)) for k in range(len(shape))])
    longer = steps.add("pad", x, ends, node.operand(2), mode="constant")
    steps.last("view", longer, view=taken(steps.shape(longer), places))
    return True


def _spread(steps: Decomposition, x: int, axis: int, step: int, value: int) -> int:
    """Returns a tensor with `step` - 1 elements of the value after each index of an axis."""
    shape = steps.shape(x)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    apart = steps.reshape(x, (*before, 1, *after))
    ends = steps.indices([(0, step - 1 if k == axis + 1 else 0) for k in range(len(shape) + 1)])
    longer = steps.add("pad", apart, ends, value, mode="constant")
    return steps.reshape(longer, (*before[:-1], before[-1] * step, *after))


ATTRIBUTES = {"pad": "mode=constant|reflect|symmetric|edge|wrap paddings[][2]~"}
OPS = (
    moving("pad", views, NEEDS, types=("f32", "i32"), fuses=True, fills=True, operands="x??"),
    Op("dilate", refuse_dilation, dilated_shapes, lower_decomposed, "exact", types=("f32", "i32"),
       decompose=decompose_dilation, kind="movement", keeps="first",
       operands="xxx", errors=MOVED),
)  # fmt: skip
