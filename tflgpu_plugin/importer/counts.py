"""Nodes that keep a count: they read results whose number only a run determines, and compute each
of theirs from those at the same position. They run in the partition that counts, for as many
results as there may be at most; what is beyond the count is arbitrary, and no host sees it.

Such results have the shape of that bound. Values that follow from their shape are *told* by the
count; they are worked out for the bound and for a few other counts, which shows whether they are
the count itself, or the same for all counts. Told values that such nodes compute, as the numbers
from 0 to the count, are counted like other results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.tensors import Told
from tflgpu_plugin.ir import Array, Tensor
from tflgpu_plugin.ir.symbolic import is_symbolic, surely_equal, symbolic

TRIED = (0, 1, 2, 7)  # counts for which told integers are worked out
MAX_ELEMENTS = 1 << 19  # elements of a result beyond which its real number is worth a partition
MAX_ELEMENTS_IN_A_RUN = 1 << 24  # the same once the partition is claimed, for any extents
OWN = -1  # a node whose results have a number of their own, which it counts or knows
# Roles of operands in which rows with `keeps_count` look for the count itself (see `places`).
LOOKED_AT = ("shape", "ends", "limit")


def follows(e: Builder) -> bool:
    """Whether inputs of the node, or their values, follow from a count of the run."""
    return bool(_counts(e))


def _counts(e: Builder) -> set[int]:
    """Returns the tensors that count elements of the node's inputs."""
    given = [t for t in e.inputs if t is not None]
    held = (e.tensors.table[t].counted for t in given)
    told = (e.tensors.told.get(t) for t in given)
    return {c[1] for c in held if c is not None} | {t.count for t in told if t is not None}


def kept(e: Builder) -> int | None:
    """Returns the axis along which the node's results are as many as elements of its inputs, OWN,
    or None if it does not keep the count. Sets the builder's `count` if it does."""
    if len(_counts(e)) != 1 or e.row.keeps_count is None:
        return None
    given = [e.tensors.table[t] for t in e.inputs if t is not None]
    bounds = [t.shape[t.counted[0]] for t in given if t.counted is not None]
    alike = all(surely_equal(n, bound(e)) for n in bounds)
    axis = e.row.keeps_count(e) if alike and _is_understood(e) else None
    if axis == OWN and _counts(e) <= e.tensors.growing:  # nothing would tell that more were counted
        axis = None
    e.count = None if axis is None else _counts(e).pop()
    return axis


def bound(e: Builder) -> int:
    """Returns the largest possible value of the single count that the node's inputs follow from."""
    (count,) = _counts(e)
    return e.tensors.bounds[count]


def _is_understood(e: Builder) -> bool:
    """Whether the row looks at all inputs whose values follow from a count without being counted: a
    node that reads another one, such as the start of a slice, would compute for the bound. Inputs
    that decide shapes are known, and not counted."""
    looked_at = {k for k, one in enumerate(e.row.operands) if one.role in LOOKED_AT}
    deciders = [t for t in e.row.deciders(e.inputs) if t is not None]
    fixed = all(e.known(t) and e.tensors.table[t].counted is None for t in deciders)
    return fixed and {*_told(e)} <= looked_at


def mark(e: Builder, axis: int, made: Sequence[int], most: int = MAX_ELEMENTS) -> bool:
    """Marks the node's results as counted along the axis that `kept` has returned. Returns false if
    one has more than `most` elements; of symbolic extents, of which the numbers of a run may be
    others, if it has more than MAX_ELEMENTS_IN_A_RUN."""
    if axis == OWN:
        return True
    shapes = [e.shape(tensor) for tensor in made]
    limits = (MAX_ELEMENTS_IN_A_RUN if is_symbolic(shape) else most for shape in shapes)
    if any(prod(shape) > limit for shape, limit in zip(shapes, limits, strict=True)):
        return False
    assert e.count is not None
    for tensor in made:
        e.counted(tensor, axis, e.count)
    return True


