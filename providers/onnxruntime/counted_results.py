"""Table rows and builders whose number of results is known only after the run: the results are
padded to the largest possible number, and a count tells how many are valid."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import COUNTS, INT32, MAX_FLOAT32, asks, integer, larger, needs, smaller
from tflgpu_plugin.ops import detection
from tflgpu_plugin.providers import Builder, counts

from . import indexing, narrow_integers
from .rearranging import joined, part, parts
from .rows import operand

SMALLEST = 2.0**-126  # kernels compare overlaps with this instead of 0
MAX_SORTED = 4096  # elements; sorting more takes longer than on the host
MAX_ROUNDS = 60_000  # of loops that select from counted boxes; software drivers end others
MAX_NUMBERS = 1 << 24  # of a Range
MAX_COMPARED = 1 << 22  # pairs of elements: a tensor of 16 MiB


def _axis(e: Builder) -> int | None:
    """Returns the axis attribute of the node; None if absent: single elements are selected."""
    given = e.host.attributes.get("axis")
    return None if given is None else e.axis(int(given), e.rank())


@asks("constant.invalid")
def in_bounds(e: Builder) -> bool:
    """Requires a condition of rank 1; if constant, with a true element and none beyond the axis."""
    known = e.constant(e.x(1))
    if known is None:
        return e.rank(e.x(1)) == 1
    axis, chosen = _axis(e), np.flatnonzero(known)
    extent = prod(e.shape()) if axis is None else e.shape()[axis]
    return len(chosen) > 0 and int(chosen[-1]) < extent


RANKED = needs("rank.unsupported", "An input of rank 1 or more.", lambda e: e.rank() > 0)


def compress(e: Builder) -> int:
    """Builds Compress: selects the elements, or slices of an axis, whose condition is true."""
    named, condition = _axis(e), e.x(1)
    x = e.reshape(e.x(), (prod(e.shape()),)) if named is None else e.x()
    axis, shape, known = named or 0, e.shape(x), e.constant(condition)
    if known is not None:
        return e.add("gather", x, e.index(np.flatnonzero(known)), axis=axis)
    if e.shape(condition)[0] > shape[axis]:
        condition = part(e, condition, 0, shape[axis])
    places, count = places_of(e, condition)
    if prod(shape):
        return e.counted(e.add("gather", x, places, axis=axis), axis, count)
    bound = min(e.shape(places)[0], shape[axis])
    nothing = e.reshape(x, (*shape[:axis], bound, *shape[axis + 1 :]))
    return e.counted(nothing, axis, count)


def places_of(e: Builder, flags: int) -> tuple[int, int]:
    """Returns (indices, count) of the true elements of `flags` [n]. `indices` is [n]; its elements
    from `count` on are arbitrary but in range."""
    if not prod(e.shape(flags)):
        flags = e.const([False], np.bool_)
    places, count = e.add_many("nonzero", flags, dtype="i32")
    return e.add("minimum", places, e.index([prod(e.shape(flags)) - 1])), count


def nonzero(e: Builder) -> int:
    """Builds NonZero: the coordinates of nonzero elements, one column per element."""
    if e.known_limit:
        return e.const(np.array(np.nonzero(e.value(0)), np.int64), np.int64)
    shape, flags = e.shape(), e.x()
    if e.dtype() in narrow_integers.TYPES:
        flags = narrow_integers.int32(e, flags)
    if e.dtype(flags) != "bool":
        zero = e.index([0]) if e.dtype(flags) in COUNTS else e.const([0])
        flags = e.add("not_equal", flags, zero, dtype="bool")
    places, count = places_of(e, e.reshape(flags, (prod(shape),)))
    bound = e.shape(places)
    rows = []
    for axis, extent in enumerate(shape):
        row, inner = places, prod(shape[axis + 1 :])
        if inner > 1:
            row = e.add("floor_div", row, e.index([inner]))
        if axis and extent:
            row = e.add("floor_mod", row, e.index([extent]))
        rows.append(e.reshape(row, (1, *bound)))
    made = (
        e.add("concat", *rows, axis=0) if len(rows) > 1 else e.reshape(places, (len(rows), *bound))
    )
    return e.counted(made, 1, count)


@asks("shape.too_large")
def sortable(e: Builder) -> bool:
    """Requires at most 4,096 elements without an axis or with an input of rank 1; else 1 to
    4,194,304 comparisons (input elements times slices along the axis)."""
    axis, count = _parts_axis(e), prod(e.shape())
    return count <= MAX_SORTED if axis is None else 0 < count * e.shape()[axis] <= MAX_COMPARED


def _parts_axis(e: Builder) -> int | None:
    """Returns the axis whose slices are compared; None if single elements are compared."""
    return None if e.rank() == 1 else _axis(e)


def unique(e: Builder) -> list[int]:
    """Builds the four outputs of Unique: the distinct elements, the index of the first occurrence
    of each, for each input element the index of its distinct element, and the frequencies."""
    axis, n = _parts_axis(e), prod(e.shape())
    if axis is not None:
        return _unique_parts(e, axis)
    x = e.reshape(e.x(), (n,))
    if not n:
        _, count = places_of(e, x)
        nothing = [e.add("cast", x, dtype="i32") for _ in range(3)]
        return [t if k == 2 else e.counted(t, 0, count) for k, t in enumerate([x, *nothing])]
    values, order = e.add_many("top_k", x, e.index([n]), axis=0, largest=False,
                               dtype=(e.dtype(), "i32"))  # fmt: skip
    pair = (part(e, values, 1, n), part(e, values, 0, n - 1))
    other, size = e.add("not_equal", *pair, dtype="bool"), e.index([n])
    heads = e.add("concat", e.const([True], np.bool_), other, axis=0)
    starts, count = e.add_many("nonzero", heads, dtype="i32")
    ends = e.add("concat", part(e, starts, 1, n), size, axis=0)
    places = e.add("minimum", starts, e.index([n - 1]))
    groups = e.add("cumsum", e.add("cast", heads, dtype="i32"), e.index([0]))
    kinds = e.add("gather", e.add("sub", groups, e.index([1])), _argsort(e, order), axis=0)
    first = e.add("gather", order, places, axis=0)
    found = [e.add("gather", values, places, axis=0), first, e.add("sub", ends, starts)]
    if not e.integer("sorted", 1):
        behind = e.add("equal", starts, size, dtype="bool")
        by_first = _argsort(e, e.add("where", behind, size, first, dtype="i32"))
        kinds = e.add("gather", _argsort(e, by_first), kinds, axis=0)
        found = [e.add("gather", t, by_first, axis=0) for t in found]
    counted = [e.counted(t, 0, count) for t in found]
    return [*counted[:2], kinds, counted[2]]


def _unique_parts(e: Builder, axis: int) -> list[int]:
    """Builds Unique of the slices along `axis`, in lexicographic order if sorted."""
    n, others = e.shape()[axis], [k for k in range(e.rank()) if k != axis]
    turned = e.transpose(e.x(), (axis, *others))
    whole = e.shape(turned)
    pair = [e.reshape(turned, shape) for shape in ((n, 1, -1), (1, n, -1))]
    above, below = (_ones(e, op, *pair) for op in ("greater", "less"))
    place = e.add("arg_max", e.add("add", above, below), e.index([2]), keep_dims=True, dtype="i32")
    sign = e.add("gather_elements", e.add("sub", above, below), place, axis=2)
    sign, zero, numbers = e.reshape(sign, (n, n)), e.index([0]), e.index(np.arange(n))
    same, along = _ones(e, "equal", sign, zero), e.index([1])
    first = e.add("arg_max", same, along, keep_dims=False, dtype="i32")
    heads = e.add("equal", first, numbers, dtype="bool")
    led = e.add("cast", heads, dtype="i32")
    if e.integer("sorted", 1):
        less = e.add("mul", _ones(e, "greater", sign, zero), e.reshape(led, (1, n)))
        kinds = e.add("reduce_sum", less, along, keep_dims=False)
    else:
        groups = e.add("sub", e.add("cumsum", led, zero), along)
        kinds = e.add("gather", groups, first, axis=0)
    order = _argsort(e, e.add("where", heads, kinds, e.index([n]), dtype="i32"))
    counts = e.add("reduce_sum", same, along, keep_dims=False)
    rows = e.reshape(e.add("gather", e.reshape(turned, (n, -1)), order, axis=0), whole)
    y = e.transpose(rows, np.argsort((axis, *others)).tolist())
    _, count = places_of(e, heads)
    often = e.add("gather", counts, order, axis=0)
    return [e.counted(y, axis, count), e.counted(order, 0, count), kinds,
            e.counted(often, 0, count)]  # fmt: skip


def _ones(e: Builder, op: str, *pair: int) -> int:
    """Returns int32: 1 where the comparison `op` of `pair` is true, else 0."""
    return e.add("cast", e.add(op, *pair, dtype="bool"), dtype="i32")


def _argsort(e: Builder, x: int) -> int:
    """Returns the indices that sort `x` [n] in ascending order."""
    _, order = e.add_many("top_k", x, e.index(e.shape(x)), axis=0, largest=False, dtype="i32")
    return order


def _most(e: Builder) -> int:
    """Returns how many boxes a NonMaxSuppression selects per class."""
    count = e.optional(2)
    return 0 if count is None else smaller(larger(integer(count.flat[0]), 0), e.shape()[1])


def _each(e: Builder) -> int:
    """Returns how many boxes are selected per class at most: as the node says, but of boxes that a
    run counts only so many as all drivers can in time, since the bound is mostly far above the
    count."""
    most, held = _most(e), -(-e.shape()[1] // detection.THREADS)
    limit = MAX_ROUNDS // (held + 2)
    return most if e.count is None or most <= limit else limit


def _overlap(e: Builder) -> float | int:
    """Returns the largest overlap, or a tensor of it: a run fails for one that is not from 0 to
    1."""
    if e.known(e.get(3)):
        return max(e.scalar(3, "", 0.0), SMALLEST)
    given = e.reshape(e.x(3), (1,))
    bounds = [e.add(op, given, limit, dtype="bool")
              for op, limit in (("greater_equal", 0.0), ("less_equal", 1.0))]  # fmt: skip
    place = e.add("where", e.add("logical_and", *bounds), e.index([0]), e.index([1]), dtype="i32")
    one = e.add("gather", e.const([1]), place, axis=0, raises=True)
    return e.exact(e.add("mul", e.exact(e.add("maximum", given, SMALLEST)), e.exact(one)))


def _scored(e: Builder, scores: int) -> tuple[int, float]:
    """Returns the scores, and the least score that counts; the node's threshold is exclusive. If
    the threshold is known only in a run, lower scores become -inf."""
    if not e.has(4):
        return scores, -np.inf
    if e.known(e.x(4)):
        threshold = np.float32(e.value(4).flat[0])
        return scores, float(np.nextafter(threshold, np.float32(np.inf)))
    over = e.add("greater", scores, e.reshape(e.x(4), (1,)), dtype="bool")
    lowest = -MAX_FLOAT32
    return e.add("where", over, scores, e.const([-np.inf]), dtype="f32"), lowest


@asks("constant.required")
def choice(e: Builder) -> bool:
    """Requires a constant max_output_boxes_per_class, an iou_threshold of 0 to 1, and ceil(boxes /
    256) * (max_output_boxes_per_class + 1) of at most 1,048,576, unless a run counts the boxes."""
    boxes, scores = e.shape(), e.shape(e.x(1))
    if not e.known(e.get(2)) or len(scores) != 3 or boxes != (scores[0], scores[2], 4):
        return False
    fits = not e.known(e.get(3)) or 0 <= e.scalar(3, "", 0.0) <= 1
    return fits and detection.visits(boxes[1], _each(e)) <= detection.MAX_VISITS


def _counts_numbers(e: Builder) -> bool:
    """Whether a Range has the numbers from 0 to a limit that is only known on the device."""
    first = e.constant(e.x())
    from_zero = first is not None and not first.any() and bool((e.value(2) == 1).all())
    return from_zero and not e.known(e.x(1)) and e.computed(1)


@asks("constant.required")
def spanned(e: Builder) -> bool:
    """Requires int64 numbers: 1 to 16,777,216, as many in every run (start and limit equally far
    apart), or those from 0 to a limit that a run computes from more than a few integers, at most
    65,536, or the run is the host's."""
    counted = e.dtype() == "i64" and _counts_numbers(e)
    return counted or (e.dtype() == "i64" and 0 < indexing.span(e) <= MAX_NUMBERS)


