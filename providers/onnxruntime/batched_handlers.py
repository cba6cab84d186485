"""The nodes of a loop's body in all steps at once: functions that take the values of a node's
inputs (`batched_steps`) and return that of its result, or raise Unsupported. The rows of operators
name them (`at_once`)."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin.ir import always_equal, is_symbolic
from tflgpu_plugin.providers import HostModel, HostNode, Table, not_unrolled, truth

from . import batched_filters as filtered
from .batched_steps import (
    COUNTS,
    Batch,
    Below,
    Count,
    Each,
    Fixed,
    Gaps,
    Growing,
    Handler,
    Listed,
    Picked,
    Rows,
    Value,
    Visit,
)
from .rearranging import part


def _all_fixed(batch: Batch, visit: Visit) -> Value | None:
    """Returns the result of a node that reads the same in all steps; None for another node."""
    given = [value.tensor for value in visit.given if isinstance(value, Fixed)]
    return Fixed(batch.run(visit, *given)) if len(given) == len(visit.given) else None


def _known(batch: Batch, visit: Visit) -> Value | None:
    """Returns the same of a node whose result is known before a run; None for another node."""
    given = [value.tensor for value in visit.given if isinstance(value, Fixed)]
    return _all_fixed(batch, visit) if all(batch.number(t) is not None for t in given) else None


def _arithmetic(batch: Batch, visit: Visit) -> Value:
    """Returns the result of a node that follows from constants and shapes."""
    if found := _all_fixed(batch, visit):
        return found
    raise not_unrolled(f"it has {visit.node.op}")


def elementwise(batch: Batch, visit: Visit) -> Value:
    given = [value for value in visit.given if value is not None]
    if fixed := _all_fixed(batch, visit):
        return fixed
    if len(given) == 1 and isinstance(given[0], Rows):
        return replace(given[0], tensor=batch.run(visit, given[0].tensor))
    if any(isinstance(value, Rows) for value in given):
        return _of_rows(batch, visit)
    rank = max(map(batch.rank, given))
    all_given = (None if value is None else batch.ahead(value, rank) for value in visit.given)
    return Each(batch.run(visit, *all_given))


def added(batch: Batch, visit: Visit) -> Value:
    """Returns the sum of the number of the step and a constant as such a number."""
    for a, b in (visit.given, visit.given[::-1]):
        data = batch.number(b.tensor) if isinstance(b, Fixed) else None
        if isinstance(a, Count) and data is not None and data.size == 1:
            return Count(a.more + int(data.reshape(-1)[0]), max(a.rank, data.ndim))
    return elementwise(batch, visit)


def less(batch: Batch, visit: Visit) -> Value:
    """Returns whether the number of the step is below a number."""
    a, b = visit.given
    if isinstance(a, Count) and isinstance(b, Fixed) and not (a.rank or batch.rank(b)):
        return Below(a, b)
    return elementwise(batch, visit)


def difference(batch: Batch, visit: Visit) -> Value:
    """Returns a difference. All those of one row and many are not computed before they are reduced:
    they would be as many as steps, rows and elements."""
    for a, b in (visit.given, visit.given[::-1]):
        if isinstance(a, Each) and isinstance(b, Fixed):
            row, table = (batch.e.shape(value.tensor) for value in (a, b))
            if len(row) == len(table) == 2 and always_equal(row[1], table[1]):
                return Gaps(a.tensor, b.tensor)
    return elementwise(batch, visit)


def squares(batch: Batch, visit: Visit) -> Value:
    """Returns the sums of squares of differences of rows."""
    value, axes = visit.given[0], visit.listed(batch, "axes", 1)
    if not isinstance(value, Gaps) or axes not in ((1,), (-1,)):
        raise not_unrolled("it reduces other than rows")
    batch.reduces = True
    made = batch.e.add("squared_distances", value.each, value.fixed)
    if visit.node.attributes.get("keepdims", 1):
        made = batch.e.reshape(made, (*batch.e.shape(made), 1))
    return Each(made)


def _of_rows(batch: Batch, visit: Visit) -> Value:
    """Returns the result of an elementwise node for all rows of whole tensors."""
    e, given = batch.e, visit.given
    rows_ = [value for value in given if isinstance(value, Rows)]
    first = rows_[0]
    rank, count = e.rank(first.tensor), e.shape(first.tensor)[0]
    for value in given:
        if isinstance(value, Rows):
            same = replace(value, tensor=first.tensor) == first and e.rank(value.tensor) == rank
            fits = same and always_equal(e.shape(value.tensor)[0], count)
        else:
            fits = isinstance(value, Fixed) and e.rank(value.tensor) < rank
        if not fits:
            raise not_unrolled("it computes with different rows")
    made = batch.run(visit, *(v.tensor for v in given if isinstance(v, Rows | Fixed)))
    return replace(first, tensor=made)


def cast(batch: Batch, visit: Visit) -> Value:
    """Returns the value of Cast or CastLike, unchanged where it has the type already."""
    value, (key,) = visit.given[0], visit.node.writes
    wanted = visit.body.computed(visit.body.values[key].dtype)
    if isinstance(value, Count) and wanted in COUNTS:
        return value
    if isinstance(value, Fixed | Each | Rows) and batch.e.dtype(value.tensor) == wanted:
        return value
    return elementwise(batch, replace(visit, given=[value]))


def gather(batch: Batch, visit: Visit) -> Value:
    if found := _known(batch, visit):
        return found
    e, (data, places) = batch.e, visit.given
    axis = int(visit.node.attributes.get("axis", 0))
    if isinstance(data, Fixed) and axis % max(e.rank(data.tensor), 1) == 0:
        if isinstance(places, Count) and places.rank == 0:
            return Each(_run_of(batch, data.tensor, places.more))
        if isinstance(places, Rows) and e.rank(places.tensor) == 1:
            return replace(places, tensor=batch.run(visit, data.tensor, places.tensor))
        if isinstance(places, Picked) and e.shape(data.tensor)[0] == e.shape(places.mask)[0]:
            return Rows(data.tensor, places.start, places.end, places.mask)
    raise not_unrolled("it gathers other than rows")


def _run_of(batch: Batch, tensor: int, first: int) -> int:
    """Returns one row of a tensor for each step, from `first`. Raises Unsupported where there may
    not be as many."""
    held, last = batch.e.shape(tensor)[0], first + batch.steps
    open_ = is_symbolic((held, last))
    enough = any(always_equal(held, last + k) for k in (0, 1)) if open_ else last <= held
    if first < 0 or not enough:
        raise not_unrolled("it reads beyond a tensor")
    return part(batch.e, tensor, first, first + batch.steps, 0)


def sliced_rows(batch: Batch, visit: Visit) -> Value:
    if found := _known(batch, visit):
        return found
    axes, steps = visit.known(batch, 3), visit.known(batch, 4)
    if len(visit.given) < 3:
        raise not_unrolled("it slices other than rows")
    e, (data, start, end) = batch.e, visit.given[:3]
    if not isinstance(data, Fixed) or axes not in (None, (0,)) or steps not in (None, (1,)):
        raise not_unrolled("it slices other than rows")
    if isinstance(start, Count) and end == Count(start.more + 1, start.rank):
        rows_ = _run_of(batch, data.tensor, start.more)
        shape = e.shape(rows_)
        return Each(e.reshape(rows_, (shape[0], 1, *shape[1:])))
    return Rows(data.tensor, batch.bound(start), batch.bound(end))


def same(batch: Batch, visit: Visit) -> Value:
    (value,) = visit.given
    if value is None:
        raise not_unrolled("it passes nothing on")
    return value


def unsqueezed(batch: Batch, visit: Visit) -> Value:
    """Returns a value with further axes, which are not before rows."""
    if found := _known(batch, visit):
        return found
    e, value, axes = batch.e, visit.given[0], visit.listed(batch, "axes", 1) or ()
    if value is None:
        raise not_unrolled("it passes nothing on")
    rank = batch.rank(value) + len(axes)
    there = {axis % rank for axis in axes}
    if isinstance(value, Count):
        return Count(value.more, rank)
    if not isinstance(value, Rows | Each) or (isinstance(value, Rows) and 0 in there):
        raise not_unrolled("it adds an axis before rows")
    steps, shape = int(isinstance(value, Each)), e.shape(value.tensor)
    old = iter(shape[steps:])
    new = [1 if k in there else next(old) for k in range(rank)]
    return replace(value, tensor=e.reshape(value.tensor, (*shape[:steps], *new)))


def _of_rank(rank: int) -> Handler:
    def handler(batch: Batch, visit: Visit) -> Value:
        """Returns a single number as a tensor of this rank."""
        if found := _known(batch, visit):
            return found
        value = visit.given[0]
        if isinstance(value, Count) and (not rank or visit.known(batch, 1) in ((-1,), (1,))):
            return Count(value.more, rank)
        if isinstance(value, Each) and batch.e.shape(value.tensor)[1:] in ((), (1,)):
            if not rank or visit.known(batch, 1) in ((-1,), (1,)):
                return Each(batch.e.reshape(value.tensor, (batch.steps, *(1,) * rank)))
        raise not_unrolled(f"{visit.node.op} in its body takes more than a number")

    return handler


def _reduced(name: str) -> Handler:
    def reduction(batch: Batch, visit: Visit) -> Value:
        """Returns the reduced rows of each step."""
        if found := _known(batch, visit):
            return found
        e, value, axes = batch.e, visit.given[0], visit.listed(batch, "axes", 1)
        if not isinstance(value, Rows) or axes != (0,):
            raise not_unrolled("it reduces other than rows")
        batch.reduces = True
        made = filtered.reduced(batch, name, value)
        if visit.node.attributes.get("keepdims", 1):
            first, *shape = e.shape(made)
            made = e.reshape(made, (first, 1, *shape))
        return Each(made)

    return reduction


def branches(batch: Batch, visit: Visit) -> Value:
    """Returns the result of a branch of If, or where steps take different ones, those of both."""
    (condition,) = visit.given
    bodies = {getattr(body, "slot", ""): body for body in visit.node.bodies}
    if isinstance(condition, Fixed) and batch.number(condition.tensor) is not None:
        taken = truth(batch.e.constant(condition.tensor), "a branch in its body")
        one = bodies["then_branch" if taken else "else_branch"]
        return batch.walk(one, one.outputs[:1], visit.scope)[0]
    then, other = (
        batch.walk(bodies[slot], bodies[slot].outputs[:1], visit.scope)[0]
        for slot in ("then_branch", "else_branch")
    )
    assert condition is not None
    if isinstance(then, Growing) and then.adds and other == Growing():
        return Growing(mask=batch.each(condition))
    if isinstance(then, Rows) and isinstance(other, Rows) and _one_tensor(then, other):
        bounds = [_chosen(batch, condition, Each(a), Each(b)) if a != b else a
                  for a, b in zip(then.bounds, other.bounds, strict=True)]  # fmt: skip
        return Rows(then.tensor, *bounds)
    return Each(_chosen(batch, condition, then, other))


def _one_tensor(one: Rows, other: Rows) -> bool:
    """Whether both are all rows of the same tensor between bounds."""
    return one.mask is None and other.mask is None and one.tensor == other.tensor


def _chosen(batch: Batch, condition: Value, then: Value, other: Value) -> int:
    """Returns the value of each step, `then` where the condition holds."""
    e = batch.e
    rank = batch.rank(then)
    if batch.rank(other) != rank:
        raise not_unrolled("branches in its body return tensors of different shapes")
    flag = e.reshape(batch.each(condition), (batch.steps, *(1,) * rank))
    both = [batch.each(value) for value in (then, other)]
    if e.shape(both[0]) != e.shape(both[1]):
        raise not_unrolled("branches in its body return tensors of different shapes")
    return e.add("where", flag, *both, dtype=e.dtype(both[0]))


def appended(batch: Batch, visit: Visit) -> Value:
    """Returns a list of numbers of steps with that of the step at its end."""
    if len(visit.given) == 2 and visit.given[0] == Growing() and visit.given[1] == Count(0, 1):
        return Growing(adds=True)
    return _arithmetic(batch, visit)


def counted(batch: Batch, visit: Visit) -> Value:
    """Returns the size of a list of numbers of steps."""
    (value,) = visit.given
    if isinstance(value, Picked):
        return Each(batch.e.add("cast", filtered.counts(batch, value), dtype="i64"))
    return _arithmetic(batch, visit)


def picked(batch: Batch, visit: Visit) -> tuple[Value | None, ...]:
    """Returns the values of a loop in the body that lists the numbers for which a condition holds,
    from one bound to another."""
    said = {key: _said(batch.e.table, node) for node in visit.body.nodes for key in node.writes}
    (body,) = visit.node.bodies
    said |= {key: _said(batch.e.table, node) for node in body.nodes for key in node.writes}
    return filtered.picked(batch, visit, said, (less, gather))


def insert(batch: Batch, visit: Visit) -> Value:
    """Returns a sequence with the tensor of each step at its end."""
    held, value = visit.given[:2]
    if not isinstance(held, Listed) or held.tensor is not None or len(visit.node.inputs) > 2:
        raise not_unrolled("it changes a sequence otherwise than at its end")
    if value is None:
        raise not_unrolled("it adds nothing to a sequence")
    return Listed(held.place, batch.each(value))


reduced_max, reduced_mean = _reduced("range_max"), _reduced("range_mean")
reduced_min, reduced_sum = _reduced("range_min"), _reduced("range_sum")
reshaped, squeezed = _of_rank(1), _of_rank(0)
REDUCTIONS = (reduced_max, reduced_mean, reduced_min, reduced_sum)


def handler(batch: Batch, node: HostNode) -> Handler:
    """Returns the handler of a node, which its row names."""
    return _said(batch.e.table, node) or _arithmetic


def _said(table: Table, node: HostNode) -> Handler | None:
    row = table.row(node) or table.arithmetic.get(node.title)
    return row.at_once if row else None


def _lists_numbers(body: HostModel, table: Table) -> bool:
    """Whether a body adds its number to a list where a condition holds (see `picked`)."""
    made = {key: node for node in body.nodes for key in node.writes}
    last = made.get(body.outputs[-1]) if len(body.outputs) == 3 else None
    nodes = [node for branch in last.bodies for node in branch.nodes] if last else []
    kept = {key for node in nodes if _said(table, node) is same for key in node.reads}
    lists = {key for node in nodes if _said(table, node) is appended for key in node.reads[:1]}
    return not (kept & lists).isdisjoint(kept - made.keys())


def reduces_rows(body: HostModel, table: Table) -> bool:
    """Whether a loop with this body may take all steps at once: nodes of other kinds do not depend
    on the step, and it reduces rows whose bounds a step computes, or the differences of rows; or
    whether it lists numbers of such rows."""
    inner = [one for node in body.nodes if _said(table, node) is picked for one in node.bodies]
    if any(_lists_numbers(one, table) for one in (body, *inner)):
        return True
    lists = (appended, counted, picked)  # which few bodies have
    found_ = ((node, _said(table, node)) for node in body.nodes)
    said = [(node, None if found in lists else found) for node, found in found_]
    used = {found for _, found in said}
    if squares in used and used <= {squares, difference, same}:
        return True
    made, sliced = {*body.given, *(key for node in body.nodes for key in node.writes)}, set[str]()
    if not all(found or made.isdisjoint(node.reads) for node, found in said):
        return False
    for node, found in said:
        cuts = found is sliced_rows and not made.isdisjoint(node.reads[1:3])
        if cuts or not sliced.isdisjoint(node.reads):
            sliced.update(node.writes)
        if found in REDUCTIONS and not sliced.isdisjoint(node.reads):
            return True
    return False
