"""The interface that providers call: it takes an imported graph and returns partitions that run on
the GPU, and a sentence for every other node.

`claim` groups the supported nodes, drops partitions that do not pay, and builds the rest. A node
whose plan, memory or pipeline fails is refused and the others are grouped again, so every partition
that is returned has been built and can run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tflgpu_plugin import log, native, ops, switches, threads
from tflgpu_plugin.cache import fingerprint, store as plans
from tflgpu_plugin.cache.plan_file import Damaged, Stored
from tflgpu_plugin.cache.store import Cache, Entry
from tflgpu_plugin.compile import calibration
from tflgpu_plugin.errors import BuildError, ImpossibleShapes, Unsupported, defect
from tflgpu_plugin.importer import partition, partition_rules, rules
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.partition_rules import Extraction, Grouping, Parted
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import Array, Graph, Plan, Refusal, Target
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.options import OptionError, Options, meant, names, shown
from tflgpu_plugin.passes.quant.dequantize import forgotten
from tflgpu_plugin.registry import Registry
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo, Device, NoAdapter
from tflgpu_plugin.runtime.pipelines import PipelineError
from tflgpu_plugin.runtime.program import Instance, create
from tflgpu_plugin.runtime.recording import labels

__all__ = [
    "BuildError", "Claim", "Grouping", "ImpossibleShapes", "Instance", "NoAdapter", "Partition",
    "claim", "judge", "rebuild_partition", "target_of",
]  # fmt: skip

if TYPE_CHECKING:
    from tflgpu_plugin.compile.template import Template

Extra = Mapping[str, Any]  # what the cache keeps with a plan for other shapes (see `cache.store`)
_numbers = itertools.count(1)
_watching: Registry[int, list[tuple[Partition, Instance]]] = Registry()
ops.rows()  # imports the families now, not while the first model is prepared


@dataclass
class Partition:
    """A set of nodes that run as one step. `graph` is the graph before any pass; when the partition
    is claimed, copies of constants in device layout are dropped from it, which leaves the host's
    arrays. `instance` is the first one built (others are built for other shapes). After native code
    takes it over, `instance` keeps only the plan and no longer owns device memory (see
    `Instance.release`)."""

    nodes: tuple[int, ...]
    graph: Graph
    device: Device = field(repr=False)
    tuned: bool = False  # with settings measured on the device
    cache: Cache | None = field(default=None, repr=False)
    options: Options = field(default=Options(), repr=False)
    made: Sequence[Stored] = field(
        default=(), repr=False
    )  # stored plans, that for its own shapes first
    origin: bytes = field(default=b"", repr=False)  # of the digests in `made`, see `contents`
    entry: Entry | None = field(default=None, init=False, repr=False)
    target: Target = field(init=False, repr=False)
    instance: Instance = field(init=False, repr=False)
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = next(_numbers)
        self.target = target_of(self.device, self.options)
        self._known: Callable[[], Mapping[int, bytes]] = dict
        if self.cache:  # hashed while the cached entry is looked up and its kernels are compiled
            self._known = threads.begin(partial(fingerprint.constants, self.graph), "hash")
        try:
            self.instance = (
                self._built(self.made[0].plan) if self.made else self._build(self.graph, True, {})
            )
            if self.entry:
                self.entry.settle()
        finally:
            self._known()  # no thread may go on reading constants, which may be the host's memory

    @property
    def flags(self) -> bool:
        """Whether a run may report that it met a number that the GPU cannot compute with (one
        beyond int32)."""
        return any(buffer.role == "check" for buffer in self.instance.plan.buffers)

    @property
    def judge(self) -> Judge:
        """Returns the judge for the partition's nodes at other shapes. It does not warn of unknown
        names in the option exclude again."""
        return Judge(self.target)

    def build(self, graph: Graph, extra: Extra | None = None) -> Instance:
        """Returns an instance of this partition, imported for other shapes; it shares the weights.
        Its plan is stored with `extra`, if given. Raises BuildError with a sentence."""
        return self._build(graph, False, extra)

    def stored(self, source: str) -> list[Stored]:
        """Returns the stored plans for other shapes that were made from this `source`. Those of a
        compiled model were made from its own."""
        return list(self.entry.plans(source) if self.entry else self.made[1:])

    def refuse_stored(self, reason: str) -> None:
        """Logs why stored plans for other shapes are not used."""
        if self.entry:
            self.entry.refuse(reason)
        else:
            log.say(f"tflgpu: plans of a compiled model are not used: {reason}.")

    def store(self, plan: Plan, extra: Extra) -> None:
        """Stores a plan for other shapes."""
        if self.entry:
            self.entry.store(plan, self.target.tuning, extra)

    def template(self, graph: Graph, trace: Trace) -> Template:
        """Returns a plan of this partition, imported for symbolic shapes. Raises Unsupported."""
        from tflgpu_plugin.compile.template import template  # most sessions need none

        return template(graph, self.target, trace)

    def built(
        self,
        plan: Plan,
        check: Callable[[], None] | None = None,
        replaces: Callable[[], None] = lambda: None,
    ) -> Instance:
        """Returns an instance of a plan for other shapes. `replaces` is called when it has weights
        and pipelines, but no other buffers yet. Raises BuildError with a sentence, or the error of
        `check`, which tests whether the plan may be used."""
        instance = self._built(plan, check, replaces)
        for found in _watching.values():
            found.append((self, copy(instance)))
        return instance

    def run(self, inputs: Sequence[Array], states: Sequence[Array] = ()) -> list[Array]:
        """Runs on host arrays in the order of `graph.inputs` and returns `graph.outputs`. `states`
        are updated in place."""
        return self.instance.run(inputs, states)

    def _build(self, graph: Graph, first: bool, extra: Extra | None) -> Instance:
        try:
            instance = self.planned(graph, first, extra)
            for found in _watching.values():
                found.append((self, copy(instance)))
            return instance
        except BuildError:
            raise
        except MemoryError as error:
            raise BuildError.of(
                self.nodes, "memory.exhausted", "There is not enough memory for this partition."
            ) from error
        except Exception as error:  # a defect of ours must not take other partitions with it
            raise BuildError(self.nodes, defect(error, "Building")) from error

    def planned(self, graph: Graph, first: bool, extra: Extra | None = None) -> Instance:
        """Returns an instance from the cache, or plans one and stores it there with `extra`, if
        given. `first`: it is the first one of the partition."""
        if self.cache and first:
            self.entry = self.cache.entry(graph, self.target, self._known)
            if kept := self._kept(self.entry, graph):
                return kept
        if self.tuned and first:
            from tflgpu_plugin.compile import tuning  # imported late: few callers use it

            self.target = tuning.best(graph, self.device, self.target)
        plan = compiled(graph, self.target)
        instance = self._built(plan)
        if extra is not None:
            self.store(plan, extra)
        return instance

    def _kept(self, entry: Entry, graph: Graph) -> Instance | None:
        """Returns an instance of the plan that the cache holds for this graph, or None if it holds
        no usable one."""
        found = entry.load(graph)
        if found is None:
            return None
        try:
            instance = self._built(found.plan, partial(entry.check, found))
        except (BuildError, Damaged) as error:
            entry.refuse(str(error))
            return None
        self.target = replace(self.target, tuning=found.tuning)
        return instance

    def _built(
        self,
        plan: Plan,
        check: Callable[[], None] | None = None,
        replaces: Callable[[], None] = lambda: None,
    ) -> Instance:
        warm = not switches.on("TFLGPU_NO_WARM_UP")
        try:
            program = create(plan, self.device, warm, check, self.origin)
            replaces()
            return Instance(program, labels(self.graph, plan))
        except PipelineError as error:
            index = plan.pipelines.index(error.pipeline)
            nodes = {n for d in plan.dispatches if d.pipeline == index for n in d.nodes}
            code = _build_code(error.__cause__)
            raise BuildError.of(sorted(nodes) or self.nodes, code, str(error)) from error
        except native.NativeError as error:
            sentence = f"The device could not build this partition: {error}"
            raise BuildError.of(self.nodes, _build_code(error), sentence) from error


def compiled(graph: Graph, target: Target) -> Plan:
    """Returns the plan of a partition. Raises BuildError."""
    from tflgpu_plugin.compile import compiler  # a start from the cache needs none

    try:
        return compiler.compile(graph, target)
    except Unsupported as refused:
        raise BuildError(refused.nodes, refused.sentence) from refused


def _build_code(error: BaseException | None) -> str:
    """Returns the refusal code for an error of native code that builds a partition."""
    return "memory.exhausted" if isinstance(error, native.OutOfMemory) else "device.build_failed"


def rebuild_partition(
    nodes: tuple[int, ...], graph: Graph, options: Options, info: AdapterInfo
) -> Partition:
    """Returns a newly built partition of nodes that were claimed before. Raises BuildError with a
    sentence, or NoAdapter."""
    part = Partition(nodes, graph, adapter.open_device(info), options=options)
    part.graph = forgotten(part.graph)
    return part


@contextmanager
def watch(
    found: list[tuple[Partition, Instance]] | None = None,
) -> Iterator[list[tuple[Partition, Instance]]]:
    """Yields a list, by default a new one, to which every partition and instance that this process
    builds while the context is entered is added, in order, for whichever frontend. The list keeps
    them alive for callers that inspect them. Constants can be read while they are added; later,
    hosts may have freed them."""
    found = [] if found is None else found
    _watching.put(id(found), found)
    try:
        yield found
    finally:
        _watching.pop(id(found))


@dataclass
class Claim:
    """The result of `claim`: partitions, and by node id the reason why each other node is in
    none. `assumed` are the groups of nodes that would be partitions on an adapter that is only
    assumed, each with another sentence that says so."""

    partitions: list[Partition]
    refusals: dict[int, Refusal]
    adapter: AdapterInfo
    assumed: Mapping[tuple[int, ...], Refusal] = field(default_factory=dict)


def claim(
    found: Imported,
    grouping: Grouping | None = None,
    extraction: Extraction | None = None,
    repeated: bool = False,
    nested: bool = False,
) -> Claim:
    """Decides which nodes of a judged graph run on the GPU, with the options of its judge, and
    builds their partitions. Nodes that share a source are claimed together or not at all.

    `grouping` is the host's own way of grouping nodes (node ids -> groups in execution order); the
    default makes convex partitions. `extraction` makes a graph of some of the nodes. `repeated`: a
    loop runs the graph once per step, so every launch has to pay. `nested`: the graph is the body
    of a control-flow node, so partitions that only reshape stay on the CPU. Raises NoAdapter with a
    sentence when no adapter can be used, ValueError for a graph without a judge."""
    options, graph = found.options, found.graph
    if options is None:
        raise ValueError(
            "The graph was not judged: import it with providers.Facts(judge=providers.judge())."
        )
    group, extract = grouping or partial(partition.groups, graph), extraction or partition.extract
    device = adapter.open_device(adapter.select(options.adapter))
    refused = rules.closed(graph, found.refusals)
    cache = plans.opened(options)
    built: dict[tuple[int, ...], Partition] = {}
    while True:
        kept = [node.id for node in graph.nodes if node.id not in refused]
        groups = group(kept) if kept else []
        parted = Parted(graph, groups, extract, options, repeated, nested, found.open)
        more = partition_rules.placed(parted) or _build_all(
            parted.parts, device, built, options, cache
        )
        if not more and device.assumed:
            return _assumed(parted.parts, refused, device.info)
        if not more:
            partitions = [built[key] for key in parted.parts]
            for part in partitions:
                part.graph = forgotten(part.graph)
            return Claim(partitions, refused, device.info)
        refused = rules.closed(graph, refused | more)


def judge(options: Options) -> Judge:
    """Returns the judge that decides which nodes can run on the GPU with these options. Raises
    NoAdapter or OptionError with a sentence."""
    device = adapter.open_device(adapter.select(options.adapter))
    return Judge(target_of(device, options), options)


def target_of(device: Device, options: Options) -> Target:
    """Returns the device's target with its calibration and these options applied. Raises
    OptionError for a name in `without`, or in TFLGPU_WITHOUT, that is neither a form nor an op."""
    refused = {
        "The option without": options.without,
        "TFLGPU_WITHOUT": names(os.environ.get("TFLGPU_WITHOUT", "")),
    }
    forms = ops.form_names()
    for where, found in refused.items():
        for name in found:
            if name not in forms and ops.row(name) is None:
                near = meant(name, (*forms, *ops.rows()))
                raise OptionError(
                    f"{where} names {shown(name)}, which is neither a form nor an op.{near} The "
                    f"forms are: {', '.join(forms)}."
                )
    without = frozenset(name for found in refused.values() for name in found)
    target = calibration.of(device).applied(device.target)
    return replace(target, half=options.half, without=without)


def _build_all(
    parts: Mapping[tuple[int, ...], Graph],
    device: Device,
    built: dict[tuple[int, ...], Partition],
    options: Options,
    cache: Cache | None,
) -> dict[int, Refusal]:
    for group, part in parts.items():
        if group not in built or built[group].graph.outputs != part.outputs:
            try:
                if device.assumed:
                    compiled(part, target_of(device, options))
                    continue
                given = group, part, device, options.sustained, cache, options
                built[group] = Partition(*given)
            except BuildError as error:
                return dict.fromkeys(_blamed(part, error) or group, error.sentence)
    return {}


def _assumed(
    parts: Iterable[tuple[int, ...]], refused: Mapping[int, Refusal], info: AdapterInfo
) -> Claim:
    """Returns a claim without partitions for an adapter of which only the limits are known."""
    groups = {
        group: Refusal("device.assumed", f"It would be in partition {number}.")
        for number, group in enumerate(parts, 1)
    }
    nodes = {node: reason for group, reason in groups.items() for node in group}
    return Claim([], {**refused, **nodes}, info, groups)


def _blamed(part: Graph, error: BuildError) -> list[int]:
    """Returns the first node of the part that the error names, by itself or as a source of a fused
    node; the other nodes are then built without it. Returns [] where the error names none of the
    nodes, or all."""
    names = set(error.nodes)
    named = [node.id for node in part.nodes if names & {node.id, *node.sources}]
    return named[:1] if len(named) < len(part.nodes) else []
