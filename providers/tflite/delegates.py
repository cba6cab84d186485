"""The state of this frontend: delegates, the claims of each host graph, and kernels in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.ir import Array, Refusal, Shape
from tflgpu_plugin.providers import GraphRecord, Partition, Report, Subgraph, native

GRAPHS = 64  # records of other graphs that a delegate keeps for its report


@dataclass(frozen=True)
class Manner:
    """Which `nodes` of the host a kernel replaces, and how it handles values: outputs in `stays`
    remain on the device until the host asks for them, `callers` are nodes that run other graphs of
    the model, and `keeps_states` says that the variables remain on the device between runs. Inputs
    and outputs of the graph in `lent` are used by no other node than the plugin's, so that they may
    be in a buffer of the device that the program hands over."""

    nodes: tuple[int, ...]
    stays: AbstractSet[str]
    callers: tuple[int, ...]
    keeps_states: bool
    lent: AbstractSet[str]


@dataclass(repr=False)
class Placed(providers.PlacedPartition):
    """A partition that the host runs. `handle` is its native kernel, with a plan for each set of
    shapes, which holds device memory. When the host has freed the kernel, `partition` is released,
    while `kept`, the part of the host's graph, remains."""

    closed = Refusal("host.withdrawn", "This part of the model is closed; make a new interpreter.")

    kept: Subgraph
    manner: Manner

    def __post_init__(self) -> None:
        super().__post_init__()
        self.nodes = self.manner.nodes

    def reshaped(self, partition: Partition, given: tuple[Shape, ...]) -> providers.Again:
        return self.kept.reshaped(given, partition.judge)

    @property
    def declared(self) -> Sequence[tuple[providers.HostExtent, ...] | None]:
        return self.kept.declared

    @property
    def run_values(self) -> Mapping[str, Array]:
        return self.kept.run_values

    @property
    def described(self) -> object:
        kept, model = self.kept, self.kept.model
        nodes = model.nodes, model.values, model.outputs, model.numbered, model.fused, model.ordered
        ports = kept.ports, kept.others, kept.outputs, kept.states
        return nodes, *ports, sorted(kept.arithmetic), tuple(kept.run_values)

    def start(self, partition: Partition) -> None:
        """Passes the partition's first plan to the native kernel."""
        instance = partition.instance
        self.add(self.handle, self.kept.key, instance.output_shapes, instance)


@dataclass
class Prepared(GraphRecord[Placed]):
    """The state of one host graph after prepare. `replaced` are the contexts of graphs that the
    host no longer runs, since kernels of this plugin replace the nodes that call them."""

    context: int = 0
    replaced: set[int] = field(default_factory=set)

    def same_nodes(self, other: Prepared) -> bool:
        """Whether both records have the same nodes of the host, wherever these run."""
        mine, theirs = ([(n.id, n.op, n.name) for n in p.nodes] for p in (self, other))
        return mine == theirs

    def joined(self, later: Prepared) -> Prepared:
        """Merges this record with the `later` one of the same graph, whose entry is kept for a node
        that is in both."""
        nodes = {node.id: node for node in (*self.nodes, *later.nodes)}
        return Prepared(list(nodes.values()), [*self.placed, *later.placed], self.context,
                        self.replaced | later.replaced)  # fmt: skip

    @property
    def dead(self) -> bool:
        """Whether partitions were claimed, and the host has freed all of them."""
        return bool(self.placed) and all(placed.dead for placed in self.placed)


@dataclass
class Delegate(providers.Client[Prepared]):
    """The delegate that one call of `load_delegate` made; it may serve several interpreters and
    subgraphs."""

    gone = Refusal(
        "host.withdrawn",
        "The host has taken this node out of the delegate again, or has been closed.",
    )

    pointer: Any = None  # the host's, known from the first prepare on

    def earlier(self, context: int) -> Prepared | None:
        """Returns the newest record of the host graph of this context."""
        return next((p for p in self.graphs if p.context == context), None)

    def replaces(self, context: int) -> bool:
        """Whether the graph of this context need not run: kernels in another one do its work."""
        return any(context in known.replaced and not known.dead for known in self.graphs)

    def replace(self, prepared: Prepared) -> None:
        """Adds the record of a host graph. It replaces an earlier record of the same graph, or is
        joined to it if that still has kernels: then the graph was given this delegate twice.
        Records of closed graphs are dropped."""
        with self.lock:  # interpreters of several threads may share a delegate
            earlier = self.earlier(prepared.context)
            if earlier is not None and earlier.placed and not earlier.dead:
                prepared = earlier.joined(prepared)
            others = [p for p in self.graphs if p.context != prepared.context and not p.dead]
            self.graphs = [*others[-GRAPHS:], prepared]
        kept.keep(prepared.placed)


kept: providers.Records[Delegate, Placed] = providers.Records()


def delegate(number: int) -> Delegate:
    """Returns the delegate of this number, and marks it as this thread's newest."""
    found = kept.clients.get(number)
    if found is None:
        raise providers.BuildError.of((), "host.withdrawn", "This delegate is closed.")
    providers.remember(found.report)
    return found


def report(target: Any) -> Report | None:
    """Returns the report of a host's Delegate object, or None when it is not this plugin's."""
    get_pointer = getattr(target, "_get_native_delegate_pointer", None)
    if get_pointer is None:
        return None
    pointer = get_pointer()
    address = getattr(pointer, "value", pointer)
    number = native.lib.tg_tflite_delegate_number(native.ffi.cast("void *", address or 0))
    return kept.report(number)
