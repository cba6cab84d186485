"""Finds the graphs of a model that a loop runs once per step (the conditions and bodies of WHILE,
and the graphs that these call), and builds the loops that compute a recurrent layer or take a
constant number of steps.

The host passes one graph at a time and does not say which graph of the model it is. Meanwhile a
delegate may read the other graphs, but must not change them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tflgpu_plugin.ir import Array, Refusal, Tensor
from tflgpu_plugin.providers import (
    Builder,
    HostError,
    Steps,
    Unsupported,
    loop_layer,
    truth,
    unrolled,
)

from . import codes
from .host_node import execution_plan, raw_node

LOOP = "WHILE"
BODIES = {LOOP: 2, "IF": 2, "CALL_ONCE": 1}  # number of graphs that each operator calls
FIRST = 0  # the model's own graph
HIDDEN = Refusal("host.interface", "This host does not expose the graphs that a node runs.")


def is_repeated(ffi: Any, context: Any) -> bool:
    """Whether a loop runs the graph of `context` (tgl_context *) once per step. Raises HostError
    when the host answers with an error."""
    if context.acquire_subgraph == ffi.NULL:
        return False
    with opened(ffi, context, FIRST) as first:
        return _repeats(ffi, context, first, False, set())


def is_first(ffi: Any, context: Any) -> bool:
    """Whether `context` (tgl_context *) is the first graph of its model. Raises HostError."""
    if context.acquire_subgraph == ffi.NULL:
        return False
    with opened(ffi, context, FIRST) as first:
        return bool(first == context)


def _repeats(
    ffi: Any, context: Any, graph: Any, repeated: bool, seen: set[tuple[int, bool]]
) -> bool:
    """Whether `graph` is the graph of `context`, or calls it directly or indirectly, and that graph
    runs inside a loop. `repeated`: `graph` itself runs inside a loop. `seen`: the pairs (address of
    a graph, `repeated`) that were visited."""
    key = int(ffi.cast("uintptr_t", graph)), repeated
    if key in seen:
        return False
    seen.add(key)
    found = repeated and bool(graph == context)
    for index in execution_plan(ffi, graph):
        node, registration = raw_node(ffi, graph, index)
        name = codes.name(int(registration.builtin_code), "")
        if name not in BODIES or node.params == ffi.NULL:
            continue
        named = ffi.cast("int32_t *", node.params)
        for k in range(BODIES[name]):
            with opened(ffi, context, int(named[k])) as body:
                found |= _repeats(ffi, context, body, repeated or name == LOOP, seen)
    return found


@contextmanager
def opened(ffi: Any, context: Any, number: int) -> Iterator[Any]:
    """Yields graph `number` of the model and closes it afterwards, unless it is the graph of
    `context`, which is being prepared."""
    found = ffi.new("tgl_context **")
    if context.acquire_subgraph(context, number, found):
        raise HostError(f"The host did not return graph {number} of the model.")
    try:
        yield found[0]
    finally:
        if found[0] != context:
            context.release_subgraph(context, number)


def planned(e: Builder) -> Refusal | None:
    """Requires a loop over a sequence that computes just an LSTM, a GRU or a simple recurrent
    layer, step by step, or a loop with a constant number of steps, whose nodes all run on the GPU
    and number at most 1,024 over all steps."""
    return _known(e)


def decided(e: Builder) -> Refusal | None:
    """Requires a condition that is known before a run, as in a loop whose counter it compares, and
    a branch whose nodes all run on the GPU."""
    return _known(e)


def _known(e: Builder) -> Refusal | None:
    return None if e.host.bodies else HIDDEN


def branch(e: Builder) -> list[int | None]:
    """Builds the nodes of the branch that a known condition chooses. Raises Unsupported."""
    taken = truth(e.constant(e.x()), "its condition")
    body = e.host.bodies[0 if taken else 1]
    made = Steps(e).step(body, [e.x(k) for k in range(1, len(e.inputs))])
    return [t if e.wants(k) else None for k, t in enumerate(made)]


def loop(e: Builder) -> list[int | None]:
    """Builds the recurrent layer that a loop computes, or else the nodes of all its steps. Raises
    Unsupported with the reason why it can be neither."""
    try:
        return _recurrent_layer(e)
    except Unsupported as no_layer:
        if no_layer.sentence.code != "loop.unsupported":
            raise
        e.nodes.clear()
        try:
            made = unrolled(e, *e.host.bodies)
        except Unsupported as error:
            both = f"{no_layer.sentence} {error.sentence}"
            raise Unsupported.of(no_layer.sentence.code, both) from error
    return [t if e.wants(k) else None for k, t in enumerate(made)]


def _recurrent_layer(e: Builder) -> list[int | None]:
    given = [e.tensors.table[t] for t in e.inputs if t is not None]
    if len(given) != len(e.host.outputs) or any(n < 1 for t in given for n in t.shape):
        sentence = "The loop carries values whose shapes are only known when the model runs."
        raise Unsupported.of("dynamic.shape", sentence)
    found = loop_layer.layer(given, *(loop_layer.read(model, e.table) for model in e.host.bodies))
    for position in range(len(given)):
        if e.wants(position) and position not in found.results:
            sentence = f"A node reads value {position} of the loop, which is a counter."
            raise Unsupported.of("loop.unsupported", sentence)
    weights, recurrent, bias, content = (
        _weights(e, number, array)
        for number, array in enumerate(
            (found.weights, found.recurrent, found.bias, found.content_bias)
        )
    )
    h, c = [*(e.x(k) for k in found.states), None][:2]
    inputs = (e.x(found.sequence), weights, recurrent, bias, h, c, content)
    made = e.add_many(e.row.op, *inputs, **found.attributes)
    results: dict[str, int | None] = dict(zip("yhc", made, strict=False))
    return [results[found.results[k]] if k in found.results else None for k in range(len(given))]


def _weights(e: Builder, number: int, data: Array | None) -> int | None:
    if data is None:
        return None
    return e.tensors.add(Tensor(f"weights {number} of a loop", data.shape, data=data))
