"""Unrolls loops: one whose condition depends only on counters becomes the nodes of its body, once
for each step. Counters are known at each step, so what they index is constant, and no step waits
for the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import partition
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.imported import Facts, Imported
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostModel, Value
from tflgpu_plugin.ir import FOLDED, Graph, Tensor

MOST_NODES = 1024  # nodes of all steps: planning takes about a millisecond for each
MOST_STEPS = 512
SECONDS_PER_NODE = 2e-6  # of the nominal GPU (see `partition`): about half a launch


def refused(why: str) -> Unsupported:
    """Returns the refusal of a loop that is not unrolled; `why` ends its sentence."""
    return Unsupported.of("loop.unsupported", f"Its steps cannot be planned in advance: {why}.")


def unrolled(e: Builder, condition: HostModel, body: HostModel) -> list[int]:
    """Adds the nodes of all steps of a loop, and returns the tensors of the values that it carries
    after the last. Raises Unsupported."""
    loop, carried = _Steps(e), [e.x(k) for k in range(len(e.inputs))]
    taken = 0
    while _continues(loop, condition, carried):
        taken += 1
        if taken > MOST_STEPS:
            raise refused(f"it takes more than {MOST_STEPS} steps")
        carried = loop.step(body, carried)
        if len(e.nodes) > MOST_NODES:
            raise refused(f"they have more than {MOST_NODES} nodes together")
    if not e.nodes:
        raise refused("they compute nothing on tensors")
    _check_gain(e)
    return carried


def _check_gain(e: Builder) -> None:
    """Raises Unsupported where the launches of so many nodes take longer than the CPU, including
    what a loop on the CPU costs: the graph is in two parts around it."""
    done = partition.effort(Graph.over(e.tensors.table, *e.nodes))
    on_gpu = SECONDS_PER_NODE * len(e.nodes) + done.on_gpu
    if on_gpu > 2 * partition.SECONDS_PER_RUN + done.on_cpu:
        raise refused(f"for {done}, {len(e.nodes)} launches would take longer than the CPU")


def _continues(loop: _Steps, condition: HostModel, carried: Sequence[int]) -> bool:
    """Whether the loop takes another step. Raises Unsupported if that is known only in a run."""
    found = loop.imported(condition, carried)
    tensor = found.graph.tensors.get(found.ids.get(next(iter(condition.outputs)), -1))
    if tensor is None or tensor.data is None or tensor.data.size != 1:
        raise refused("the number of steps is only known in a run")
    return bool(tensor.data.reshape(-1)[0])


@dataclass
class _Steps:
    """The steps of a loop, which add nodes to those of `e`."""

    e: Builder

    def imported(self, model: HostModel, carried: Sequence[int]) -> Imported:
        """Returns a graph of the loop, imported for these values. Raises Unsupported."""
        table = self.e.tensors.table
        if len(model.given) != len(carried) or len({*model.given}) < len(carried):
            raise refused(f"a graph with {len(model.given)} inputs is given {len(carried)} values")
        given = {
            key: _given(model.values[key], table[tensor], number)
            for number, (key, tensor) in enumerate(zip(model.given, carried, strict=True))
        }
        shapes = {key: table[t].shape for key, t in zip(model.given, carried, strict=True)}
        whole = model.loosened(model.given)
        found = import_(
            replace(whole, values={**whole.values, **given}), self.e.table, Facts(shapes)
        )
        for node, reason in found.refusals.items():
            name = next(one.host_op for one in found.graph.nodes if one.id == node)
            raise refused(f"{name} in its body stays on the CPU ({reason.rstrip('.')})")
        if found.graph.states or any(t.counted for t in found.graph.tensors.values()):
            raise refused("a step has variables, or results whose size only a run determines")
        return found

    def step(self, body: HostModel, carried: Sequence[int]) -> list[int]:
        """Adds the nodes of one step and returns what it carries to the next. Raises
        Unsupported."""
        if any(
            key in body.given and body.given.index(key) != slot
            for slot, key in enumerate(body.outputs)
        ):
            raise refused("a step moves a value to another place, which hosts copy one by one")
        found = self.imported(body, carried)
        ids = {found.ids[key]: t for key, t in zip(body.given, carried, strict=True)}
        keys = {t: key for key, t in found.ids.items() if body.values[key].data is not None}
        tensors = found.graph.tensors
        for node in found.graph.nodes:
            if node.op == FOLDED:
                continue
            inputs = tuple(None if t is None else self._placed(t, tensors, ids, keys)
                           for t in node.inputs)  # fmt: skip
            outputs = tuple(self.e.tensors.add(tensors[t]) for t in node.outputs)
            ids |= zip(node.outputs, outputs, strict=True)
            self.e.nodes.append(replace(node, id=-1, inputs=inputs, outputs=outputs))
        made = (found.ids[key] for key in body.outputs)
        after = [self._placed(t, tensors, ids, keys) for t in made]
        if len(after) != len(carried):
            raise refused(f"a step returns {len(after)} values for {len(carried)}")
        return after

    def _placed(
        self,
        tensor: int,
        tensors: Mapping[int, Tensor],
        ids: dict[int, int],
        keys: Mapping[int, str],
    ) -> int:
        """Returns the tensor of the model for one of a step. Constants of the body, which are in
        `keys`, are shared by all steps."""
        if tensor in ids:
            return ids[tensor]
        held = tensors.get(tensor)
        if held is None or held.data is None:
            raise refused("no node writes one of its values")
        shared = self.e.tensors.shared
        key = (self.e.host.id, "body", keys[tensor]) if tensor in keys else None
        if key is None or key not in shared:
            made = self.e.tensors.add(held)
            if key is not None:
                shared[key] = made
            ids[tensor] = made
            return made
        return shared[key]


def _given(stated: Value, held: Tensor, number: int) -> Value:
    """Returns an input of a step's graph with the shape and the value that it has in this step.
    Raises Unsupported where the graph states another type."""
    if stated.dtype != held.dtype or stated.data is not None or stated.variable:
        raise refused(f"its value {number} is of another type in a step")
    if stated.quantization != held.quantization:
        raise refused(f"its value {number} has another quantization in a step")
    return replace(stated, shape=held.shape, data=held.data)
