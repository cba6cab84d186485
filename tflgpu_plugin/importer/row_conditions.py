"""What the row of a host's node asks of it: by the roles of its operands, and by its own
conditions."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.importer.support import TYPE_NAMES
from tflgpu_plugin.ir import BFLOAT16, Condition, Graph, HostOp, Node, Operand, Refusal


def by_row(graph: Graph, node: Node, claimed: bool = False) -> Refusal | None:
    """What the row of a host's node says against it: None, or a sentence. `graph` is as the host
    gives it, and the node's inputs are all that its op takes. Of a node that was `claimed` for
    other shapes, types and constants are not asked about again.
    """
    row = node.row
    if row is None:
        return None
    every: tuple[Condition, ...] = (extents,) if claimed else EVERY
    return unmet(every, graph, node, row) or unmet(row.conditions, graph, node)


def unmet(conditions: Iterable[Condition], *seen: Any) -> Refusal | None:
    """The sentence of the first condition that a node does not meet; `seen` is what the conditions
    look at.
    """
    return next(filter(None, (condition(*seen) for condition in conditions)), None)


def _operands(node: Node, row: HostOp) -> list[tuple[int, int, Operand]]:
    """The inputs that are there: where the host has them, and what they are for."""
    given = row.operands
    at = row.order or range(len(node.inputs))
    pairs = zip(at, node.inputs, strict=True)
    return [(k, t, given[min(k, len(given) - 1)]) for k, t in pairs if t is not None]


def row_types(graph: Graph, node: Node, row: HostOp) -> Refusal | None:
    """Tensors of the types of its row, where these are not those of its op."""
    for index in (*node.reads, *node.outputs) if row.types else ():
        held = graph.tensors[index]
        if held.dtype not in row.types and not (row.bfloat16 and held.dtype == BFLOAT16):
            names = [TYPE_NAMES.get(name, name) for name in (held.dtype, *row.types)]
            return Refusal(
                "dtype.unsupported",
                f"Tensor {held.name!r} holds {names[0]} values; {row.name} is supported for "
                f"{' or '.join(names[1:])}.",
            )
    return None


def one_type(graph: Graph, node: Node, row: HostOp) -> Refusal | None:
    """Values of one type, and results of that type in the model, too."""
    # Hosts give results the type of the first value when they prepare a node; that comes later.
    values = [t for _, t, operand in _operands(node, row) if operand.traits.typed]
    roles = row.outputs or ()
    if "value*" in roles:
        roles = ("value",) * len(node.outputs)
    results = [t for t, role in zip(node.outputs, roles, strict=False) if role == "value"]
    given = graph.tensors[values[0]].dtype if values else ""
    for tensor in (graph.tensors[t] for t in (*results, *values)):
        if _whole(tensor.dtype) != _whole(given):
            return Refusal(
                "dtype.mismatch",
                f"Tensor {tensor.name!r} holds {tensor.dtype} values in the model, but "
                f"{row.name} goes by the {given} values of its input.",
            )
    return None


def _whole(dtype: str) -> str:
    return "i64" if dtype == "i32" else dtype  # small constants of int64 are held as int32


def constants(graph: Graph, node: Node, row: HostOp) -> Refusal | None:
    """Constants of the model where the row names them."""
    for _, index, operand in _operands(node, row):
        if operand.constant and graph.constant(index) is None:
            what = operand.role.replace("_", " ")
            return Refusal(
                "constant.required", f"The {what} of {row.name} must be a constant of the model."
            )
    return None


def extents(graph: Graph, node: Node, row: HostOp) -> Refusal | None:
    """Axes, sizes, paddings and the like in shapes that hosts take."""
    found = _operands(node, row)
    rank = next((len(graph.shape(t)) for _, t, operand in found if operand.role == "value"), 0)
    for at, index, operand in found:
        shape, wanted = graph.shape(index), operand.traits.extents
        fits = {
            "list": len(shape) == 1,
            "pairs": shape == (rank, 2),
            "axes": shape == (rank,),
            "one": prod(shape) == 1,
        }
        if wanted and not fits[wanted]:
            return Refusal(
                "shape.mismatch",
                f"Input {at}, {graph.tensors[index].name!r}, has the shape {list(shape)}, "
                f"which is not one that {row.name} takes.",
            )
    return None


def variables(graph: Graph, node: Node, row: HostOp) -> Refusal | None:
    """State that is a variable of the model."""
    for before, _ in ops.rows()[node.op].states:
        state = node.inputs[before]
        if state is None:
            return Refusal("input.missing", "It has no state.")
        if not graph.tensors[state].variable:
            name = graph.tensors[state].name
            return Refusal(
                "state.unsupported", f"The state {name!r} is not a variable of the model."
            )
    return None


# What every row asks of a node, by the roles of what the node reads and writes.
EVERY: tuple[Condition, ...] = (row_types, one_type, constants, extents, variables)
