"""Writes partitions into compiled models as EPContext nodes, and reads such nodes back. A node
carries a plan with its weights (tflgpu_plugin/cache/plan_file.py), either in its attribute or in a
file beside the model, for one adapter and one version of this plugin."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin import providers
from tflgpu_plugin.cache import codec, folders, plan_file
from tflgpu_plugin.ir import Array, Plan, Refusal, Shape, digests
from tflgpu_plugin.providers import AdapterInfo, BuildError, HostNode, Options, Partition

from .reader import TABLE
from .snapshot import Snapshot

DOMAIN, OP = "com.microsoft", "EPContext"
SOURCE = b"TflGpuExecutionProvider"
PREFIX = "ep.context_"  # prefix of the session options for compiled models
ENABLE, PATH, EMBED = (PREFIX + name for name in ("enable", "file_path", "embed_mode"))
BODY = Refusal(
    "operator.host_only",
    "onnxruntime does not compile the bodies of control-flow nodes; this node stays in the model.",
)
AGAIN = "Compile the original model again on this machine."


@dataclass(frozen=True)
class Export:
    """A compiled model to write. `path` is its file, "" for the default beside the original model;
    `embedded` is whether the model contains the plans or refers to files beside it."""

    path: str
    embedded: bool

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Export | None:
        """Returns the export that the session options request, or None. Plans go to files
        beside the model unless ep.context_embed_mode is 1."""
        if settings.get(ENABLE) != "1":
            return None
        return cls(settings.get(PATH, ""), settings.get(EMBED) == "1")

    def target(self, model: str) -> Path | None:
        """Returns the path of the compiled model, where `model` is the path of the original one;
        None if neither has a path."""
        if self.path:
            return Path(self.path)
        return Path(model).with_name(f"{Path(model).stem}_ctx.onnx") if model else None


@dataclass(frozen=True)
class Context:
    """The content of an EPContext node. `data` is the plan if `embedded`, else the name of the file
    that holds it."""

    data: bytes
    embedded: bool


@dataclass(frozen=True)
class Interface:
    """Maps the values of a fused node to the ports of its plan. `ports` and `outputs` name the
    plan's inputs and outputs; `inputs` names all values whose shape the plan depends on, and
    `shapes` holds the shapes that it was made for. `part` holds the nodes, for runs on the host's
    kernels and, if `open`, for plans with other shapes or `run_values` (values that the plan is
    specialized for). `arithmetic` are the ids of nodes that are shape arithmetic. `guards` are
    default values of inputs that were planned as constants (a compiled model stores digests). For
    each count `grows` tells whether no bound of it is known (see `Tensors.growing`)."""

    ports: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: tuple[Shape, ...]
    part: Snapshot | None = None
    arithmetic: tuple[int, ...] = ()
    run_values: Mapping[str, Array] = field(default_factory=dict)
    open: bool = False
    guards: Mapping[str, Array] = field(default_factory=dict, compare=False)
    grows: tuple[bool, ...] = ()

    @property
    def key(self) -> tuple[tuple[int, ...], ...]:
        """Returns the key of the first plan: the shapes of `inputs`, then the numbers of each of
        the `run_values`, and the room for counts that grow."""
        values = (*self.run_values.values(), *self.rooms)
        return (*self.shapes, *map(providers.numbers, values))

    @property
    def rooms(self) -> list[Array]:
        """Returns the room that the first plan has for counts that grow, as an array, if there is
        such a count."""
        return [np.array([providers.FIRST_ROOM])] if any(self.grows) else []

    @property
    def clamps(self) -> list[bool]:
        """Returns for each of the `run_values` whether integers beyond int32 mean the same as the
        nearest ones in it."""
        part = self.part
        return [part is not None and providers.clamps(part, TABLE, key) for key in self.run_values]


def write(
    partition: Partition, interface: Interface, export: Export, model: str,
    others: Iterable[tuple[Plan, Mapping[str, Any]]] = (),
) -> Context:  # fmt: skip
    """Returns the content of the partition's EPContext node, and writes the file of its plans
    unless they are embedded; the file name contains the digest. `model` is the path of the original
    model, `others` are plans for other shapes. Raises BuildError if the file cannot be written."""
    arrays: dict[str, Array] = {}
    extra = {
        "interface": codec.encode(interface, arrays),
        "guards": {name: digests.of_array(data).hex() for name, data in interface.guards.items()},
    }
    data = providers.packed(partition, extra, arrays, others)
    target = export.target(model)
    if export.embedded or target is None:
        return Context(data, True)
    digest = sha256(data).hexdigest()
    file = target.with_name(f"{target.stem}_tflgpu_{digest[:12]}.bin")
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        try:
            with part.open("xb") as stream:  # a new file, so that no link can redirect the write
                stream.write(data)
            os.replace(part, file)  # a compiled model that is there stays whole until then
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        sentence = f"{file} cannot be written ({error.strerror}); {PATH} names the compiled model."
        raise BuildError.of(partition.nodes, "device.build_failed", sentence) from error
    return Context(file.name.encode(), False)


def is_ours(node: HostNode) -> bool:
    """Whether `node` is an EPContext node that this provider wrote."""
    return (node.domain, node.op) == (DOMAIN, OP) and node.attributes.get("source") == SOURCE


def read(
    node: HostNode, taken: Snapshot, adapter: AdapterInfo, options: Options
) -> tuple[Partition, Interface]:
    """Returns (partition, interface) from the EPContext node `node`, ready to run. Raises
    BuildError if its content is damaged or was compiled for another model, adapter or version."""
    try:
        every = providers.unpacked(_bytes(node, taken.path), adapter, options)
        interface = _interface(every[0], taken)
        check_node(every[0], interface, node, taken)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sentence = f"The compiled model (node {node.name!r}) cannot be used: {error}. {AGAIN}"
        raise BuildError.of((node.id,), "model.damaged", sentence) from error
    return providers.restore_partition((node.id,), every, adapter, options), interface


def _interface(found: plan_file.Stored, taken: Snapshot) -> Interface:
    stored: Interface = codec.decode(Interface, found.extra["interface"], found.arrays)
    part = stored.part or Snapshot((), {}, ())
    for node in part.nodes:
        if missing := {*node.reads, *node.writes} - {*part.values}:
            raise codec.Mismatch(f"the values {sorted(missing)[:3]} are missing")
    return replace(stored, guards=_guards(found.extra["guards"], taken))


def _bytes(node: HostNode, model: str) -> bytes:
    data = node.attributes.get("ep_cache_context", b"")
    if node.attributes.get("embed_mode", 1) == 1:
        return bytes(data)
    name = data.decode()
    if Path(name).name != name or not name:
        raise ValueError(
            f"the name of its file, {name!r:.80}, points outside of the model's folder"
        )
    if not model:
        raise ValueError(f"it was loaded from memory, but needs the file {name!r} beside it")
    with os.fdopen(folders.opened(Path(model).with_name(name), None, private=False), "rb") as file:
        start = file.read(plan_file.PREAMBLE.size)
        plan_file.begin(start, os.fstat(file.fileno()).st_size)
        return start + file.read()


def _guards(recorded: Mapping[str, str], taken: Snapshot) -> dict[str, Array]:
    """Returns the default values that a run may override. onnxruntime turns some defaults into
    constants when it writes a model; those cannot be overridden. Raises ValueError if a value
    differs from the recorded digest."""
    found = {}
    for name, digest in recorded.items():
        value = taken.values[name]
        if value.data is None or digests.of_array(value.data).hex() != digest:
            raise ValueError(
                f"the default of its input {name!r} is not the one that it was compiled with"
            )
        if value.default:
            found[name] = value.data
    return found


def check_node(
    found: plan_file.Stored, interface: Interface, node: HostNode, taken: Snapshot
) -> None:
    """Raises ValueError unless names, types and shapes of the node's values match the stored plan,
    which would otherwise access their memory out of bounds."""
    plan, inputs = found.plan, interface.inputs
    if plan.states or not set(inputs) <= set(node.reads):
        raise ValueError("its content is not that of an EPContext node of this plugin")
    if set(interface.outputs) != set(node.writes):
        raise ValueError("its outputs are not those that it was compiled with")
    planned = tuple(port.shape for port in plan.inputs)
    first = inputs[: len(planned)], interface.shapes[: len(planned)]
    known = interface.part.values if interface.part else {}
    missing = interface.part and {*inputs} - {*known}
    if first != (interface.ports, planned) or len(interface.shapes) != len(inputs) or missing:
        raise ValueError("its inputs are not those that it was compiled with")
    for name in (*inputs, *interface.outputs) if known else ():
        if taken.values[name].dtype != known[name].dtype:
            raise ValueError(f"its value {name!r} has another type than it was compiled with")
    outputs, counts = plan.outputs[: len(interface.outputs)], plan.outputs[len(interface.outputs) :]
    if {*plan.counts} != {*range(len(outputs), len(plan.outputs))}:
        raise ValueError("its element counts do not come after its outputs")
    for port in plan.outputs:
        if port.counted and not 0 <= port.counted[0] < len(port.shape):
            raise ValueError(f"its value {port.name!r} lacks the axis whose elements are counted")
    if any((port.dtype, port.shape) != ("i32", ()) for port in counts):
        raise ValueError("its element counts are not scalars")
    if len(interface.grows) != len(counts):
        raise ValueError("its element counts are not those that it was compiled with")
    for names, places in ((interface.ports, plan.inputs), (interface.outputs, outputs)):
        for name, port in zip(names, places, strict=True):
            if taken.values[name].dtype != port.dtype:
                raise ValueError(f"its value {name!r} is not of type {port.dtype}")
