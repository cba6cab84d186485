"""The state of every frontend: the delegates and sessions that its host has created with this
plugin, the claims of each graph, the native objects that run the partitions, and the counters for
reports.

Hosts free their objects without calling Python, and with these the memory on the device, which only
native code holds. `Records.sweep` then frees everything that Python holds of a partition, except
its counters."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tflgpu_plugin import log, native, threads
from tflgpu_plugin.cache import plan_check
from tflgpu_plugin.errors import BuildError, ImpossibleShapes
from tflgpu_plugin.frontend import native_plans, stored_shapes
from tflgpu_plugin.frontend.reports import (
    CPU,
    GPU,
    REVERTED,
    MemoryReport,
    NodeReport,
    PartitionReport,
    Report,
    of_adapter,
)
from tflgpu_plugin.frontend.reshaping import Flat, Lists, Reshaping, Symbolic, flat, symbols
from tflgpu_plugin.importer.model import HostExtent
from tflgpu_plugin.importer.subgraph import Again
from tflgpu_plugin.ir import Array, Refusal, Shape, counts
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.options import Options
from tflgpu_plugin.registry import Registry
from tflgpu_plugin.runtime.device import AdapterInfo

if TYPE_CHECKING:
    from tflgpu_plugin.compile.template import Template
    from tflgpu_plugin.engine import Instance, Partition


MAKING_SECONDS = 60.0  # the longest time a host takes to make an object whose number Python has
REASONS = 8  # reasons of one partition that are reported
COUNTED = ("runs", "host_runs", "failures", "uploaded_bytes", "downloaded_bytes", "device_inputs")


@dataclass(repr=False)
class PlacedPartition:
    """A partition and the native object that runs it (which begins with a tg_partition). Both are
    freed after the host has freed the native object. `nodes` are the host's node numbers."""

    closed: ClassVar[Refusal] = Refusal("host.withdrawn", "This part of the model is closed.")

    partition: Partition | None
    handle: Any
    nodes: tuple[int, ...] = field(init=False)
    number: int = field(init=False)
    planned: dict[str, Any] = field(init=False)  # facts about its plan, for reports
    final: Any = field(default=None, init=False)  # the state when the native object was freed
    reasons: set[str] = field(default_factory=set, init=False)  # of runs on the host's kernels
    reshaping: Reshaping = field(default_factory=Reshaping, init=False)
    _source: str | None = field(default=None, init=False)  # of plans that are stored, once asked

    def __post_init__(self) -> None:
        assert self.partition is not None
        plan = self.partition.instance.plan
        self.number = self.partition.number
        kernels = tuple(pipeline.name for pipeline in plan.pipelines)
        sizes = {"tensor_bytes": plan.tensor_bytes, "least_bytes": plan.least_bytes}
        self.planned = {"dispatches": len(plan.dispatches), "kernels": kernels, **sizes}

    def counted(self, handle: Any) -> Any:
        """Returns the counters of the native object (tg_partition_state)."""
        out = native.ffi.new("tg_partition_state *")
        native.lib.tg_partition_get_state(native_plans.partition(handle), out)
        return out

    def reshaped(self, partition: Partition, given: tuple[Shape, ...]) -> Again:
        """Returns the partition's graph for these input shapes. Raises BuildError."""
        raise NotImplementedError

    @property
    def described(self) -> object:
        """Returns the data for plans of other shapes, None where there is none."""
        raise NotImplementedError

    def build(self, handle: Any, given: tuple[Shape, ...]) -> None:
        """Gives the native object a plan for these input shapes, or the sentence that its runs fail
        with. Raises ImpossibleShapes."""
        made: Sequence[Shape] = ()
        partition = self.partition
        try:
            if partition is None:
                raise BuildError((), self.closed)
            instance = self._stored(partition, given)
            if instance is None and self._build_symbolic(partition, handle, given):
                return
            if instance is None:
                again = self.reshaped(partition, given)
                graph = again.graph
                hidden = counts(graph.tensors, graph.outputs)
                made = [graph.shape(t) for t in graph.outputs if t not in hidden]
                extra = self._source and stored_shapes.place(self._source, flat(given))
                instance = partition.build(again.runs(), extra or None)
        except ImpossibleShapes:
            raise
        except BuildError as error:
            self.add(handle, given, made, error.sentence)
        else:
            self.add(handle, given, instance.output_shapes, instance)

    def _stored(self, partition: Partition, given: tuple[Shape, ...]) -> Instance | None:
        """Returns an instance of a stored plan for these shapes; None where there is none that can
        be used. Stored templates become those of `reshaping` when this is first called."""
        reshaping, place = self.reshaping, tuple(flat(given))
        with reshaping.lock:
            try:
                if reshaping.stored is None:
                    reshaping.stored = {}
                    if partition.entry:
                        self._source = stored_shapes.source(self.described)
                    if self._source or partition.made:
                        reshaping.recall(*stored_shapes.read(partition, self._source or ""))
                if (found := reshaping.stored.pop(place, None)) is None:
                    return None
                return partition.built(found.plan, found.check)
            except (BuildError, ArithmeticError, KeyError, TypeError, ValueError) as error:
                partition.refuse_stored(str(error))
                return None

    def _build_symbolic(self, partition: Partition, handle: Any, given: tuple[Shape, ...]) -> bool:
        """Gives the native object a plan with symbols for these input shapes. Returns whether there
        is one; where anything fails, a plan for these shapes alone is tried."""
        reshaping, found, lists = self.reshaping, None, Lists(given)
        limits, make = lists.limits(self.run_values.values()), self._maker(partition, lists)
        with reshaping.lock:  # plans of a template replace each other
            if native_plans.exists(handle, lists.flat):
                return True  # another thread has made it meanwhile
            try:
                reshaping.declared = lists.named(self.declared)
                found = reshaping.of(lists.flat, limits, make)
                if found is None:
                    return False
                try:
                    instance = self._settled(partition, handle, found)
                except BuildError:  # too large for this device
                    found.shrink()
                    instance = self._settled(partition, handle, found)
                found.template.forget_constants()
                self.add(handle, lists.of(found.made), instance.output_shapes, instance)
                found.built = True
            except Exception as error:
                log.say(f"tflgpu: each shape gets a plan of its own: {error!r}", logging.DEBUG)
                if found is not None:
                    reshaping.drop(found)
                return False
            return True

    def _maker(self, partition: Partition, lists: Lists) -> Callable[[Flat, Trace], Template]:
        def make(numbers: Flat, trace: Trace) -> Template:
            return partition.template(self.reshaped(partition, lists.of(numbers)).runs(), trace)

        return make

    def traced(
        self, partition: Partition, given: Sequence[Shape], names: Mapping[int, str]
    ) -> Symbolic | None:
        """Returns a template for these shapes, in which numbers at positions of the same name are
        one symbol; None if there is none. Raises any error."""
        lists, trace = Lists(given), Trace()
        limits = lists.limits(self.run_values.values())
        numbers, places = symbols(lists.flat, names, limits, trace)
        if not places:
            return None
        room = {symbol: lists.flat[position] for position, symbol in places}
        template = self._maker(partition, lists)(numbers, trace)
        return Symbolic(lists.flat, places, template, [room], room)

    def _settled(self, partition: Partition, handle: Any, found: Symbolic) -> Instance:
        """Returns an instance of a template. The native object drops the last one before buffers
        are made, so that the device need not have memory for both."""
        plan = found.template.settled(found.symbols, found.rooms, found.places)
        if found.stored:
            plan_check.check(plan)
        instance = partition.built(plan, None, partial(native_plans.drop, handle, found.made))
        if self._source and not found.stored:
            found.stored = True
            with suppress(TypeError):  # it has parts that cannot be stored
                extra = stored_shapes.template_place(self._source, found)
                partition.store(replace(plan, symbols=None), extra)
        return instance

    @property
    def declared(self) -> Sequence[tuple[HostExtent, ...] | None]:
        """Returns the declared shapes of inputs that select a plan (None: not even a rank)."""
        raise NotImplementedError

    @property
    def run_values(self) -> Mapping[str, Array]:
        """Returns the first values of a run that a plan was specialized for, by key."""
        raise NotImplementedError

    def add(
        self, handle: Any, given: Sequence[Shape], made: Sequence[Shape], found: Instance | str
    ) -> None:
        """Passes a plan for these input shapes to the native object, or the reason why there is
        none. `made` are the outputs' shapes, which may be known even without a plan."""
        native_plans.add(handle, flat(given), flat(made), found)

    def fell_back(self, reason: str, host: str) -> None:
        """Warns, once for each reason, that a run used the kernels of `host`."""
        if reason in self.reasons or len(self.reasons) >= REASONS:
            return
        self.reasons.add(reason)
        log.say(
            f"WARNING: tflgpu: a run of {len(self.nodes)} nodes of this model was done by {host}'s "
            f"own CPU kernels instead of the GPU. {reason}"
        )

    def state(self) -> Any:
        """Returns the present counters, or the last ones when the native object has been freed."""
        handle = self.handle  # another thread may free it now
        return self.final if self.final is not None else self.counted(handle)

    @property
    def dead(self) -> bool:
        """Whether the host has had the native object and has freed it."""
        return bool((state := self.state()).times_freed) and not state.live

    def release(self) -> None:
        """Releases the native object and the data for plans of other shapes."""
        self.final = self.state()
        self.partition, self.handle, self.reshaping = None, None, Reshaping()

    def report(self, graph: int, place: int) -> PartitionReport:
        """Returns the counters for a report, in which this is partition number `place`; its nodes
        are in the host's graph number `graph`."""
        state = self.state()
        counted: dict[str, Any] = {name: int(getattr(state, name)) for name in COUNTED}
        return PartitionReport(
            number=place,
            key=self.number,
            nodes=self.nodes,
            graph=graph,
            live=bool(state.live),
            milliseconds=state.last_nanoseconds / 1e6,
            failure=bytes(native.ffi.string(state.failure)).decode(errors="replace"),
            memory=memory([self]),
            **self.planned,
            **counted,
        )


