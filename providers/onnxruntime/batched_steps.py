"""The values of all steps of a loop whose steps do not depend on each other. A tensor of a step
becomes one with an axis of steps in front, and rows from one bound of a step to another are rows of
the whole tensor until they are reduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, integer
from tflgpu_plugin.providers import Builder, HostModel, HostNode, Unsupported, not_unrolled

MAX_NODES = 256  # of a body
MAX_KNOWN = 64  # elements of values that are computed before a run
MAX_COUNTED = 1 << 30  # number from which a loop counts; there are not as many steps
COUNTS = ("i32", "i64")
TYPES = ("f32", *COUNTS, "bool")  # of a body's constants


@dataclass(frozen=True)
class Fixed:
    """A tensor that is the same in all steps."""

    tensor: int


@dataclass(frozen=True)
class Count:
    """The number of the step plus `more`, as a tensor of this rank with one element."""

    more: int
    rank: int


@dataclass(frozen=True)
class Each:
    """A tensor of each step: [steps, its shape]."""

    tensor: int


@dataclass(frozen=True)
class Rows:
    """In each step, the rows of a tensor from one bound to another; the bounds are [steps]. With a
    mask [rows], only those for which it is true."""

    tensor: int
    start: int
    end: int
    mask: int | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        return self.start, self.end


@dataclass(frozen=True)
class Listed:
    """The sequence that is carried at this place, to which each step adds its tensor; None: as it
    is before the step."""

    place: int
    tensor: int | None = None


@dataclass(frozen=True)
class Below:
    """Whether the number of the step is below another one; both are scalars."""

    number: Count
    end: Fixed


@dataclass(frozen=True)
class Gaps:
    """The differences of a row of each step, [steps, size], and of rows that are the same in all
    steps, [rows, size]."""

    each: int
    fixed: int


@dataclass(frozen=True)
class Growing:
    """A list of numbers of steps, to which a step adds its own where `mask` [steps] is true, or
    always (`adds`)."""

    adds: bool = False
    mask: int | None = None


@dataclass(frozen=True)
class Picked:
    """In each step, the list of the numbers from one bound to another for which a mask is true."""

    mask: int
    start: int
    end: int


Value = Growing | Picked | Fixed | Below | Gaps | Count | Each | Rows | Listed
Scope = Mapping[str, Value]
Handler = Callable[["Batch", "Visit"], Value | tuple[Value | None, ...]]


@dataclass(frozen=True)
class Visit:
    """A node of a graph, with its inputs and the values around it."""

    body: HostModel
    node: HostNode
    given: Sequence[Value | None]
    scope: Scope

    def known(self, batch: Batch, position: int) -> tuple[int, ...] | None:
        """Returns an input that is a list of integers, None where it is absent."""
        value = self.given[position] if position < len(self.given) else None
        if value is None:
            return None
        data = batch.e.constant(value.tensor) if isinstance(value, Fixed) else None
        if data is None:
            raise not_unrolled(f"{self.node.op} in its body has axes of a run")
        return tuple(map(integer, data.reshape(-1)))

    def listed(self, batch: Batch, name: str, position: int) -> tuple[int, ...] | None:
        """Returns the same, or in older versions of an operator the attribute `name`."""
        found: Any = self.node.attributes.get(name)
        return self.known(batch, position) if found is None else tuple(map(int, found))


@dataclass
class Batch:
    """All steps of a loop of `e`, whose nodes have the handlers that `handler` returns. `reduces`:
    rows have been reduced. `bounds` are the tensors of bounds of rows so far."""

    e: Builder
    steps: int
    handler: Callable[[Batch, HostNode], Handler]
    reduces: bool = False
    bounds: dict[Value, int] = field(default_factory=dict)

    def walk(self, body: HostModel, wanted: Sequence[str], scope: Scope) -> list[Value]:
        """Returns the values `wanted` of a graph whose inputs and outer values are in `scope`.
        Raises Unsupported."""
        if len(body.nodes) > MAX_NODES:
            raise not_unrolled(f"its body has more than {MAX_NODES} nodes")
        found, needed = dict(scope), _cone(body, wanted)
        for node in body.nodes:
            if node.id not in needed:
                continue
            given = [None if key is None else self.value(body, key, found) for key in node.inputs]
            visit = Visit(body, node, given, found)
            made = self.handler(self, node)(self, visit)
            several = made if isinstance(made, tuple) else (made,)
            if len(several) < len(node.outputs):
                raise not_unrolled(f"{node.op} in its body has several results")
            for key, value in zip(node.outputs, several, strict=False):
                if key is not None and value is not None:
                    found[key] = value
        return [self.value(body, key, found) for key in wanted]

    def value(self, body: HostModel, key: str, scope: Scope) -> Value:
        """Returns a value that a node of a graph reads."""
        stated = body.values.get(key)
        data = None if stated is None or stated.default else stated.data
        if stated is not None and data is not None:
            if body.computed(stated.dtype) not in TYPES:
                raise not_unrolled("a constant of its body has another type")
            named = ("batched", id(body.values), key)
            return Fixed(self.e.narrow(self.e.tensors.constant(named, key, lambda: data)))
        if key in scope:
            return scope[key]
        if key not in self.e.captured:
            raise not_unrolled("its body reads a value that the loop is not given")
        return Fixed(self.e.narrow(self.e.captured[key]))

    def run(self, visit: Visit, *inputs: int | None) -> int:
        """Returns the result of a node for other inputs. Raises Unsupported."""
        node, e = visit.node, self.e
        row, limit = e.table.row(node), 0
        known = all(t is None or self.number(t) is not None for t in inputs)
        if known or row is None or row.build is None:
            row, limit = e.table.arithmetic.get(node.title, row), MAX_KNOWN
        if row is None or row.build is None:
            raise not_unrolled(f"it has {node.op}")
        seen = replace(
            e, host=node, row=row, inputs=inputs, values=visit.body.values, known_limit=limit,
            doubles=visit.body.single and visit.body.doubles(node),
        )  # fmt: skip
        asked = (*e.table.every, *row.conditions, *(() if limit else e.table.kernels))
        for condition in asked:
            if reason := condition(seen):
                raise Unsupported(reason)
        made = row.build(seen)
        return made if isinstance(made, int) else made[0]

    def number(self, tensor: int) -> Array | None:
        """Returns the value of a tensor of few elements that is known before a run, else None."""
        data = self.e.constant(tensor)
        return data if data is not None and data.size <= MAX_KNOWN else None

    def each(self, value: Value) -> int:
        """Returns a value of each step as [steps, its shape]."""
        e = self.e
        if isinstance(value, Each):
            return value.tensor
        if isinstance(value, Count):
            if abs(value.more) > MAX_COUNTED:
                raise not_unrolled("it counts beyond int32")
            count = e.add("cast", e.counting(self.steps, value.more), dtype="i64")
            return e.reshape(count, (self.steps, *(1,) * value.rank))
        if isinstance(value, Below):
            ends = self.each(value.end)
            return e.add("less", self.each(value.number), ends, dtype="bool")
        if isinstance(value, Fixed):
            shape = e.shape(value.tensor)
            return e.add("expand", self.ahead(value, len(shape)), e.index((self.steps, *shape)))
        raise not_unrolled("its steps return tensors of different shapes")

    def ahead(self, value: Value, rank: int) -> int:
        """Returns the same, or [1, shape] for all steps, with ones before a shape of a smaller
        rank, as in broadcasting."""
        e = self.e
        tensor = value.tensor if isinstance(value, Fixed) else self.each(value)
        first, *shape = (1, *e.shape(tensor)) if isinstance(value, Fixed) else e.shape(tensor)
        return e.reshape(tensor, (first, *(1,) * (rank - len(shape)), *shape))

    def rank(self, value: Value) -> int:
        if isinstance(value, Count):
            return value.rank
        if isinstance(value, Below):
            return 0
        if isinstance(value, Listed | Gaps | Growing | Picked):
            raise not_unrolled("it computes with a sequence, a list, or differences of rows")
        return self.e.rank(value.tensor) - isinstance(value, Each)

    def bound(self, value: Value | None) -> int:
        """Returns a bound of rows, one number in each step, as [steps]."""
        if value is None or isinstance(value, Rows | Listed | Below | Gaps | Growing | Picked):
            raise not_unrolled("its bounds of rows are no numbers")
        if value not in self.bounds:
            self.bounds[value] = self._bound(value)
        return self.bounds[value]

    def _bound(self, value: Value) -> int:
        e = self.e
        known = e.constant(value.tensor) if isinstance(value, Fixed) else None
        if known is not None and known.size == 1:
            one = e.index([integer(known.reshape(-1)[0])])
            return e.add("expand", one, e.index((self.steps,)))
        return e.reshape(self.each(value), (self.steps,))

    def after(self, start: Value, made: Value) -> int:
        """Returns a carried value after the last step. Raises Unsupported where a step computes it
        from that of the step before."""
        if isinstance(start, Fixed) and made == start:
            return start.tensor
        if isinstance(start, Count) and made == Count(start.more + 1, start.rank):
            return self.e.const(np.full((1,) * start.rank, start.more + self.steps), np.int64)
        if isinstance(made, Listed) and Listed(made.place) == start and made.tensor is not None:
            return self.e.stack(made.tensor)
        raise not_unrolled("its steps depend on each other")


def _cone(body: HostModel, wanted: Iterable[str]) -> set[int]:
    """Returns the nodes from which values follow."""
    found, keys = set[int](), {*wanted}
    for node in reversed(body.nodes):
        if not keys.isdisjoint(node.writes):
            found.add(node.id)
            keys |= {*node.reads}
    return found
