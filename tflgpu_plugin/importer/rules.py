"""An ordered list of rules over a graph that keep nodes off the GPU because of other nodes.

A rule takes a graph and the refusals of its nodes so far, by id, and returns refusals of further
nodes. Its docstring is on the page of operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tflgpu_plugin import ops
from tflgpu_plugin.ir import FOLDED, Graph, Node, Refusal
from tflgpu_plugin.passes.quant.dequantize import folded

Refusals = Mapping[int, Refusal]
Rule = Callable[[Graph, Refusals], dict[int, Refusal]]

UNORDERED = Refusal(
    "state.order",
    "This host does not keep the order in which variables are read and assigned when some nodes "
    "run elsewhere.",
)
SHARED_STATE = Refusal(
    "state.unsupported", "Its state is read in other places too, which is not supported."
)
UNWRITTEN = Refusal(
    "constant.on_cpu",
    "It reads {!r}, which {} computes on the CPU from constants alone: the host may keep that "
    "tensor as a weight of its own and never write it.",
)
# Hosts encode pooling indices differently: XNNPACK stores the bits of an integer in a float tensor,
# MediaPipe's own kernel a float with a fraction.
INDICES = 1  # position of the indices in a pooling's outputs and an unpooling's inputs
READ = Refusal(
    "indices.unpaired",
    "Its indices are read by nodes that are not unpoolings; hosts number them differently.",
)
FOREIGN = Refusal(
    "indices.unpaired",
    "Its indices must be those of a pooling on the GPU; hosts number them differently.",
)
INCOMPLETE = Refusal("group.incomplete", "Another node of its quantized group stays on the CPU.")
COPIED = Refusal(
    "constant.on_cpu",
    "A node on the CPU reads this value, which is known before a run; nodes on the GPU use their "
    "own copy.",
)


def ordered_variables(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """Nothing of a model with variables runs here where the host might move a node that reads one
    past a node that assigns it."""
    if graph.ordered:
        return {}
    return {node.id: UNORDERED for node in graph.nodes if node.id not in refused}


def unshared_states(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """State that is read in more than one place stays with the host, which updates it in the middle
    of a run."""
    readers = Counter(tensor for node in graph.nodes for tensor in node.inputs)
    shared = {before for before, _ in graph.states if readers[before] > 1}
    return {
        node.id: SHARED_STATE
        for node in graph.nodes
        if node.id not in refused and not shared.isdisjoint(node.inputs)
    }


def whole_host_nodes(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """A node of the host that became several nodes runs here with all of them or not at all."""
    sources = {s: refused[node.id] for node in graph.nodes if node.id in refused
               for s in node.sources}  # fmt: skip
    found = {}
    for node in graph.nodes:
        reason = next((sources[source] for source in node.sources if source in sources), None)
        if reason is not None and node.id not in refused:
            found[node.id] = reason
    return found


def written_constants(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """A node whose input is computed on the CPU from constants alone stays on the CPU: XNNPACK may
    keep that tensor as a weight of its own and leave the tensor itself unwritten."""
    chained = {t for t in graph.chained if t in graph.tensors and graph.constant(t) is None}
    made = {t: n for n in graph.nodes if n.id in refused for t in n.outputs if t in chained}
    found = {}
    for node in graph.nodes:
        index = next((t for t in node.reads if t in made), None)
        if index is None or node.id in refused:
            continue
        found[node.id] = UNWRITTEN.reworded(
            UNWRITTEN.format(graph.tensors[index].name, made[index].host_op)
        )
        made |= {t: node for t in node.outputs if t in chained}
    return found


def paired_pooling_indices(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """A pooling that returns indices and the unpoolings that read them run here together, and
    nothing else reads the indices, since hosts number them differently."""
    pools = [node for node in graph.nodes if ops.traits(node.op).numbers_places == "makes"]
    unpools = [node for node in graph.nodes if ops.traits(node.op).numbers_places == "takes"]
    found: dict[int, Refusal] = {}
    consumers = graph.consumers()
    visible = graph.outputs if graph.fused else ()
    kept = set()
    for pool in pools:
        indices = pool.outputs[INDICES]
        readers = consumers.get(indices, [])
        if indices in visible or not all(_only_unpools(node, indices) for node in readers):
            found[pool.id] = READ
            continue
        kept.add(indices)
        group = (pool, *readers)
        if reason := next((refused[node.id] for node in group if node.id in refused), None):
            found |= {node.id: reason for node in group}
    for node in unpools:
        if node.inputs[INDICES] not in kept:
            found[node.id] = FOREIGN
    return {node: reason for node, reason in found.items() if node not in refused}


def _only_unpools(node: Node, indices: int) -> bool:
    """Whether the node is an unpooling that reads this tensor only as its indices."""
    reads = [k for k, tensor in enumerate(node.inputs) if tensor == indices]
    return ops.traits(node.op).numbers_places == "takes" and reads == [INDICES]


@dataclass
class _HostNode:
    """A node of the host, which may have become several nodes; `bounds` is as in `HostOp`."""

    bounds: str
    nodes: list[int] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)


def whole_groups(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """An operator of ONNX between DequantizeLinear and QuantizeLinear runs here with all of these
    or not at all, since the CPU runs such a group as one."""
    if not any(node.row and node.row.bounds == "opens" for node in graph.nodes):
        return {}
    away = set(refused)
    bound = _bound(graph, _hosts(graph))

    def here(host: _HostNode) -> bool:
        return away.isdisjoint(host.nodes)

    while more := {n for one, other in bound if here(one) and not here(other) for n in one.nodes}:
        away |= more
    return dict.fromkeys(away - set(refused), INCOMPLETE)


def _bound(graph: Graph, hosts: Sequence[_HostNode]) -> list[tuple[_HostNode, _HostNode]]:
    """Returns pairs of host nodes. The first node of a pair may run here only if the second
    does."""
    opened = {t for host in hosts if host.bounds == "opens" for t in host.writes}
    writers = {t: host for host in hosts for t in host.writes}
    found = []
    for maker, reader in ((writers[t], h) for h in hosts for t in h.reads if t in writers):
        if maker.bounds == "opens":
            found += [(maker, reader)] if maker.writes.isdisjoint(graph.outputs) else []
            found += [] if reader.bounds else [(reader, maker)]
        if reader.bounds == "closes" and not opened.isdisjoint(maker.reads):
            found += [(reader, maker)] if maker.bounds else [(reader, maker), (maker, reader)]
    return found


def _hosts(graph: Graph) -> list[_HostNode]:
    found: dict[int, _HostNode] = {}
    for node in graph.nodes:
        bounds = node.row.bounds if node.row else ""
        host = found.setdefault((*node.sources, node.id)[0], _HostNode(bounds))
        host.nodes.append(node.id)
        host.reads.update(set(node.reads) - host.writes)
        host.writes.update(node.outputs)
    return list(found.values())


def copied_constants(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """A constant that was folded here is also made on the CPU where a node on the CPU or the
    model's user reads it."""
    found: dict[int, Refusal] = {}
    needed = {t for node in graph.nodes if node.id in refused for t in node.reads}
    for node in reversed(graph.nodes):
        if node.id in refused or not folded(graph, node):
            continue
        of_model = node.op == FOLDED and set(graph.outputs).intersection(node.outputs)
        if of_model or needed.intersection(node.outputs):
            found[node.id] = COPIED
            needed.update(node.reads)
    return found


RULES: tuple[Rule, ...] = (
    ordered_variables,
    unshared_states,
    whole_host_nodes,
    written_constants,
    paired_pooling_indices,
    whole_groups,
    copied_constants,
)


def closed(graph: Graph, refused: Refusals) -> dict[int, Refusal]:
    """Returns the refusals together with those that follow from them: the rules are applied
    repeatedly until none refuses a further node."""
    found = dict(refused)
    while True:
        before = len(found)
        for rule in RULES:
            for node, reason in rule(graph, found).items():
                found.setdefault(node, reason)
        if len(found) == before:
            return found
