"""Results whose size only a run determines, such as those of NonZero, and the nodes that read them.

The run counts the valid elements. The tensor has the shape of an upper bound; its elements beyond
the count are arbitrary, and no host sees them. A node *preserves the count* if each element of its
result is computed from the element at the same position of such inputs. It runs in the same
partition as the node that counts, for all elements up to the bound.

Known values may depend on a count, too: those that follow from the shape of such a result. They are
evaluated for the bound and for each of `TRIAL_COUNTS`. This shows whether a value is the count
itself, or is the same for all counts. If nodes that preserve the count compute such values, for
example the numbers from 0 to the count, these are marked as counted like other results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.tensors import TrialValues
from tflgpu_plugin.ir import Array, Tensor
from tflgpu_plugin.ir.symbolic import always_equal, is_symbolic, symbolic

TRIAL_COUNTS = (0, 1, 2, 7)  # counts for which values that depend on one are evaluated
MAX_ELEMENTS = 1 << 19  # of a result; for a larger bound, knowing the count is worth a partition
MAX_ELEMENTS_IN_A_RUN = 1 << 24  # the same once the partition is claimed, for any extents
OWN_COUNT = -1  # of a node that counts its results itself, or knows their number
# Operands in which the functions of `keeps_count` look for the count itself (`indices_of_count`).
COUNT_ROLES = ("shape", "ends", "limit")


def depends_on_count(e: Builder) -> bool:
    """Whether inputs of the node have a counted axis, or known values that depend on a count."""
    return bool(_counts(e))


def _counts(e: Builder) -> set[int]:
    """Returns the tensors with the counts on which the node's inputs depend."""
    given = [t for t in e.inputs if t is not None]
    counted = (e.tensors.table[t].counted for t in given)
    trials = (e.tensors.trials.get(t) for t in given)
    return {c[1] for c in counted if c is not None} | {t.count for t in trials if t is not None}


def result_axis(e: Builder) -> int | None:
    """Returns the axis of the node's results that the count of its inputs limits, OWN_COUNT, or
    None if the node does not preserve the count. Sets the builder's `count` unless it is None."""
    if len(_counts(e)) != 1 or e.row.keeps_count is None:
        return None
    given = [e.tensors.table[t] for t in e.inputs if t is not None]
    bounds = [t.shape[t.counted[0]] for t in given if t.counted is not None]
    alike = all(always_equal(n, bound(e)) for n in bounds)
    axis = e.row.keeps_count(e) if alike and _reads_counts_only(e) else None
    if axis == OWN_COUNT and _counts(e) <= e.tensors.growing:
        axis = None  # no tensor would show that a run has counted more than there is room for
    e.count = None if axis is None else _counts(e).pop()
    return axis


def bound(e: Builder) -> int:
    """Returns the upper bound of the single count on which the node's inputs depend."""
    (count,) = _counts(e)
    return e.tensors.bounds[count]


def _reads_counts_only(e: Builder) -> bool:
    """Whether all inputs whose values depend on a count have `COUNT_ROLES`, which the row handles:
    with another one, such as the start of a slice, the node would compute for the bound. Inputs
    that decide shapes must be known and not counted."""
    looked_at = {k for k, one in enumerate(e.row.operands) if one.role in COUNT_ROLES}
    deciders = [t for t in e.row.deciders(e.inputs) if t is not None]
    fixed = all(e.known(t) and e.tensors.table[t].counted is None for t in deciders)
    return fixed and {*_dependent_inputs(e)} <= looked_at


def mark_counted(e: Builder, axis: int, made: Sequence[int], most: int = MAX_ELEMENTS) -> bool:
    """Marks the node's results as counted along the axis that `result_axis` has returned. Returns
    False if one has more than `most` elements, or with symbolic extents, which differ between runs,
    more than MAX_ELEMENTS_IN_A_RUN."""
    if axis == OWN_COUNT:
        return True
    shapes = [e.shape(tensor) for tensor in made]
    limits = (MAX_ELEMENTS_IN_A_RUN if is_symbolic(shape) else most for shape in shapes)
    if any(prod(shape) > limit for shape, limit in zip(shapes, limits, strict=True)):
        return False
    assert e.count is not None
    for tensor in made:
        e.counted(tensor, axis, e.count)
    return True


