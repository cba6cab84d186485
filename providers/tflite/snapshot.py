"""Reads a TFLite host's graph into plain data. It knows the host's structs (through cffi), and no
kernels.

It works only while the host is in the delegate's prepare, when the host answers questions about
nodes and partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin.ir import Refusal, Shape, Tensor
from tflgpu_plugin.providers import HostError, HostModel, HostNode, Unsupported, Value

from . import codes, conditions, loops, model_file, ops
from .host_node import RawNode, execution_plan, raw_node, read_node
from .tensors import listed, open_axes, read_tensors

MAX_DEPTH = 8  # graphs within each other
NESTED = Refusal("loop.unsupported", f"Its graphs call one another, or more than {MAX_DEPTH} deep.")


@dataclass(frozen=True)
class Snapshot(HostModel):
    """A graph of a TFLite host; values are keyed by the host's tensor numbers. `address` is the
    address of the graph. By node id, `codes` has operator codes, and `graphs` the addresses of the
    graphs that a loop or a branch runs."""

    address: int = 0
    codes: Mapping[int, int] = field(default_factory=dict)
    graphs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def take(ffi: Any, context: Any) -> Snapshot:
    """Returns the entire execution plan of `context` (tgl_context *). Raises HostError when the
    host answers with an error.

    Constants are views of the host's memory. A shape that depends on the value of a tensor, or on
    such a shape, is None."""
    plan = execution_plan(ffi, context)
    _check_order(ffi, context, plan)
    written = {t for index in plan for t in listed(raw_node(ffi, context, index)[0].outputs)}
    tensors, open_ = read_tensors(ffi, context, written), open_axes(context)
    raw = [read_node(ffi, context, index, tensors) for index in plan]
    outputs, fused = _outputs(ffi, context, plan)
    wanted = {t for node in raw for t in node.inputs} | {*outputs} if fused else written
    unknown = decided(raw, tensors, open_)
    axes = open_ or _ones(raw, tensors)
    values = {str(t): _stated(t, value, unknown, axes) for t, value in tensors.items()}
    others = _Graphs(context)
    nodes = [_node(node, tensors, wanted, others) for node in raw]
    within = {node.id: tuple(_within(node)) for node in nodes if node.bodies}
    ordered = all(node.has_side_effect for node in raw if node.host_op in ops.VARIABLES)
    return Snapshot(
        tuple(nodes), values, tuple(map(str, outputs)), numbered=True, fused=fused, ordered=ordered,
        codes={node.id: node.code for node in raw},
        graphs=within,
        present={
            _symbol(t, axis): listed(context.tensors[t].dims)[axis]
            for t, some in axes.items() for axis in some
        },
        tells_open=bool(open_),
    )  # fmt: skip


def used(ffi: Any, context: Any, besides: Collection[int]) -> set[str]:
    """Returns the keys of the tensors that nodes read or write, other than those in `besides`."""
    nodes = [raw_node(ffi, context, n)[0] for n in execution_plan(ffi, context) if n not in besides]
    sides = [side for node in nodes for side in (node.inputs, node.outputs)]
    return {str(tensor) for side in sides for tensor in listed(side)}


def had(context: Any, delegate: Any) -> bool:
    """Whether this delegate has claimed nodes of this graph before: when hosts undo delegation,
    tensors keep their pointer to the delegate, which tensors of new graphs lack."""
    tensors = (context.tensors[k] for k in range(context.tensor_count))
    return any(tensor.delegate == delegate for tensor in tensors)


def partitions(ffi: Any, context: Any, nodes: Sequence[int]) -> list[tuple[Shape, Shape]]:
    """Returns (nodes, outputs) of each group into which the host would divide these nodes."""
    found, count = ffi.new("tgl_partition **"), ffi.new("int32_t *")
    wanted = ffi.new("tgl_ints *", {"data": sorted(nodes)})
    wanted.size = len(nodes)
    preview = context.preview_partitions
    if not preview or preview(context, wanted, found, count):
        raise HostError("The host did not return how it would group its nodes.")
    return [(listed(each.nodes), listed(each.outputs)) for each in found[0][0 : count[0]]]


def _check_order(ffi: Any, context: Any, plan: Sequence[int]) -> None:
    """Raises HostError when a node reads a tensor that it or a later one writes. CPU kernels run
    such a model, but a host that is asked to group its nodes reads out of bounds."""
    later = set[int]()
    for index in reversed(plan):
        node = raw_node(ffi, context, index)[0]
        later |= set(listed(node.outputs))
        if later & set(listed(node.inputs)):
            raise HostError(
                f"Node {index} reads a tensor that is only written by it or by a later node; "
                "the model is damaged."
            )


def _outputs(ffi: Any, context: Any, plan: Sequence[int]) -> tuple[list[int], bool]:
    """Returns the outputs of the host's graph, and whether the host fuses nodes. A context does not
    list the outputs, but a preview of claiming every node does. A host that does not fuse previews
    each node as a group, with all tensors that other nodes read as outputs."""
    found = partitions(ffi, context, plan)
    outputs = dict.fromkeys(t for _, made in found for t in made)
    return list(outputs), len(found) == 1 or len(plan) < 2


# ---- nodes ---------------------------------------------------------------------------------------


def _node(
    raw: RawNode, tensors: Mapping[int, Value], wanted: Collection[int | None], others: _Graphs
) -> HostNode:
    """Returns a node of the host as plain data. A loop or a branch has only the outputs that are
    `wanted`, and the graphs that it runs."""
    attributes: Mapping[str, Any] = {}
    bodies: tuple[Snapshot, ...] = ()
    refusal = None
    runs = raw.host_op in loops.BODIES and raw.host_op in ops.HOST_OPS
    try:
        attributes = _attributes(raw)
        bodies = others.of(raw) if runs else ()
    except Unsupported as reason:
        refusal = reason.sentence
    name = tensors[raw.outputs[0]].name if raw.outputs else f"node {raw.id}"
    kept = wanted if runs else raw.outputs
    return HostNode(
        raw.id, raw.host_op, "", raw.version, name,
        tuple(None if t is None else str(t) for t in raw.inputs),
        tuple(str(t) if t in kept else None for t in raw.outputs),
        attributes=attributes, refusal=refusal, bodies=bodies,
    )  # fmt: skip


def _attributes(raw: RawNode) -> Mapping[str, Any]:
    """Returns the node's attributes, none if inputs or outputs are missing. Raises Unsupported."""
    row = ops.HOST_OPS.get(raw.host_op)
    form = row and row.form(len(raw.inputs))
    if form is None or form.parameters is None:
        return {}
    if form.lacking(raw.inputs) or conditions.unlisted(form, len(raw.outputs)):
        return {}
    return form.parameters(raw)


