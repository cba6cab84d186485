"""Writes and reads ONNX models with no dependency beyond the standard library and numpy. Numbers of
fields are those of ONNX's public schema (onnx.proto)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.ir import wire

_IR_VERSION, _OPSET = 8, 17
_FLOAT32 = 1  # TensorProto.DataType
MAX_BITS = 64  # of a number
_ATTRIBUTE_INT, _ATTRIBUTE_INTS = 2, 7  # AttributeProto.AttributeType


@dataclass
class Model:
    """A float32 ONNX model (opset 17) under construction; values are identified by their names."""

    nodes: list[bytes] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)

    def constant(self, name: str, data: npt.NDArray[Any]) -> str:
        """Adds a constant and returns its name."""
        head = wire.integers(1, data.shape) + wire.integer(2, _FLOAT32) + wire.text(8, name)
        self.constants.append(head + wire.message(9, np.ascontiguousarray(data, "<f4").tobytes()))
        return name

    def node(
        self, operator: str, inputs: Sequence[str], output: str, **attributes: int | Sequence[int]
    ) -> str:
        """Adds a node with the name of its only output, and returns that name."""
        names = b"".join(wire.text(1, name) for name in inputs)
        settings = b"".join(wire.message(5, _attribute(*item)) for item in attributes.items())
        head = names + wire.text(2, output) + wire.text(3, output) + wire.text(4, operator)
        self.nodes.append(head + settings)
        return output

    def serialize(
        self, inputs: Mapping[str, Sequence[int]], outputs: Mapping[str, Sequence[int]], name: str
    ) -> bytes:
        """Returns the finished file; `inputs` and `outputs` are shapes by name."""
        graph = b"".join(wire.message(1, node) for node in self.nodes) + wire.text(2, name)
        graph += b"".join(wire.message(5, constant) for constant in self.constants)
        graph += b"".join(wire.message(11, port(*item)) for item in inputs.items())
        graph += b"".join(wire.message(12, port(*item)) for item in outputs.items())
        opset = wire.text(1, "") + wire.integer(2, _OPSET)
        producer = wire.text(2, "tflgpu demo")
        return (
            wire.integer(1, _IR_VERSION)
            + producer
            + wire.message(7, graph)
            + wire.message(8, opset)
        )


def computed(model: bytes) -> list[str]:
    """Returns the names of results of the nodes of a model's graph, in order, without those that
    follow from constants alone. Bodies are not read: results of nodes that have some count as
    computed."""
    found = []
    for graph in fields(model, 7):
        constants = {name for one in fields(graph, 5) for name in texts(one, 8)}
        reached = {name for one in fields(graph, 11) for name in texts(one, 1)} - constants
        for node in fields(graph, 1):
            if not reached.isdisjoint(texts(node, 1)) or _has_graph(node):
                results = [name for name in texts(node, 2) if name]
                found += results
                reached.update(results)
    return found


def texts(message: bytes, wanted: int) -> list[str]:
    return [text.decode() for text in fields(message, wanted)]


def _has_graph(node: bytes) -> bool:
    return any(
        True for attribute in fields(node, 5) for slot in (6, 11) for _ in fields(attribute, slot)
    )


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """Returns the model with additional outputs: when a message is written twice, readers join its
    lists."""
    return model + wire.message(7, b"".join(wire.message(12, wire.text(1, name)) for name in names))


def with_input_shapes(model: bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """Returns the model with these shapes of inputs, given by name."""

    def value(info: bytes) -> bytes:
        (name, *_) = texts(info, 1) or [""]
        if name not in shapes:
            return info
        extents = b"".join(wire.message(1, wire.integer(1, extent)) for extent in shapes[name])

        def tensor(kind: bytes) -> bytes:
            others = (kind[start:end] for key, start, _, end in parts(kind)
                      if key != 2 << 3 | wire.BYTES)  # fmt: skip
            return b"".join(others) + wire.message(2, extents)

        return changed(info, 2, lambda kind: changed(kind, 1, tensor))

    return changed(model, 7, lambda graph: changed(graph, 11, value))


def operators(model: bytes) -> list[str]:
    """Returns the operators of the nodes of a model's graph, in order."""
    nodes = (node for graph in fields(model, 7) for node in fields(graph, 1))
    return [*(texts(node, 4)[0] for node in nodes)]


def with_notes(model: bytes, notes: Sequence[Mapping[str, str]]) -> bytes:
    """Returns the model with further metadata of each node of its graph (metadata_props)."""
    listed = iter(notes)

    def noted(node: bytes) -> bytes:
        pairs = (wire.text(1, key) + wire.text(2, value) for key, value in next(listed).items())
        return node + b"".join(wire.message(9, pair) for pair in pairs)

    return changed(model, 7, lambda graph: changed(graph, 1, noted))


def changed(message: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """Returns a message with the values of a field that holds bytes changed."""
    wanted = number << 3 | wire.BYTES
    return b"".join(
        wire.message(number, change(message[at:end])) if key == wanted else message[start:end]
        for key, start, at, end in parts(message)
    )


def fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yields the values of a field that holds bytes. Raises ValueError when this is not a
    message."""
    for key, _, at, end in parts(message):
        if key == wanted << 3 | wire.BYTES:
            yield message[at:end]


def parts(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yields for each field its key, where it starts, where its value starts, and its end. Raises
    ValueError when this is not a message."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        value, size = at, 0
        if key & 7 == wire.NUMBER:
            _, at = _read_varint(message, at)
        elif key & 7 == wire.BYTES:
            size, at = _read_varint(message, at)
            value = at
        elif key & 7 in (1, wire.WORD):
            size = 8 if key & 7 == 1 else 4
        else:
            raise ValueError("This is not an ONNX model.")
        if at + size > len(message):
            raise ValueError("This ONNX model is cut short.")
        at += size
        yield key, start, value, at


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns the number at an offset, and the offset after it."""
    value = shift = 0
    while at < len(message) and shift < MAX_BITS:
        value |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError("This ONNX model is damaged or cut short.")


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return wire.text(1, name) + wire.integer(3, value) + wire.integer(20, _ATTRIBUTE_INT)
    return wire.text(1, name) + wire.integers(8, value) + wire.integer(20, _ATTRIBUTE_INTS)


def port(name: str, shape: Sequence[int], kind: int = _FLOAT32) -> bytes:
    """Returns the ValueInfoProto of a tensor; `kind` is the number of its element type."""
    extents = b"".join(wire.message(1, wire.integer(1, extent)) for extent in shape)
    tensor = wire.integer(1, kind) + wire.message(2, extents)
    return wire.text(1, name) + wire.message(2, wire.message(1, tensor))
