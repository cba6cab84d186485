"""A TFLite host's graph as plain data. Knows the host's structs (through cffi), no kernels.

Works only while the host is in the delegate's prepare: that is when it hands out nodes and
partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin.ir import Refusal, Shape
from tflgpu_plugin.providers import Extent, HostError, HostModel, HostNode, Unsupported, Value

from . import codes, conditions, loops, model_file, ops
from .host_node import RawNode, execution_plan, raw_node, read_node
from .tensors import Tensors, listed, read_tensors

HIDDEN = Refusal("host.interface", "This host does not show what a loop runs.")


@dataclass(frozen=True)
class Snapshot(HostModel):
    """A graph of a TFLite host; values have the host's numbers. `codes` are the operator codes of
    its nodes, and `graphs` the addresses of the graphs that nodes run. `open` are axes that the
    model leaves open, and `present` has the numbers of their extents now."""

    codes: Mapping[int, int] = field(default_factory=dict)
    graphs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    open: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)


def take(ffi: Any, context: Any) -> Snapshot:
    """The whole execution plan of `context` (tgl_context *). Raises HostError when the host
    answers with an error.

    Constants are views on the host's memory. Where values decide a shape, nothing is stated of it,
    nor of those that follow from it."""
    plan = execution_plan(ffi, context)
    _check_order(ffi, context, plan)
    written = {t for index in plan for t in listed(raw_node(ffi, context, index)[0].outputs)}
    read = read_tensors(ffi, context, written)
    raw = [read_node(ffi, context, index, read) for index in plan]
    outputs, fused = _outputs(ffi, context, plan)
    wanted = {t for node in raw for t in node.inputs} | {*outputs} if fused else written
    unknown = decided(raw, read)
    values = {str(t): _value(t, read, _stated(t, read, unknown)) for t in read.tensors}
    bodies = {node.id: _bodies(context, node) for node in raw if node.host_op == loops.LOOP}
    nodes = [_node(node, read, wanted, bodies.get(node.id)) for node in raw]
    ordered = all(node.has_side_effect for node in raw if node.host_op in ops.VARIABLES)
    return Snapshot(
        tuple(nodes), values, tuple(map(str, outputs)), numbered=True, fused=fused, ordered=ordered,
        codes={node.id: node.code for node in raw},
        graphs={number: found.graphs for number, found in bodies.items() if found.graphs},
        open=read.open, present=_present(read),
    )  # fmt: skip


def present_shapes(context: Any, tensors: Iterable[int]) -> list[Shape]:
    """The host's present shapes of these tensors."""
    return [listed(context.tensors[t].dims) for t in tensors]


def had(context: Any, delegate: Any) -> bool:
    """This delegate has been in this graph before: hosts leave its mark on tensors when they undo
    delegation, and new graphs have none.
    """
    tensors = (context.tensors[k] for k in range(context.tensor_count))
    return any(tensor.delegate == delegate for tensor in tensors)


def partitions(ffi: Any, context: Any, nodes: Sequence[int]) -> list[tuple[Shape, Shape]]:
    """How the host would group these nodes: the nodes of each group, and its outputs."""
    found, count = ffi.new("tgl_partition **"), ffi.new("int32_t *")
    wanted = ffi.new("tgl_ints *", {"data": sorted(nodes)})
    wanted.size = len(nodes)
    preview = context.preview_partitions
    if not preview or preview(context, wanted, found, count):
        raise HostError("The host did not tell how it would group its nodes.")
    return [(listed(each.nodes), listed(each.outputs)) for each in found[0][0 : count[0]]]


def _check_order(ffi: Any, context: Any, plan: Sequence[int]) -> None:
    """Raises HostError when a node reads what it writes itself or a later one does. CPU kernels run
    such a model, but a host that is asked to group its nodes runs into the void.
    """
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
    """The outputs of the host's graph, and whether it fuses nodes. A context does not list the
    outputs, but a preview of taking every node does; a host that does not fuse previews them one
    by one, with all that others read.
    """
    found = partitions(ffi, context, plan)
    outputs = dict.fromkeys(t for _, made in found for t in made)
    return list(outputs), len(found) == 1 or len(plan) < 2


# ---- nodes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bodies:
    """The graphs that a node runs, their addresses, and why they are not to be had."""

    models: tuple[HostModel, ...] = ()
    graphs: tuple[int, ...] = ()
    refusal: Refusal | None = None


def _node(
    raw: RawNode, read: Tensors, wanted: Collection[int | None], bodies: _Bodies | None = None
) -> HostNode:
    """A node of the host as plain data; of a loop those results that something reads."""
    bodies = bodies or _Bodies()
    attributes: Mapping[str, Any] = {}
    refusal = bodies.refusal
    try:
        attributes = _attributes(raw)
    except Unsupported as damaged:
        refusal = damaged.sentence
    name = read.tensors[raw.outputs[0]].name if raw.outputs else f"node {raw.id}"
    kept = wanted if raw.host_op == loops.LOOP else raw.outputs
    return HostNode(
        raw.id, raw.host_op, "", raw.version, name,
        tuple(None if t is None else str(t) for t in raw.inputs),
        tuple(str(t) if t in kept else None for t in raw.outputs),
        attributes=attributes, refusal=refusal, bodies=bodies.models,
    )  # fmt: skip


