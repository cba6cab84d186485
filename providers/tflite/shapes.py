"""Which shapes of a TFLite graph are known before it runs.

The host leaves a shape open when the value of a computed tensor decides it, and then all after
it. Where that value is shape arithmetic (`importer.folding`), it and the shapes after it are worked
out here; what is still open may even be empty, so nodes that touch it stay with the host.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import folding
from tflgpu_plugin.ir.graph import FOLDED, STORE, Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.passes.quant.dequantize import dequantized

from . import ops as table
from .host_node import HostNode
from .tensors import SPARSE, Sparse

# What it reads has the shape that the model file says, or, where that has no extents, may get any
# in a run; the host prepares the nodes after it anew then.
_STATED = "READ_VARIABLE"
# A graph of the model of whose results it says the shapes, unless it leaves extents open.
_COMPOSITE = "STABLEHLO_COMPOSITE"
RANDOM = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}  # of constants, yet none


@dataclass
class Walk:
    """Goes through a graph in execution order. `tensors` get the shapes that are known, all extents
    -1 where only a run tells; `known` are results of shape arithmetic and of constants; `chained`
    are all that follow from constants alone, whether they could be worked out here or not; `unfit`
    are nodes that make nothing of inputs that have something.
    """

    tensors: dict[int, Tensor]
    sparse: Mapping[int, Sparse] = field(default_factory=dict)
    assumed: Collection[int] = ()  # have other shapes here than in the host
    constants: Collection[int] = ()  # in the model, whether they can be read or not
    loose: Collection[int] = ()  # the model leaves extents open: what it says may hold a place
    unfit: set[int] = field(default_factory=set)
    known: dict[int, Tensor] = field(default_factory=dict)
    chained: set[int] = field(default_factory=set)
    _later: dict[int, Node] = field(default_factory=dict)  # makes this float32 constant of another
    _widened: dict[int, Tensor] = field(default_factory=dict)  # of these, where it was asked for
    _open: set[int] = field(default_factory=set)  # the host does not tell these shapes yet
    _doubtful: set[int] = field(default_factory=set)  # not worked out, or not as the host tells

    @property
    def view(self) -> Mapping[int, Tensor]:
        """The tensors, known values among the constants."""
        return ChainMap(self.known, self.tensors)

    def __post_init__(self) -> None:
        self._open.update(self.assumed)

    def annotate(self, host: HostNode, node: Node) -> Node:
        """The node, or the constant-folded one in its place; its outputs' shapes are as known from
        now on."""
        if self._is_decided(host) or self._open.intersection(_present(host.inputs)):
            self._open.update(host.outputs)
        if self._is_fixed(host, node):
            self.chained.update(host.outputs)
            try:
                if (worked_out := self._constant(host, node)) is not None:
                    return worked_out
            except Unsupported as unreadable:
                node = replace(node, refusal=unreadable.sentence)
        if (worked_out := self._value(host, node)) is not None:
            return worked_out
        found = self._derived(host, node)
        if found is not None and host.host_op.startswith("CUSTOM "):
            # Files tell no shape where hosts work it out when they prepare the node.
            self._open.update(t for t in host.outputs if self.tensors[t].shape == ())
        if found is not None and (reason := self._contradiction(host, found)):
            node, found = replace(node, refusal=reason), None
        for k, index in enumerate(host.outputs):
            shape = found[k] if found is not None and k < len(found) else None
            self._learn(index, shape)
        return node

    def _contradiction(self, host: HostNode, derived: Sequence[Shape]) -> Refusal | None:
        """Hosts cannot tell the shape of a custom operator's result, but the model file does; they
        do not agree on what follows when that is another than the operator makes."""
        if not host.host_op.startswith("CUSTOM "):
            return None
        for index, shape in zip(host.outputs, derived, strict=True):
            stated = self.tensors[index].shape
            if stated not in ((), shape) and not self.assumed:
                return Refusal(
                    "shape.contradiction",
                    f"The model says that its result has the shape {list(stated)}, but by its "
                    f"input and parameters it has {list(shape)}.",
                )
        return None

    def _learn(self, index: int, shape: Shape | None) -> None:
        tensor = self.tensors[index]
        if index in self.loose and shape is not None:
            self.tensors[index] = replace(tensor, shape=shape)
        if index in self._open:
            unknown = (-1,) * max(1, len(tensor.shape))
            self.tensors[index] = replace(tensor, shape=unknown if shape is None else shape)
        if shape != self.tensors[index].shape:
            self._doubtful.add(index)

    def _is_decided(self, host: HostNode) -> bool:
        """By the value of something that is no constant of the model."""
        name = host.host_op.split(" ")[0]
        if host.refusal or name in table.OPAQUE or name.startswith("op"):
            return True
        if name == _COMPOSITE:
            return any(t in self.loose for t in host.outputs)
        if name.startswith("STABLEHLO") and name not in table.HOST_OPS:
            return True
        return any(self.tensors[t].data is None for t in _deciding(host))

    def _value(self, host: HostNode, node: Node) -> Node | None:
        """The constant-folded node when its results are shape arithmetic, from shapes on."""
        inputs, view = _present(node.inputs), self.view
        if self._doubtful.intersection(inputs) or len(inputs) < len(node.inputs):
            return None
        reached = not self.known.keys().isdisjoint(inputs)
        if node.row is not None and not reached:  # what reads shapes has no kernel
            return None
        tensors = [view[t] for t in inputs]
        step = step_of(host, node, tensors)
        if step is None or not (step.of_shapes or reached):
            return None
        found = folding.known(step, tensors, [self.tensors[t] for t in host.outputs])
        return None if found is None else self._known(host, node, found, {folding.STEP: step})

    def _known(
        self, host: HostNode, node: Node, found: Sequence[Tensor], given: Mapping[str, Any]
    ) -> Node | None:
        """The constant-folded node of these results, None when the host tells other shapes."""
        for index, tensor in zip(host.outputs, found, strict=True):
            if index not in self._open and self.tensors[index].shape != tensor.shape:
                return None
        for index, tensor in zip(host.outputs, found, strict=True):
            self.known[index] = tensor
            self.tensors[index] = replace(self.tensors[index], shape=tensor.shape)
        return replace(node, op=FOLDED, attributes=given, row=None, refusal=None)

    def _is_fixed(self, host: HostNode, node: Node) -> bool:
        """The node reads what follows from constants alone, and nothing else decides its result."""
        inputs = _present(host.inputs)
        if not inputs or host.host_op in RANDOM or node.op == STORE:
            return False
        fixed = (self.chained, self.sparse, self.constants)
        return all(
            self.tensors[t].data is not None or any(t in some for some in fixed) for t in inputs
        )

    def _constant(self, host: HostNode, node: Node) -> Node | None:
        """The constant-folded node when its results follow from constants. What only makes float32
        of them stays as it is: that is done where the graph is prepared. Raises Unsupported."""
        if node.op == "dequantize" and node.refusal is None:
            self._later[host.outputs[0]] = node
            return None
        inputs = _present(node.inputs)
        if host.host_op == SPARSE and not self.sparse.keys() & set(inputs):
            raise Unsupported(Refusal("input.unsupported", "Its input is not sparse."))
        values = [self._value_of(t, host.host_op) for t in inputs]
        if len(inputs) < len(node.inputs) or any(value.data is None for value in values):
            return None
        step = step_of(host, node, values)
        found = folding.constants(node, step, values, [self.tensors[t] for t in host.outputs])
        return None if found is None else self._known(host, node, found, {})

    def _value_of(self, index: int, reader: str) -> Tensor:
        """A tensor that follows from constants, with its value where that is known. Raises
        Unsupported.
        """
        if index in self.sparse and reader == SPARSE:
            return self.sparse[index]()
        if index not in self._later or self.tensors[index].dtype != "f32":
            return self.view[index]
        if index not in self._widened:
            (source,) = _present(self._later[index].inputs)
            value = dequantized(self.view[source])
            self._widened[index] = replace(self.tensors[index], data=value)
        return self._widened[index]

    def _derived(self, host: HostNode, node: Node) -> Sequence[Shape] | None:
        """The outputs' shapes by the inputs' shapes and known values alone."""
        inputs, name = _present(host.inputs), host.host_op
        if name == _STATED:
            return [self.tensors[t].shape for t in host.outputs]
        if name == _COMPOSITE and not (self._open | self._doubtful).intersection(inputs):
            return [self.tensors[t].shape for t in host.outputs]
        if self._doubtful.intersection(inputs) or host.refusal or name in table.OPAQUE:
            return None
        if any(self.view[t].data is None for t in _deciding(host)):
            return None
        if name in table.CPU_OPS and table.CPU_OPS[name].spreads:
            with suppress(ValueError):
                return [broadcast(*(self.tensors[t].shape for t in inputs))]
        op = ops.rows().get(node.op)
        if op is None or node.row is None:
            return None
        whole = all(extent > 0 for t in inputs for extent in self.tensors[t].shape)
        whole &= node.refusal is None
        try:
            found: list[Shape] | None = [
                tuple(s) for s in op.shapes(Graph.over(self.view, node), node)
            ]
        except Exception:  # whoever runs the node will say what is wrong with it
            found = None
        if whole and (found is None or any(extent < 1 for shape in found for extent in shape)):
            self.unfit.add(host.id)
        return found


def step_of(host: HostNode, node: Node, inputs: Sequence[Tensor]) -> folding.Step | None:
    """What a node does to inputs in the order of its op; None when that is not known, or not for
    inputs of these types."""
    outputs = [host.tensors[t] for t in host.outputs]
    found = None
    if node.row is not None:
        found = folding.of_op(node.op, node.attributes, outputs)
    elif row := table.CPU_OPS.get(host.host_op):
        found = folding.of_op(row.op, {}, outputs)
    if found is None or (found.inexact and any(t.dtype[0] == "f" for t in inputs)):
        return None
    return found


def _present(inputs: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(t for t in inputs if t is not None)


def _deciding(host: HostNode) -> tuple[int, ...]:
    """Inputs whose values decide the outputs' shapes."""
    row = table.HOST_OPS.get(host.host_op) or table.CPU_OPS.get(host.host_op)
    places = row.deciding if row else ()
    return _present([host.inputs[k] for k in places if k < len(host.inputs)])
