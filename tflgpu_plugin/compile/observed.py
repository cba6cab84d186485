"""Plans that end after a launch and return a tensor that it wrote, to find the first wrong one.

Up to that launch they are the plan of the partition: the same kernels in the same order, and every
tensor in the same memory, so that an error caused by aliasing or by a fused launch is
reproduced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tflgpu_plugin import kernels
from tflgpu_plugin.compile.compiler import Assembly
from tflgpu_plugin.compile.launches import IO_LAYOUT, lower
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.graph import Graph, Node, paired
from tflgpu_plugin.ir.plan import Plan, Port
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import io_layout
from tflgpu_plugin.ops.lowering import Raw
from tflgpu_plugin.passes import pipeline


@dataclass(frozen=True)
class Observation:
    """The tensor `tensor` of the partition's graph, complete after the launch number `launch`;
    `reads` are the tensors of the graph that this launch reads. `plan` takes the partition's inputs
    and states, and its only output is the tensor in the host's layout, or, with `order`, its axes
    in this order. `sure` is False for a tensor that a pass has created: that it holds the values of
    the graph's tensor is only inferred from its shape and from the nodes that it replaces."""

    launch: int
    tensor: int
    reads: tuple[int, ...]
    plan: Plan
    order: tuple[int, ...] = ()
    sure: bool = True


@dataclass(frozen=True)
class _Written:
    """A tensor of the rewritten graph, with the number of the launch after which it is complete;
    see `Observation`."""

    launch: int
    stored: int
    tensor: int
    order: tuple[int, ...] = ()


def observations(graph: Graph, target: Target) -> Iterator[Observation]:
    """Yields an observation for each tensor of the partition's graph that launches write and that
    the passes keep or replace, in the order of the launches. Raises Unsupported like
    `compiler.compile`."""
    rewritten = pipeline.run(graph, target)
    made = _Observing(graph, rewritten, lower(rewritten, target))
    plan = made.plan()
    for one in made.written():
        try:
            yield made.observed(plan, one)
        except Unsupported:
            continue  # of a type that has no form on the host


class _Observing(Assembly):
    """Assembles a plan, and copies of it that each end early and return one tensor."""

    def written(self) -> list[_Written]:
        """Returns the tensors that are not empty, each after the last launch that writes it, in the
        order of the launches."""
        last: dict[int, int] = {}
        for place, launch in enumerate(self.low.launches):
            for source in launch.writes:
                root = self.low.root(source)
                if isinstance(root, int):
                    last[root] = last[self.views.find(root)[0]] = place
        anew = self._anew()
        found = []
        for stored, tensor in self.graph.tensors.items():
            root = self.low.root(stored)
            if not isinstance(root, int) or root not in last or 0 in tensor.shape:
                continue
            if stored not in self.original.tensors:
                if stored in anew:
                    found.append(_Written(last[root], stored, *anew[stored]))
            elif self.original.shape(stored) == tensor.shape and self._same_values(stored, stored):
                found.append(_Written(last[root], stored, stored))
        return sorted(found, key=lambda one: (one.launch, one.stored))

    def _anew(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Returns, for each tensor that passes have created, the tensor of the partition's graph
        that it replaces, with the order of its axes. That is the result of the last of the nodes
        that it was made from and that have its type; its axes are in the same order or have the
        channels last, whichever gives its shape."""
        results = {n.id: n.outputs[0] for n in self.original.nodes if len(n.outputs) == 1}
        order = {node.id: place for place, node in enumerate(self.original.nodes)}
        hosts: dict[int, int] = {}
        for node in self.original.nodes:
            for source in node.sources or (node.id,):
                hosts[source] = node.id if len(node.outputs) == 1 else -1
        found = {}
        for node in self.graph.nodes:  # of several nodes made from one, the last remains
            if len(node.outputs) != 1:
                continue
            made_of = {hosts[s] for s in (node.id, *node.sources) if hosts.get(s, -1) in order}
            candidates = [results[n] for n in sorted(made_of, key=order.__getitem__)]
            typed = [t for t in candidates if self._same_values(t, node.outputs[0])]
            if typed:
                found[typed[-1]] = node.outputs[0]
        fitting = {}
        for tensor, stored in found.items():
            shape, wanted = self.original.shape(tensor), self.graph.shape(stored)
            last = (0, *range(2, len(shape)), 1) if len(shape) > 2 else ()
            turned = tuple(shape[axis] for axis in last)
            if (shape == wanted) != (turned == wanted):
                fitting[stored] = tensor, last if turned == wanted else ()
        return fitting

    def _same_values(self, tensor: int, stored: int) -> bool:
        """Whether a tensor of the partition's graph and one of the rewritten graph have the same
        type and quantization. They differ where a pass has moved a dequantization past the
        tensor."""
        there, here = self.original.tensors[tensor], self.graph.tensors[stored]
        return (there.dtype, there.quantization) == (here.dtype, here.quantization)

    def observed(self, plan: Plan, one: _Written) -> Observation:
        """Returns an observation whose plan ends after the launch that completes the tensor, and
        returns the tensor."""
        place, tensor = one.launch, one.stored
        node, raw = Node(-1, IO_LAYOUT, (), (tensor,)), Raw("observed", tensor)
        before, buffers = len(self.low.launches), len(self.buffers)
        value = paired(self.graph.tensors[tensor])
        self.raw[raw] = self._buffer("output", value.bytes)
        start = -(-len(plan.uniforms) // kernels.UNIFORM_BYTES) * kernels.UNIFORM_BYTES
        try:
            self.low.form = IO_LAYOUT
            io_layout.unpack(self.low, node, tensor, raw)
            (unpacking,) = self.low.launches[before:]
            last = self._dispatch(before, unpacking, start)
            more = self.buffers[buffers]
        finally:
            del self.low.launches[before:], self.buffers[buffers:], self.raw[raw]
        uniforms = plan.uniforms.ljust(start, b"\0") + self.block
        first = replace(plan.buffers[0], bytes=-(-len(uniforms) // 16) * 16)
        # The plan's own outputs stay buffers, which its launches may write.
        made = replace(
            plan,
            pipelines=tuple(self.pipelines),
            buffers=(first, *plan.buffers[1:], more),
            uniforms=uniforms.ljust(first.bytes, b"\0"),
            dispatches=(*plan.dispatches[: place + 1], last),
            outputs=(
                Port(tensor, value.name, value.shape, value.port_dtype, buffers, value.bytes),
            ),
        )
        sure = one.stored == one.tensor
        return Observation(place, one.tensor, self._read(place), made, one.order, sure)

    def _read(self, place: int) -> tuple[int, ...]:
        """Returns the tensors of the partition's graph that a launch reads."""
        roots = {self.low.root(source) for source in self.low.launches[place].reads}
        return tuple(t for t in self.original.tensors if t in self.graph.tensors
                     and self.graph.constant(t) is None and self.low.root(t) in roots)  # fmt: skip
