"""Compiled models: islands that onnxruntime writes into a model as EPContext nodes, and such nodes
read back. What they carry is a plan with its weights (tflgpu_plugin/stored.py), in the node itself
or in a file beside the model, for one adapter and one version of this plugin.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tflgpu_plugin import cache, compiler, fingerprint, messages, stored
from tflgpu_plugin.engine import BuildError, Island, revived
from tflgpu_plugin.graph import Array
from tflgpu_plugin.runtime.adapter import Device

from .snapshot import HostNode, Snapshot

DOMAIN, OP = "com.microsoft", "EPContext"
SOURCE = b"TflGpuExecutionProvider"
PREFIX = "ep.context_"  # of a session's settings about compiled models
ENABLE, PATH, EMBED = (PREFIX + name for name in ("enable", "file_path", "embed_mode"))
AGAIN = "Compile the original model again on this machine."


@dataclass(frozen=True)
class Export:
    """A compiled model is to be written: its path ("" for the default beside the original), and
    whether it holds the plans itself.
    """

    path: str
    embedded: bool

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Export | None:
        """What a session's settings ask for (an absent embed mode means files beside the model)."""
        if settings.get(ENABLE) != "1":
            return None
        return cls(settings.get(PATH, ""), settings.get(EMBED) == "1")

    def target(self, model: str) -> Path | None:
        """The compiled model's path; None when it goes to memory and the original had none."""
        if self.path:
            return Path(self.path)
        return Path(model).with_name(f"{Path(model).stem}_ctx.onnx") if model else None


@dataclass(frozen=True)
class Context:
    """What an EPContext node carries: the bytes, or the name of the file that holds them."""

    data: bytes
    embedded: bool


def write(
    island: Island,
    ports: Sequence[str],
    outputs: Sequence[str],
    guards: Mapping[str, Array],
    export: Export,
    model: str,
) -> Context:
    """The content for this island's node; writes its file, named by its content, where there
    shall be one. Raises OSError.

    `ports` and `outputs` are the names of the plan's inputs and outputs, `guards` the defaults that
    it was planned with, `model` is the path of the original model.
    """
    plan = compiler.compile(island.graph, island.target)  # with the constants' values
    stream = io.BytesIO()
    names = {
        "inputs": list(ports),
        "outputs": list(outputs),
        "guards": {name: fingerprint.of_array(data).hex() for name, data in guards.items()},
    }
    key = cache.target_key(island.device.target)
    stored.write(stream, plan, key, island.target.tuning, extra=names)
    target = export.target(model)
    if export.embedded or target is None:
        return Context(stream.getvalue(), True)
    digest = sha256(stream.getbuffer()).hexdigest()
    file = target.with_name(f"{target.stem}_tflgpu_{digest[:12]}.bin")
    file.write_bytes(stream.getbuffer())
    return Context(file.name.encode(), False)


def is_ours(node: HostNode) -> bool:
    """A node that this provider has written into a compiled model."""
    return (node.domain, node.op) == (DOMAIN, OP) and node.attributes.get("source") == SOURCE


@dataclass(frozen=True)
class Restored:
    """An island from a node, with the names of its ports and the defaults that it relies on."""

    island: Island
    ports: tuple[str, ...]
    outputs: tuple[str, ...]
    guards: Mapping[str, Array]


def read(node: HostNode, taken: Snapshot, device: Device) -> Restored:
    """Build what a node carries. Raises BuildError with a sentence, also for whatever is wrong with
    its bytes."""
    try:
        found = stored.read(memoryview(_bytes(node, taken.path)))
        if reason := cache.difference(found.key, cache.target_key(device.target)):
            raise stored.Damaged(reason)
        ports, outputs = (tuple(found.extra[name]) for name in ("inputs", "outputs"))
        guards = _guards(found.extra["guards"], taken)
        _check(found, ports, outputs, node, taken)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildError(
            (node.id,), f"The compiled model (node {node.name!r}) cannot be used: {error}. {AGAIN}"
        ) from error
    return Restored(revived((node.id,), found, device), ports, outputs, guards)


def _bytes(node: HostNode, model: str) -> bytes:
    data = node.attributes.get("ep_cache_context", b"")
    if node.attributes.get("embed_mode", 1) == 1:
        return bytes(data)
    name = data.decode()
    if Path(name).name != name or not name:
        raise ValueError(f"the name of its file, {name!r:.80}, leads out of the model's folder")
    if not model:
        raise ValueError(f"it was loaded from memory, but needs the file {name!r} beside it")
    return Path(model).with_name(name).read_bytes()


def _guards(digests: Mapping[str, str], taken: Snapshot) -> dict[str, Array]:
    """The defaults that a run may replace; onnxruntime makes constants of them in what it writes,
    and then they need not be watched."""
    found = {}
    for name, digest in digests.items():
        value = taken.values[name]
        if value.data is None or fingerprint.of_array(value.data).hex() != digest:
            raise ValueError(f"the default of its input {name!r} is not the one it was made with")
        if value.default:
            found[name] = value.data
    return found


def _check(
    found: stored.Stored,
    ports: Sequence[str],
    outputs: Sequence[str],
    node: HostNode,
    taken: Snapshot,
) -> None:
    """The node's values must be those of the plan: their data goes there and comes from there."""
    plan = found.plan
    if not found.weights or plan.states or not set(ports) <= set(node.reads):
        raise ValueError("its content is not that of such a node")
    if set(outputs) != set(node.writes):
        raise ValueError("its outputs are not those it was made with")
    for names, places in ((ports, plan.inputs), (outputs, plan.outputs)):
        for name, port in zip(names, places, strict=True):
            if taken.values[name].dtype != port.dtype:
                raise ValueError(f"its value {name!r} is not of type {port.dtype}")


def told_open(taken: Snapshot) -> str:
    """The sentence for a model whose extents are open, which cannot be compiled; also said."""
    names = {e for v in taken.values.values() for e in v.shape or () if isinstance(e, str)}
    shown = ", ".join(sorted(name for name in names if "\0" not in name)) or "without names"
    text = (
        f"Only nodes of fixed shapes can be compiled into a model, and this one has open extents "
        f"({shown}). Fix them, for example with add_free_dimension_override_by_name."
    )
    messages.line(f"WARNING: tflgpu compiles nothing. {text}")
    return text


def describe(device: Device) -> str:
    """One line about what compiled models are made for, kept in their metadata."""
    key: dict[str, Any] = cache.target_key(device.target)
    return f"tflgpu {key['plugin']}; {key['adapter']}; {key['driver']}"
