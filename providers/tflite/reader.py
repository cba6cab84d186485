"""From a TFLite host's context to a Graph. Knows the host's structs (through cffi) and its
operator table, no kernels.

Works only while the host is in the delegate's prepare: that is when it hands out nodes and
partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin.providers import HostError

from tflgpu_plugin import ops as internal
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import support
from tflgpu_plugin.importer.reading import Reading, assembled
from tflgpu_plugin.ir.graph import STORE, Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.host_op import HostOp
from tflgpu_plugin.ir.refusal import Refusal

from . import conditions, loops, ops, shapes
from .host_node import HIDDEN, HostNode, execution_plan, hidden, raw_node, read_node
from .tensors import listed, read_tensors

VARIABLES = {
    name: Refusal("operator.host_only", reason)
    for name, reason in {
        "CALL_ONCE": "It lets the host run a part of the model once, before the rest.",
        "VAR_HANDLE": "It names a variable of the model, which the host keeps.",
        "READ_VARIABLE": "It copies a variable of the model, which the host keeps.",
        "ASSIGN_VARIABLE": "It sets a variable of the model, which the host keeps.",
    }.items()
}


@dataclass(frozen=True)
class HostGraph(Reading):
    """With the operator code of each node (for messages), and the graphs that need not run where a
    node of ours does what they would."""

    codes: Mapping[int, int] = field(default_factory=dict)
    replaced: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def read(ffi: Any, context: Any, shapes_of: Mapping[int, Shape] | None = None) -> HostGraph:
    """The whole execution plan of `context` (tgl_context *). Raises HostError when the host
    answers with an error.

    With `shapes_of` inputs of the graph as if they had these shapes: what the host tells of others
    after them is not gone by.

    Constants are views on the host's memory. What follows from them and from shapes, as far as it
    can be worked out, are constants that constant-folded nodes write. Tensors whose shape is only
    known at run time get extents of -1."""
    plan = execution_plan(ffi, context)
    written = _written(ffi, context, plan)
    _check_order(ffi, context, plan)
    read = read_tensors(ffi, context, written)
    given = read.tensors
    for index, shape in (shapes_of or {}).items():
        given[index] = replace(given[index], shape=shape)
    loose = {t for t in given if _open_axes(context.tensors[t])}
    walk = shapes.Walk(given, read.sparse, shapes_of or (), read.constants, loose)
    outputs, fused = _outputs(ffi, context, plan)

    def wanted() -> set[int]:  # where the host does not fuse nodes, users read every tensor
        return _read_by(ffi, context, plan) | set(outputs) if fused else written

    bodies = loops.Bodies(context, walk, wanted, _node)
    hosts, nodes = list[HostNode](), list[Node]()
    for index in plan:
        hosts.append(bodies.resolved(read_node(ffi, context, index, read)))
        nodes.append(walk.annotate(hosts[-1], _node(hosts[-1], given)))
    tensors = dict(walk.view)
    nodes = [_visible(node) if node.refusal is not None else node for node in nodes]
    states = tuple(pair for node in nodes for pair in state_pairs(node))
    for before, after in states:
        if after not in tensors:  # a result that the host has no tensor for
            tensors[after] = replace(tensors[before], variable=False)
    ordered = all(host.has_side_effect for host in hosts if host.host_op in VARIABLES)
    told = {"states": states, "chained": tuple(sorted(walk.chained))}
    graph = assembled(nodes, tensors, outputs, fused=fused, ordered=ordered, **told)
    axes = {t: _open_axes(context.tensors[t]) for t in graph.inputs}
    return HostGraph(
        graph,
        walk.unfit,
        {t: some for t, some in axes.items() if some},
        codes={host.id: host.code for host in hosts},
        replaced={host.id: host.graphs for host in hosts if host.graphs},
    )


def _open_axes(raw: Any) -> tuple[int, ...]:
    """Those that the model leaves open; it may not say."""
    signature = listed(raw.dims_signature)
    if len(signature) != len(listed(raw.dims)):
        return ()
    return tuple(axis for axis, extent in enumerate(signature) if extent < 0)


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


def _written(ffi: Any, context: Any, plan: Sequence[int]) -> set[int]:
    return {t for index in plan for t in listed(raw_node(ffi, context, index)[0].outputs)}


def _read_by(ffi: Any, context: Any, plan: Sequence[int]) -> set[int]:
    return {t for index in plan for t in listed(raw_node(ffi, context, index)[0].inputs)}


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


def _node(host: HostNode, tensors: dict[int, Tensor]) -> Node:
    """A node in the terms of the op contract, or one with a refusal."""
    row = ops.row_of(host)
    name = tensors[host.outputs[0]].name if host.outputs else f"node {host.id}"
    node = Node(
        host.id, row.op if row else "", host.inputs, host.outputs, name=name,
        host_op=host.host_op, version=host.version,
    )  # fmt: skip
    if reason := VARIABLES.get(host.host_op):
        return replace(node, op=STORE, refusal=reason)
    reason = support.unmet(conditions.EVERY, host, row)
    if row is None or reason:
        return replace(node, refusal=reason)
    try:
        attributes = row.attributes(host) if row.attributes else {}
    except Unsupported as damaged:
        return replace(node, refusal=damaged.sentence)
    inputs = row.arranged(host.inputs)
    node = replace(node, inputs=inputs, attributes=attributes, row=row)
    refusal = support.by_row(Graph.over(tensors, node), node)
    if {"shape", "perm", "expand"} & set(attributes):  # read from input 1 where that has them
        inputs = inputs[:1]
    for tensor, role in zip(host.outputs, row.outputs or (), strict=False):
        if role == "index" and tensors[tensor].dtype == "f32":
            tensors[tensor] = replace(tensors[tensor], wide=True)
    hidden = () if refusal else _hidden_outputs(host.id, row)
    return replace(node, inputs=inputs, outputs=(*host.outputs, *hidden), refusal=refusal)


def state_pairs(node: Node) -> tuple[tuple[int, int], ...]:
    """Pairs (variable, the output whose value it takes after a run); none for a refused node."""
    row = internal.rows().get(node.op)
    if row is None or node.refusal is not None:
        return ()
    pairs = [(node.inputs[before], node.outputs[after]) for before, after in row.states]
    return tuple((before, after) for before, after in pairs if before is not None)


def _hidden_outputs(node: int, row: HostOp) -> tuple[int, ...]:
    """Ids for results that only state takes, which the host has no tensors for."""
    count = sum(after < 0 for _, after in internal.rows()[row.op].states)
    return tuple(hidden(node, k) for k in range(count))


def _visible(node: Node) -> Node:
    """The node with those results only that the host knows of."""
    return replace(node, outputs=tuple(t for t in node.outputs if t < HIDDEN))
