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
from tflgpu_plugin.importer.partition import Effort
from tflgpu_plugin.importer.state import widened
from tflgpu_plugin.importer.symbols import of_shape
from tflgpu_plugin.ir import (
    DOUBLE,
    FOLDED,
    SINGLE,
    Array,
    Graph,
    Node,
    Refusal,
    ShapeRefusal,
    Tensor,
)
from tflgpu_plugin.ir.symbolic import symbolic

MAX_NODES = 1024  # nodes of all steps: planning takes about a millisecond for each
MAX_STEPS = 512
SECONDS_PER_NODE = 2e-6  # of the nominal GPU (see `partition`): about half a launch


def not_unrolled(why: str, kind: type[Refusal] = Refusal) -> Unsupported:
    """Returns the refusal of a loop that is not unrolled; `why` ends its sentence."""
    sentence = f"It cannot be planned in advance: {why}."
    return Unsupported(kind("loop.unsupported", sentence))


def unrolled(e: Builder, condition: HostModel, body: HostModel) -> list[int]:
    """Adds the nodes of all steps of a loop, and returns the tensors of the values that it carries
    after the last. Raises Unsupported."""
    loop, carried = Steps(e), [e.x(k) for k in range(len(e.inputs))]
    if any(
        key in body.given and body.given.index(key) != slot for slot, key in enumerate(body.outputs)
    ):
        raise not_unrolled("a step moves a value to another place, which hosts copy one by one")
    while _continues(loop, condition, carried):
        after = loop.step(body, carried)
        if len(after) != len(carried):
            raise not_unrolled(f"a step returns {len(after)} values for {len(carried)}")
        carried = after
    loop.check()
    return carried


def _continues(loop: Steps, condition: HostModel, carried: Sequence[int]) -> bool:
    """Whether the loop takes another step. Raises Unsupported if that is known only in a run."""
    found = loop.imported(condition, carried).constants.get(condition.outputs[0])
    return truth(None if found is None else found.data)


def truth(data: Array | None, what: str = "the number of steps") -> bool:
    """Returns a condition that must be known before a run; `what` depends on it. Raises
    Unsupported."""
    if data is None or data.size != 1 or symbolic(data):
        raise not_unrolled(f"{what} is only known in a run")
    return bool(data.reshape(-1)[0])