@dataclass
class _Graphs:
    """The graphs that loops and branches run, by number, read once each while the host prepares the
    graph of `context`; None while one is being read."""

    context: Any
    read: dict[int, Snapshot | None] = field(default_factory=dict)

    def of(self, raw: RawNode) -> tuple[Snapshot, ...]:
        """Returns the graphs that a node runs. Raises Unsupported."""
        if self.context.acquire_subgraph == raw.ffi.NULL:
            raise Unsupported(loops.HIDDEN)
        named = raw.params("int32_t")
        try:
            numbers = [int(named[k]) for k in range(loops.BODIES[raw.host_op])]
            return tuple(self._graph(raw.ffi, number) for number in numbers)
        except HostError as error:
            raise Unsupported.of("loop.unsupported", str(error)) from error

    def _graph(self, ffi: Any, number: int) -> Snapshot:
        if number not in self.read:
            if sum(found is None for found in self.read.values()) >= MAX_DEPTH:
                raise Unsupported(NESTED)
            self.read[number] = None
            try:
                self.read[number] = self._body(ffi, number)
            finally:
                if self.read[number] is None:
                    del self.read[number]
        found = self.read[number]
        if found is None:
            raise Unsupported(NESTED)
        return found

    def _body(self, ffi: Any, number: int) -> Snapshot:
        """Returns graph `number` of the model. Raises Unsupported."""
        with loops.opened(ffi, self.context, number) as graph:
            inputs, outputs = model_file.order(ffi, (graph, self.context), number)
            plan = execution_plan(ffi, graph)
            nodes = [raw_node(ffi, graph, index)[0] for index in plan]
            tensors = read_tensors(ffi, graph, {t for node in nodes for t in listed(node.outputs)})
            if not tensors.keys() >= {*inputs, *outputs}:
                raise Unsupported(model_file.DAMAGED)
            hosts = [read_node(ffi, graph, index, tensors) for index in plan]
            return Snapshot(
                tuple(_node(one, tensors, one.outputs, self) for one in hosts),
                {str(t): value for t, value in tensors.items()},
                tuple(map(str, outputs)), given=tuple(map(str, inputs)), numbered=True,
                address=int(ffi.cast("uintptr_t", graph)),
            )  # fmt: skip


