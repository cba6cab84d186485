"""Values of inputs that decide shapes but are known only in a run. The importer asks for them where
a node needs them; a plan is made for guesses (see `likely`) or for the values of a run."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.importer import likely
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.imported import Table
from tflgpu_plugin.importer.model import HostModel, HostNode
from tflgpu_plugin.importer.state import State
from tflgpu_plugin.ir import INT32, NUMPY_DTYPES, Array, HostOp, Shape, is_symbolic


def guess(state: State, builder: Builder) -> None:
    """Guesses the values of inputs of the graph that this node's shapes depend on."""
    asked = state.table.asks_runs and state.planned is None
    for position in builder.row.deciding if asked else ():
        key = next(iter(builder.host.inputs[position : position + 1]), None)
        if key is None or builder.known(builder.x(position)):
            continue
        made = state.model.values[builder.host.writes[0]]
        found = likely.guess(builder, position, state.model.values[key], made)
        if found is not None and not _is_outside(state, key):
            state.wanted.setdefault(builder.host.id, []).append(key)
        elif found is not None:
            state.run_values[key] = found
            state.tensors.table[builder.x(position)] = state.of_a_run(key)


def ask(state: State, host: HostNode, builder: Builder | None) -> None:
    """Guesses the values that this node's shapes depend on with its builder, if it has one. Leaves
    the nodes that compute values that it wants to the host, where they compute them from a few
    integers."""
    if builder is not None:
        guess(state, builder)
    nodes = [*map(state.before, state.wanted.get(host.id, ()))]
    state.left.update(*(nodes if all(nodes) else ()))


def leave(state: State, host: HostNode, row: HostOp | None) -> None:
    """Leaves the nodes that compute the condition of a control-flow node from a few integers to the
    host, which reads it on the CPU."""
    operands = row.operands if row and host.bodies else ()
    for key, operand in zip(host.inputs, operands, strict=False):
        if operand.role == "condition" and key is not None and not state.is_known(key):
            state.left |= state.before(key)


def _is_outside(state: State, key: str) -> bool:
    """Whether no imported node makes the value."""
    return not any(state.ids[key] in node.outputs for node in state.nodes if node.op)


def clamps(model: HostModel, table: Table, key: str) -> bool:
    """Whether integers beyond int32 in this input mean the same to all nodes of the model as the
    nearest ones in it, so that they may have these as their `numbers`. A run with others is the
    host's."""
    for host in model.nodes:
        row = table.row(host) or table.arithmetic.get(host.title)
        given = row.operands[: len(host.inputs)] if row else ()
        clamped = {k for k, operand in enumerate(given) if operand.traits.clamps}
        reads = {k for k, name in enumerate(host.inputs) if name == key}
        if key in host.implicit or not reads <= clamped:
            return False
    return True


def numbers(value: Array) -> tuple[int, ...]:
    """Returns `value`, which a plan is specialized for, as native code passes it: integers, clamped
    to int32 where `clamps` allows it, and floats as their bits. Only the largest integers of both
    widths become that of int32: as ends of slices they have a meaning."""
    if value.dtype == np.float32:
        value = value.view(np.int32)
    elif value.dtype == np.int64:
        beyond = (value > INT32.max) & (value < np.iinfo(np.int64).max)
        value = np.where(beyond, INT32.max - 1, value)
    return tuple(int(n) for n in np.clip(value.reshape(-1), INT32.min, INT32.max))


def restored(given: tuple[int, ...], shape: Shape, dtype: str) -> Array:
    """Returns the array that `numbers` made `given` from, which may be symbolic."""
    if is_symbolic(given):
        return np.array(given, object).reshape(shape)
    held = np.array(given, np.int32)
    whole = held.view(np.float32) if dtype == "f32" else held.astype(NUMPY_DTYPES[dtype])
    return whole.reshape(shape)
