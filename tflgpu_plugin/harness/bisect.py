"""Finds the first launch on the GPU whose result differs from the host's CPU kernels.

Every partition is fed the input values that the CPU computed and runs repeatedly, each time
stopping at a later launch (see `compile.observed`), so that the launch that makes an error is
found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin import engine, native, ops
from tflgpu_plugin.compile.observed import Observation, observations
from tflgpu_plugin.engine import Instance, Partition
from tflgpu_plugin.harness.agreement import TOLERANCE, Agreement, Array, agree
from tflgpu_plugin.harness.built import WithConstants, placed, ran
from tflgpu_plugin.harness.compare import Subject, judged
from tflgpu_plugin.ir import NUMPY_DTYPES, Graph, Node, quantization
from tflgpu_plugin.ops import evaluation
from tflgpu_plugin.runtime.program import Program
from tflgpu_plugin.runtime.recording import operators

LIMIT = 1 << 27  # elements of a tensor that is evaluated in numpy
Pair = tuple[Array, Array]  # values on the reference kernels, and on the host's next faster ones


@dataclass(frozen=True)
class Suspect:
    """A launch: its number in the partition, its kernel, the form that made it, and the host's
    nodes that it computes, as operator and number."""

    launch: int
    kernel: str
    form: str
    nodes: tuple[str, ...]

    def line(self) -> str:
        nodes = f", of {', '.join(self.nodes)}" if self.nodes else ""
        return f"launch {self.launch}, kernel {self.kernel}, form {self.form}{nodes}"


@dataclass(frozen=True)
class Cut:
    """A part of a model: what computes `result` from `sources`, which are probes of the subject."""

    sources: tuple[Any, ...]
    result: Any


@dataclass(frozen=True)
class Wrong:
    """The first wrong tensor of a partition (numbered as in reports). `suspects` are the launches
    after the last result that agreed; the last of them completes the tensor. `inputs` are the
    compared tensors that this last launch reads. `cut` is what the suspects compute, if the model
    has a tensor for its result."""

    partition: int
    agreement: Agreement
    suspects: tuple[Suspect, ...]
    inputs: tuple[Agreement, ...]
    cut: Cut | None = None


@dataclass(frozen=True)
class Bisection:
    """The result of a search: how many results of launches were compared, how many launches there
    are, and the first wrong result in each partition that has one."""

    compared: int
    launches: int
    wrong: tuple[Wrong, ...]

    @property
    def forms(self) -> tuple[str, ...]:
        """Returns those names of the suspects' forms that the option `without` accepts: names of
        forms, and of ops that have only one form."""
        found = dict.fromkeys(one.form for each in self.wrong for one in each.suspects)
        return tuple(name for name in found if name in ops.form_names() or ops.row(name))


@dataclass(frozen=True)
class Part:
    """A partition (numbered as in reports), its instance, its graph with constants, and the probes
    of the graph's tensors that the model has."""

    number: int
    partition: Partition
    instance: Instance
    graph: Graph
    probes: Mapping[int, Any]


def bisect(subject: Subject, options: Mapping[str, Any], tolerance: float = TOLERANCE) -> Bisection:
    """Returns where the partitions of a model first differ from the host's CPU kernels. Raises what
    the host raises, and RuntimeError if nothing runs on the GPU."""
    found, subject = WithConstants(), subject.fixed()  # a plan for other shapes has no graph
    with engine.watch(found):
        running = subject.start(options)
        running.run()
        parts = [
            _part(subject, number, partition, instance, found.graphs[partition.number])
            for number, partition, instance in placed(ran(found), running.report())
        ]
    values = _on_the_cpu(subject, parts)
    searched = [_searched(part, _derived(part.graph, values), tolerance) for part in parts]
    return Bisection(
        sum(count for count, _ in searched),
        sum(len(part.instance.plan.dispatches) for part in parts),
        tuple(wrong for _, wrong in searched if wrong is not None),
    )


