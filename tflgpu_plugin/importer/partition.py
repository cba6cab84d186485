"""Groups the supported nodes of a graph into convex partitions, and decides which partitions cost
more time than they save.

A partition is convex when no path leaves it and comes back, so that it can run as one step. Whether
a partition pays is estimated for a nominal GPU and CPU, not for this adapter: from the bytes of its
inputs and outputs and its multiply-adds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import FOLDED, STORE, Graph, Node, Refusal, Tensor, counts

# Multiply-adds per second, elements that other ops write per second, bytes per second and overhead
# of the nominal devices: a mid-range integrated GPU and two CPU cores (2024).
GPU_WORK_PER_SECOND = 5e11
CPU_WORK_PER_SECOND = 2e10
CPU_ELEMENTS_PER_SECOND = 1e9
GPU_ELEMENTS_PER_SECOND = 2e10
IO_BYTES_PER_SECOND = 5e9
SECONDS_PER_RUN = 2e-4
GROWTH = 256  # a run may do up to this many times the work that the guessed extents stand for


def groups(
    graph: Graph, supported: Collection[int], keeping: Collection[int] = ()
) -> list[list[int]]:
    """Returns node ids in convex groups, each in execution order.

    Alternates between the two devices, as a host would schedule them: all supported nodes that are
    ready form a partition, then all others that are ready run, and so on. The others begin if that
    makes fewer partitions. Where only a run determines the number of elements of a tensor, nodes
    that read it are in a later partition, since counts are known when a partition has run; but not
    those that preserve the count (`keeping`, see `importer.counts`)."""
    begun = (_alternating(graph, supported, keeping, first) for first in (True, False))
    return min(begun, key=len)


def _alternating(
    graph: Graph, supported: Collection[int], keeping: Collection[int], inside: bool
) -> list[list[int]]:
    """Returns the groups as above. `inside`: a partition comes first."""
    producer = graph.producers()
    waiting = list(graph.nodes)
    done: set[int] = set()
    groups: list[list[int]] = []
    idle = 0
    while waiting:
        group, rest = list[int](), list[Node]()
        for node in waiting:
            needs = {producer[t].id for t in node.reads if t in producer}
            later = inside and node.id not in keeping
            ready = needs <= done and not (later and _counts_first(graph, node, producer, group))
            if (node.id in supported) == inside and ready:
                group.append(node.id)
                done.add(node.id)
            else:
                rest.append(node)
        idle = 0 if group else idle + 1
        if idle > 1:  # neither side has a node that is ready
            raise ValueError(f"Node {rest[0].id} can never run: the graph has a cycle.")
        if inside and group:
            groups.append(group)
        waiting, inside = rest, not inside
    return groups


def _counts_first(
    graph: Graph, node: Node, producer: Mapping[int, Node], group: Collection[int]
) -> bool:
    """Whether the node reads a tensor whose size the group determines in a run."""
    held = (graph.tensors[t].counted for t in node.reads if t in producer)
    counting = (producer.get(each[1]) for each in held if each is not None)
    return any(maker is not None and maker.id in group for maker in counting)


def extract(graph: Graph, ids: Collection[int]) -> Graph:
    """Returns the nodes `ids` as a separate graph. Inputs and outputs are sorted by tensor id;
    outputs that are element counts come last. Constant-folded nodes are replaced by their
    results."""
    chosen = tuple(node for node in graph.nodes if node.id in ids and node.op != FOLDED)
    made = {t for node in chosen for t in node.outputs}
    states = tuple(pair for pair in graph.states if pair[1] in made)
    kept = {before for before, _ in states}
    read = {t for node in chosen for t in node.reads}
    # A tensor that is written and is also a constant has a copy in each partition that reads it.
    others = (t for node in graph.nodes if node.id not in ids for t in node.reads)
    elsewhere = {t for t in others if graph.tensors[t].data is None} | set(graph.outputs)
    elsewhere -= {t.counted[1] for t in graph.tensors.values() if t.counted is not None}
    used = read | made | kept
    tensors = _uncounted(
        {t: tensor for t, tensor in graph.tensors.items() if t in used}, graph, made
    )
    inputs = sorted(t for t in read - made - kept if tensors[t].data is None)
    outputs = sorted(t for t in made if t in elsewhere)
    return replace(
        graph,
        tensors=tensors,
        nodes=chosen,
        inputs=tuple(inputs),
        outputs=(*outputs, *counts(tensors, outputs)),
        states=states,
        chained=(),
    )


def _uncounted(
    tensors: Mapping[int, Tensor], graph: Graph, made: Collection[int]
) -> dict[int, Tensor]:
    """Returns the tensors of a partition that writes those in `made`. What another one counts has a
    shape there that the run knows; before, the count is its bound."""
    pairs = ((t.counted[1], t.shape[t.counted[0]]) for t in graph.tensors.values() if t.counted)
    bounds = {count: bound for count, bound in pairs if count not in made}
    found = {}
    for number, tensor in tensors.items():
        if tensor.counted is not None and tensor.counted[1] in bounds:
            tensor = replace(tensor, counted=None)
        if number in bounds:
            tensor = replace(tensor, data=np.full(tensor.shape, bounds[number], np.int32))
        found[number] = tensor
    return found


@dataclass(frozen=True)
class Around:
    """The surroundings of a partition. `taken` are the nodes of all partitions.
    A loop runs the graph once per step (`repeated`), or the graph is the body of a control-flow
    node (`nested`). `guessed`: extents are guesses, so that launches are compared with the work of
    a run with much larger extents (`GROWTH`). The partition needs this many `launches`."""

    taken: Collection[int] = ()
    repeated: bool = False
    nested: bool = False
    guessed: bool = False
    launches: int = 1


@dataclass(frozen=True)
class Effort:
    """The work of one run: `products` are multiply-adds of ops that have such, and `elements` the
    elements that all others write."""

    products: int = 0
    elements: int = 0

    @property
    def on_cpu(self) -> float:
        """Returns the seconds that it takes on the nominal CPU."""
        return self.products / CPU_WORK_PER_SECOND + self.elements / CPU_ELEMENTS_PER_SECOND

    @property
    def on_gpu(self) -> float:
        """Returns the seconds that it takes on the nominal GPU, without launches."""
        return self.products / GPU_WORK_PER_SECOND + self.elements / GPU_ELEMENTS_PER_SECOND

    def plus(self, other: Effort, times: int) -> Effort:
        """Returns this work and that of an `other`, which is done several times."""
        return Effort(
            self.products + times * other.products, self.elements + times * other.elements
        )

    def __str__(self) -> str:
        return f"{self.products:,} multiply-adds and {self.elements:,} other results"


def effort(graph: Graph) -> Effort:
    """Returns the work of all nodes."""
    table = ops.rows()
    products = elements = 0
    for node in graph.nodes:
        op = table[node.op]
        if op.work:
            products += op.work(graph, node)
        else:
            elements += sum(prod(graph.shape(t)) for t in node.outputs)
    return Effort(products, elements)


def work(graph: Graph) -> int:
    """Returns the number of multiply-adds of one run (elementwise ops count one per output
    element)."""
    done = effort(graph)
    return done.products + done.elements


def loss(whole: Graph, part: Graph, around: Around = Around()) -> Refusal | None:
    """Returns why the partition `part` of the graph `whole` should stay on the CPU, or None.

    A partition can be dropped if it lies between nodes on the CPU, which compute its inputs and
    read its outputs; if it only reshapes and has such a node on one side; if it belongs to a graph
    that a loop runs once per step, since the CPU runs before each step; or if it is in another body
    of a control-flow node, which can only run on the GPU as a whole if nothing in it does by
    itself. In a body launches do not count, since a branch is often a whole network, unless extents
    are guesses (see `Around`). A tensor that is read from or written to the host's store counts as
    an input or output of the graph. Tensors between partitions stay on the GPU; they would have to
    be copied for a partition on the CPU."""
    own = {node.id for node in part.nodes}
    others = [node for node in whole.nodes if node.op != STORE and node.id not in own]
    fed, read = _shared(part, [node for node in others if node.id not in around.taken])
    read.difference_update(whole.outputs)
    if around.nested:  # by the CPU, through the node whose body it is
        fed, read = {*fed, *part.inputs}, {*read, *part.outputs}
    idle = all(ops.arranges(n) == "shape" for n in part.nodes) and (fed or read)
    if not (around.repeated or idle or (fed and read)):
        return None
    fed_here, read_here = _shared(part, [node for node in others if node.id in around.taken])
    between = sum(part.tensors[t].bytes for t in fed_here | read_here - read)
    io_bytes = sum(part.tensors[t].bytes for t in (*part.inputs, *part.outputs)) - between
    done = Effort() if idle else effort(part)
    launches = SECONDS_PER_RUN * around.launches
    if around.guessed and not idle:
        launches /= GROWTH
    elif around.nested and not around.repeated and not idle:
        launches = 0.0
    on_gpu = launches + io_bytes / IO_BYTES_PER_SECOND + done.on_gpu
    on_cpu = (0.0 if idle else between / IO_BYTES_PER_SECOND) + done.on_cpu
    return None if on_cpu > on_gpu else _splitting(part, around, io_bytes, done)


def _shared(part: Graph, nodes: Sequence[Node]) -> tuple[set[int], set[int]]:
    """Returns the inputs of the partition that `nodes` write, and the outputs that they read."""
    made = {t for node in nodes for t in node.outputs}
    used = {t for node in nodes for t in node.reads}
    return made.intersection(part.inputs), used.intersection(part.outputs)


def _splitting(part: Graph, around: Around, io_bytes: int, done: Effort) -> Refusal:
    wrong = (
        "would be launched at every step of a loop"
        if around.repeated
        else "would only split the graph"
    )
    count = len(part.nodes)
    return Refusal(
        "partition.does_not_pay",
        f"This partition of {count} node{'s' if count > 1 else ''} {wrong}: with its present "
        f"shapes {io_bytes:,} bytes go in and out for {done}. The option force=1 runs it on the "
        "GPU anyway.",
    )
