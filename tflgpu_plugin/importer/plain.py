"""Imports nodes of a host, each as one node with the same attributes. Results of nodes without a
row are computed where they are known before a run, their shapes included.

A host states the shapes of results, except shapes that depend on values. Where such a value is
shape arithmetic, it and the shapes that depend on it are computed. A shape that stays unknown may
even be empty, so nodes that read such a tensor stay with the host."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import building, folding, row_conditions, run_values
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.model import HostNode
from tflgpu_plugin.importer.state import UNKNOWN, State
from tflgpu_plugin.importer.tensors import ARRAYS, Tensors
from tflgpu_plugin.ir.graph import FOLDED, STORE, Array, Graph, Node, NotConstant, Shape, Tensor
from tflgpu_plugin.ir.host_op import HostOp
from tflgpu_plugin.ir.refusal import Refusal, ShapeRefusal
from tflgpu_plugin.ir.symbolic import integer
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.passes.quant.dequantize import dequantized

LISTS = {"shape", "perm", "expand"}  # attributes that replace a second input


@dataclass
class Plain:
    """The importer of such nodes. By tensor id, `known` are folded results, without their values,
    and `variable` values of a run and those folded results that follow from these or from shapes;
    `doubtful` are tensors whose stated shape is not the inferred one; `later` are nodes that
    dequantize a constant, and `widened` their results, once needed. `unplanned` says, by host node,
    why the op cannot infer shapes where the model states none."""

    state: State
    known: dict[int, Tensor] = field(default_factory=dict)
    variable: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    later: dict[int, Node] = field(default_factory=dict)
    widened: dict[int, Tensor] = field(default_factory=dict)
    unplanned: dict[int, Refusal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._add_run_values()

    def _add_run_values(self) -> None:
        found = {self.state.tensor(key) for key in self.state.run_values}
        self.variable |= found
        self.doubtful -= found

    @property
    def table(self) -> MutableMapping[int, Tensor]:
        return self.state.tensors.table

    def visit(self, host: HostNode) -> None:
        """Adds the node, or a constant-folded node in its place. Raises Unsupported where it does
        not take the shapes that are being planned."""
        node, refusal = self._node(host)
        try:
            made = self._evaluated(host, node, refusal) or self._value(host, node)
        except Unsupported as unreadable:
            made, refusal = None, unreadable.sentence
        if made is None:
            # With symbols, a kernel may compute what is otherwise known before a run.
            computed = refusal is None and self.state.facts.symbolic
            planned = self.state.planned
            if planned is not None and host.id in planned and not computed:
                sentence = f"{host.title} {node.name!r} has no value for these input shapes."
                raise Unsupported.of("dynamic.value", sentence)
            self._shape(host, node, refusal)
            refusal = refusal or self.unplanned.get(host.id)
        if made is None and refusal is not None:
            self.state.refusals[host.id] = refusal
            op = STORE if node.op == STORE else ""
            outputs = node.outputs[: len(host.writes)]
            made = replace(node, op=op, inputs=self._reads(host), outputs=outputs)
        self.state.nodes.append(made or node)

    # ---- the node -----------------------------------------------------------------------------

    def _node(self, host: HostNode) -> tuple[Node, Refusal | None]:
        """Returns the plugin's node for a node of the host, and why that cannot run, or None."""
        state = self.state
        row, inputs = state.table.row(host), state.operands(host)
        outputs = tuple(state.tensor(key) for key in host.writes)
        common: dict[str, Any] = {
            "name": host.name or host.op, "host_op": host.title, "version": host.version,
            "sources": (host.id,),
        }  # fmt: skip
        if row is None or host.refusal:
            other = state.table.arithmetic.get(host.title)
            if other is not None and other.build is not None and not host.refusal:
                asking = state.builder(host, other, inputs)
                if not row_conditions.unmet(other.conditions, asking):
                    self._ask(asking)
            op = STORE if other is not None and other.op == STORE else row.op if row else ""
            read = self._reads(host)
            return Node(host.id, op, read, outputs, **common), state.table.refusal(host)
        builder = state.builder(host, row, inputs)
        if state.planned is None and (reason := row_conditions.unmet(state.every, builder)):
            return Node(host.id, row.op, tuple(inputs), outputs, **common), reason
        self._ask(builder)
        seen = self._seen(builder)
        given = tuple(builder.op.taken(seen.inputs))
        node = Node(host.id, row.op, given, outputs, builder.attributes, row=row, **common)
        asked = (*row_conditions.BY_ROLES, *row.conditions, *row_conditions.AFTER_ROW)
        if state.planned is not None:  # it was claimed for other shapes, with these types
            asked = (row_conditions.extents, *row.conditions)
        refusal = row_conditions.unmet(asked, seen)
        for tensor, role in zip(outputs, row.outputs or (), strict=False):
            if role == "index" and self.table[tensor].dtype == "f32":
                self.table[tensor] = replace(self.table[tensor], keep_f32=True)
        hidden = () if refusal else self._hidden(row, given)
        kept = given[:1] if LISTS & host.attributes.keys() else given
        if hidden or kept != given:
            node = replace(node, inputs=kept, outputs=(*outputs, *hidden))
        return node, refusal

    def _reads(self, host: HostNode) -> tuple[int | None, ...]:
        """Returns all tensors that the host's node reads, also those that the op has no place for:
        partitions have to write them for a node that stays on the CPU."""
        return (*self.state.operands(host), *map(self.state.tensor, host.implicit))

    def _ask(self, builder: Builder) -> None:
        """Asks for the values of a run that decide the node's shapes, unless such a value must be a
        constant of the model."""
        asked = [builder.row.operands[position] for position in builder.row.deciding]
        if self.state.table.asks_runs and not any(operand.constant for operand in asked):
            run_values.ask(self.state, builder.host, builder)
            self._add_run_values()

    def _seen(self, builder: Builder) -> Builder:
        """Returns the builder through which conditions read the node: its inputs are in the order
        of the op, and only constants of the host have values, not folded results."""
        builder.inputs = builder.row.arranged(builder.inputs)
        if self.known:
            builder.tensors = Tensors(ChainMap(self.known, self.table))
        return builder

    def _hidden(self, row: HostOp, inputs: Sequence[int | None]) -> tuple[int, ...]:
        """Returns new tensors for outputs of the op that only update state and that the host's node
        does not have."""
        found = []
        for before, after in ops.rows()[row.op].states:
            state = inputs[before]
            if after < 0 and state is not None:
                made = replace(self.table[state], variable=False)
                found.append(self.state.tensors.add(made))
        return tuple(found)

    # ---- values -------------------------------------------------------------------------------

    def _evaluated(self, host: HostNode, node: Node, refusal: Refusal | None) -> Node | None:
        """Returns the constant-folded node if its results follow from constants alone, else None.
        Raises Unsupported where a constant cannot be read."""
        if self.state.planned is not None or not self._is_fixed(host, node):
            return None
        self.state.chained.update(node.outputs[: len(host.writes)])
        if row := node.row:
            given = self.state.builder(host, row, self.state.operands(host))
            if row_conditions.unmet(row.conditions, self._seen(given)):
                return None  # hosts may compute different results
        if ops.quantizes(node) == "from" and refusal is None:  # folded when the graph is judged
            self.later[node.outputs[0]] = node
            return None
        return self._constant(host, node)

    def _is_fixed(self, host: HostNode, node: Node) -> bool:
        """Whether the results of the node follow from constants alone."""
        row, inputs = self.state.table.arithmetic.get(host.title), self.present(host)
        if not inputs or (row and row.chance) or node.op == STORE:
            return False
        values = self.state.model.values
        fixed = {t for key, t in inputs.items() if values[key].constant or values[key].dense}
        held = {t for t in inputs.values() if self.table[t].data is not None}
        fixed |= held - self.known.keys() - self.variable
        return self.state.table.keeps_weights and {*inputs.values()} <= fixed | self.state.chained

    def present(self, host: HostNode) -> dict[str, int]:
        """Returns the tensors of inputs that are present, by key."""
        return {key: self.state.ids[key] for key in host.inputs if key is not None}

    def _constant(self, host: HostNode, node: Node) -> Node | None:
        """Returns the constant-folded node of a node that reads only constants, or None where its
        results cannot be computed. Raises Unsupported for constants that cannot be read."""
        keys = {t: key for key, t in self.present(host).items()}
        inputs = [t for t in node.inputs if t is not None]
        row = self.state.table.arithmetic.get(host.title)
        sparse = {t: keys[t] for t in inputs} if row is not None and row.sparse else {}
        if sparse and not any(self.state.model.values[key].dense for key in sparse.values()):
            raise Unsupported.of("input.unsupported", "Its input is not sparse.")
        values = [self._value_of(t, sparse.get(t, "")) for t in inputs]
        if len(inputs) < len(node.inputs) or any(value.data is None for value in values):
            return None
        outputs = self._outputs(host, node)
        found = folding.constants(node, self._meaning(host, node, values), values, outputs)
        return None if found is None else self._fold(host, node, found)

    def _value_of(self, tensor: int, sparse: str) -> Tensor:
        """Returns a tensor that follows from constants, with its value where that is known.
        `sparse` is the key of a sparse constant, which is read now, else "". Raises Unsupported."""
        dense = self.state.model.values[sparse].dense if sparse else None
        if dense is not None:
            return replace(self.table[tensor], data=dense())
        if tensor not in self.later or self.table[tensor].dtype != "f32":
            return self.table[tensor]
        if tensor not in self.widened:
            (source,) = (t for t in self.later[tensor].inputs if t is not None)
            value = dequantized(self.table[source])
            self.widened[tensor] = replace(self.table[tensor], data=value)
        return self.widened[tensor]

    def _outputs(self, host: HostNode, node: Node) -> list[Tensor]:
        return [self.table[t] for t in node.outputs[: len(host.writes)]]

    def _meaning(
        self, host: HostNode, node: Node, inputs: Sequence[Tensor]
    ) -> folding.Meaning | None:
        """Returns the function that computes a node's results from inputs in the order of its op,
        or None when there is none, or it is inexact for the types of the inputs."""
        outputs = self._outputs(host, node)
        if node.row is not None:
            op = ops.rows()[node.op]
            if op.inexact and any(t.dtype[0] == "f" for t in inputs):
                return None
            return folding.of_op(op, node.attributes, outputs[0].dtype, len(outputs))
        row = self.state.table.arithmetic.get(host.title)
        if row is None or row.build is None:
            return None
        return folding.Meaning(partial(self._arithmetic, host, row), moves=row.sparse)

    def _arithmetic(
        self, host: HostNode, row: HostOp, values: Sequence[Array | None], limit: int
    ) -> list[Array] | None:
        """Returns the results of a row without an op for these values of inputs, or None where one
        is absent or has more than `limit` elements."""
        if any(value is None or value.size > limit for value in values):
            return None
        given = [Tensor("", v.shape, ARRAYS[v.dtype.name], v) for v in values if v is not None]
        return self._built(host, row, [self.state.tensors.add(t) for t in given], limit)

    def _built(
        self, host: HostNode, row: HostOp, inputs: list[int | None], limit: int
    ) -> list[Array] | None:
        builder = self.state.builder(host, row, inputs, known_limit=limit)
        found = building.evaluate(builder, row.conditions)
        return None if found is None else [t.data for t in found if t.data is not None]

    def _value(self, host: HostNode, node: Node) -> Node | None:
        """Returns the constant-folded node if its results are shape arithmetic, else None. Shape
        arithmetic begins with operators that return shapes."""
        inputs, planned = [t for t in node.inputs if t is not None], self.state.planned
        if self.doubtful.intersection(inputs) or len(inputs) < len(node.inputs):
            return None
        if planned is not None and host.id not in planned:
            return None
        other = None if node.row else self.state.table.arithmetic.get(host.title)
        first = other is not None and other.of_shapes
        reached = planned is not None or any(t in self.known or t in self.variable for t in inputs)
        if not (first or reached):
            return None
        tensors, outputs = [self.table[t] for t in inputs], self._outputs(host, node)
        if other is not None and other.of_shapes:
            arrays = self._built(host, other, [*node.inputs], folding.MAX_SHAPE_ELEMENTS)
            found = folding.held(arrays, outputs)
        else:
            meaning = self._meaning(host, node, tensors)
            found = folding.known(meaning, tensors, outputs) if meaning else None
        made = None if found is None else self._fold(host, node, found)
        if made is not None and (first or not self.variable.isdisjoint(inputs)):
            self.variable.update(made.outputs)
            self.state.arithmetic.add(host.id)
        return made

    def _fold(self, host: HostNode, node: Node, found: Sequence[Tensor]) -> Node | None:
        """Sets the node's results to `found` and returns the constant-folded node, or None when the
        host states other shapes."""
        outputs = node.outputs[: len(host.writes)]
        for key, tensor in zip(host.writes, found, strict=True):
            stated = self.state.model.values[key]
            if stated.shape is not None and self.state.stated_shape(stated) != tensor.shape:
                return None
        for index, tensor in zip(outputs, found, strict=True):
            self.table[index] = tensor
        self.known |= {t: replace(self.table[t], data=None) for t in outputs}
        return replace(node, op=FOLDED, outputs=outputs, attributes={}, row=None)

    # ---- shapes -------------------------------------------------------------------------------

    def _shape(self, host: HostNode, node: Node, refusal: Refusal | None) -> None:
        """Sets the shapes of the node's outputs."""
        derived = self._derived(host, node, refusal is None)
        found = [None] * len(node.outputs) if derived is None else [tuple(s) for s in derived]
        for key, index, shape in zip(host.writes, node.outputs, found, strict=False):
            stated = self.state.model.values[key].shape
            loose = stated is None or any(isinstance(extent, str) for extent in stated)
            if stated is None and shape is None:
                self._set(index, UNKNOWN)
            elif loose and shape is not None:
                self._set(index, shape)
            if shape != self.table[index].shape:
                self.doubtful.add(index)
        for index, shape in list(zip(node.outputs, found, strict=False))[len(host.writes) :]:
            if shape is not None:
                self._set(index, shape)

    def _set(self, index: int, shape: Shape) -> None:
        self.table[index] = replace(self.table[index], shape=shape)

    def _derived(self, host: HostNode, node: Node, runs: bool) -> Sequence[Shape] | None:
        """Returns the outputs' shapes that follow from the inputs' shapes and known values, or None
        where they do not. `runs`: nothing has refused the node so far. Raises Unsupported where a
        node does not take the shapes that are being planned."""
        table, values = self.state.table, self.state.model.values
        inputs = [*self.present(host).values()]
        other, outputs = table.arithmetic.get(host.title), self._outputs(host, node)
        if self.doubtful.intersection(inputs) or host.refusal:
            return None
        if other and other.stated and all(values[k].shape is not None for k in host.writes):
            return [tensor.shape for tensor in outputs]
        if any(self.table[t].data is None for t in self._deciding(host)):
            return None
        if other is not None and other.spreads:
            with suppress(ValueError):
                return [broadcast(*(self.table[t].shape for t in inputs))]
        op = ops.rows().get(node.op)
        if op is None or node.row is None:
            return None
        found: Sequence[Shape] | None = None
        wrong: str | None = None
        try:
            inferred = op.shapes(Graph.over(self.table, node), node)
            found = [tuple(map(integer, shape)) for shape in inferred]
        except NotConstant as error:  # known only after a run
            wrong = str(error)
        except Exception as error:
            wrong = str(error)
            known = all(extent >= 0 for t in inputs for extent in self.table[t].shape)
            if runs and known and all(values[k].shape is None for k in host.writes):
                sentence = f"{host.title} cannot be planned: {wrong}."
                self.unplanned[host.id] = ShapeRefusal("shape.mismatch", sentence)
        extents = [extent for shape in found or () for extent in shape]
        if any(extent < 0 for extent in extents):
            wrong = f"its input shape {[*self.table[inputs[0]].shape]} is too small."
        if wrong is not None and self.state.planned is not None:  # it was claimed for other shapes
            sentence = f"{host.title} cannot take these input shapes: {wrong}"
            raise Unsupported(ShapeRefusal("shape.unsupported", sentence))
        whole = runs and all(extent > 0 for t in inputs for extent in self.table[t].shape)
        if whole and (found is None or any(extent < 1 for extent in extents)):
            self.state.shape_refused.add(host.id)
        return found

    def _deciding(self, host: HostNode) -> list[int]:
        """Returns the inputs whose values determine the outputs' shapes."""
        table = self.state.table
        row = table.row(host) or table.arithmetic.get(host.title)
        return [self.state.ids[key] for key in (row.deciders(host.inputs) if row else ())]


def states(node: Node) -> tuple[tuple[int, int], ...]:
    """Returns pairs (variable, output) of a node: after a run the variable has the value of the
    output. A node that is refused has none."""
    row = ops.rows().get(node.op)
    if row is None:
        return ()
    pairs = [(node.inputs[before], node.outputs[after]) for before, after in row.states]
    return tuple((before, after) for before, after in pairs if before is not None)
