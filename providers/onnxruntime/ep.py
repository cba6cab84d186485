"""The Python callbacks of the native execution provider: create a session, plan a graph, build a
plan for other shapes, and give native code a model for runs on onnxruntime's kernels.

They may run on any thread of onnxruntime and acquire the GIL themselves. An exception does not
propagate to native code: it becomes an error message for onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin import providers
from tflgpu_plugin.ir import Refusal
from tflgpu_plugin.providers import BuildError, Imported, Partition, callbacks, messages, native

from . import (
    batched_handlers,
    batched_loop,
    compiled_shapes,
    context,
    ops,
    rounds,
    sequences,
    sessions,
    snapshot,
)
from .grouping import Grouping
from .host import Host
from .names import DROPPED
from .partition_model import hand_over
from .reader import TABLE
from .snapshot import Snapshot

VERBOSE, INFO = 0, 1
UNKEPT = Refusal(
    "host.withdrawn", "The partition's weights are no longer in host memory; make a new session."
)
INLINED = Refusal(
    "operator.host_only",
    "It is in the body of a function, which onnxruntime replaces by the nodes of that body; those "
    "may run on the GPU.",
)
ARITHMETIC = Refusal(
    "partition.arithmetic", "Shape arithmetic stays on the CPU where the CPU needs its result."
)
UNPLANNED = Refusal("shape.unsupported", "There is no plan for the input shapes of this run.")
ALWAYS_KEPT = (
    1 << 24
)  # bytes: up to here, a partition always keeps constants for the host's kernels
SPLIT = Refusal("dynamic.shape", "It needs a shape that the CPU computes while the model runs.")

DIVIDED = Refusal(
    "constant.on_cpu",
    "A node on the CPU also reads one of its inputs that have a default, and onnxruntime would not "
    "pass a value that replaces the default on to the GPU.",
)


def connect() -> None:
    """Registers the functions of this module as callbacks with the shared library."""
    callbacks.connect("ort", globals())


# ---- create --------------------------------------------------------------------------------------


def create(keys: Any, values: Any, count: int, adapters: Any, adapter_count: int) -> int:
    """Creates a session and returns its number. `keys` and `values` are `count` options, `adapters`
    are indices into `adapter.adapters()`, of which the first is used unless an option names one.
    Raises OptionError or NoAdapter."""
    given = callbacks.pairs(keys, values, count)
    sessions.failed("")
    try:
        own = {k: v for k, v in given.items() if not k.startswith(context.PREFIX) and v != DROPPED}
        options = providers.parse(own)
        if options.adapter is None and adapter_count:
            options = replace(options, adapter=str(adapters[0]))
        made = sessions.Session(options, callbacks.opened(options), context.Export.of(given))
        providers.remember(made.report)
        return sessions.kept.register(made).number
    except Exception as error:
        sessions.failed(callbacks.sentence(error))
        raise


# ---- plan ----------------------------------------------------------------------------------------


def plan(number: int, ep: Any, api: Any, graph: Any, support: Any) -> None:
    """Claims the supported nodes of `graph`, the model or the body of a control-flow node. An error
    leaves all of its nodes on the CPU, with a warning."""
    session = sessions.kept.clients.get(number)
    if session is None:
        raise BuildError.of((), "host.withdrawn", "This session is closed.")
    level = sessions.Level()
    taken: Snapshot | None = None
    try:
        host = Host(_address(api))
        bodies = session.export is None  # a compiled model keeps its control flow
        whole, single = host.cast("tgo_graph", _address(graph)), session.options.single
        taken = snapshot.take(host, whole, bodies=bodies, single=single)
        level.around = taken.around
        level.nodes = [*map(sessions.unclaimed, taken.nodes)]
        broken = _restore(level, taken, session)
        _place(level, taken, session)
        handles = [*(one.handle for one in level.placed), *broken.values()]
        array = native.ffi.new("tg_ort_partition *[]", handles)
        native.call(native.lib.tg_ort_claim, ep, graph, support, array, len(handles))
    except Exception as error:
        level.fail(callbacks.refusal(error))
    sessions.kept.keep(level.placed)
    _add(session, level, taken)
    _log(ep, level)
    messages.notify(level.nodes)
    messages.placed(session.report)


def _add(session: sessions.Session, level: sessions.Level, taken: Snapshot | None) -> None:
    """Adds the report of a graph to those of the session. One of the model itself ends a round of
    the host, so that nothing but that round stays."""
    with session.lock:
        if taken is not None:
            rounds.carry(session.graphs, level, taken)
        session.graphs.append(level)
        gone: list[sessions.Placed] = []
        if taken is not None and not taken.parent:
            session.graphs[:], gone = rounds.last(session.graphs, taken.inner)
        if taken is not None:
            session.unroll(level, taken)
    sessions.kept.drop(gone)


def _address(pointer: Any) -> int:
    return int(native.ffi.cast("uintptr_t", pointer))


def _place(level: sessions.Level, taken: Snapshot, session: sessions.Session) -> None:
    """Adds the partitions of `taken` to `level`, and for other nodes why they stay on the CPU."""
    if taken.inlined:
        level.decide(dict.fromkeys((node.id for node in taken.nodes), INLINED))
        return
    if session.export and taken.parent:
        level.decide({node.id: context.BODY for node in taken.nodes})
        return
    if taken.repeated and batched_handlers.reduces_rows(taken, TABLE):
        level.decide({node.id: batched_loop.AT_ONCE for node in taken.nodes})
        return
    if not taken.parent:  # the host has passed its bodies before
        named = [node for one in (*session.graphs, level) for node in one.nodes]
        operators = (*TABLE.rows, *TABLE.arithmetic, *TABLE.left, *ops.REPLACED)
        messages.warn_of_unknown_exclusions(
            session.options.exclude, named, operators, session.logged
        )
    reading = providers.symbols.import_dynamic(taken, TABLE, providers.judge(session.options))
    grouping = Grouping(taken, reading, reading.dynamic)
    claim = providers.claim(
        reading,
        grouping=grouping.group,
        extraction=grouping.extract,
        repeated=taken.repeated,
        nested=bool(taken.parent),
    )
    for partition in claim.partitions:
        level.placed.append(_placed(partition, grouping, session.export))
    reasons = _reasons(reading, claim.refusals)
    for group, reason in claim.assumed.items():
        reasons |= dict.fromkeys(grouping.members[frozenset(group)], reason)
    inside = {node for one in level.placed for node in one.nodes}
    for node in taken.nodes:
        if node.id not in inside and node.id not in reasons:
            reasons[node.id] = ARITHMETIC if node.id in reading.arithmetic else SPLIT
            if not grouping.lists.isdisjoint((*node.reads, *node.writes)):
                reasons[node.id] = sequences.LISTS
            if node.id in grouping.divided - reading.arithmetic:
                reasons[node.id] = DIVIDED
            if (row := ops.HOST_OPS.get(node.title)) and row.bounds == "opens":
                reasons[node.id] = providers.INCOMPLETE
    level.decide({node: reason for node, reason in reasons.items() if node not in inside})


def _restore(level: sessions.Level, taken: Snapshot, session: sessions.Session) -> dict[int, Any]:
    """Adds the partitions of EPContext nodes to `level`. Returns native objects for nodes that
    cannot be used, by node id: these are claimed, too, so that the session fails with the reason.
    """
    broken: dict[int, Any] = {}
    for node in taken.nodes:
        if not context.is_ours(node):
            continue
        try:
            partition, interface = context.read(node, taken, session.adapter, session.options)
        except BuildError as error:
            nothing = context.Interface((), (), (), ())
            broken[node.id] = _create(0, [node.id], nothing, refusal=error.sentence)
            continue
        level.placed.append(_with_interface(partition, (node.id,), interface))
    return broken


def _reasons(reading: Imported, refusals: Mapping[int, Refusal]) -> dict[int, Refusal]:
    """Returns the refusals by node id of the host, instead of node id of the imported graph."""
    found: dict[int, Refusal] = {}
    for node in reading.graph.nodes:
        if node.id in refusals:
            found.setdefault(node.sources[0], refusals[node.id])
    return found


def _placed(
    partition: Partition, grouping: Grouping, export: context.Export | None
) -> sessions.Placed:
    """Returns the placed partition with its native object and first plan; with `export`, its
    EPContext content is written, too."""
    taken, reading, dynamic = grouping.snapshot, grouping.reading, grouping.dynamic
    hosts = grouping.members[frozenset(partition.nodes)]
    names = {tensor: name for name, tensor in reading.ids.items()}
    ports = tuple(names[t] for t in partition.graph.inputs)
    outputs = tuple(names[t] for t in partition.graph.outputs if t in names)
    inside = taken.of(hosts)
    run_values = {
        name: reading.run_values[name] for name in inside.inputs if name in reading.run_values
    }
    inputs = tuple(dict.fromkeys((*ports, *inside.inputs))) if dynamic else ports
    values = (taken.values[name] for name in inside.reads)
    guards = {v.name: v.data for v in values if v.default and v.data is not None}
    may_fall_back = dynamic or bool(guards) or partition.flags or inside.bytes <= ALWAYS_KEPT
    part = taken.part(hosts, outputs) if may_fall_back else None
    shapes = tuple(compiled_shapes.shape(reading, name) for name in inputs)
    arithmetic = tuple(sorted(reading.arithmetic & hosts)) if dynamic else ()
    given = ports, inputs, outputs, shapes, part, arithmetic, run_values
    counted = (t for t in partition.graph.outputs if t not in names)
    grows = tuple(t in reading.growing for t in counted)
    interface = context.Interface(*given, open=dynamic, guards=guards, grows=grows)
    nodes, made = tuple(sorted(hosts)), None
    if export:
        probe = sessions.Placed(partition, None, nodes, interface)
        others = compiled_shapes.templates(partition, probe, taken) if dynamic else ()
        made = context.write(partition, interface, export, taken.path, others)
    return _with_interface(partition, nodes, interface, made)


def _with_interface(
    partition: Partition,
    nodes: tuple[int, ...],
    interface: context.Interface,
    made: context.Context | None = None,
) -> sessions.Placed:
    """Returns the placed partition with a native object for the host's `nodes`; `made` is the
    content of its EPContext node."""
    counts = len(partition.instance.plan.counts)
    handle = _create(partition.number, nodes, interface, made, counts=counts)
    placed = sessions.Placed(partition, handle, nodes, interface)
    placed.add(handle, interface.key, partition.instance.output_shapes, partition.instance)
    if not interface.open:  # the native object has the only plan
        placed.partition = None
    return placed


def _create(
    number: int,
    nodes: Sequence[int],
    interface: context.Interface,
    made: context.Context | None = None,
    refusal: str | None = None,
    counts: int = 0,
) -> Any:
    ffi = native.ffi
    keep: list[Any] = []

    def array(kind: str, values: Any) -> Any:
        keep.append(ffi.new(f"{kind}[]", values or 1))
        return keep[-1]

    def texts(names: Iterable[str]) -> Any:
        return array("char *", [array("char", name.encode()) for name in names])

    spec = ffi.new("tg_ort_partition_spec *")
    spec.number, spec.nodes, spec.node_count = number, array("uint64_t", list(nodes)), len(nodes)
    spec.inputs, spec.input_count = texts(interface.inputs), len(interface.inputs)
    spec.port_count = len(interface.ports)
    spec.values, spec.value_count = texts(interface.run_values), len(interface.run_values)
    spec.clamps = array("uint8_t", interface.clamps)
    spec.outputs, spec.output_count = texts(interface.outputs), len(interface.outputs)
    spec.count_count, spec.grows = counts, array("uint8_t", list(interface.grows) or [0] * counts)
    spec.room = providers.FIRST_ROOM if interface.rooms else 0
    held = [np.ascontiguousarray(data) for data in interface.guards.values()]
    spec.guards, spec.guard_count = texts(interface.guards), len(held)
    spec.guard_data = array("void *", [ffi.cast("void *", data.ctypes.data) for data in held])
    spec.guard_bytes = array("uint64_t", [data.nbytes for data in held])
    shapes = [array("int64_t", [data.ndim, *data.shape]) for data in interface.guards.values()]
    spec.guard_shapes = array("int64_t *", shapes)
    if made:
        keep.append(ffi.from_buffer(made.data))
        spec.context, spec.context_bytes, spec.embedded = keep[-1], len(made.data), made.embedded
    if refusal:
        spec.refusal = array("char", refusal.encode())
    handle = native.call(native.lib.tg_ort_partition_create, spec)
    return ffi.gc(handle, native.lib.tg_ort_partition_release)


def _log(ep: Any, level: sessions.Level) -> None:
    """Logs each node on the CPU with its reason at onnxruntime's level verbose, and a summary at
    level info."""
    for node in level.nodes:
        if node.where == providers.CPU:
            text = f"{node.op} {node.name!r} stays on the CPU: {node.reason}"
            native.lib.tg_ort_log(ep, VERBOSE, text.encode())
    taken = sum(node.where == providers.GPU for node in level.nodes)
    count = len(level.placed)
    partitions = "1 partition" if count == 1 else f"{count} partitions"
    text = f"tflgpu takes {taken} of {len(level.nodes)} nodes in {partitions}."
    native.lib.tg_ort_log(ep, INFO, text.encode())


# ---- build ---------------------------------------------------------------------------------------


def build(number: int, handle: Any, shapes: Any, count: int) -> None:
    """Builds a plan of partition `number`. `shapes` holds `count` numbers: for each input its rank
    and extents, then for each run value its element count and elements. Runs with these shapes
    fail if there can be no plan. Raises ImpossibleShapes."""
    placed = sessions.kept.claimed(number, UNPLANNED)
    placed.build(handle, providers.parted([int(shapes[k]) for k in range(count)]))


# ---- runs on onnxruntime's own kernels -----------------------------------------------------------


def model(number: int, compute: Any, inputs: Any, count: int, outputs: Any, made: int) -> None:
    """Passes the nodes of partition `number` to native code as an ONNX model with the names
    `inputs` (`count` of them) and `outputs` (`made`). Raises BuildError."""
    text, pairs = native.ffi.string, ((inputs, count), (outputs, made))
    try:
        placed = sessions.kept.partitions.get(number)
        part = None if placed is None else placed.interface.part
        if part is None:
            raise BuildError((), UNKEPT)
        part.check_files()
        hand_over(compute, part, *([text(some[k]).decode() for k in range(n)] for some, n in pairs))
    except Exception as error:
        sessions.ended(number, callbacks.sentence(error))
        raise


def fell_back(number: int, reason: Any) -> None:
    """Warns that a run of partition `number` used onnxruntime's own kernels, and why it did."""
    placed = sessions.kept.partitions.get(number)
    if placed is not None:
        placed.fell_back(bytes(native.ffi.string(reason)).decode(errors="replace"), "onnxruntime")