def inputs_per_trial(e: Builder) -> Iterator[list[Tensor | None]]:
    """Yields the node's inputs for each of TRIAL_COUNTS; none if they depend on several counts."""
    if len(_counts(e)) != 1:
        return
    for k, count in enumerate(TRIAL_COUNTS):
        yield [None if t is None else _in_trial(e, t, k, count) for t in e.inputs]


def _in_trial(e: Builder, tensor: int, trial: int, count: int) -> Tensor:
    """Returns a tensor as it is for this count, which is TRIAL_COUNTS[trial]."""
    held, known = e.tensors.table[tensor], e.tensors.trials.get(tensor)
    if known is not None:
        return replace(held, shape=known.values[trial].shape, data=known.values[trial])
    if held.counted is None:
        return held
    axis, shape = held.counted[0], held.shape
    return replace(held, shape=(*shape[:axis], count, *shape[axis + 1 :]), counted=None)


def record_trials(e: Builder, made: Sequence[int], values: Sequence[Sequence[Array]]) -> bool:
    """Records the values of the known results `made`: values[trial][k] is that of result k. Results
    that are the same for every count are left out. Marks results that preserve the count. Returns
    False if other counts may give results that these values do not show, such as those of a
    comparison with a number that is none of TRIAL_COUNTS."""
    (count,), dependent = _counts(e), _dependent_inputs(e)
    moves, noted = not e.row.op or ops.rows()[e.row.op].moves, dict[int, TrialValues]()
    if any(e.row.operands[k].role == "index" for k in dependent if k < len(e.row.operands)):
        return False
    for k, tensor in enumerate(made):
        listed, held = tuple(one[k] for one in values), e.constant(tensor)
        assert held is not None
        same = all(_is_same(held, one) for one in listed)
        decided = moves or held.dtype != np.bool_ or not dependent
        if not decided and not (same and _compares_alike(e, dependent)):
            return False
        if not same or (decided and not moves):
            noted[tensor] = TrialValues(count, listed)
    e.tensors.trials |= noted
    if (axis := result_axis(e)) is not None:
        mark_counted(e, axis, [*noted])
    return True


def _dependent_inputs(e: Builder) -> list[int]:
    """Returns the positions of inputs without a counted axis whose values depend on a count."""
    trials = e.tensors.trials
    return [k for k, t in enumerate(e.inputs) if t in trials and e.counted_axis(k) is None]


def _compares_alike(e: Builder, dependent: Sequence[int]) -> bool:
    """Whether a comparison of the single input at a position of `dependent` has the same result for
    all counts: its other inputs lie outside of the range of values that this one takes, as -1 does
    for extents. False without other inputs, as for a cast to bool, which compares with 0."""
    if len(dependent) != 1:
        return False
    (position,) = dependent
    held = [e.value(position), *e.tensors.trials[e.x(position)].values]
    if any(one.shape != held[0].shape for one in held):
        return False
    low, high = np.min(held, 0), np.max(held, 0)
    others = [e.value(k) for k in range(len(e.inputs)) if e.has(k) and k not in dependent]
    within = [(low < high) & (low <= other) & (other <= high) for other in others]
    return bool(within) and not any(map(np.any, within))


def _is_same(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    if not symbolic(one) and not symbolic(other):
        return np.array_equal(one, other)
    return all(always_equal(a, b) for a, b in zip(one.flat, other.flat, strict=True))


def indices_of_count(e: Builder, position: int) -> list[int] | None:
    """Returns the indices of a known vector at which it holds the count itself; None if the vector
    depends on the count in another way."""
    values, trials = e.value(position).reshape(-1), e.tensors.trials.get(e.x(position))
    others = [held.reshape(-1) for held in trials.values] if trials else []
    if any(len(held) != len(values) for held in others):
        return None
    found = []
    for k, value in enumerate(values):
        here = [held[k] for held in others]
        if here == [*TRIAL_COUNTS] and always_equal(value, bound(e)):
            found.append(k)
        elif not all(always_equal(value, other) for other in here):
            return None
    return found


def not_preserved(e: Builder) -> Unsupported:
    """Returns the error for a node that cannot be in the partition that counts its inputs."""
    said = f"{e.row.name} needs the number of elements that the run counts."
    return Unsupported.of("dynamic.value", said)
