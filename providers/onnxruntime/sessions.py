"""Keeps the state of this frontend: sessions, the partitions that each of their graphs has, and
reasons of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.ir import Array, Refusal, Shape
from tflgpu_plugin.providers import GraphRecord, HostNode, PerCaller, Report, TensorReport, native

from .context import Export, Interface
from .names import EP_NAME
from .reader import TABLE
from .snapshot import Snapshot


@dataclass(repr=False)
class Placed(providers.PlacedPartition):
    """A partition that replaces `nodes` of the host. If its shapes cannot change, `partition` is
    None."""

    nodes: tuple[int, ...]
    interface: Interface

    def release(self) -> None:
        """Releases the partition, and the nodes and constants for plans with other shapes."""
        super().release()
        self.interface = replace(self.interface, part=None)

    @property
    def declared(self) -> Sequence[tuple[providers.HostExtent, ...] | None]:
        part = self.interface.part
        assert part is not None
        return [part.values[name].shape for name in self.interface.inputs]

    @property
    def run_values(self) -> Mapping[str, Array]:
        rooms = {f"room {k}": room for k, room in enumerate(self.interface.rooms)}
        return {**self.interface.run_values, **rooms}

    @property
    def described(self) -> object:
        interface, part = self.interface, self.interface.part
        if part is None:
            return None
        nodes = part.nodes, part.values, part.outputs, part.opsets, part.numbered
        ports = interface.ports, interface.inputs, interface.outputs
        return nodes, ports, interface.arithmetic, tuple(interface.run_values), interface.grows

    def reshaped(self, partition: providers.Partition, given: tuple[Shape, ...]) -> providers.Again:
        """Returns the graph for these shapes of `interface.inputs` and numbers of its `run_values`,
        with ports in the order of the first plan. Raises ImpossibleShapes if the host would
        reject the shapes."""
        interface, part = self.interface, self.interface.part
        assert part is not None
        shapes = dict(zip(interface.inputs, given, strict=False))
        numbers = [*given[len(interface.inputs) :]]
        room = numbers.pop()[0] if any(interface.grows) else 0
        values = providers.given_values(part, interface.run_values, shapes, numbers)
        part.check_files()
        facts = providers.Facts(
            shapes, None, interface.arithmetic, values, partition.judge, room=room
        )
        return providers.again(part, TABLE, facts, interface.ports, interface.outputs)


@dataclass
class Level(GraphRecord[Placed]):
    """The model, or the body of a node that writes the values `around`."""

    around: tuple[str | None, ...] = ()


@dataclass
class Session(providers.Client[Level]):
    """An InferenceSession that names this provider; with `export`, it writes a compiled model.
    onnxruntime passes bodies of control flow before the graph that contains them, so the last level
    is the model itself, which is graph 0 of reports."""

    gone = Refusal("host.withdrawn", "The session has been closed.")
    last_is_first = True

    export: Export | None = None

    def unroll(self, level: Level, taken: Snapshot) -> None:
        """Forgets the graphs of bodies of nodes that are claimed in `level`, the graph `taken`:
        nothing runs them any more. None of them has a partition. Bodies of other nodes may write
        values of the same names."""
        claimed = {node.id for node in level.nodes if node.where == providers.GPU}
        gone = Counter(
            (inner.outputs, _contents(map(unclaimed, body.nodes)))
            for node in taken.nodes
            if node.id in claimed
            for inner in (node, *_inside(node))
            for body in inner.bodies
        )
        with self.lock:
            for one in self.graphs[::-1]:  # the host passes bodies just before what is around them
                key = one.around, _contents(one.nodes)
                if gone[key] and not one.placed:
                    gone[key] -= 1
                    self.graphs[:] = [other for other in self.graphs if other is not one]

    def report(self) -> Report:
        """Returns the report in its present state, including that of tensors on the GPU."""
        state = native.ffi.new("tg_tensor_state *")
        native.lib.tg_tensor_get_state(state)
        counted = {one.name: int(getattr(state, one.name)) for one in fields(TensorReport)}
        return replace(super().report(), tensors=TensorReport(**counted))


def unclaimed(node: HostNode) -> providers.NodeReport:
    """Returns the report of a node of the host before it is placed."""
    name = node.name or next(iter(node.writes), "")
    return providers.NodeReport(node.id, node.title, name, providers.CPU)


def _contents(nodes: Iterable[providers.NodeReport]) -> tuple[object, ...]:
    """Returns what tells the nodes of a graph from those of most others."""
    return tuple((node.id, node.op, node.name) for node in nodes)


def _inside(node: HostNode) -> Iterator[HostNode]:
    """Yields the nodes with bodies in the bodies of a node, at all depths."""
    for body in node.bodies:
        for inner in body.nodes:
            if inner.bodies:
                yield inner
                yield from _inside(inner)


kept: providers.Records[Session, Placed] = providers.Records()
_failure: PerCaller[str] = PerCaller()  # why the last session does not use the provider
FAILURE = "_tflgpu_failure"  # an attribute of the session for which the reason was given


def failed(text: str) -> None:
    """Records why the session that this thread creates cannot use the provider, "" if it can."""
    _failure.set(text)


def failure(session: Any) -> str:
    """Returns why `session`, created on this thread, does not use the provider that it named, "" if
    unknown. A recorded reason is given to the first session that asks for it, and kept on it."""
    if not hasattr(session, FAILURE):
        setattr(session, FAILURE, _failure.get() or "")
        _failure.set("")
    return str(getattr(session, FAILURE))


_ended: PerCaller[tuple[str, Report | None]] = PerCaller()  # of the last run that failed


def ended(number: int, text: str) -> None:
    """Records why a run of partition `number` failed on this thread, with the session's report."""
    owners = (session for session in kept.clients.values() for level in session.graphs
              if any(one.number == number for one in level.placed))  # fmt: skip
    found = next(owners, None)
    _ended.set((text, replace_nodes(found.report(), text) if found else None))


def replace_nodes(report: Report, reason: str) -> Report:
    """Returns `report` with all nodes on the GPU marked as reverted to the host for `reason`."""
    nodes = (
        replace(node, where=providers.REVERTED, reason=reason)
        if node.where == providers.GPU
        else node
        for node in report.nodes
    )
    return replace(report, nodes=tuple(nodes))


def given_up(target: Any) -> tuple[str, Report | None]:
    """Returns (reason, report) if onnxruntime has moved the session `target` to the CPU, which it
    does at most once, after a failed run; else ("", None)."""
    fallen = getattr(target, "_enable_fallback", None) is False
    moved = fallen and EP_NAME not in target.get_providers()
    return (moved and _ended.get()) or ("", None)


def identify(target: Any) -> Session | None:
    """Returns the Session of the InferenceSession `target`, None if it does not use this provider.
    A dynamic option makes the native provider record its session's number."""
    native.lib.tg_ort_identified()
    try:
        target.set_ep_dynamic_options({"tflgpu.identify": "1"})
    except Exception:  # other providers may refuse an unknown option
        pass
    return kept.clients.get(native.lib.tg_ort_identified())


def report(target: Any) -> Report | None:
    """Returns the report of the InferenceSession `target`, None if it does not use the provider."""
    if not hasattr(target, "set_ep_dynamic_options"):
        return None
    found = identify(target)
    return found.report() if found else given_up(target)[1]