def numbers(e: Builder) -> int:
    """Builds a Range that no host computes before the run: as many numbers in every run, or as many
    as the run counts."""
    if not _counts_numbers(e):
        return indexing.numbers(e)
    zero, room = e.index([0]), e.tensors.room
    count = e.reshape(e.add("maximum", e.x(1), zero, dtype="i32"), ())
    e.tensors.growing.add(count)
    return e.counted(e.add("add", e.counting(room), zero, dtype="i64"), 0, count)


def within(e: Builder, axis: int, rank: int) -> int:
    """Returns bools that tell which places along `axis` are below the count that the node keeps, as
    a tensor of this rank in which the other axes have extent 1."""
    assert e.count is not None
    places = e.counting(counts.bound(e))
    found = e.add("less", places, e.reshape(e.count, (1,)), dtype="bool")
    return e.reshape(found, [-1 if k == axis else 1 for k in range(rank)])


def gathered(e: Builder) -> int:
    """Builds Gather."""
    return _gathered(e, _may_leave(e), axis=e.attribute("axis", 0))


def gathered_elements(e: Builder) -> int:
    """Builds GatherElements."""
    return _gathered(e, True, axis=e.attribute("axis", 0))


def gathered_nd(e: Builder) -> int:
    """Builds GatherND."""
    return _gathered(e, _may_leave(e), batch=e.integer("batch_dims"))


