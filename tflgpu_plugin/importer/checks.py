"""Checks models of third-party hosts before they are imported. Every error is a sentence that says
what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tflgpu_plugin.importer.importer import FIRST_EXTRA
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.ir import NUMPY_DTYPES, Shape

KINDS = (
    *NUMPY_DTYPES,
    "c64",
    "string",
)  # dtypes of values; readable constants have one of the first
KEYS = (str, type(None))  # fields of a node's inputs and outputs
# The types of fields, and of the items of lists.
FIELDS: Mapping[type, Mapping[str, tuple[type[Any], ...]]] = {
    HostModel: {"nodes": (tuple, HostNode), "values": (Mapping, str), "outputs": (tuple, *KEYS)},
    HostNode: {
        "id": (int,), "op": (str,), "domain": (str,), "version": (int,), "name": (str,),
        "inputs": (tuple, *KEYS), "outputs": (tuple, *KEYS), "implicit": (tuple, str),
        "attributes": (Mapping, str), "bodies": (tuple, HostModel),
    },
    Value: {"name": (str,), "dtype": (str,)},
}  # fmt: skip


def _check_fields(held: HostModel | HostNode | Value, what: str) -> None:
    """Raises ValueError where a field of `held` does not have its type in FIELDS; `what` names
    `held` in the sentence."""
    fields = next(fields for kind, fields in FIELDS.items() if isinstance(held, kind))
    for name, (kind, *items) in fields.items():
        found: Any = getattr(held, name)
        if not isinstance(found, (int, np.integer) if kind is int else kind):
            held_type = type(found).__name__
            raise ValueError(f"The field {name} of {what} is a {held_type}, not a {kind.__name__}.")
        listed: Any = found if items else ()
        for item in listed:
            if not isinstance(item, tuple(items)):
                wanted = items[0].__name__
                raise ValueError(
                    f"The field {name} of {what} has {item!r}, which is not a {wanted}."
                )


def check_model(model: HostModel) -> None:
    """Raises ValueError for a model whose nodes and values contradict each other."""
    if not isinstance(model, HostModel):
        raise ValueError(f"The model is a {type(model).__name__}, not a HostModel.")
    _check_fields(model, "the model")
    for node in model.nodes:
        _check_fields(node, f"node {node.id!r}")
        for body in node.bodies:
            check_model(body)
    for key, value in model.values.items():
        if not isinstance(value, Value):
            raise ValueError(f"The value {key!r} of the model is {value!r}, not a Value.")
        _check_fields(value, f"the value {key!r}")
        known = value.shape is None or isinstance(value.shape, tuple)
        if not known or not all(isinstance(n, int | np.integer | str) for n in value.shape or ()):
            raise ValueError(f"The shape of the value {key!r} is {value.shape!r}, not a tuple of "
                             "integers and names.")  # fmt: skip
        if value.dtype not in KINDS:
            raise ValueError(
                f"The value {key!r} has the type {value.dtype!r}; types are {', '.join(KINDS)}."
            )
        _check_constant(key, value)
    made: dict[str, int] = {}
    for node in model.nodes:
        for key in (*node.reads, *node.writes):
            if key not in model.values:
                raise ValueError(f"Node {node.id} ({node.title}) names the value {key!r}, which is "
                                 "not among the values of its model.")  # fmt: skip
        for key in node.writes:
            if key in made:
                raise ValueError(f"The value {key!r} is made by two nodes, {made[key]} and "
                                 f"{node.id}.")  # fmt: skip
            if model.values[key].data is not None:
                raise ValueError(f"The value {key!r} is a constant, but node {node.id} writes it.")
            made[key] = node.id
        if not 0 <= node.id < FIRST_EXTRA:
            raise ValueError(f"The id of node {node.id} is not from 0 to {FIRST_EXTRA - 1}.")
    if len({node.id for node in model.nodes}) < len(model.nodes):
        raise ValueError("Two nodes of the model have the same id.")
    _check_order(model, made)
    for key in model.outputs:
        if key not in model.values:
            raise ValueError(f"The output {key!r} is not among the values of the model.")


def check_shapes(model: HostModel, shapes: Mapping[str, Shape]) -> None:
    """Raises ValueError for shapes of inputs (`Facts.shapes`) that contradict the model."""
    named: dict[str, int] = {}
    for key, shape in shapes.items():
        if key not in model.values:
            raise ValueError(f"{key!r}, which has a shape, is not among the values of the model.")
        if not isinstance(shape, tuple) or not all(isinstance(n, int | np.integer) for n in shape):
            raise ValueError(f"The shape of {key!r} is {shape!r}, not a tuple of integers.")
        stated = model.values[key].shape or shape
        fits = len(stated) == len(shape)
        for extent, found in zip(stated, shape, strict=False):
            wanted = named.setdefault(extent, found) if isinstance(extent, str) else extent
            fits = fits and wanted == found
        if not fits:
            raise ValueError(f"{key!r} has the shape {list(stated)} in the model, {list(shape)} is "
                             "another.")  # fmt: skip


def _check_order(model: HostModel, made: Mapping[str, int]) -> None:
    later = {*made}
    for node in model.nodes:
        for key in node.reads:
            if key in later:
                raise ValueError(
                    f"Node {node.id} ({node.title}) reads {key!r}, which node {made[key]} makes "
                    "later: nodes come in their order of execution."
                )
        later.difference_update(node.writes)


def _check_constant(key: str, value: Value) -> None:
    if value.data is None:
        return
    if not isinstance(value.data, np.ndarray | np.generic):
        raise ValueError(f"The data of the value {key!r} is not a numpy array.")
    if value.dtype not in NUMPY_DTYPES or value.data.dtype != NUMPY_DTYPES[value.dtype]:
        raise ValueError(
            f"The value {key!r} has the type {value.dtype!r} and data of {value.data.dtype}; types "
            f"are {', '.join(NUMPY_DTYPES)}."
        )
    if value.shape is not None and tuple(value.shape) != value.data.shape:
        raise ValueError(
            f"The value {key!r} has the shape {list(value.shape)} and data of "
            f"{list(value.data.shape)}."
        )
