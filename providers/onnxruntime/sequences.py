"""Builders for sequences of tensors whose number is known before a run: a sequence is a list of
tensors of the graph, and no node. onnxruntime cannot pass one to a partition or take one from it,
so that the nodes which write and read a sequence run in one partition (`grouping`)."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import HostOp, Refusal, asks, is_symbolic, needs
from tflgpu_plugin.providers import Builder, Unsupported

from . import batched_handlers, rows
from .rearranging import joined, parts
from .rows import row

SEQUENCES = "It works on sequences of tensors, or on optional values."
MAX_PARTS = 512  # of a split: each is a node, and planning takes the square of their number
LISTS = Refusal(
    "operator.host_only",
    f"{SEQUENCES} Not all nodes that write and read its sequences are in one partition.",
)


@asks("operator.host_only", SEQUENCES)
def listed(e: Builder) -> bool:
    """Requires a sequence whose number of tensors is known before a run, and whose nodes all run in
    one partition."""
    return e.known_limit == 0 and all(
        t is None or e.dtype(t) or e.elements(t) is not None for t in e.inputs
    )


SQUEEZED = needs(
    "host.ambiguous",
    "No keepdims of 0 beside one size, which onnxruntime does not ignore as the standard says.",
    lambda e: bool(e.integer("keepdims", 1)) or not e.has(1) or e.rank(e.x(1)) > 0,
)


def _elements(e: Builder) -> list[int]:
    """Returns the tensors of a sequence. Raises Unsupported where their number is that of a run."""
    found = list(e.elements(e.x()) or ())
    if e.x() not in e.tensors.stacks:
        return found
    count, *shape = e.shape(found[0])
    if is_symbolic((count,)) or count > MAX_PARTS:
        raise Unsupported.of("dynamic.value", "The number of tensors follows from a run.")
    return [e.reshape(t, shape) for t in parts(e, found[0], [1] * count, 0)]


def construct(e: Builder) -> int:
    return e.sequence([t for t in e.inputs if t is not None])


def empty(e: Builder) -> int:
    return e.sequence(())


def at(e: Builder) -> int:
    """Builds SequenceAt."""
    return _elements(e)[_place(e, 1, len(_elements(e)) - 1)]


def erase(e: Builder) -> int:
    """Builds SequenceErase, by default of the last tensor."""
    found = _elements(e)
    place = _place(e, 1, len(found) - 1) if e.has(1) else len(found) - 1
    return e.sequence([t for k, t in enumerate(found) if k != place])


def insert(e: Builder) -> int:
    """Builds SequenceInsert, by default after the last tensor."""
    found = _elements(e)
    place = _place(e, 2, len(found)) if e.has(2) else len(found)
    return e.sequence([*found[:place], e.x(1), *found[place:]])


def _place(e: Builder, position: int, last: int) -> int:
    """Returns a place in a sequence, counted from its front. Raises Unsupported for one outside,
    which is an error of the host."""
    found = e.value(position).reshape(-1)
    place = int(found[0]) if len(found) == 1 and not is_symbolic(found) else last + 1
    size = len(_elements(e))
    place = place + size if place < 0 else place
    if not 0 <= place <= last:
        said = f"The place {place} is outside of a sequence of {size} tensors."
        raise Unsupported.of("constant.invalid", said)
    return place


def length(e: Builder) -> int:
    return e.const(np.asarray(len(_elements(e))), np.int64)


def concat(e: Builder) -> int:
    """Builds ConcatFromSequence."""
    new = bool(e.integer("new_axis"))
    if e.x() in e.tensors.stacks and e.integer("axis") == 0:
        (whole,) = e.elements(e.x()) or ()
        count, *shape = e.shape(whole)
        merged = (count, *shape) if new else (count * shape[0], *shape[1:])
        return e.reshape(whole, merged)
    found = _elements(e)
    if not found:
        raise Unsupported.of("shape.empty", "The sequence has no tensors.")
    axis = e.axis(e.integer("axis"), e.rank(found[0]) + new)
    if new:
        shapes = [e.shape(t) for t in found]
        found = [
            e.reshape(t, (*s[:axis], 1, *s[axis:])) for t, s in zip(found, shapes, strict=True)
        ]
    return joined(e, found, axis)


def split(e: Builder) -> int:
    """Builds SplitToSequence: parts of given sizes, of one size, or of size 1, of which `keepdims`
    says whether they keep the axis."""
    shape, axis = e.shape(), e.axis(e.integer("axis"), e.rank())
    sizes = _sizes(e, shape[axis])
    if len(sizes) > MAX_PARTS:
        said = f"{len(sizes)} parts are more than {MAX_PARTS}."
        raise Unsupported.of("shape.too_large", said)
    made = [*parts(e, e.x(), sizes, axis)]
    if not e.has(1) and not e.integer("keepdims", 1):
        made = [e.reshape(t, (*shape[:axis], *shape[axis + 1 :])) for t in made]
    return e.sequence(made)


def _sizes(e: Builder, extent: int) -> list[int]:
    """Returns the sizes of the parts of a SplitToSequence. Raises Unsupported."""
    given = e.value(1) if e.has(1) else np.asarray(1)
    if is_symbolic((extent, *given.reshape(-1))):
        raise Unsupported.of("dynamic.value", "The number of parts follows from shapes of a run.")
    if given.ndim:
        sizes = [int(n) for n in given]
        if sum(sizes) != extent or min(sizes, default=0) < 0:
            raise Unsupported.of("constant.invalid", f"Parts of {sizes} are not {extent}.")
        return sizes
    size = int(given)
    if size < 1:
        raise Unsupported.of("constant.invalid", f"Parts cannot have the size {size}.")
    return [min(size, extent - start) for start in range(0, extent, size)]


ROWS: tuple[HostOp, ...] = (
    row("ConcatFromSequence", "concat", (11, 11), "value", listed, by=concat, bfloat16=True),
    row("SequenceAt", "reshape", (11, 11), "value index!", listed, by=at, bfloat16=True),
    row("SequenceConstruct", "reshape", (11, 11), rows.MANY, listed, by=construct, bfloat16=True),
    row("SequenceEmpty", "reshape", (11, 11), "value?", listed, by=empty, bfloat16=True),
    row("SequenceErase", "reshape", (11, 11), "value index!?", listed, by=erase, bfloat16=True),
    row("SequenceInsert", "reshape", (11, 11), "value value index!?", listed, by=insert,
        bfloat16=True, at_once=batched_handlers.insert),
    row("SequenceLength", "reshape", (11, 11), "value", listed, by=length, bfloat16=True),
    row("SplitToSequence", "strided_slice", (11, 24), "value split!?", listed, SQUEEZED, by=split,
        bfloat16=True),
)  # fmt: skip
