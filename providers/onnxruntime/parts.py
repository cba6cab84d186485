"""A snapshot of some nodes as a JSON value and arrays, and back: what a compiled model needs to
plan its nodes for other shapes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from tflgpu_plugin.cache.codec import Mismatch
from tflgpu_plugin.ir.graph import Array

from .snapshot import HostNode, Snapshot, Value

TEXTS = ("op", "domain", "name")
NAMES = ("inputs", "outputs", "implicit")


def pack(part: Snapshot) -> tuple[Any, dict[str, Array]]:
    """The JSON value, and the arrays that it names."""
    arrays: dict[str, Array] = {}
    nodes = [
        {name: getattr(node, name) for name in ("id", "version", *TEXTS, *NAMES)}
        | {"attributes": {k: _packed(v, arrays) for k, v in node.attributes.items()}}
        for node in part.nodes
    ]
    values = {
        value.name: {
            "dtype": value.dtype,
            "shape": value.shape,
            "data": None if value.data is None else _packed(value.data, arrays),
            "default": value.default,
        }
        for value in part.values.values()
    }
    return {"nodes": nodes, "values": values, "outputs": part.outputs}, arrays


def _packed(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name := str(len(arrays))] = value
        return {"array": name}
    if isinstance(value, bytes):
        return {"text": base64.b64encode(value).decode()}
    return [_packed(item, arrays) for item in value] if isinstance(value, tuple) else value


def unpack(found: Any, arrays: Mapping[str, Array]) -> Snapshot:
    """What `pack` was given. Raises Mismatch, KeyError or TypeError for anything else."""
    values = {name: _value(name, value, arrays) for name, value in found["values"].items()}
    nodes = tuple(_node(node, arrays) for node in found["nodes"])
    for node in nodes:
        if missing := {*node.reads, *node.writes} - set(values):
            raise Mismatch(f"the values {sorted(missing)[:3]} are missing")
    return Snapshot(nodes, values, _names(found["outputs"]))


def _value(name: str, found: Any, arrays: Mapping[str, Array]) -> Value:
    shape = found["shape"]
    extents = None if shape is None else tuple(_of(item, (int, str)) for item in shape)
    data = None if found["data"] is None else _unpacked(found["data"], arrays)
    if data is not None and not isinstance(data, np.ndarray):
        raise Mismatch("a constant is no array")
    return Value(name, _of(found["dtype"], str), extents, data, found["default"] is True)


def _node(found: Any, arrays: Mapping[str, Array]) -> HostNode:
    attributes = {k: _unpacked(v, arrays) for k, v in found["attributes"].items()}
    return HostNode(
        id=_of(found["id"], int),
        version=_of(found["version"], int),
        **{name: _of(found[name], str) for name in TEXTS},
        inputs=_optional(found["inputs"]),
        outputs=_optional(found["outputs"]),
        implicit=_names(found["implicit"]),
        attributes=attributes,
    )


def _names(found: Any) -> tuple[str, ...]:
    return tuple(_of(name, str) for name in found)


def _optional(found: Any) -> tuple[str | None, ...]:
    return tuple(None if name is None else _of(name, str) for name in found)


def _of(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise Mismatch(f"{value!r:.60} is of another type")
    return value


def _unpacked(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, dict):
        return arrays[value["array"]] if "array" in value else base64.b64decode(value["text"])
    if isinstance(value, list):
        return tuple(_unpacked(item, arrays) for item in value)
    return _of(value, (int, float))
