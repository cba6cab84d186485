"""Nodes that keep a count: they read results whose number only a run determines, and compute each
of theirs from those at the same position. They run in the partition that counts, for as many
results as there may be at most; what is beyond the count is arbitrary, and no host sees it.

Such results have the shape of that bound. Integers that follow from their shape are *told* by the
count; they are worked out for the bound and for a few other counts, which shows whether they are
the count itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.tensors import Told
from tflgpu_plugin.ir import Array, Tensor
from tflgpu_plugin.ir.symbolic import is_symbolic, surely_equal

TRIED = (0, 1, 2, 7)  # counts for which told integers are worked out
MOST = 1 << 19  # elements of a result beyond which its real number is worth a partition
MOST_IN_A_RUN = 1 << 24  # in a partition that has been claimed, whatever extents runs give it
OWN = -1  # a node whose results have another number, which it counts itself


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
    found, given = _counts(e), [e.tensors.table[t] for t in e.inputs if t is not None]
    if len(found) != 1 or e.row.keeps_count is None:
        return None
    bounds = [t.shape[t.counted[0]] for t in given if t.counted is not None]
    alike = bounds and all(surely_equal(n, bounds[0]) for n in bounds)
    axis = e.row.keeps_count(e) if alike and _only_shapes(e) else None
    e.count = None if axis is None else found.pop()
    return axis


def _only_shapes(e: Builder) -> bool:
    """Whether shapes are the only inputs whose values follow from a count: a node that reads
    another one, such as the bounds of a slice, would compute for the bound."""
    shapes = {k for k, one in enumerate(e.row.operands) if one.role == "shape"}
    return {k for k, t in enumerate(e.inputs) if t in e.tensors.told} <= shapes


def mark(e: Builder, axis: int, made: Sequence[int], most: int = MOST) -> bool:
    """Marks the node's results as counted along the axis that `kept` has returned. Returns false if
    one has more than `most` elements; of symbolic extents, of which the numbers of a run may be
    others, if it has more than MOST_IN_A_RUN."""
    if axis == OWN:
        return True
    shapes = [e.shape(tensor) for tensor in made]
    limits = (MOST_IN_A_RUN if is_symbolic(shape) else most for shape in shapes)
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


def tell(e: Builder, made: Sequence[int], values: Sequence[Sequence[Array]]) -> None:
    """Notes the `values` of the known results `made`, for each count that was tried."""
    (count,) = _counts(e)
    for k, tensor in enumerate(made):
        e.tensors.told[tensor] = Told(count, tuple(listed[k] for listed in values))


def places(e: Builder, position: int, bound: int) -> list[int] | None:
    """Returns the indices at which a known vector has the count itself, which is at most `bound`;
    None if the vector depends on the count in another way."""
    values, told = e.value(position).reshape(-1), e.tensors.told.get(e.x(position))
    others = [held.reshape(-1) for held in told.values] if told else []
    if any(len(held) != len(values) for held in others):
        return None
    found = []
    for k, value in enumerate(values):
        here = [held[k] for held in others]
        if here == [*TRIED] and surely_equal(value, bound):
            found.append(k)
        elif not all(surely_equal(value, other) for other in here):
            return None
    return found


def unkept(e: Builder) -> Unsupported:
    """Returns why a node cannot share the partition that counts its inputs."""
    said = f"{e.row.name} needs the number of elements that the run counts."
    return Unsupported.of("dynamic.value", said)
