"""Graphs of a model that loops run: which are run once per step (the conditions and bodies of
WHILE, and what these run in turn), and loops that are a recurrent layer.

The host hands over one graph at a time and does not say which it is; while it does so, a delegate
may look into the others. Every one is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import loop_layer
from tflgpu_plugin.importer.loop_body import Body
from tflgpu_plugin.ir.graph import Node, Tensor
from tflgpu_plugin.ir.refusal import Refusal

from .. import HostError
from . import codes, model_file
from .host_node import HostNode, execution_plan, hidden, raw_node, read_node
from .shapes import Walk
from .tensors import listed, read_tensors

LOOP = "WHILE"
BODIES = {LOOP: 2, "IF": 2, "CALL_ONCE": 1}  # operators, with how many graphs they name
FIRST = 0  # the model's own graph


def is_repeated(ffi: Any, context: Any) -> bool:
    """A loop runs the graph of `context` (tgl_context *), so that what a launch costs is paid for
    each step. Raises HostError when the host answers with an error.
    """
    if context.acquire_subgraph == ffi.NULL:
        return False
    search = _Search(ffi, context)
    with opened(ffi, context, FIRST) as first:
        search.visit(first, False)
    return search.mine


class _Search:
    def __init__(self, ffi: Any, context: Any) -> None:
        self.ffi, self.context = ffi, context
        self.mine = False  # `context` has been come by in a loop
        self.seen: set[tuple[int, bool]] = set()

    def visit(self, graph: Any, repeated: bool) -> None:
        """All graphs that this one runs, and itself."""
        key = int(self.ffi.cast("uintptr_t", graph)), repeated
        if key in self.seen:
            return
        self.seen.add(key)
        self.mine |= repeated and graph == self.context
        for index in execution_plan(self.ffi, graph):
            node, registration = raw_node(self.ffi, graph, index)
            name = codes.name(int(registration.builtin_code), "")
            if name not in BODIES or node.params == self.ffi.NULL:
                continue
            named = self.ffi.cast("int32_t *", node.params)
            for k in range(BODIES[name]):
                with opened(self.ffi, self.context, int(named[k])) as body:
                    self.visit(body, repeated or name == LOOP)


@contextmanager
def opened(ffi: Any, context: Any, number: int) -> Iterator[Any]:
    """The graph of this number. The one that is being handed over stays open."""
    found = ffi.new("tgl_context **")
    if context.acquire_subgraph(context, number, found):
        raise HostError(f"The host did not show graph {number} of the model.")
    try:
        yield found[0]
    finally:
        if found[0] != context:
            context.release_subgraph(context, number)


@dataclass
class Bodies:
    """The graphs that nodes of a host's graph (`context`) run. `wanted` tells all tensors that
    something reads, and `as_node` reads a node in the terms of the op contract."""

    context: Any
    walk: Walk
    wanted: Callable[[], AbstractSet[int]]
    as_node: Callable[[HostNode, dict[int, Tensor]], Node]

    def resolved(self, host: HostNode) -> HostNode:
        """A loop as the recurrent layer that it is, or with the reason why it is none: with that
        layer's inputs and outputs, those that the host has no tensors for among the walk's."""
        if host.host_op != LOOP:
            return host
        try:
            return self._layer(host)
        except Unsupported as reason:
            return replace(host, refusal=reason.sentence)

    def _layer(self, host: HostNode) -> HostNode:
        if self.context.acquire_subgraph == host.ffi.NULL:
            raise Unsupported(
                Refusal("host.interface", "This host does not show what a loop runs.")
            )
        inputs = [t for t in host.inputs if t is not None]
        given = [self.walk.view[t] for t in inputs]
        if len(inputs) != len(host.outputs) or any(e < 1 for t in given for e in t.shape):
            raise Unsupported(
                Refusal("dynamic.shape", "The loop carries values whose shapes only a run tells.")
            )
        named = host.params("int32_t")
        bodies = [self._body(host, int(named[k])) for k in (0, 1)]
        found = loop_layer.layer(given, *(body for body, _ in bodies))
        wanted = self.wanted()
        for position, tensor in enumerate(host.outputs):
            if tensor in wanted and position not in found.results:
                raise Unsupported(
                    Refusal(
                        "loop.unsupported",
                        f"Something reads value {position} of the loop, which counts.",
                    )
                )
        arrays = (found.weights, found.recurrent, found.bias, found.content_bias)
        weights, recurrent, bias, content = (
            self._constant(host, k, array) for k, array in enumerate(arrays)
        )
        h, c = [*(inputs[k] for k in found.states), None][:2]
        return replace(
            host,
            inputs=(inputs[found.sequence], weights, recurrent, bias, h, c, content),
            outputs=self._results(host, found, given),
            attributes=found.attributes,
            graphs=tuple(address for _, address in bodies),
        )

    def _body(self, host: HostNode, number: int) -> tuple[Body, int]:
        """A graph of the model, and its address. Raises Unsupported."""
        ffi = host.ffi
        with opened(ffi, self.context, number) as graph:
            inputs, outputs = model_file.order(ffi, (graph, self.context), number)
            plan = execution_plan(ffi, graph)
            raw = [raw_node(ffi, graph, index)[0] for index in plan]
            read = read_tensors(ffi, graph, {t for node in raw for t in listed(node.outputs)})
            if not read.tensors.keys() >= {*inputs, *outputs}:
                raise Unsupported(model_file.DAMAGED)
            hosts = [read_node(ffi, graph, index, read) for index in plan]
            nodes = [self.as_node(one, read.tensors) for one in hosts]
            return Body(nodes, read.tensors, inputs, outputs), int(ffi.cast("uintptr_t", graph))

    def _constant(self, host: HostNode, number: int, data: Any) -> int | None:
        if data is None:
            return None
        tensor = Tensor(f"weights {number} of a loop", data.shape, data=data)
        return self._added(host, number, tensor)

    def _added(self, host: HostNode, number: int, tensor: Tensor) -> int:
        made = hidden(host.id, number)
        self.walk.tensors[made] = tensor
        return made

    def _results(
        self, host: HostNode, found: loop_layer.Layer, given: list[Tensor]
    ) -> tuple[int, ...]:
        """y, h and an LSTM's c, new tensors for those that the loop does not keep."""
        places = {name: host.outputs[position] for position, name in found.results.items()}
        if "y" not in places:
            shape = (1, *given[found.states[0]].shape)
            places["y"] = self._added(host, 4, Tensor("output of a loop", shape))
        return tuple(places[name] for name in "yhc"[: 1 + len(found.states)])
