"""The callbacks of the native delegate: they create a delegate, prepare a host graph, and build
plans for new shapes.

They run with the GIL but not always on the main thread. No exception leaves them: it becomes a
sentence for the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.ir import Refusal
from tflgpu_plugin.providers import (
    CPU,
    NodeReport,
    Partition,
    Subgraph,
    callbacks,
    messages,
    native,
)

from . import codes, delegates, litert, loops, reader, refusals, snapshot, variables
from .snapshot import Snapshot

GONE = Refusal(
    "host.withdrawn",
    "This part of the model was taken out of the delegate; make a new interpreter.",
)


def connect() -> None:
    """Registers the callbacks with the shared library."""
    callbacks.connect("tflite", globals())


# ---- create --------------------------------------------------------------------------------------


def create_at(keys: int, values: int, count: int, err: int) -> int:
    """Calls the callback `create` with pointers that the caller has as integer addresses."""
    ffi = native.ffi
    names = [ffi.cast("const char *const *", address) for address in (keys, values)]
    return callbacks.callback_of(globals(), "create")(*names, count, ffi.cast("tg_error *", err))


def create(keys: Any, values: Any, count: int) -> int:
    """Returns the number of a new delegate. Raises OptionError or NoAdapter with a sentence."""
    given = callbacks.pairs(keys, values, count)
    try:
        options = providers.parse(litert.translated(given))
        made = delegates.kept.register(delegates.Delegate(options, callbacks.opened(options)))
    except Exception as error:
        litert.failed(given, callbacks.sentence(error))
        raise
    litert.made(given, made.number)
    return made.number


# ---- prepare -------------------------------------------------------------------------------------


def prepare(number: int, pointer: Any, context: Any) -> None:
    """Claims the supported nodes of the host's graph `context` for the delegate `number`, to which
    the host points with `pointer`. An error leaves the nodes on the CPU, with a warning; only a
    host that does not group nodes as it announced gets the error."""
    delegate, context = delegates.delegate(number), native.ffi.cast("tgl_context *", context)
    delegate.pointer = pointer
    address = int(native.ffi.cast("uintptr_t", context))
    prepared = delegates.Prepared(context=address)
    if delegate.replaces(address):
        delegate.replace(prepared)
        return
    try:
        taken = snapshot.take(native.ffi, context)
        prepared.nodes = _unclaimed(taken)
        earlier = delegate.earlier(address) if snapshot.had(context, pointer) else None
        if earlier is not None and earlier.same_nodes(prepared):
            _place_again(prepared, earlier, delegate)
        else:
            _place_new(prepared, taken, delegate, context)
    except Exception as error:
        prepared.fail(callbacks.refusal(error))
    if prepared.placed:
        kernels = native.ffi.new("tg_kernel *[]", [one.handle for one in prepared.placed])
        native.call(native.lib.tg_tflite_claim, context, pointer, kernels, len(prepared.placed))
    delegate.replace(prepared)
    delegates.kept.sweep()
    _tell(delegate, prepared.nodes)
    messages.placed(delegate.report)


def _unclaimed(taken: Snapshot) -> list[NodeReport]:
    """Returns the nodes of the host without those that other delegates have claimed."""
    return [
        NodeReport(node.id, node.title, node.name, CPU, code=taken.codes[node.id])
        for node in taken.nodes
        if taken.codes[node.id] != codes.DELEGATE
    ]


def _place_new(
    prepared: delegates.Prepared, taken: Snapshot, delegate: delegates.Delegate, context: Any
) -> None:
    messages.warn_of_unknown_exclusions(
        delegate.options.exclude, prepared.nodes, codes.operators(), delegate.logged
    )
    repeated = loops.is_repeated(native.ffi, context)
    # The body of a loop gets its shapes from the node that runs it.
    host = reader.read(taken, providers.judge(delegate.options), fixed=repeated)
    made_for = {node.id: node.sources[0] for node in host.graph.nodes}
    claim = providers.claim(
        host, grouping=lambda ids: preview(context, ids, made_for), repeated=repeated
    )
    found = [providers.kept(host, one.graph) for one in claim.partitions]
    lent = _lent(taken, context, found, {made_for[n] for p in claim.partitions for n in p.nodes})
    for partition, kept in zip(claim.partitions, found, strict=True):
        # Tensors between partitions stay on the device. But users who ask the host not to fuse
        # nodes want to read every tensor.
        others = (other.ports for other in found if other is not kept)
        stays = {key for ports in others for key in ports} if host.graph.fused else set()
        hosts = tuple(sorted({made_for[node] for node in partition.nodes}))
        callers = tuple(node for node in hosts if node in taken.graphs)
        keeps = variables.may_stay(native.ffi, context, [int(key) for key in kept.states])
        manner = delegates.Manner(hosts, frozenset(stays), callers, keeps, lent)
        prepared.placed.append(placed := place(delegate.pointer, partition, kept, manner))
        placed.start(partition)
        prepared.replaced |= {g for node in callers for g in taken.graphs[node]}
    prepared.decide(claim.refusals)


def _lent(
    taken: Snapshot, context: Any, found: Sequence[Subgraph], claimed: Collection[int]
) -> frozenset[str]:
    """Returns the inputs and outputs of the graph that no node outside the partitions uses, and
    whose numbers select no plan."""
    used = snapshot.used(native.ffi, context, claimed)
    used |= {key for one in found for key in one.run_values}
    return frozenset({*taken.inputs, *taken.outputs} - used)


def _place_again(
    prepared: delegates.Prepared, earlier: delegates.Prepared, delegate: delegates.Delegate
) -> None:
    """Places the partitions of `earlier` again. A host that undoes delegation for a resize prepares
    again before it has inferred the new inner shapes, and breaks when the claimed nodes differ
    (tflite-runtime 2.14 with XNNPACK as a second delegate). Plans for the new shapes are built when
    the host has inferred them."""
    for old in earlier.placed:
        partition, handle = old.partition, old.handle
        if partition is None or native.lib.tg_device_is_lost(partition.device.handle):
            handle = None
            judge = providers.judge(delegate.options)
            graph = old.kept.reshaped(old.kept.key, judge).runs()
            given = delegate.options, delegate.adapter
            partition = providers.rebuild_partition(old.nodes, graph, *given)
        prepared.placed.append(placed := place(delegate.pointer, partition, old.kept, old.manner))
        if handle is None:
            placed.start(partition)
        else:
            made = (native.ffi.cast("tg_partition *", one) for one in (placed.handle, handle))
            native.lib.tg_partition_adopt(*made)
    prepared.nodes, prepared.replaced = earlier.nodes, earlier.replaced


def preview(
    context: Any, ids: Sequence[int], made_for: Mapping[int, int] | None = None
) -> list[list[int]]:
    """Returns the groups into which the host itself divides these nodes, in execution order.
    `made_for` has the host's node for each, where one of these became several nodes."""
    hosts = {node: made_for[node] if made_for else node for node in ids}
    found = snapshot.partitions(native.ffi, context, [*dict.fromkeys(hosts.values())])
    group = {node: k for k, (nodes, _) in enumerate(found) for node in nodes}
    grouped: dict[int | None, list[int]] = {}
    for node in ids:
        grouped.setdefault(group.get(hosts[node]), []).append(node)
    return list(grouped.values())


