"""Templates for compiled models. Such a model is written before runs have shown which extents
change, so that all extents that are dynamic in the model become symbols."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.ir import Plan, Shape
from tflgpu_plugin.providers import Imported, Partition, Value, log, stored_shapes

from .reader import TABLE
from .sessions import Placed
from .snapshot import Snapshot

MAX_NAMES = 4  # limit of dynamic extents that get a template of their own


def templates(
    partition: Partition, placed: Placed, taken: Snapshot
) -> Iterator[tuple[Plan, Mapping[str, Any]]]:
    """Yields the plan of each template and what is stored with it. The first template is traced at
    the shapes of the first plan. Since an extent of 1 is never a symbol, up to `MAX_NAMES`
    dynamic extents (for example the batch, or the tokens of a step) get one more template each, in
    which this extent is 1, or 2 if it is 1 in the first plan."""
    names = _names(placed, taken)
    for given in _variants(partition, placed, taken, names):
        try:
            found = placed.traced(partition, given, names)
            if found is not None:
                yield stored_shapes.compiled(found)
        except Exception as error:  # then these shapes are planned when a run has them
            log.say(f"tflgpu: other shapes have no plan in the model: {error!r}", logging.DEBUG)


def _names(placed: Placed, taken: Snapshot) -> dict[int, str]:
    """Returns the names of dynamic extents of the inputs, by position in the flat list of
    shapes."""
    found, at = dict[int, str](), 0
    for key, shape in zip(placed.interface.inputs, placed.interface.shapes, strict=True):
        stated = taken.values[key].shape or ()
        if len(stated) == len(shape):
            found |= {at + 1 + k: n for k, n in enumerate(stated) if isinstance(n, str)}
        at += 1 + len(shape)
    return found


def _variants(
    partition: Partition, placed: Placed, taken: Snapshot, names: Mapping[int, str]
) -> Iterator[tuple[Shape, ...]]:
    """Yields input shapes and run values to trace: first those of the first plan, then those with
    one dynamic extent changed to 1 (or to 2 if it was 1)."""
    interface = placed.interface
    yield interface.key
    flat = providers.flat(interface.key)
    first = {name: flat[position] for position, name in names.items() if name.isidentifier()}
    for name, number in [*first.items()][:MAX_NAMES]:
        reading = providers.symbols.import_dynamic(
            _with(taken, name, 2 if number == 1 else 1), TABLE, partition.judge
        )
        if interface.run_values.keys() <= reading.run_values.keys():
            given = (*(reading.run_values[name] for name in interface.run_values), *interface.rooms)
            shapes = (shape(reading, key) for key in interface.inputs)
            yield (*shapes, *map(providers.numbers, given))


def _with(taken: Snapshot, name: str, number: int) -> Snapshot:
    """Returns the model with `number` for the dynamic extent `name`, also within expressions."""

    def changed(value: Value) -> Value:
        texts = (
            re.sub(rf"\b{name}\b", str(number), n) if isinstance(n, str) else n
            for n in value.shape or ()
        )
        extents = (int(n) if isinstance(n, str) and n.isdecimal() else n for n in texts)
        return value if value.shape is None else replace(value, shape=tuple(extents))

    return replace(taken, values={key: changed(value) for key, value in taken.values.items()})


def shape(reading: Imported, name: str) -> Shape:
    """Returns the shape that the value `name` was planned for; (0,), which matches no run, if it is
    known only during a run."""
    tensor = reading.graph.tensors.get(reading.ids.get(name, -1))
    found = None if tensor is None else tensor.shape
    return (0,) if found is None or any(extent < 0 for extent in found) else found
