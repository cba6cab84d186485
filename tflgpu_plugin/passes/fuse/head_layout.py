"""Finds tensors in which attention can read its heads without a copy, and write them: the tensor
from which queries, keys or values are split, and the tensor into which the results are joined."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from tflgpu_plugin.ir import Node, Shape
from tflgpu_plugin.ops.axes import Axis
from tflgpu_plugin.ops.views import View, identity, part, through
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

Lead = tuple[int, int]  # extents: batch, heads
Heads = tuple[int, int, int, int]  # and length, depth


class HeadSource(NamedTuple):
    """A tensor from which heads are read, reshaped to `shape` (rank 3, or rank 4 with an axis of
    heads). Each of its `heads` serves a group of consecutive query heads, and is multiplied by
    `factor`. `swapped`: the tensor's last two axes are transposed first. `part`: first channel and
    number of channels that contain the heads."""

    tensor: int
    shape: Shape
    heads: int
    factor: float = 1.0
    swapped: bool = False
    part: tuple[int, int] | None = None


def head_sources(
    uses: DefUse, tensor: int, heads: Heads, *, swapped: bool = False, scaled: bool = False
) -> list[HeadSource]:
    """Returns the tensors from which the heads in a tensor can be read, the best first. `swapped`:
    the tensor's last two axes are transposed; `scaled`: the reader can apply a factor."""
    start = _start(uses.e.shape(tensor), heads, swapped)
    found: list[tuple[tuple[bool, bool, int], HeadSource]] = []
    sources = uses.sources(tensor, start, scaled=scaled) if start else ()
    batch, count, length, depth = heads
    for number, (source, view, factor) in enumerate(sources):
        own, rest = divmod(prod(uses.e.shape(source)), batch * length * depth)
        if rest or not own:
            continue
        if one := _part(source, view, heads, own * depth, factor):
            found.append(((True, False, number), one))
        if count % own:
            continue
        for packed in (True, False) if _beside(own, depth) else (False,):
            shape = (batch, length, own * depth) if packed else (batch, own, length, depth)
            apart = (depth, own * depth) if packed else (length * depth, depth)
            if view.key == _view(heads, own, *apart).key:
                rank = packed, shape == uses.e.shape(source), number
                found.append((rank, HeadSource(source, shape, own, factor)))
    if start and swapped and not found:
        own = prod(uses.e.shape(tensor)[:-2]) // batch
        return [HeadSource(tensor, (batch, own, length, depth), own, swapped=True)]
    return [each for _, each in sorted(found, key=lambda pair: pair[0], reverse=True)]


def read_heads(e: Rewriter, nodes: list[Node], found: HeadSource, origin: Node) -> int:
    """Returns a tensor with the heads, and appends the nodes that make it."""

    def made(op: str, tensor: int, extents: Shape, **attributes: Any) -> int:
        result = e.tensor(extents, like=tensor)
        nodes.append(e.layout(op, tensor, result, origin, **attributes))
        return result

    tensor, shape = found.tensor, found.shape
    if found.swapped:
        *outer, rows, columns = e.shape(tensor)
        perm = (*range(len(outer)), len(outer) + 1, len(outer))
        tensor = made("transpose", tensor, (*outer, columns, rows), perm=perm)
    if e.shape(tensor) != shape:
        tensor = made("reshape", tensor, shape, shape=shape)
    if found.part:
        view = part(shape, len(shape) - 1, *found.part)
        tensor = made("view", tensor, view.shape, view=view)
    return tensor


def _part(source: int, view: View, heads: Heads, width: int, factor: float) -> HeadSource | None:
    """Returns heads that are a slice of rows of this width, if it can be read in place: a batch of
    one, and channels aligned to vec4; else None."""
    batch, count, length, depth = heads
    own = prod(axis.extent for axis in view.simple.axes if axis.stride) // (length * depth)
    if batch != 1 or depth % 4 or view.offset % 4 or not 0 < own * depth < width or count % own:
        return None
    axes = (Axis(own, depth), Axis(count // own), Axis(length, width), Axis(depth, 1))
    if view.key != View(heads, axes, view.offset).key:
        return None
    rows, channels = (1, length, width), (view.offset, own * depth)
    return HeadSource(source, rows, own, factor, part=channels)


def counts(uses: DefUse, tensor: int, every: int) -> Iterator[Lead]:
    """Yields (batch, heads) with the product `every`, from the widths of the tensors that a tensor
    [..., length, depth] is split from."""
    *_, depth = uses.e.shape(tensor)
    for source, _, _ in uses.sources(tensor, scaled=True):
        width = uses.e.shape(source)[-1]
        if width % depth == 0 and width > depth and every % (width // depth) == 0:
            yield every // (width // depth), width // depth


def joined(uses: DefUse, product: Node, heads: Heads) -> list[Node]:
    """Returns the nodes that join the heads of a result, in order; an empty list if there are none
    or another node reads a tensor in between."""
    batch, count, length, depth = heads
    tensor = product.outputs[0]
    axes = (
        Axis(batch, count * length * depth), Axis(length, depth), Axis(count, length * depth),
        Axis(depth, 1),
    )  # fmt: skip
    view, nodes, last = identity(heads), list[Node](), 0
    while _beside(count, depth) and (reader := uses.reader(tensor)) is not None:
        found = through(view, uses.e.view(reader))
        if found is None or reader.operand() != tensor or not uses.plain(reader):
            break
        view, tensor = found, reader.outputs[0]
        nodes.append(reader)
        if view.key == View(view.shape, axes).key:
            last = len(nodes)
    return nodes[:last]


def _beside(heads: int, depth: int) -> bool:
    """Whether the op can read heads that are stored side by side: each must begin at a vec4."""
    return heads == 1 or depth % 4 == 0


def _start(shape: Shape, heads: Heads, swapped: bool) -> View | None:
    """Returns the heads that are needed, as a view of a tensor [..., length, depth] that broadcasts
    to them."""
    batch, count, length, depth = heads
    outer, every = shape[:-2], prod(shape[:-2])
    own = count if every == batch * count else 1
    if own == 1 and (every != batch or (batch > 1 and outer[-1] != 1 and count > 1)):
        return None
    return _view(heads, own, length * depth, *((1, length) if swapped else (depth, 1)))


def _view(heads: Heads, own: int, head: int, row: int, lane: int = 1) -> View:
    """Returns the view of `own` heads, each repeated for its group until the count in `heads` is
    reached. `head`, `row` and `lane` are the strides between heads, between rows and within a
    row."""
    batch, count, length, depth = heads
    axes = (
        Axis(batch, own * length * depth), Axis(own, head), Axis(count // own), Axis(length, row),
        Axis(depth, lane),
    )  # fmt: skip
    return View(heads, axes)