@dataclass
class Steps:
    """The steps of a loop, which add nodes to those of `e`. `taken` counts them; `total` is their
    number, if that is known before the last."""

    e: Builder
    total: int | None = None
    taken: int = 0

    def check(self) -> None:
        """Raises Unsupported where the launches of this many nodes take longer than the CPU,
        including what a loop on the CPU costs: the graph is in two parts around it."""
        if not self.e.nodes:
            raise not_unrolled("none of its steps has work for the GPU")
        self._check(len(self.e.nodes), self._effort(self.e.nodes))

    def _effort(self, nodes: Sequence[Node]) -> Effort:
        return partition.effort(Graph.over(self.e.tensors.table, *nodes))

    def _check(self, count: int, done: Effort) -> None:
        """Raises Unsupported for this many nodes with this work: see `check`."""
        if count > MAX_NODES:
            raise not_unrolled(f"they have more than {MAX_NODES} nodes together")
        on_gpu = SECONDS_PER_NODE * count + done.on_gpu
        if on_gpu > 2 * partition.SECONDS_PER_RUN + done.on_cpu:
            raise not_unrolled(f"for {done}, {count} launches would take longer than the CPU")

    def _foresee(self, last: Sequence[Node]) -> None:
        """Raises Unsupported after the second step where `check` would raise it after the last, if
        all others are like the second: they are not imported then. (The first may be special.)"""
        more = (self.total or 0) - self.taken
        if self.taken == 2 and more > 0 and last:
            done, step = self._effort(self.e.nodes), self._effort(last)
            self._check(len(self.e.nodes) + more * len(last), done.plus(step, more))

    def imported(self, model: HostModel, carried: Sequence[int]) -> Imported:
        """Returns a graph of the loop, imported for these values. Raises Unsupported."""
        table = self.e.tensors.table
        if len(model.given) != len(carried) or len({*model.given}) < len(carried):
            raise not_unrolled(
                f"a graph with {len(model.given)} inputs is given {len(carried)} values"
            )
        held = self._held(model, carried)
        given = {key: _given(model.values[key], table[t], model.single) for key, t in held.items()}
        shapes = {key: table[t].shape for key, t in held.items()}
        whole = model.loosened(held)
        rows = replace(self.e.table, asks_runs=False)
        lists = self._lists(held)
        sequences = {key: tuple(parts) for key, parts in lists.items()}
        facts = Facts(shapes, sequences=sequences, inner=True)
        for parts in lists.values():
            given |= {key: _element(key, table[t]) for key, t in parts.items()}
        found = import_(replace(whole, values={**whole.values, **given}), rows, facts)
        for node, reason in found.refusals.items():
            name = next(one.host_op for one in found.graph.nodes if one.id == node)
            kind = ShapeRefusal if isinstance(reason, ShapeRefusal) or of_shape(reason) else Refusal
            raise not_unrolled(f"{name} in its body stays on the CPU ({reason.rstrip('.')})", kind)
        if found.graph.states or any(t.counted for t in found.graph.tensors.values()):
            raise not_unrolled("a step has variables, or results whose size only a run determines")
        return found

    def _lists(self, held: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Returns the tensors of each value that is a list of tensors, by keys that stand for them
        in a graph."""
        sequences = self.e.tensors.sequences
        if not self.e.tensors.stacks.isdisjoint(held.values()):
            raise not_unrolled("it reads a sequence that another loop makes")
        return {
            key: {f"{key}\0{k}": element for k, element in enumerate(sequences[t])}
            for key, t in held.items()
            if t in sequences
        }

    def _held(self, model: HostModel, carried: Sequence[int]) -> dict[str, int]:
        """Returns the tensors of the values that a graph is given or reads from the graph around
        it, by their keys in the graph."""
        held = dict(zip(model.given, carried, strict=True))
        for key in model.inputs:
            if key in held:
                continue
            if key not in self.e.captured:
                raise not_unrolled("its body reads a value that the loop is not given")
            held[key] = self.e.captured[key]
        return held

    def step(self, body: HostModel, carried: Sequence[int]) -> list[int]:
        """Adds the nodes of one step and returns what its graph computes. Raises Unsupported."""
        self.taken += 1
        if max(self.taken, self.total or 0) > MAX_STEPS:
            raise not_unrolled(f"it takes more than {MAX_STEPS} steps")
        found, held = self.imported(body, carried), self._held(body, carried)
        inner = dict(held)
        for parts in self._lists(held).values():
            inner |= parts
        ids = {found.ids[key]: t for key, t in inner.items() if key in found.ids}
        known = {key for key, value in body.values.items() if value.data is not None}
        keys = {t: key for key, t in found.ids.items() if key in known}
        tensors, before = found.graph.tensors, len(self.e.nodes)
        for node in found.graph.nodes:
            if node.op == FOLDED:
                continue
            inputs = tuple(None if t is None else self._placed(t, tensors, ids, keys)
                           for t in node.inputs)  # fmt: skip
            outputs = tuple(self.e.tensors.add(tensors[t]) for t in node.outputs)
            ids |= zip(node.outputs, outputs, strict=True)
            self.e.nodes.append(replace(node, id=-1, inputs=inputs, outputs=outputs))
        if len(self.e.nodes) > MAX_NODES:
            raise not_unrolled(f"they have more than {MAX_NODES} nodes together")
        self._foresee(self.e.nodes[before:])
        return [
            held[key] if key in held
            else self._listed(found.sequences[found.ids[key]], ids, keys)
            if found.ids.get(key) in found.sequences
            else self._constant(key, body, found) if found.ids.get(key) not in tensors
            else self._placed(found.ids[key], tensors, ids, keys)
            for key in body.outputs
        ]  # fmt: skip

    def _listed(
        self,
        elements: Sequence[tuple[int, Tensor]],
        ids: dict[int, int],
        keys: Mapping[int, str],
    ) -> int:
        """Returns the list of tensors that a graph returns."""
        return self.e.sequence([self._placed(t, {t: held}, ids, keys) for t, held in elements])

    def _constant(self, key: str, body: HostModel, found: Imported) -> int:
        """Returns a constant that the graph returns and no node of it reads. Raises Unsupported for
        a value that no node writes."""
        stated = body.values[key]
        if key in found.constants:
            return self.e.tensors.add(found.constants[key])
        if stated.data is None:
            raise not_unrolled("no node writes one of its values")
        made = Tensor(stated.name, stated.data.shape, stated.dtype, stated.data)
        return self.e.tensors.add(widened(made))

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
            raise not_unrolled("no node writes one of its values")
        shared = self.e.tensors.shared
        key = (self.e.host.id, "body", keys[tensor]) if tensor in keys else None
        if key is None or key not in shared:
            made = self.e.tensors.add(held)
            if key is not None:
                shared[key] = made
            ids[tensor] = made
            return made
        return shared[key]


def _element(key: str, held: Tensor) -> Value:
    """Returns the value that stands for a tensor of a list in a step's graph."""
    value = Value(key, held.port_dtype, None, quantization=held.quantization)
    return _given(value, held, single=True)


def _given(stated: Value, held: Tensor, single: bool = False) -> Value:
    """Returns an input of a step's graph with the shape and the value that it has in this step.
    `single`: float64 is computed as float32. Raises Unsupported where the graph states another
    type."""
    alike = single and (stated.dtype, held.dtype) == (DOUBLE, SINGLE)
    if not (alike or stated.dtype == held.dtype) or stated.data is not None or stated.variable:
        raise not_unrolled(f"its value {stated.name!r} is of another type in a step")
    if stated.quantization != held.quantization:
        raise not_unrolled(f"its value {stated.name!r} has another quantization in a step")
    if held.counted is not None or any(extent < 0 for extent in held.shape):
        raise not_unrolled(f"the size of its value {stated.name!r} is only known in a run")
    return replace(stated, shape=held.shape, data=held.data)