def _gathered(e: Builder, may_leave: bool, **attributes: Any) -> int:
    """Builds a gather. An index out of range fails the run. Those beyond the count are arbitrary:
    where they may be out of range, the first element is picked."""
    index, axis = operand(e, "index", e.x(1)), e.counted_axis(1)
    if e.count is not None and axis is not None and may_leave:
        valid = within(e, axis, e.rank(index))
        index = e.add("where", valid, index, e.index([0]), dtype="i32")
    return e.add(e.row.op, e.x(), index, **attributes, wraps=True, raises=True)


def _may_leave(e: Builder) -> bool:
    """Whether indices beyond the count may be out of range where those before it are not: all but
    the coordinates that models gather by, which `places_of` keeps in range."""
    return e.known(e.x(1)) or e.count in e.tensors.growing


def scattered(e: Builder) -> int:
    """Builds ScatterND. Of counted updates only those before the count are written; indices count
    from the end of the data, which may be counted, too."""
    axis, end = e.counted_axis(1), e.counted_axis()
    if e.count is None or axis is None:
        return indexing.updated(e)
    index, each = operand(e, "index", e.x(1)), e.index([prod(e.shape(e.x(1))[axis + 1 : -1])])
    if end is not None:
        ends = [e.index([n]) for n in e.shape()[: e.shape(index)[-1]]]
        ends[end] = e.reshape(e.count, (1,))
        index = _from_the_end(e, index, joined(e, ends))
    count, how = e.add("mul", e.reshape(e.count, (1,)), each), e.text("reduction", "none")
    given = e.x(), index, e.x(2), count
    return e.add("scatter_nd", *given, reduction=how, wraps=end is None, raises=True)