def memory(placed: Iterable[PlacedPartition]) -> MemoryReport:
    """Returns the memory on the device that the plans of these partitions hold."""
    ffi, found = native.ffi, native.ffi.new("tg_memory *")
    handles = [handle for one in placed if (handle := one.handle) is not None]
    array = ffi.new("tg_partition *[]", [*map(native_plans.partition, handles)])
    native.lib.tg_partitions_get_memory(array, len(handles), found)
    return MemoryReport(*found.bytes)


def process_memory() -> MemoryReport:
    """Returns the memory on the device that the process holds."""
    found = native.ffi.new("tg_memory *")
    native.lib.tg_memory_get(found)
    return MemoryReport(*found.bytes)


Placed = TypeVar("Placed", bound=PlacedPartition)


@dataclass
class GraphRecord(Generic[Placed]):
    """One graph of the host: reports of its nodes, and the partitions that were placed."""

    nodes: list[NodeReport] = field(default_factory=list)
    placed: list[Placed] = field(default_factory=list)

    def decide(self, reasons: Mapping[int, Refusal]) -> None:
        """Records where each node of the graph runs: the nodes in `reasons` (by id) on the CPU, all
        others on the GPU."""
        self.nodes = [
            node.placed(CPU if node.id in reasons else GPU, reasons.get(node.id))
            for node in self.nodes
        ]

    def fail(self, sentence: Refusal) -> None:
        """Records that all nodes stay on the CPU, with a warning."""
        self.placed = []
        self.decide({node.id: sentence for node in self.nodes})
        log.say(f"WARNING: tflgpu: nothing of this model runs on the GPU. {sentence}")