def place(
    pointer: Any, partition: Partition, kept: Subgraph, manner: delegates.Manner
) -> delegates.Placed:
    """Returns the native kernel of a partition, without a plan. `kept` is its part of the
    host's graph."""
    ffi = native.ffi
    spec = ffi.new("tg_kernel_spec *")
    lists = {
        "node": manner.nodes,
        "input": map(int, kept.ports),
        "output": map(int, kept.outputs),
        "state": map(int, kept.states),
        "shape_only": map(int, kept.others),
        "value": map(int, kept.run_values),
        "caller": manner.callers,
    }
    arrays = {name: ffi.new("int32_t[]", list(values)) for name, values in lists.items()}
    for name, array in arrays.items():
        setattr(spec, f"{name}_list", array)
        setattr(spec, f"{name}_count", len(array))
    flags = ffi.new("uint8_t[]", [int(key in manner.stays) for key in kept.outputs])
    lent = [
        ffi.new("uint8_t[]", [int(key in manner.lent) for key in side])
        for side in (kept.ports, kept.outputs)
    ]
    operators = {node.id: node.title for node in kept.model.nodes}
    words = "\n".join(operators.get(node, "") for node in sorted(manner.nodes))
    names = ffi.new("char[]", words.encode())
    spec.stays, spec.number, spec.names = flags, partition.number, names
    spec.keeps_states = manner.keeps_states
    spec.lent_inputs, spec.lent_outputs = lent
    made = native.call(native.lib.tg_kernel_create, pointer, spec)
    kernel = ffi.gc(made, native.lib.tg_kernel_release)
    return delegates.Placed(partition, kernel, kept, manner)


def _tell(delegate: delegates.Delegate, nodes: Sequence[NodeReport]) -> None:
    """Logs the refused nodes, each text once: hosts prepare again after a resize."""
    text = refusals.text(nodes)
    if text and text not in delegate.logged:
        delegate.logged.add(text)
        providers.log.say(text)
        messages.notify(nodes)


# ---- build ---------------------------------------------------------------------------------------


def build(number: int, kernel: Any, shapes: Any, count: int) -> None:
    """Builds a plan of a kernel. `shapes` holds `count` numbers: for each input its rank and
    extents, then for each run value its element count and elements. Where that fails, runs of the
    kernel fail with a sentence."""
    placed = delegates.kept.claimed(number, GONE)
    placed.build(kernel, providers.parted([int(shapes[k]) for k in range(count)]))


def fell_back(number: int, reason: Any) -> None:
    """Warns that a run of a kernel used the host's own kernels."""
    placed = delegates.kept.partitions.get(number)
    if placed is not None:
        placed.fell_back(bytes(native.ffi.string(reason)).decode(errors="replace"), "TFLite")