def _searched(part: Part, known: Mapping[int, Pair], tolerance: float) -> tuple[int, Wrong | None]:
    """Returns how many results of a partition were compared, and the first wrong one. A tensor that
    may not be the host's (see `Observation.sure`) is reported as wrong only if a later one, which
    certainly is the host's, is wrong, too."""
    compared, last, good = 0, -1, dict[int, Agreement]()
    doubt: Wrong | None = None
    if not known.keys() >= {*part.graph.inputs}:
        return 0, None
    for seen in observations(part.graph, part.partition.target):
        if seen.tensor not in known:
            continue
        found = _compared(part, seen, known, tolerance)
        compared += 1
        if found.ok:
            good[seen.tensor], last, doubt = found, seen.launch, None
            continue
        reads = tuple(good[t] for t in seen.reads if t in good)
        suspects = tuple(_suspects(part.partition, seen, last))
        doubt = doubt or Wrong(part.number, found, suspects, reads, _cut(part, seen, last))
        if seen.sure:
            return compared, doubt
    return compared, None


def _part(
    subject: Subject, number: int, partition: Partition, instance: Instance, graph: Graph
) -> Part:
    names = {t: x.name for t, x in graph.tensors.items() if x.data is None}
    return Part(number, partition, instance, graph, subject.probes_of(names))


def _cut(part: Part, seen: Observation, last: int) -> Cut | None:
    """Returns the part of the model that the launches after number `last` compute, up to the
    observed tensor or, if the model does not have it, to one that follows from it."""
    graph, probes = part.graph, part.probes
    computed = {n for made in seen.plan.dispatches[last + 1 : seen.launch + 1] for n in made.nodes}
    reached, result = {seen.tensor}, seen.tensor
    for node in graph.nodes:
        if result not in probes and not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            result = next((t for t in node.outputs if t in probes), result)
    if result not in probes:
        return None
    makers, sources, pending = graph.producers(), dict[int, None](), [result]
    for tensor in pending:  # which grows meanwhile
        maker = makers.get(tensor)
        inside = tensor == result or tensor not in probes
        if maker and (inside or not computed.isdisjoint((maker.id, *maker.sources))):
            pending += (t for t in maker.inputs if t is not None and t not in pending)
        else:
            sources[tensor] = None
    return Cut(tuple(probes[t] for t in sources if t in probes), probes[result])


def _on_the_cpu(subject: Subject, parts: Sequence[Part]) -> dict[int, dict[int, Pair]]:
    """Returns, by `id` of the graph, the values of its tensors that are also in the model."""
    given = subject.given()
    wanted = list(
        dict.fromkeys(p for part in parts for p in part.probes.values() if p not in given)
    )
    rich = subject.probed(wanted) if wanted else subject
    reference, _, faster = judged(rich)
    first, second = reference.run(), rich.start(None, faster).run()
    # The probes are the last outputs, in their order.
    own = len(first) - len(wanted)
    values: dict[Any, Pair] = {probe: (value, value) for probe, value in given.items()}
    values.update(zip(wanted, zip(first[own:], second[own:], strict=True), strict=True))
    return {
        id(part.graph): {t: values[probe] for t, probe in part.probes.items() if probe in values}
        for part in parts
    }


def _derived(graph: Graph, values: Mapping[int, Mapping[int, Pair]]) -> dict[int, Pair]:
    """Returns the values of a graph's tensors: those of the host, and those that can be derived
    from them, because a node only moves elements or can be evaluated in numpy."""
    known = {t: pair for t, pair in values[id(graph)].items() if pair[0].shape == graph.shape(t)}
    for _ in range(2):
        for node in graph.nodes:
            _evaluate(graph, node, known)
        for node in reversed(graph.nodes):
            _invert(graph, node, known)
    return known