Record = TypeVar("Record", bound=GraphRecord[Any])


@dataclass
class Client(Generic[Record]):
    """A delegate or a session of a host that uses this plugin. `graphs` are those that the host has
    given to it; `logged` holds lines already logged. `gone` is the reason that nodes get after the
    host has freed their partition."""

    gone: ClassVar[Refusal]
    last_is_first: ClassVar[bool] = False  # graph 0 of reports was handed over last

    options: Options
    adapter: AdapterInfo
    number: int = field(default_factory=lambda: int(native.lib.tg_next_number()), init=False)
    graphs: list[Record] = field(default_factory=list, init=False)
    logged: set[str] = field(default_factory=set, init=False)
    lock: Any = field(default_factory=threads.RLock, init=False, repr=False)  # of `graphs`

    def report(self) -> Report:
        """Returns the report as of now."""
        nodes, partitions = list[NodeReport](), list[PartitionReport]()
        for number, graph in enumerate(self.graphs[:: -1 if self.last_is_first else 1]):
            freed = {n for placed in graph.placed if placed.dead for n in placed.nodes}
            nodes += [
                replace(node.placed(REVERTED, self.gone), graph=number)
                if node.where == GPU and node.id in freed
                else replace(node, graph=number)
                for node in graph.nodes
            ]
            placed = graph.placed
            first = len(partitions) + 1
            partitions += [one.report(number, first + k) for k, one in enumerate(placed)]
        held = memory(one for graph in self.graphs for one in graph.placed)
        shown = of_adapter(self.adapter)
        return Report(shown, tuple(nodes), tuple(partitions), held, process_memory())


