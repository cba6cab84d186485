"""Lists of numbers for which a condition holds, which a loop in the body of a loop makes, as the
exporter of PyTorch writes EmbeddingBag with an index for padding: as masks of rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tflgpu_plugin.providers import HostModel, HostNode, not_unrolled

from .batched_steps import Batch, Count, Fixed, Growing, Handler, Picked, Rows, Value, Visit

NEUTRAL = {"range_max": -np.inf, "range_min": np.inf}  # others: 0
SUMS = {"range_mean": "range_sum"}  # to be divided by the number of rows
OTHERWISE = "a loop in its body does other than list numbers"


def picked(
    batch: Batch, visit: Visit, said: Mapping[str, Handler | None], told: tuple[Handler, Handler]
) -> tuple[Value | None, ...]:
    """Returns the values of a loop that begins with a number and an empty list, counts up to a
    bound and lists the numbers for which a condition holds. `said` are the handlers of nodes by
    their results, `told` those of comparisons and rows. Raises Unsupported."""
    (body,), node, (less, gather) = visit.node.bodies, visit.node, told
    if len(node.inputs) != 4 or len(body.outputs) != 3 or node.inputs[0] is not None:
        raise not_unrolled(OTHERWISE)
    end = _bound(visit.body.nodes, said, less, node.inputs[1], node.inputs[2])
    again = _bound(body.nodes, said, less, body.outputs[0], body.outputs[1])
    own = {*body.given, *(key for each in body.nodes for key in each.writes)}
    start, empty = visit.given[2:]
    known = batch.number(empty.tensor) if isinstance(empty, Fixed) else None
    if end is None or end != again or end in own or known is None or known.size:
        raise not_unrolled(OTHERWISE)
    number, listed = body.given[2:]
    scope: dict[str, Value] = {
        key: value for key, value in visit.scope.items() if isinstance(value, Fixed)
    }
    scope |= {number: Count(0, 0), listed: Growing()}
    inner = Batch(batch.e, _rows(batch, body, scope, said, gather), batch.handler)
    after, made = inner.walk(body, body.outputs[1:], scope)
    if after != Count(1, 0) or not isinstance(made, Growing) or made.mask is None:
        raise not_unrolled(OTHERWISE)
    bounds = batch.bound(start), batch.bound(batch.value(visit.body, end, visit.scope))
    return None, Picked(made.mask, *_inside(batch, inner.steps, *bounds))


def _inside(batch: Batch, rows: int, start: int, end: int) -> tuple[int, int]:
    """Returns the bounds of each step, 0 where it has no numbers. A run with bounds beyond the rows
    is the host's, whose loop fails."""
    e = batch.e
    if rows == 0:
        raise not_unrolled(OTHERWISE)
    start, end = (e.add("cast", each, dtype="i32") for each in (start, end))
    some = e.add("less", start, end, dtype="bool")
    nothing, every = e.index([0]), e.counting(rows)
    last = e.add("sub", end, e.index([1]), activation="none")
    first, last = (
        e.add("gather", every, e.add("where", some, each, nothing, dtype="i32"), axis=0,
              wraps=False, raises=True)
        for each in (start, last)
    )  # fmt: skip
    after = e.add("add", last, e.index([1]), activation="none")
    return first, e.add("where", some, after, nothing, dtype="i32")


def _bound(
    nodes: tuple[HostNode, ...], said: Mapping[str, Handler | None], less: Handler,
    condition: str | None, number: str | None,
) -> str | None:  # fmt: skip
    """Returns the value with which a condition compares a number, None for another condition."""
    made = {key: node for node in nodes for key in node.writes}
    node = made.get(condition or "")
    if node is None or said.get(condition or "") is not less or node.inputs[0] != number:
        return None
    return node.inputs[1]


def _rows(
    batch: Batch, body: HostModel, scope: Mapping[str, Value],
    said: Mapping[str, Handler | None], gather: Handler,
) -> int:  # fmt: skip
    """Returns the number of rows from which a body reads the one of its number."""
    number = body.given[2]
    for node in body.nodes:
        if said.get(node.writes[0]) is gather and node.inputs[1] == number and node.inputs[0]:
            data = batch.value(body, node.inputs[0], scope)
            if isinstance(data, Fixed):
                return batch.e.shape(data.tensor)[0]
    raise not_unrolled(OTHERWISE)


def counts(batch: Batch, value: Picked | Rows) -> int:
    """Returns how many numbers are picked in each step, as float32 [steps]."""
    e, mask = batch.e, value.mask
    assert mask is not None
    ones = e.reshape(e.add("cast", mask, dtype="f32"), (e.shape(mask)[0], 1))
    return e.reshape(e.add("range_sum", ones, value.start, value.end), (batch.steps,))


def reduced(batch: Batch, name: str, value: Rows) -> int:
    """Returns the reduced rows of each step: of all, or of those in the mask."""
    e = batch.e
    if value.mask is None:
        return e.add(name, value.tensor, value.start, value.end)
    neutral = NEUTRAL.get(name, 0.0)
    rank = e.rank(value.tensor)
    mask = e.reshape(value.mask, (e.shape(value.mask)[0], *(1,) * (rank - 1)))
    kept = e.add("where", mask, value.tensor, neutral, dtype=e.dtype(value.tensor))
    sums = SUMS.get(name)
    total = e.add(sums or name, kept, value.start, value.end)
    if sums is None:
        return total
    number = e.reshape(counts(batch, value), (batch.steps, *(1,) * (rank - 1)))
    return e.add("div", total, number)