def _attributes(raw: RawNode) -> Mapping[str, Any]:
    """The node's parameters; none where it lacks tensors. Raises Unsupported."""
    row = ops.HOST_OPS.get(raw.host_op)
    form = row and row.form(len(raw.inputs))
    if form is None or form.parameters is None:
        return {}
    if form.lacking(raw.inputs) or conditions.unlisted(form, len(raw.outputs)):
        return {}
    return form.parameters(raw)


def _bodies(context: Any, raw: RawNode) -> _Bodies:
    if context.acquire_subgraph == raw.ffi.NULL:
        return _Bodies(refusal=HIDDEN)
    try:
        named = raw.params("int32_t")
        found = [_body(context, raw, int(named[k])) for k in range(loops.BODIES[loops.LOOP])]
    except Unsupported as reason:
        return _Bodies(refusal=reason.sentence)
    except HostError as error:
        return _Bodies(refusal=Refusal("loop.unsupported", str(error)))
    return _Bodies(tuple(model for model, _ in found), tuple(address for _, address in found))


def _body(context: Any, raw: RawNode, number: int) -> tuple[HostModel, int]:
    """A graph of the model, and its address. Raises Unsupported."""
    ffi = raw.ffi
    with loops.opened(ffi, context, number) as graph:
        inputs, outputs = model_file.order(ffi, (graph, context), number)
        plan = execution_plan(ffi, graph)
        nodes = [raw_node(ffi, graph, index)[0] for index in plan]
        read = read_tensors(ffi, graph, {t for node in nodes for t in listed(node.outputs)})
        if not read.tensors.keys() >= {*inputs, *outputs}:
            raise Unsupported(model_file.DAMAGED)
        values = {str(t): _value(t, read, read.tensors[t].shape) for t in read.tensors}
        hosts = [read_node(ffi, graph, index, read) for index in plan]
        body = HostModel(
            tuple(_node(one, read, one.outputs) for one in hosts), values,
            tuple(map(str, outputs)), given=tuple(map(str, inputs)), numbered=True,
        )  # fmt: skip
        return body, int(ffi.cast("uintptr_t", graph))


# ---- values --------------------------------------------------------------------------------------


def _value(index: int, read: Tensors, shape: tuple[Extent, ...] | None) -> Value:
    tensor = read.tensors[index]
    return Value(
        tensor.name, tensor.dtype, shape, tensor.data, quantization=tensor.quantization,
        variable=tensor.variable, constant=index in read.constants,
        damage=read.unreadable.get(index, ""), dense=read.sparse.get(index),
    )  # fmt: skip


def _stated(index: int, read: Tensors, unknown: Collection[int]) -> tuple[Extent, ...] | None:
    """The shape that the host states of a tensor, with names where the model leaves extents
    open."""
    tensor = read.tensors[index]
    if tensor.data is not None:
        return tensor.shape
    if index in unknown:
        return None
    axes = range(len(tensor.shape))
    return tuple(_symbol(index, axis) for axis in axes) if index in read.open else tensor.shape


def _symbol(index: int, axis: int) -> str:
    """The name of an extent of a tensor that the model leaves open."""
    return f"{index}\0{axis}"


def _present(read: Tensors) -> dict[str, int]:
    """The present numbers of the extents of tensors that have open ones."""
    return {
        _symbol(t, axis): extent
        for t in read.open
        for axis, extent in enumerate(read.tensors[t].shape)
    }


def decided(nodes: Sequence[RawNode], read: Tensors) -> set[int]:
    """Tensors whose shapes the host cannot state: values decide them, or such shapes do."""
    found = set[int]()
    for node in nodes:
        if _is_decided(node, read) or found.intersection(node.inputs):
            found.update(node.outputs)
    return found - _in_the_file(nodes, read)


def _in_the_file(nodes: Sequence[RawNode], read: Tensors) -> set[int]:
    """Results of custom operators whose shapes the model file states: hosts work them out, and do
    not agree on what follows where these differ."""
    known = (node for node in nodes if node.code == codes.CUSTOM and node.host_op in ops.HOST_OPS)
    return {t for node in known for t in node.outputs if read.tensors[t].shape != ()}


def _is_decided(node: RawNode, read: Tensors) -> bool:
    """By the value of something that is no constant of the model."""
    name = node.host_op.split(" ")[0]
    if name in ops.OPAQUE or name.startswith("op") or name == loops.LOOP:
        return True
    if name == ops.COMPOSITE:
        return any(t in read.open for t in node.outputs)
    if name.startswith("STABLEHLO") and name not in ops.HOST_OPS:
        return True
    row = ops.HOST_OPS.get(node.host_op) or ops.CPU_OPS.get(node.host_op)
    given = [node.inputs[k] for k in (row.deciding if row else ()) if k < len(node.inputs)]
    return any(read.tensors[t].data is None for t in given if t is not None)