Owner = TypeVar("Owner", bound=Client[Any])


class Records(Generic[Owner, Placed]):
    """All clients and partitions of one frontend, by number."""

    def __init__(self) -> None:
        self.clients: Registry[int, Owner] = Registry()
        self.partitions: Registry[int, Placed] = Registry()
        self._newest: Registry[int, tuple[int, float]] = Registry()  # by thread: number, time

    def register(self, made: Owner) -> Owner:
        """Adds the client that the host of this thread is about to create."""
        self.sweep()
        self._newest.put(native.lib.tg_caller_number(), (made.number, time.monotonic()))
        self.clients.put(made.number, made)
        return made

    def keep(self, placed: Iterable[Placed]) -> None:
        """Adds partitions for which native code may request plans for other shapes."""
        for one in placed:
            self.partitions.put(one.number, one)

    def drop(self, placed: Iterable[Placed]) -> None:
        """Frees the memory of partitions that the host has not taken, and forgets them."""
        for one in placed:
            self.partitions.pop(one.number)
            one.release()

    def claimed(self, number: int, gone: Refusal) -> Placed:
        """Returns the partition of this number. Raises BuildError with the text `gone` if it has
        been freed, or cannot be built for other shapes."""
        placed = self.partitions.get(number)
        if placed is None or placed.partition is None:
            raise BuildError((), gone)
        return placed

    def report(self, number: int) -> Report | None:
        """Returns the report of the client of this number, or None where there is none."""
        self.sweep()
        found = self.clients.get(number)
        return found.report() if found else None

    def sweep(self) -> None:
        """Frees the memory of freed partitions, and forgets clients that the host has ended."""
        for number, one in self.partitions.items():
            if one.dead:
                one.release()
                self.partitions.pop(number)
        clients = self.clients.items()
        made = self._just_made()  # after the line above, so that none of these is missed
        for number, _ in clients:
            if number not in made and not native.lib.tg_is_live(number):
                self.clients.pop(number)

    def _just_made(self) -> set[int]:
        """Returns each thread's newest client. Hosts know its number only when it is complete."""
        now, found = time.monotonic(), set[int]()
        for thread, newest in self._newest.items():
            found.add(newest[0])
            if now - newest[1] > MAKING_SECONDS:
                self._newest.drop(thread, newest)
        return found
