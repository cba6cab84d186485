"""Lowers a rewritten graph: each node to its launches, and inputs and outputs to those that convert
their layout.

An extent that may be 1 (see `Trace.unit`) can need other launches where it is 1. A node of which
this is true is lowered twice, and each run uses the launches that suit its extent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.compile import horizontal_fusion, planar_outputs
from tflgpu_plugin.errors import Unsupported, blaming
from tflgpu_plugin.ir.extent import Extent, Trace, terms_of
from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ir.heuristics import ExcludesOneError, assuming_one, compared_with_one
from tflgpu_plugin.ir.polynomial import Guard
from tflgpu_plugin.ir.symbolic import Word, larger, smaller
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import io_layout, split_depth
from tflgpu_plugin.ops.lowering import Launch, Lowering, Raw

IO_LAYOUT = "io_layout"  # the form of launches that pack inputs and unpack outputs


def lower(graph: Graph, target: Target, trace: Trace | None = None) -> Lowering:
    """Returns the launches of a rewritten graph, I/O layout conversion included. Raises
    ExcludesOneError where a plan cannot hold for 1 and other extents."""
    low = Lowering(graph, target, form=IO_LAYOUT)
    both = None if trace is None or trace.one is None else _DualLowering(low, trace)
    for tensor in _filled(graph, graph.inputs):
        io_layout.pack(low, _host_port(tensor), Raw("input", tensor), tensor)
    for before, _ in graph.states:
        io_layout.pack(low, _host_port(before), Raw("state", before), before)
    for k, node in enumerate(graph.nodes):
        with blaming(node):
            if both is None:
                _lower(low, node)
            else:
                both.lower(k)
    low.form = IO_LAYOUT
    makers = graph.producers()
    for tensor in _filled(graph, graph.outputs):
        with blaming(makers.get(tensor, _host_port(tensor))):
            io_layout.unpack(low, _host_port(tensor), tensor, Raw("output", tensor))
    for before, after in graph.states:
        io_layout.unpack(low, _host_port(after), after, Raw("state", before))
    low.drop_unread()
    planar_outputs.store(low)
    horizontal_fusion.fuse(low)
    return low


def _lower(low: Lowering, node: Node) -> None:
    if reason := ops.refused(low.graph, node, low.target):
        raise Unsupported(reason)
    low.form = node.op
    ops.rows()[node.op].lower(low, node)


def _filled(graph: Graph, ports: Sequence[int]) -> list[int]:
    """Returns the ports that have at least one element; others are neither read nor written."""
    return [tensor for tensor in ports if 0 not in graph.shape(tensor)]


def _host_port(tensor: int) -> Node:
    return Node(id=-1, op=IO_LAYOUT, inputs=(), outputs=(tensor,))


# ---- an extent that may be 1 ---------------------------------------------------------------------


@dataclass
class _DualLowering:
    """Lowers nodes whose shapes depend on an extent that may be 1."""

    low: Lowering
    trace: Trace

    def lower(self, place: int) -> None:
        """Lowers a node. If a heuristic or a comparison would have another result for an extent of
        1, lowers it for 1, too."""
        low, trace = self.low, self.trace
        before, known, fixed = low.launches[:], _known(low), trace.fixed
        trace.many = []
        with assuming_one(False), compared_with_one() as found:
            _lower(low, low.graph.nodes[place])
        guards, trace.many = trace.many, None
        if guards and trace.fixed > fixed:
            raise ExcludesOneError  # the plan would hold for 1 and the example only
        many = smaller(_extent(trace) - 1, 1)
        for guard in guards:
            trace.guards[_only_if(many, guard)] = None
        if guards or found.differs:
            try:
                self._split(place, before, known, many)
            except ExcludesOneError:
                if guards:
                    raise  # otherwise the launches are correct for 1, too

    def _split(self, place: int, before: list[Launch], known: list[int], many: int) -> None:
        """Lowers a node again for an extent of 1. Unless the launches are the same, those so far
        run for other extents only (`Launch.when`). Raises ExcludesOneError."""
        low = self.low
        for_any = _added(low, before, known)
        for_one = self._launches_for_one(place, before)
        if are_same(for_any, for_one, self.at_one):
            return
        adds = any(launch.kernel == "sum_parts" for launch in (*for_any, *for_one))
        if adds and split_depth.added_by_the_next(low, low.graph.nodes[place]):
            raise ExcludesOneError  # the next node's launch would replace one of these
        low.launches[len(before) :] = [
            *(replace(launch, when=1 - many) for launch in for_one),
            *(replace(launch, when=many) for launch in for_any),
        ]

    @cached_property
    def at_one(self) -> _SubstituteOne:
        return _SubstituteOne(self.trace)

    @cached_property
    def _low_for_one(self) -> Lowering:
        """Returns the lowering of the graph with an extent of 1. It shares temporaries, and their
        properties, with `low`."""
        return replace(self.low, graph=self.at_one.graph(self.low.graph))

    def _launches_for_one(self, place: int, before: list[Launch]) -> list[Launch]:
        """Returns the launches of a node for an extent of 1."""
        low, given = self._low_for_one, self.low
        low.launches = before[:]
        low.aliases, low.homes = dict(given.aliases), dict(given.homes)
        low.hosted, low.turned = dict(given.hosted), dict(given.turned)
        low.shared = dict(given.shared)
        known = _known(low)
        _lower(low, low.graph.nodes[place])
        return _added(low, before, known)


def _extent(trace: Trace) -> int:
    """Returns the extent that may be 1."""
    assert trace.one is not None
    return Extent((((trace.one,), 1),), trace.atoms[trace.one].value, trace)


def _added(low: Lowering, before: list[Launch], known: list[int]) -> list[Launch]:
    """Returns the launches of a node. Raises ExcludesOneError where more than launches has changed,
    or a launch may be elided."""
    added, rest = low.launches[len(before) :], low.launches[: len(before)]
    same = len(rest) == len(before) and all(a is b for a, b in zip(rest, before, strict=True))
    copies = any(launch.copies is not None or launch.takes is not None for launch in added)
    if not same or copies or _known(low) != known:
        raise ExcludesOneError
    return added


def _known(low: Lowering) -> list[int]:
    return [len(held) for held in (low.aliases, low.homes, low.hosted, low.turned, low.shared)]


def _only_if(many: Any, guard: Guard) -> Guard:
    """Returns a guard that also holds where `many`, which is 0 or 1, is 0."""
    number = Extent(guard.terms, 0, many.trace) * many
    if guard.kind == "ne":
        number = number + (1 - many)
    return Guard(guard.kind, terms_of(number))


@dataclass
class _SubstituteOne:
    """Substitutes 1 for the extent that may be 1, in anything that contains numbers."""

    trace: Trace
    atoms: dict[int, Any] = field(default_factory=dict)

    def graph(self, graph: Graph) -> Graph:
        """Returns a graph. Its constants stay as they are: they may contain the extent itself, and
        are stored once."""
        tensors = dict(graph.tensors)
        for t, tensor in graph.tensors.items():
            if (shape := self.of(tensor.shape)) is not tensor.shape:
                tensors[t] = replace(tensor, shape=shape)
        return replace(graph, tensors=tensors, nodes=tuple(map(self.of, graph.nodes)))

    def of(self, value: Any) -> Any:
        if isinstance(value, Extent):
            return self._number(value)
        if isinstance(value, np.ndarray):
            if value.dtype != object:
                return value
            return np.array([self.of(n) for n in value.reshape(-1)], object).reshape(value.shape)
        if isinstance(value, Word):
            return Word(self.of(value.number), value.kind)
        if isinstance(value, tuple | list):
            found = [self.of(each) for each in value]
            if all(a is b for a, b in zip(found, value, strict=True)):
                return value
            return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
        if isinstance(value, Mapping):
            return {key: self.of(each) for key, each in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            given = {part.name: getattr(value, part.name) for part in fields(value) if part.init}
            changed = {name: self.of(each) for name, each in given.items()}
            if all(changed[name] is given[name] for name in given):
                return value
            return replace(value, **changed)
        return value

    def _number(self, number: Extent) -> Any:
        made: Any = 0
        for atoms, c in number.terms:
            part: Any = c
            for atom in atoms:
                part = part * self._atom(atom)
            made = made + part
        return number if terms_of(made) == number.terms else made

    def _atom(self, index: int) -> Any:
        """Returns an atom with 1 in place of the extent."""
        if index not in self.atoms:
            self.atoms[index] = self._made(index)
        return self.atoms[index]

    def _made(self, index: int) -> Any:
        if index == self.trace.one:
            return 1
        op, a, b, value, *_ = self.trace.atoms[index]
        itself = Extent((((index,), 1),), value, self.trace)
        if op == "in":
            return itself
        first, second = (self._number(Extent(terms, 0, self.trace)) for terms in (a, b))
        if terms_of(first) == a and terms_of(second) == b:
            return itself
        return _FUNCTIONS[op](first, second)


_FUNCTIONS: Mapping[str, Any] = {
    "quotient": lambda a, b: a // b, "remainder": lambda a, b: a % b,
    "rounded_up": lambda a, b: -(-a // b), "larger": larger, "smaller": smaller,
}  # fmt: skip


def are_same(for_any: Sequence[Launch], for_one: Sequence[Launch], at_one: _SubstituteOne) -> bool:
    """Whether the launches of a node for any extent are those for an extent of 1, if it is 1."""
    if len(for_any) != len(for_one):
        return False
    pairs = list(zip(for_any, for_one, strict=True))
    made = [(a, b) for one, other in pairs
            for (_, a), (_, b) in zip(one.operands, other.operands, strict=False)]  # fmt: skip
    renamed = {b: a for a, b in made if isinstance(a, int) and isinstance(b, int) and b < -1 > a}
    return all(_parts(one, {}, at_one) == _parts(other, renamed, at_one) for one, other in pairs)


def _parts(launch: Launch, renamed: Mapping[int, int], at_one: _SubstituteOne) -> tuple[Any, ...]:
    operands = [
        (operand, renamed.get(source, source) if isinstance(source, int) else source)
        for operand, source in launch.operands
    ]
    numbers = at_one.of((dict(launch.parameters), launch.workgroups))
    parameters = {name: _parameter(n) for name, n in numbers[0].items()}
    return (launch.kernel, operands, dict(launch.epilogue), parameters, dict(launch.variant),
            tuple(map(terms_of, numbers[1])), launch.form)  # fmt: skip


def _parameter(number: Any) -> tuple[str, Any]:
    """Returns the type and the value of a kernel's parameter, for comparisons."""
    if isinstance(number, Word):
        return number.kind, terms_of(number.number)
    if isinstance(number, float | np.floating):
        whole = float(number).is_integer()
        return "f32", terms_of(int(number)) if whole else float(number)
    return "i32" if isinstance(number, np.int32) else "u32", terms_of(number)
