"""`tflgpu kernels MODEL`: shows the WGSL and the launches of a .tflite or .onnx model here, by
node, as a host's interpreter or session has them planned, without running it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tflgpu_plugin import engine
from tflgpu_plugin.cli import check
from tflgpu_plugin.engine import Instance, Partition
from tflgpu_plugin.harness.built import placed
from tflgpu_plugin.ir import Dispatch, Plan
from tflgpu_plugin.options import meant, parse
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.recording import operators

_BINDING = re.compile(r"@binding\((\d+)\) var<storage, \w+> (\w+)_data: array<(.+)>;")
_PARAMETERS = re.compile(r"struct Params \{ (.*) \}")
_FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
ACCESS = {"r": "read", "w": "written"}


@dataclass(frozen=True)
class Binding:
    """One operand of a kernel: its name there, the class of its buffer ("weights", "pool", "input",
    "output" or "state") and its number, and its element type in the kernel."""

    name: str
    access: str
    buffer: str
    elements: str


@dataclass(frozen=True)
class Launch:
    """One dispatch: its host nodes as operator and number, the form in which they are computed, its
    kernel (a key of `kernels`), the number of workgroups per dimension, and the values of its
    uniform block. The option `without` and TFLGPU_WITHOUT take the form, or the op's name where it
    has only one form."""

    nodes: tuple[str, ...]
    names: tuple[str, ...]
    form: str
    kernel: str
    workgroups: tuple[int, int, int]
    bindings: tuple[Binding, ...]
    parameters: dict[str, int | float]


@dataclass(frozen=True)
class Kernel:
    """The complete WGSL of a kernel."""

    wgsl: str


@dataclass(frozen=True)
class PartitionLaunches:
    """The launches of one partition, numbered as in reports."""

    number: int
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class Kernels:
    """The launches of a model in the order in which they run."""

    model: str
    host: str
    adapter: str
    partitions: tuple[PartitionLaunches, ...]
    kernels: dict[str, Kernel]

    def of_node(self, wanted: str) -> Kernels:
        """Returns only the launches that compute this node: its number, its name or an operator.
        Raises ValueError."""
        partitions = tuple(
            replace(one, launches=tuple(x for x in one.launches if wanted in _words(x)))
            for one in self.partitions
        )
        used = {launch.kernel for one in partitions for launch in one.launches}
        if not used:
            known = {w for i in self.partitions for x in i.launches for w in _words(x)}
            raise ValueError(
                f"No launch computes the node {wanted!r}.{meant(wanted, sorted(known))} A node is "
                "named by its number, its operator or its first output; `tflgpu check` lists what "
                "stays on the CPU."
            )
        kernels = {name: kernel for name, kernel in self.kernels.items() if name in used}
        return replace(self, partitions=tuple(i for i in partitions if i.launches), kernels=kernels)

    def lines(self) -> Iterator[str]:
        """Yields lines for a reader: the launches, then the kernels that they name."""
        yield f"{self.model} in {self.host}, {self.adapter}"
        for one in self.partitions:
            yield f"\npartition {one.number}"
            for launch in one.launches:
                yield from _of_launch(launch)
        for name, kernel in self.kernels.items():
            yield f"\n// {name}"
            yield kernel.wgsl


def planned(
    path: Path,
    options: Mapping[str, str],
    host: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Kernels:
    """Prepares the model in a host, with these shapes of inputs, and returns its plans. Raises
    ValueError or RuntimeError with a sentence, also without an adapter, and when no node runs on
    the GPU."""
    info = adapter.select(parse(options).adapter)
    kernels: dict[str, Kernel] = {}
    with engine.watch() as built:
        found = check.check(path, options, host, shapes)
        partitions = tuple(
            PartitionLaunches(number, tuple(_launches(partition, instance, kernels)))
            for number, partition, instance in placed(built, found.report)
        )
    return Kernels(found.model, found.host, info.name, partitions, kernels)


def _launches(
    partition: Partition, instance: Instance, kernels: dict[str, Kernel]
) -> Iterator[Launch]:
    plan = instance.plan
    words, nodes = operators(partition.graph), partition.graph.nodes
    names = {source: n.name for n in nodes for source in (n.sources or (n.id,))}
    for made in plan.dispatches:
        pipeline = plan.pipelines[made.pipeline]
        kernels[pipeline.name] = Kernel(pipeline.wgsl)
        yield Launch(
            tuple(words.get(n, str(n)) for n in made.nodes),
            tuple(dict.fromkeys(names[n] for n in made.nodes if n in names)),
            made.form,
            pipeline.name,
            made.groups,
            tuple(bindings_of(plan, made)),
            parameters_of(plan, made),
        )


def bindings_of(plan: Plan, made: Dispatch) -> Iterator[Binding]:
    pipeline = plan.pipelines[made.pipeline]
    for number, name, elements in _BINDING.findall(pipeline.wgsl):
        buffer = made.buffers[int(number)]
        yield Binding(
            name,
            ACCESS[pipeline.kinds[int(number)]],
            f"{plan.buffers[buffer].role} {buffer}",
            elements,
        )


def parameters_of(plan: Plan, made: Dispatch) -> dict[str, int | float]:
    """Returns the uniform block, by the names of the kernel's struct."""
    fields = _PARAMETERS.search(plan.pipelines[made.pipeline].wgsl)
    pairs = [field.split(": ") for field in fields[1].split(", ")] if fields else []
    form = "<" + "".join(_FORMATS[kind] for _, kind in pairs)
    values = struct.unpack_from(form, plan.uniforms, made.uniform_offset)
    return dict(zip((name for name, _ in pairs), values, strict=True))


def _words(launch: Launch) -> set[str]:
    """Returns the names by which a user may select a node of this launch."""
    return {*launch.names, *(word for node in launch.nodes for word in (node, *node.split()))}


def _of_launch(launch: Launch) -> Iterator[str]:
    x, y, z = launch.workgroups
    yield f"  {', '.join(launch.nodes) or 'input or output'}"
    yield f"    form {launch.form}, {launch.kernel}, {x} x {y} x {z} workgroups"
    for one in launch.bindings:
        yield f"    {one.name}: {one.buffer}, {one.access} as {one.elements}"
    given = ", ".join(f"{name} = {value:g}" for name, value in launch.parameters.items())
    yield f"    {given}"