def _from_the_end(e: Builder, index: int | None, limits: int) -> int:
    """Returns indices of which negative ones count from these limits, and those beyond them are out
    of range."""
    zero, most = e.index([0]), e.index([INT32.max])
    below = e.add("less", index, zero, dtype="bool")
    index = e.add("where", below, e.add("add", index, limits), index, dtype="i32")
    fits = e.add("less", index, limits, dtype="bool")
    return e.add("where", fits, index, most, dtype="i32")


def among_counted(e: Builder) -> int | None:
    """Returns `counts.OWN_COUNT` for a NonMaxSuppression of boxes counted with their scores."""
    return counts.OWN_COUNT if e.counted_axis(0) == 1 and e.counted_axis(1) == 2 else None


def chosen_boxes(e: Builder) -> int:
    """Builds NonMaxSuppression: rows [batch, class, box] of the selected boxes."""
    batches, classes, each = e.shape()[0], e.shape(e.x(1))[1], _each(e)
    bound = batches * classes * each
    if not bound:
        none = part(e, e.x(1), 0, 0, axis=0)
        rows = e.reshape(e.add("cast", none, dtype="i32"), (0, 3))
        count = places_of(e, e.reshape(rows, (0,)))[1]
        if not e.known(e.get(3)):  # which is checked even so
            count = e.add("mul", count, e.add("cast", _overlap(e), dtype="i32"))
        return e.counted(rows, 0, count)
    boxes = _corners(e) if e.integer("center_point_box") else e.x()
    scores, least = _scored(e, e.transpose(e.x(1), (0, 2, 1)))
    number = None if e.count is None else e.add("cast", e.count, dtype="f32")
    overlap, chosen, there, numbers = _overlap(e), list[int](), list[int](), list[int]()
    known = isinstance(overlap, float)
    for batch in range(batches):
        here = [part(e, t, batch, batch + 1, axis=0) for t in (boxes, scores)]
        _, labels, _, found = e.add_many(
            "chosen_boxes", *here, None, None if known else overlap, number, classes=classes,
            count=each, least=least, overlap=overlap if known else None, rest=0.0, numbered=True,
        )  # fmt: skip
        slots = e.reshape(e.numbers(e.counting(each)), (1, each))
        chosen.append(e.reshape(labels, (classes * each,)))
        there.append(e.reshape(e.add("less", slots, found, dtype="bool"), (classes * each,)))
        numbers.append(e.reshape(found, (classes,)))
    places, count = places_of(e, joined(e, there))
    if each < _most(e):
        count = _unless_more(e, count, joined(e, numbers), each)
    box = e.add("cast", e.add("gather", joined(e, chosen), places, axis=0), dtype="i32")
    kind = e.add("floor_mod", e.add("floor_div", places, e.index([each])), e.index([classes]))
    batch = e.add("floor_div", places, e.index([classes * each]))
    columns = [e.reshape(t, (bound, 1)) for t in (batch, kind, box)]
    return e.counted(e.add("concat", *columns, axis=1), 0, count)


def _unless_more(e: Builder, count: int, found: int, each: int) -> int:
    """Returns the count. The run fails, so that the host repeats it, where `each` boxes of a class
    were found, since there may be more."""
    full = e.add("greater_equal", found, e.numbers(e.index([each])), dtype="bool")
    outside = e.add("where", full, e.index([1]), e.index([0]), dtype="i32")
    ones = e.add("gather", e.index([1]), outside, axis=0, raises=True)
    return e.add("mul", count, e.add("reduce_max", ones, e.index([0]), keep_dims=True))


def _corners(e: Builder) -> int:
    """Returns the boxes of input 0 (center x, center y, width, height) as corners. Those with a
    negative side become empty, since they overlap no other one on the host either."""
    centre, size = parts(e, e.x(), (2, 2))
    half = e.exact(e.times(e.exact(e.add("maximum", size, 0.0)), 0.5))
    pair = e.exact(e.add("sub", centre, half)), e.exact(e.add("add", centre, half))
    return e.exact(e.add("concat", *pair, axis=2))
