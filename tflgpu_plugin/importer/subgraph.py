"""Keeps the part of the host's graph that belongs to a claimed partition, so that it can be
imported again and planned for other shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tflgpu_plugin import ops
from tflgpu_plugin.errors import BuildError, ImpossibleShapes
from tflgpu_plugin.importer import doubles
from tflgpu_plugin.importer.imported import Facts, Imported, Table
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostExtent, HostModel, Value
from tflgpu_plugin.importer.run_values import numbers, restored
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import FOLDED, Array, Graph, Node, Shape, Tensor, counts


@dataclass(frozen=True)
class Subgraph:
    """The nodes of a partition and the shape arithmetic that they need (`arithmetic`, by id), over
    the `table` of their host. `ports` are the inputs of its plans and `others` are inputs of which
    only the shapes are read; both had `shapes` when the partition was claimed, and have the shapes
    `declared` in the model. `states` are the variables that it reads and writes. Of the inputs
    `run_values`, each run gives values that plans are specialized for; these are the first ones."""

    model: HostModel
    table: Table
    ports: tuple[str, ...]
    others: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[str, ...]
    arithmetic: frozenset[int]
    shapes: tuple[Shape, ...]
    declared: tuple[tuple[HostExtent, ...] | None, ...]
    run_values: Mapping[str, Array] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Shape, ...]:
        """Returns the key of the first plan: the shapes of `keys`, then the `numbers` of each of
        the `run_values`."""
        return (*self.shapes, *map(numbers, self.run_values.values()))

    @property
    def keys(self) -> tuple[str, ...]:
        """Returns the values whose shapes select a plan: the inputs, then those of which only
        shapes are read."""
        return (*self.ports, *self.others)

    def reshaped(self, given: Sequence[Shape], judge: Judge) -> Again:
        """Returns the graph for these shapes of `keys` and numbers of `run_values`. Raises
        BuildError with the reason if it cannot run."""
        shapes = dict(zip(self.keys, given, strict=False))
        values = given_values(self.model, self.run_values, shapes, given[len(shapes) :])
        facts = Facts(shapes, None, self.arithmetic, values, judge)
        return again(self.model, self.table, facts, self.ports, self.outputs)


def given_values(
    model: HostModel, keys: Iterable[str], shapes: Mapping[str, Shape], given: Iterable[Shape]
) -> dict[str, Array]:
    """Returns the values of a run, by key, from their numbers."""
    pairs = zip(keys, given, strict=True)
    return {key: restored(held, shapes[key], model.values[key].dtype) for key, held in pairs}


class Again(NamedTuple):
    """A partition's graph that was imported for other shapes, and the reasons why it cannot run
    with these, if any."""

    graph: Graph
    refusal: BuildError | None = None

    def runs(self) -> Graph:
        """Returns the graph. Raises BuildError if it cannot run."""
        if self.refusal is not None:
            raise self.refusal
        return self.graph


def again(
    model: HostModel, table: Table, facts: Facts, ports: Sequence[str], outputs: Sequence[str]
) -> Again:
    """Imports a partition's graph for other shapes, with inputs and outputs in the order of the
    first import. Raises BuildError if not even its shapes can be derived, ImpossibleShapes if no
    host accepts these input shapes."""
    found = import_(model, table, facts)
    errors = [
        (ImpossibleShapes if node in found.impossible else BuildError)((node,), reason)
        for node, reason in found.refusals.items()
    ]
    if errors and not {*found.refusals} <= found.judged:
        raise errors[0]
    ids, tensors = found.ids, dict(found.graph.tensors)
    for key in outputs:
        if ids[key] not in tensors:
            name = model.values[key].name
            sentence = f"The result {name!r} does not depend on its inputs' values."
            raise BuildError.of((), "dynamic.value", sentence)
    for key in ports:
        value = model.values[key]
        unread = Tensor(value.name, facts.shapes[key])
        tensors.setdefault(ids[key], doubles.typed(model, value, unread))
    made = tuple(ids[key] for key in outputs)
    graph = replace(
        found.graph,
        nodes=tuple(node for node in found.graph.nodes if node.op != FOLDED),
        tensors=tensors,
        inputs=tuple(ids[key] for key in ports),
        outputs=(*made, *counts(tensors, made)),
        chained=(),
    )
    return Again(graph, errors[0] if errors else None)


def kept(found: Imported, part: Graph) -> Subgraph:
    """Returns the part of a host's graph to keep for a partition, where each node of the host
    becomes one node. Results that follow from constants alone are kept as constants, since they are
    the same for all shapes."""
    model, table = found.model, found.table
    makers = _makers(found, part)
    hosts = [node for node in model.nodes if node.id in makers]
    keys = {t: key for key, t in found.ids.items()}
    made = {key for node in hosts for key in node.writes}
    values = {
        key: replace(model.values[key], shape=None) if key in made else _value(key, found)
        for key in dict.fromkeys(key for node in hosts for key in (*node.reads, *node.writes))
    }
    kept_outputs = tuple(keys[t] for t in part.outputs)
    ports = tuple(keys[t] for t in part.inputs)
    nodes = HostModel(
        tuple(hosts), values, kept_outputs, numbered=model.numbered, fused=model.fused,
        ordered=model.ordered, single=model.single,
    )  # fmt: skip
    arithmetic = frozenset(found.arithmetic & makers)
    states = tuple(keys[before] for before, _ in part.states)
    others = tuple(k for k in nodes.inputs if k not in ports and k not in states)
    shapes = tuple(found.graph.tensors[found.ids[k]].shape for k in (*ports, *others))
    declared = tuple(model.values[k].shape for k in (*ports, *others))
    given = {key: found.run_values[key] for key in nodes.inputs if key in found.run_values}
    return Subgraph(
        nodes, table, ports, others, kept_outputs, states, arithmetic, shapes, declared, given
    )


def _makers(found: Imported, part: Graph) -> set[int]:
    """Returns the nodes of the partition, and the nodes that compute constants for them from
    shapes, or float32 constants from other constants. Nodes that compute the partition's inputs are
    not among them."""
    makers, kept = found.graph.producers(), {node.id for node in part.nodes}
    makers = {t: node for t, node in makers.items() if t not in part.inputs}
    waiting = list(part.nodes)
    while waiting:
        for tensor in waiting.pop().reads:
            maker = makers.get(tensor)
            if maker is not None and maker.id not in kept and _is_kept(found, maker):
                kept.add(maker.id)
                waiting.append(maker)
    return kept


def _is_kept(found: Imported, maker: Node) -> bool:
    if maker.op == FOLDED:
        return maker.id in found.arithmetic
    constant = all(found.graph.constant(t) is not None for t in maker.reads)
    return constant and ops.quantizes(maker) == "from"


def _value(key: str, found: Imported) -> Value:
    """Returns a value that the partition's nodes read and do not write, with its present shape, and
    as a constant if other nodes computed it from constants."""
    value, tensor = found.model.values[key], found.graph.tensors.get(found.ids[key])
    if tensor is None or value.data is not None:
        return value
    if tensor.data is None or key in found.run_values:
        return replace(value, shape=tensor.shape, dense=None)
    return replace(value, shape=tensor.shape, dtype=tensor.dtype, data=tensor.data, dense=None)
