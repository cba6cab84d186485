"""Where the heads of attention lie: the tensor from which queries, keys or values are split,
however that is spelled, and the one into which results are joined."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from tflgpu_plugin.ir import Node, Shape
from tflgpu_plugin.ops.views import Axis, View, part, through, whole
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

Lead = tuple[int, int]  # extents: batch, heads
Heads = tuple[int, int, int, int]  # and length, depth


class Held(NamedTuple):
    """A tensor that has the heads, as it is once it is seen under `shape`: that of rank 3, or with
    an axis of heads. They are repeated to those asked for, in a row, and multiplied by `factor`.
    `turned`: once its last two axes have been swapped. `part`: they are a part of the rows under
    that shape, from a channel on, of so many."""

    tensor: int
    shape: Shape
    heads: int
    factor: float = 1.0
    turned: bool = False
    part: tuple[int, int] | None = None


def held(
    uses: DefUse, tensor: int, heads: Heads, *, turned: bool = False, scaled: bool = False
) -> list[Held]:
    """Where the heads may be read that this tensor has (`turned`: with the last two axes swapped),
    the best first. `scaled`: a factor may be taken out."""
    start = _start(uses.e.shape(tensor), heads, turned)
    found: list[tuple[tuple[bool, bool, int], Held]] = []
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
                found.append((rank, Held(source, shape, own, factor)))
    if start and turned and not found:
        own = prod(uses.e.shape(tensor)[:-2]) // batch
        return [Held(tensor, (batch, own, length, depth), own, turned=True)]
    return [each for _, each in sorted(found, key=lambda pair: pair[0], reverse=True)]


def put_together(e: Rewriter, nodes: list[Node], found: Held, origin: Node) -> int:
    """The tensor as it has the heads, by further nodes where it has not yet."""

    def made(op: str, tensor: int, extents: Shape, **attributes: Any) -> int:
        result = e.tensor(extents, like=tensor)
        nodes.append(e.layout(op, tensor, result, origin, **attributes))
        return result

    tensor, shape = found.tensor, found.shape
    if found.turned:
        *outer, rows, columns = e.shape(tensor)
        perm = (*range(len(outer)), len(outer) + 1, len(outer))
        tensor = made("transpose", tensor, (*outer, columns, rows), perm=perm)
    if e.shape(tensor) != shape:
        tensor = made("reshape", tensor, shape, shape=shape)
    if found.part:
        view = part(shape, len(shape) - 1, *found.part)
        tensor = made("view", tensor, view.shape, view=view)
    return tensor


def _part(source: int, view: View, heads: Heads, width: int, factor: float) -> Held | None:
    """Heads beside each other among others in rows of this width; of one batch, where such a part
    can be read as it lies."""
    batch, count, length, depth = heads
    for own in (n for n in range(count, 0, -1) if count % n == 0 and n * depth < width):
        axes = (Axis(own, depth), Axis(count // own), Axis(length, width), Axis(depth, 1))
        fits = view.key == View(heads, axes, view.offset).key
        if fits and batch == 1 and depth % 4 == 0 and view.offset % 4 == 0:
            return Held(source, (1, length, width), own, factor, part=(view.offset, own * depth))
    return None


def counts(uses: DefUse, tensor: int, every: int) -> Iterator[Lead]:
    """Batches and heads that may be `every` one of a tensor [..., length, depth], from the widths
    of what it is split from."""
    *_, depth = uses.e.shape(tensor)
    for source, _, _ in uses.sources(tensor, scaled=True):
        width = uses.e.shape(source)[-1]
        if width % depth == 0 and width > depth and every % (width // depth) == 0:
            yield every // (width // depth), width // depth


def joined(uses: DefUse, product: Node, heads: Heads) -> list[Node]:
    """The nodes that join these heads of a result, one after the other; none where nothing does, or
    something else reads what is between."""
    batch, count, length, depth = heads
    tensor = product.outputs[0]
    axes = (
        Axis(batch, count * length * depth), Axis(length, depth), Axis(count, length * depth),
        Axis(depth, 1),
    )  # fmt: skip
    view, nodes, last = whole(heads), list[Node](), 0
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
    """Whether the op takes heads beside each other as they are: each begins with a vec4."""
    return heads == 1 or depth % 4 == 0


def _start(shape: Shape, heads: Heads, turned: bool) -> View | None:
    """These heads as a view of a tensor [..., length, depth] that spreads over them."""
    batch, count, length, depth = heads
    outer, every = shape[:-2], prod(shape[:-2])
    own = count if every == batch * count else 1
    if own == 1 and (every != batch or (batch > 1 and outer[-1] != 1 and count > 1)):
        return None
    return _view(heads, own, length * depth, *((1, length) if turned else (depth, 1)))


def _view(heads: Heads, own: int, head: int, row: int, lane: int = 1) -> View:
    """Returns the view of `own` heads, each repeated until there are as many as `heads` says.
    `head`, `row` and `lane` are the strides between heads, between rows and within a row."""
    batch, count, length, depth = heads
    axes = (
        Axis(batch, own * length * depth), Axis(own, head), Axis(count // own), Axis(length, row),
        Axis(depth, lane),
    )  # fmt: skip
    return View(heads, axes)