def _evaluate(graph: Graph, node: Node, known: dict[int, Pair]) -> None:
    """Adds the results of a node whose inputs are known."""
    op = ops.row(node.op)
    if op is None or not evaluation.known(op) or known.keys() >= {*node.outputs} or node.epilogue:
        return
    found = []
    for side in (0, 1):
        values = [None if t is None else _value(graph, t, known, side) for t in node.inputs]
        if any(v is None and t is not None for v, t in zip(values, node.inputs, strict=True)):
            return
        made = evaluation.evaluate(op, values, node.attributes, len(node.outputs), LIMIT)
        if made is None:
            return
        found.append(made)
    for tensor, *pair in zip(node.outputs, *found, strict=True):
        if pair[0].shape == graph.shape(tensor):
            known.setdefault(tensor, (pair[0], pair[1]))


def _value(graph: Graph, tensor: int, known: Mapping[int, Pair], side: int) -> Array | None:
    data = graph.constant(tensor)
    if data is not None:
        return data
    return known[tensor][side] if tensor in known else None


def _invert(graph: Graph, node: Node, known: dict[int, Pair]) -> None:
    """Adds the input of a node that only moves its elements, from its result."""
    op = ops.row(node.op)
    moved = [t for t in node.inputs if t is not None and graph.constant(t) is None]
    if op is None or op.views is None or len(moved) != 1 or len(node.outputs) != 1:
        return
    source, result = moved[0], node.outputs[0]
    shape = graph.shape(source)
    if source in known or result not in known or node.epilogue or prod(shape) > LIMIT:
        return
    places = np.arange(prod(shape)).reshape(shape)
    values = [places if t == source else None if t is None else graph.constant(t)
              for t in node.inputs]  # fmt: skip
    made = evaluation.evaluate(op, values, node.attributes, 1, LIMIT)
    if made is None or made[0].shape != known[result][0].shape:
        return
    order = made[0].reshape(-1)
    if order.size != places.size or (np.bincount(order, minlength=order.size) != 1).any():
        return
    first, second = (_scattered(side, order, shape) for side in known[result])
    known[source] = first, second


def _scattered(values: Array, order: Array, shape: Sequence[int]) -> Array:
    """Returns an array of this shape whose element `order[k]` is the k-th of the values."""
    made = np.empty(order.size, values.dtype)
    made[order] = values.reshape(-1)
    return made.reshape(shape)


def _compared(
    part: Part, seen: Observation, known: Mapping[int, Pair], tolerance: float
) -> Agreement:
    """Returns the comparison of an observed tensor; it disagrees if the run fails."""
    device, plan = part.partition.device, seen.plan
    program = Program(plan, device.handle, device.pipelines)
    inputs = [_as_port(known[port.tensor][0], port.dtype) for port in plan.inputs]
    tensors = part.graph.tensors
    states = [quantization.initial(tensors[port.tensor], port.shape) for port in plan.states]
    name = _named(part.graph, seen)
    expected, other = (v.transpose(seen.order) if seen.order else v for v in known[seen.tensor])
    try:
        (got,) = Instance(program).run(inputs, states)
    except native.NativeError as error:
        return Agreement(f"{name} ({error})", float("nan"), 0.0, 0.0)
    (found,) = agree([name], [expected], [other], [got.reshape(expected.shape)], tolerance)
    return found


def _as_port(value: Array, dtype: str) -> Array:
    kind = np.dtype(NUMPY_DTYPES[dtype])
    return np.asarray(value if value.dtype == kind else value.view(kind), order="C")


def _named(graph: Graph, seen: Observation) -> str:
    """Returns the tensor's name in the model; if it has none there, the name of its node."""
    if name := graph.tensors[seen.tensor].name:
        return name
    node = graph.producers().get(seen.tensor)
    return f"result of {node.name or node.op}" if node else f"tensor {seen.tensor}"


def _suspects(partition: Partition, seen: Observation, last: int) -> Iterator[Suspect]:
    names = operators(partition.graph)
    for place in range(last + 1, seen.launch + 1):
        made = seen.plan.dispatches[place]
        nodes = tuple(names.get(node, str(node)) for node in made.nodes)
        yield Suspect(place, made.label, made.form, nodes)