def tried(e: Builder) -> Iterator[list[Tensor | None]]:
    """Yields the node's inputs for each count that is tried, if it follows from a single one."""
    if len(_counts(e)) != 1:
        return
    for k, count in enumerate(TRIED):
        yield [None if t is None else _with(e, t, k, count) for t in e.inputs]


def _with(e: Builder, tensor: int, place: int, count: int) -> Tensor:
    """Returns a tensor for the count that is tried at this place."""
    held, told = e.tensors.table[tensor], e.tensors.told.get(tensor)
    if told is not None:
        return replace(held, shape=told.values[place].shape, data=told.values[place])
    if held.counted is None:
        return held
    axis, shape = held.counted[0], held.shape
    return replace(held, shape=(*shape[:axis], count, *shape[axis + 1 :]), counted=None)


def tell(e: Builder, made: Sequence[int], values: Sequence[Sequence[Array]]) -> bool:
    """Notes the `values` of the known results `made` for each count that was tried, unless they are
    the same for every count. Marks results that keep the count. Returns false if results may be
    others than these values show, as those of a comparison with a number that was not tried."""
    (count,), told = _counts(e), _told(e)
    moves, noted = not e.row.op or ops.rows()[e.row.op].moves, dict[int, Told]()
    if any(e.row.operands[k].role == "index" for k in told if k < len(e.row.operands)):
        return False
    for k, tensor in enumerate(made):
        listed, held = tuple(one[k] for one in values), e.constant(tensor)
        assert held is not None
        same = all(_is_same(held, one) for one in listed)
        decided = moves or held.dtype != np.bool_ or not told
        if not decided and not (same and _is_apart(e, told)):
            return False
        if not same or (decided and not moves):
            noted[tensor] = Told(count, listed)
    e.tensors.told |= noted
    if (axis := kept(e)) is not None:
        mark(e, axis, [*noted])
    return True


def _told(e: Builder) -> list[int]:
    """Returns the positions of inputs whose values follow from a count without being counted."""
    told = e.tensors.told
    return [k for k, t in enumerate(e.inputs) if t in told and e.counted_axis(k) is None]


def _is_apart(e: Builder, told: Sequence[int]) -> bool:
    """Whether the numbers in the single input at a position of `told` that differ between counts
    are compared with numbers that they are for none, as extents with -1. A node without other
    inputs compares with a number of its own, as a cast to bools with 0."""
    if len(told) != 1:
        return False
    held = [e.value(told[0]), *e.tensors.told[e.x(told[0])].values]
    if any(one.shape != held[0].shape for one in held):
        return False
    low, high = np.min(held, 0), np.max(held, 0)
    others = [e.value(k) for k in range(len(e.inputs)) if e.has(k) and k not in told]
    within = [(low < high) & (low <= other) & (other <= high) for other in others]
    return bool(within) and not any(map(np.any, within))


def _is_same(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    if not symbolic(one) and not symbolic(other):
        return np.array_equal(one, other)
    return all(surely_equal(a, b) for a, b in zip(one.flat, other.flat, strict=True))


def places(e: Builder, position: int) -> list[int] | None:
    """Returns the indices at which a known vector has the count itself; None if the vector depends
    on the count in another way."""
    values, told = e.value(position).reshape(-1), e.tensors.told.get(e.x(position))
    others = [held.reshape(-1) for held in told.values] if told else []
    if any(len(held) != len(values) for held in others):
        return None
    found = []
    for k, value in enumerate(values):
        here = [held[k] for held in others]
        if here == [*TRIED] and surely_equal(value, bound(e)):
            found.append(k)
        elif not all(surely_equal(value, other) for other in here):
            return None
    return found


def unkept(e: Builder) -> Unsupported:
    """Returns why a node cannot share the partition that counts its inputs."""
    said = f"{e.row.name} needs the number of elements that the run counts."
    return Unsupported.of("dynamic.value", said)
