"""The state of an import while it walks a host's graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from tflgpu_plugin.importer import doubles, row_conditions
from tflgpu_plugin.importer.attributes import Attributes
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.expressions import value as expression
from tflgpu_plugin.importer.imported import Facts, Table
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.importer.tensors import FIRST_ROOM, Tensors
from tflgpu_plugin.ir import Array, Condition, HostOp, Node, Refusal, Shape, Tensor

UNKNOWN = (-1,)
MAX_NUMBERS = 64  # elements of a value that decides shapes and is only known in a run


@dataclass
class State:
    """The state of an import. `symbols` has the numbers assumed for dynamic extents so far, and
    `run_values` guesses at values of inputs. `left` are nodes that stay with the host because their
    results decide shapes, and `wanted` has, by node, the inputs whose values it would need to know
    but that other nodes compute. `nodes` are the nodes added so far. `refusals`, `arithmetic`,
    `contradictions`, `shape_refused` and `impossible` are as in `Imported`. `misled` are values
    whose shape the host infers wrongly, and `chained` tensors that follow from constants alone,
    whether they could be computed or not. `keeping` are nodes that preserve a count (see
    `importer.counts`)."""

    model: HostModel
    table: Table
    facts: Facts
    symbols: dict[str, int] | None
    run_values: dict[str, Array]
    left: set[int] = field(default_factory=set)
    wanted: dict[int, list[str]] = field(default_factory=dict)
    tensors: Tensors = field(default_factory=Tensors)
    ids: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    refusals: dict[int, Refusal] = field(default_factory=dict)
    arithmetic: set[int] = field(default_factory=set)
    contradictions: int = 0
    misled: set[str] = field(default_factory=set)
    chained: set[int] = field(default_factory=set)
    keeping: set[int] = field(default_factory=set)
    shape_refused: set[int] = field(default_factory=set)
    impossible: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.planned is not None:
            self.tensors.computed = None
        self.tensors.room = self.facts.room or FIRST_ROOM
        for key in self.model.values if self.model.numbered else ():
            self.ids[key] = self.tensors.add(self.outside(key), int(key))

    @cached_property
    def stated(self) -> Mapping[str, Value]:
        """Returns the values of the model with the types in which kernels compute them."""
        return doubles.stated(self.model)

    @property
    def planned(self) -> Collection[int] | None:
        return self.facts.arithmetic

    def tensor(self, key: str) -> int:
        """Returns a value's tensor, added (input or constant) unless a node has written it."""
        if key not in self.ids:
            self.ids[key] = self.tensors.add(self.outside(key))
            if key in self.facts.sequences:
                listed = tuple(map(self.tensor, self.facts.sequences[key]))
                self.tensors.sequences[self.ids[key]] = listed
        return self.ids[key]

    def operands(self, host: HostNode) -> list[int | None]:
        """Returns the tensors of a node's inputs, None for absent ones."""
        return [None if key is None else self.tensor(key) for key in host.inputs]

    def outside(self, key: str) -> Tensor:
        """Returns the tensor of a value that no imported node computes, with the shape and type
        that the host states."""
        stated = self.model.values[key]
        if stated.data is None and key in self.run_values:
            return self.of_a_run(key)
        shape = self.facts.shapes.get(key, self.stated_shape(stated))
        if stated.data is not None:
            shape = stated.data.shape
        found = Tensor(
            stated.name, shape, stated.dtype, stated.data, stated.quantization, stated.variable
        )
        if stated.data is None:
            found = doubles.typed(self.model, stated, found)
        return found if self.table.keeps_half else widened(found)

    def before(self, key: str) -> set[int]:
        """Returns the nodes that compute a value from a few integers, back to inputs of the graph
        and to nodes that read more than that."""
        writers = {made: node for node in self.model.nodes for made in node.writes}
        found, waiting = set[int](), [key]
        while waiting:
            node = writers.get(waiting.pop())
            if node is None or node.id in found or not all(map(self.is_short, node.reads)):
                continue
            found.add(node.id)
            waiting += (read for read in node.reads if not self.is_known(read))
        return found

    def is_known(self, key: str) -> bool:
        """Whether a value is known before the model runs, or as a value of a run."""
        return self.tensors.table[self.tensor(key)].data is not None

    def is_short(self, key: str) -> bool:
        """Whether a value is known, or is a tensor of a few integers."""
        return self.is_known(key) or self._is_few(self.tensor(key))

    def _is_few(self, tensor: int) -> bool:
        held = self.tensors.table[tensor]
        few = UNKNOWN != held.shape and prod(held.shape) <= MAX_NUMBERS
        return held.dtype in ("i32", "i64", "bool") and few

    def note_computed(self, node: Node) -> None:
        """Notes results of a node that follow from more than a few integers."""
        computed, table = self.tensors.computed, self.tensors.table
        if computed is None:
            return
        unknown = [t for t in node.reads if table[t].data is None]
        if any(t in computed or not self._is_few(t) for t in unknown):
            computed.update(node.outputs)

    def of_a_run(self, key: str) -> Tensor:
        """Returns the tensor of an input of a run, with its value."""
        data, stated = self.run_values[key], self.model.values[key]
        return Tensor(stated.name, data.shape, stated.dtype, data)

    def stated_shape(self, stated: Value) -> Shape:
        """Returns the shape as the host states it, with dynamic extents from `symbols`, or
        UNKNOWN."""
        listed = UNKNOWN if stated.shape is None else stated.shape
        found = [e if isinstance(e, int) else self._number(e) for e in listed]
        return UNKNOWN if any(extent < 0 for extent in found) else tuple(found)

    def _number(self, name: str) -> int:
        """Returns the number assumed for a dynamic extent, -1 where extents stay unknown."""
        if self.symbols is None:
            return -1
        if name in self.symbols:
            return self.symbols[name]
        return expression(name, self.symbols) or 1

    @property
    def every(self) -> tuple[Condition, ...]:
        """Returns the conditions that every node must meet."""
        return (*row_conditions.FIRST, *self.table.every)

    def builder(
        self, host: HostNode, row: HostOp, inputs: Sequence[int | None], known_limit: int = 0
    ) -> Builder:
        """Returns the builder of a node of the host; `known_limit` is as in `NodeReader`. Raises
        Unsupported for constants of float64 that float32 cannot hold, if these are narrowed."""
        captured = {k: self.tensor(k) for k in host.implicit} if host.bodies else {}
        single = self.model.single and not known_limit and self.model.doubles(host)
        if single:
            host = doubles.attributes(host)
            inputs = [t if t is None else doubles.narrowed(self.tensors, t) for t in inputs]
        if host.domain in self.table.unversioned:
            host = replace(host, attributes=Attributes(host.attributes))
        return Builder(
            host, row, self.tensors, inputs, self.table,
            self.stated if single else self.model.values,
            known_limit=known_limit, captured=captured, doubles=single,
        )  # fmt: skip


def widened(constant: Tensor) -> Tensor:
    """Returns a float16 constant as float32, the type of computation; other tensors unchanged."""
    if constant.dtype != "f16" or constant.data is None:
        return constant
    return replace(constant, dtype="f32", data=constant.data.astype(np.float32))
