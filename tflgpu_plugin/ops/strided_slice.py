"""Strided slice with begin, end, ellipsis, new-axis and shrink masks as in TensorFlow; and
`slice(x, begin, size)`, where a size of -1 is the rest of an axis."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin.ir import Graph, Node, NotConstant
from tflgpu_plugin.ir.symbolic import integer, sliced as sliced_axis
from tflgpu_plugin.ops.movement import moving
from tflgpu_plugin.ops.views import View, region

Cut = tuple[int, int, int]  # first element, count and step along an axis


def views(graph: Graph, node: Node) -> list[View]:
    """Returns the view of the slice. Raises ValueError with the reason if it cannot be read."""
    shape = graph.shape(node.operand())
    values = [graph.constant(tensor) for tensor in node.inputs[1:4]]
    begin, end, strides = (
        None if value is None else [integer(entry) for entry in value.reshape(-1)]
        for value in values
    )
    if begin is None or end is None or strides is None:
        raise NotConstant("begin, end and strides must be constants")
    if not len(begin) == len(end) == len(strides):
        raise ValueError("begin, end and strides must have one length")
    cuts: list[Cut] = []
    result: list[int] = []
    for entry in _entries(node, len(begin), len(shape)):
        if entry is not None and _has(node, "new_axis_mask", entry):
            result.append(1)
            continue
        if len(cuts) >= len(shape):
            raise ValueError(f"the slice has more entries than the tensor has axes ({len(shape)})")
        extent = shape[len(cuts)]
        if entry is None:
            cuts.append((0, extent, 1))
        elif _has(node, "shrink_axis_mask", entry):
            cuts.append((_shrunk(node, entry, extent, begin[entry], strides[entry]), 1, 1))
            continue
        else:
            cuts.append(_range(node, entry, extent, begin, end, strides))
        result.append(cuts[-1][1])
    starts, extents, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    return [replace(region(shape, starts, extents, steps), shape=tuple(result))]


def _has(node: Node, mask: str, entry: int) -> bool:
    return bool(int(node.attributes.get(mask, 0)) >> entry & 1)


def _entries(node: Node, count: int, rank: int) -> list[int | None]:
    """Returns the indices into begin, end and strides in the order of the axes to which they apply,
    with None for each axis that is taken in full (by an ellipsis, or without an entry)."""
    dots = [k for k in range(count) if _has(node, "ellipsis_mask", k)]
    if len(dots) > 1 or int(node.attributes.get("ellipsis_mask", 0)) >> count:
        raise ValueError("a slice may have one ellipsis, among its entries")
    added = sum(_has(node, "new_axis_mask", k) for k in range(count) if k not in dots)
    whole = rank - (count - added - len(dots))
    if whole < len(dots):
        # TFLite nevertheless gives such an ellipsis an axis, and drops the last entry.
        raise ValueError(f"the slice has too many entries for a tensor of rank {rank}")
    at = dots[0] if dots else count
    return [*range(at), *[None] * whole, *range(at + len(dots), count)]


def _shrunk(node: Node, entry: int, extent: int, begin: int, stride: int) -> int:
    if stride < 1:
        raise ValueError("an axis that is shrunk away needs a positive stride")
    at = 0 if _has(node, "begin_mask", entry) else begin + extent * (begin < 0)
    if not 0 <= at < extent:
        raise ValueError(f"index {begin} is outside an axis of {extent}")
    return at


def _range(
    node: Node, entry: int, extent: int, begin: list[int], end: list[int], strides: list[int]
) -> Cut:
    stride = strides[entry]
    if stride == 0:
        raise ValueError("a stride must not be zero")
    first = None if _has(node, "begin_mask", entry) else begin[entry]
    last = None if _has(node, "end_mask", entry) else end[entry]
    start, stop, _ = sliced_axis(slice(first, last, stride), extent)
    if node.attributes.get("offset"):  # the end counts from the start
        if last is None:  # the host's shape and values disagree: there is no right answer
            raise ValueError("an end mask together with offset has no defined meaning")
        stop = start + last
        lowest, highest = (0, extent) if stride > 0 else (-1, extent - 1)
        if not lowest <= stop <= highest:
            raise ValueError(f"an end {last} from {start} leaves an axis of {extent}")
    extent = max(-(-(stop - start) // stride), 0)
    # The step over one element has no effect; converters write any int64.
    return start, extent, stride if extent > 1 else 1


def sliced(graph: Graph, node: Node) -> list[View]:
    """Returns the views of a `slice`. Raises ValueError if it leaves the tensor."""
    shape = graph.shape(node.operand())
    given = [graph.constant(tensor) for tensor in node.inputs[1:3]]
    if any(value is None for value in given):
        raise NotConstant("begin and size must be constants")
    begin, size = ([integer(n) for n in value.reshape(-1)] for value in given if value is not None)
    if not len(begin) == len(size) == len(shape):
        raise ValueError(f"begin and size must have an entry for each of {len(shape)} axes")
    size = [n - b if s == -1 else s for b, s, n in zip(begin, size, shape, strict=True)]
    for first, count, extent in zip(begin, size, shape, strict=True):
        if not 0 <= first <= first + count <= extent:
            raise ValueError(f"{first} to {first + count} is not inside an axis of {extent}")
    return [region(shape, begin, size)]


ATTRIBUTES = {
    "strided_slice": "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask offset",
}
OPS = (
    moving(
        "strided_slice", views, "Constant begin, end and strides.", fuses=True, operands="xxxx"),
    moving(
        "slice", sliced, "Constant begin and size, inside the tensor.", fuses=True, operands="xxx"),
)  # fmt: skip