def _within(node: HostNode) -> set[int]:
    """Returns the addresses of the graphs that a node runs, and of those that these run."""
    found = {body.address for body in node.bodies if isinstance(body, Snapshot)}
    return found.union(*(_within(one) for body in node.bodies for one in body.nodes))


# ---- values --------------------------------------------------------------------------------------


def _ones(raw: Sequence[RawNode], tensors: Mapping[int, Value]) -> dict[int, tuple[int, ...]]:
    """Returns, by tensor, the axes of extent 1 of the graph's inputs. Where the model does not say
    which extents are dynamic, these may be, except in lists that determine shapes."""
    made = {t for node in raw for t in (*node.outputs, *_deciding(node))}
    inputs = {t for node in raw for t in node.inputs if t is not None} - made
    shapes = {t: tensors[t].shape or () for t in inputs if tensors[t].data is None}
    return {t: tuple(k for k, n in enumerate(s) if n == 1) for t, s in shapes.items() if 1 in s}


def _stated(
    index: int, value: Value, unknown: Collection[int], open_: Mapping[int, tuple[int, ...]]
) -> Value:
    """Returns a tensor with its shape as the host states it: None for `unknown` tensors, with names
    instead of the extents of its axes in `open_`."""
    if value.data is not None or not (index in unknown or index in open_):
        return value
    axes = open_.get(index, ())
    named = tuple(_symbol(index, k) if k in axes else n for k, n in enumerate(value.shape or ()))
    return replace(value, shape=None if index in unknown else named)


def _symbol(index: int, axis: int) -> str:
    """Returns the name of an extent of a tensor that the model leaves open."""
    return f"{index}\0{axis}"


def decided(
    nodes: Sequence[RawNode], tensors: Mapping[int, Tensor | Value], open_: Collection[int] = ()
) -> set[int]:
    """Returns the tensors whose shapes the host cannot state, since they depend on values of
    tensors, or on such shapes. `open_` are tensors with extents that are dynamic in the model."""
    found = set[int]()
    for node in nodes:
        if _is_decided(node, tensors, open_) or found.intersection(node.inputs):
            found.update(node.outputs)
    # Results of known custom operators count as stated: their shapes are in the model file. Hosts
    # infer them anew, and disagree about dependent shapes where the two differ.
    known = (node for node in nodes if node.code == codes.CUSTOM and node.host_op in ops.HOST_OPS)
    return found - {t for node in known for t in node.outputs if tensors[t].shape != ()}


def _is_decided(
    node: RawNode, tensors: Mapping[int, Tensor | Value], open_: Collection[int]
) -> bool:
    """Whether the output shapes of the node depend on the value of a tensor that is not
    constant."""
    name = node.host_op.split(" ")[0]
    if name in ops.OPAQUE or name.startswith("op") or name == loops.LOOP:
        return True
    if name == ops.COMPOSITE:
        return any(t in open_ for t in node.outputs)
    if name.startswith("STABLEHLO") and name not in ops.HOST_OPS:
        return True
    return any(tensors[t].data is None for t in _deciding(node))


def _deciding(node: RawNode) -> list[int]:
    """Returns the inputs of the node whose values decide the shapes of its results."""
    row = ops.HOST_OPS.get(node.host_op) or ops.CPU_OPS.get(node.host_op)
    return row.deciders(node.inputs) if row else []
