"""Conditions that rows of all hosts share: a supported version, and operands with the types and
shapes that their roles require, constant where that is required. A condition reads a node through a
Builder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.model import Value
from tflgpu_plugin.importer.support import of_other_types, unversioned
from tflgpu_plugin.ir import BFLOAT16, INT16, NARROW, Condition, Operand, Refusal, Tensor, type_name


def unmet(conditions: Iterable[Condition], e: Builder) -> Refusal | None:
    """Returns the sentence of the first of the conditions that a node does not meet, None if it
    meets all."""
    for condition in conditions:
        if sentence := condition(e):
            return sentence
    return None


# ---- what every node needs -----------------------------------------------------------------------


def version(e: Builder) -> Refusal | None:
    """The version of the operator is one that its row lists."""
    first, last = e.row.versions
    if first <= e.version <= last:
        return None
    return unversioned(e.table.version, e.version, e.row.name, e.row.versions)


def complete(e: Builder) -> Refusal | None:
    """All operands that its row lists are present, except optional ones."""
    return e.row.lacking(e.inputs) if e.row.operands else None


def shaped(e: Builder) -> Refusal | None:
    """Inputs have shapes that are known before a run, or that follow from values of a run."""
    for tensor in (e.tensors.table[t] for t in e.inputs if t is not None):
        if any(extent < 0 for extent in tensor.shape):
            sentence = f"Tensor {tensor.name!r} has a shape that is only known when the model runs."
            return Refusal("dynamic.shape", sentence)
    return None


FIRST: tuple[Condition, ...] = (version, complete)

# ---- what a node needs that becomes one of the same attributes, by the roles of its operands -----


def _operands(e: Builder) -> Iterator[tuple[int, Tensor, Operand]]:
    """Yields (position in the host's node, tensor, operand in the row) of each present input, in
    the order of the op."""
    given, at = e.row.operands, e.row.order or range(len(e.inputs))
    for position, tensor in zip(at, e.inputs, strict=True):
        if tensor is not None:
            yield position, e.tensors.table[tensor], given[min(position, len(given) - 1)]


def row_types(e: Builder) -> Refusal | None:
    """Tensors have types of the row, where these are not those of its op."""
    types = e.row.types
    tensors: list[Tensor | Value] = [*(tensor for _, tensor, _ in _operands(e)), *e.results]
    for held in tensors if types else ():
        more = {BFLOAT16: e.row.bfloat16, INT16: e.row.int16, **dict.fromkeys(NARROW, e.row.narrow)}
        if held.dtype not in (*types, *(kind for kind, taken in more.items() if taken)):
            names = [type_name(name) for name in types]
            return of_other_types(held, e.row.name, names)
    return None


def one_type(e: Builder) -> Refusal | None:
    """Values have one type, and results have that type in the model, too."""
    # Hosts give results the type of the first value when they prepare the node, after this check.
    values = [tensor for _, tensor, operand in _operands(e) if operand.traits.typed]
    roles = e.row.outputs or ()
    if "value*" in roles:
        roles = ("value",) * len(e.results)
    results = [t for t, role in zip(e.results, roles, strict=False) if role == "value"]
    given = values[0].dtype if values else ""
    tensors: list[Tensor | Value] = [*results, *values]
    for tensor in tensors:
        if _whole(tensor.dtype) != _whole(given):
            return Refusal(
                "dtype.mismatch",
                f"Tensor {tensor.name!r} holds {type_name(tensor.dtype)} values in the model, but "
                f"{e.row.name} computes {type_name(given)} values, the type of its input.",
            )
    return None


def _whole(dtype: str) -> str:
    return "i64" if dtype == "i32" else dtype  # small constants of int64 were narrowed to int32


def constants(e: Builder) -> Refusal | None:
    """Operands that the row names are constants of the model, or integers of a run that decide
    shapes."""
    for _, tensor, operand in _operands(e):
        if operand.constant and tensor.data is None:
            what = operand.role.replace("_", " ")
            sentence = f"The {what} of {e.row.name} must be a constant of the model."
            return Refusal("constant.required", sentence)
    return None


def extents(e: Builder) -> Refusal | None:
    """Axes, sizes, paddings and the like have shapes that hosts take."""
    found = [*_operands(e)]
    rank = next((len(tensor.shape) for _, tensor, operand in found if operand.role == "value"), 0)
    asked = ((at, t, operand.traits.extents) for at, t, operand in found if operand.traits.extents)
    for at, tensor, wanted in asked:
        shape = tensor.shape
        fits = {
            "list": len(shape) == 1,
            "pairs": shape == (rank, 2),
            "axes": shape == (rank,),
            "one": prod(shape) == 1,
        }
        if not fits[wanted]:
            return Refusal(
                "shape.mismatch",
                f"Input {at}, {tensor.name!r}, has the shape {list(shape)}, "
                f"which is not one that {e.row.name} takes.",
            )
    return None


def known_to_op(e: Builder) -> Refusal | None:
    """Its op has its attributes and takes their values, and needs no other attribute or operand."""
    return e.op.misuse(e.attributes, e.inputs)


def variables(e: Builder) -> Refusal | None:
    """State is a variable of the model."""
    for before, _ in e.op.states:
        state = e.get(before)
        if state is None:
            return Refusal("input.missing", "Its state is absent.")
        if not e.tensors.table[state].variable:
            name = e.tensors.table[state].name
            sentence = f"The state {name!r} is not a variable of the model."
            return Refusal("state.unsupported", sentence)
    return None


BY_ROLES: tuple[Condition, ...] = (row_types, one_type, constants, extents, variables)
AFTER_ROW: tuple[Condition, ...] = (known_to_op,)  # checked after the row's own conditions
