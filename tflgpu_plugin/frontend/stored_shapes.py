"""Plans of a partition for other shapes that a cache directory or a compiled model holds: plans for
one list of shapes, and templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tflgpu_plugin.cache import codec, fingerprint
from tflgpu_plugin.cache.plan_file import Stored
from tflgpu_plugin.cache.store import SHAPES, SOURCE, TEMPLATE
from tflgpu_plugin.frontend.reshaping import Flat, Symbolic, flat
from tflgpu_plugin.ir import Plan, Port

if TYPE_CHECKING:
    from tflgpu_plugin.engine import Partition

Room = tuple[int, ...]  # the value of each symbol


def source(described: object) -> str | None:
    """Returns a digest of the data from which plans for other shapes are made, None if there are
    none."""
    try:
        return None if described is None else fingerprint.of(described)
    except TypeError:
        return None


def place(source: str, given: Sequence[int]) -> dict[str, Any]:
    """Returns the metadata that is stored with the plan for these shapes."""
    return {SOURCE: source, SHAPES: list(given)}


def template_place(source: str, symbolic: Symbolic) -> dict[str, Any]:
    """Returns the metadata that is stored with the plan of a template. Raises TypeError for
    templates that cannot be stored."""
    from tflgpu_plugin.compile.stored_template import numbers

    rooms = [[room[k] for k in sorted(room)] for room in symbolic.rooms]
    parts = symbolic.places, rooms, numbers(symbolic.template)
    return {**place(source, symbolic.made), TEMPLATE: codec.encode(parts)}


def compiled(symbolic: Symbolic) -> tuple[Plan, dict[str, Any]]:
    """Returns the plan of a template, and the metadata that is stored with it in a compiled
    model."""
    plan = symbolic.template.settled(symbolic.symbols, symbolic.rooms, symbolic.places)
    return replace(plan, symbols=None), template_place("", symbolic)


def read(partition: Partition, source: str) -> tuple[dict[Flat, Stored], list[Symbolic]]:
    """Returns the stored plans of a partition: those for a single set of shapes, by these shapes,
    and templates, the newest first. Raises ValueError, KeyError or TypeError for data that do not
    fit the partition."""
    exact, templates = dict[Flat, Stored](), list[Symbolic]()
    first = partition.instance.plan
    for found in partition.stored(source):
        given = codec.decode(tuple[int, ...], found.extra[SHAPES])
        if not _fits(first, found.plan, given):
            raise ValueError("the inputs or outputs of a plan are not those of the model")
        if TEMPLATE in found.extra:
            templates.insert(0, _symbolic(found, given))
        else:
            exact[given] = found
    return exact, templates


def _fits(first: Plan, plan: Plan, given: Flat) -> bool:
    """Whether a plan for these shapes has the inputs, outputs and states of the first plan."""
    pairs = zip(
        (plan.inputs, plan.outputs, plan.states),
        (first.inputs, first.outputs, first.states),
        strict=True,
    )
    shapes = tuple(flat([port.shape for port in plan.inputs]))
    return given[: len(shapes)] == shapes and all(
        [_kind(port) for port in mine] == [_kind(port) for port in theirs] for mine, theirs in pairs
    )


def _kind(port: Port) -> tuple[object, ...]:
    return port.dtype, len(port.shape), port.counted


def _symbolic(found: Stored, made: Flat) -> Symbolic:
    """Returns a stored template. Raises ValueError for numbers that do not fit together."""
    from tflgpu_plugin.compile.stored_template import Numbers, restored

    kind = tuple[tuple[tuple[int, int], ...], tuple[Room, ...], Numbers]
    places, rooms, numbers = codec.decode(kind, found.extra[TEMPLATE])
    symbols = {symbol for _, symbol in places}
    if not places or symbols != {*range(len(symbols))}:
        raise ValueError("a symbol has no place")
    if any(not 0 <= position < len(made) for position, _ in places):
        raise ValueError("a symbol is at no place of the shapes")
    if not rooms or any(len(room) != len(symbols) for room in rooms):
        raise ValueError("a symbol has no value")
    found.check()
    template, values = restored(numbers, found.plan), [dict(enumerate(room)) for room in rooms]
    return Symbolic(made, places, template, values, values[0], stored=True)
