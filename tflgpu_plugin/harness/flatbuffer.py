"""Writes TFLite models, and adds outputs to existing ones, with no dependency beyond the standard
library.

FlatBuffers in short (https://flatbuffers.dev/internals): a table starts with a signed offset back
to its vtable, which holds one 16-bit offset per field; strings, vectors and tables are reached by
unsigned offsets that point forward. Numbers of fields are those of TFLite's public schema
(schema.fbs, file identifier TFL3)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.harness.flatbuffer_file import File, whole

# Value of a table field: a struct format with a number (a scalar), text, bytes, a tuple of ints, a
# table, or tables.
Table = Mapping[int, Any]

_WINDOW = {"padding": "b", "stride_w": "i", "stride_h": "i"}
# By operator: its code, the number of its options in the union, and their fields in order, each
# with its struct format.
_OPERATORS: dict[str, tuple[int, int, dict[str, str]]] = {
    "AVERAGE_POOL_2D": (1, 5, _WINDOW | {"window_w": "i", "window_h": "i"}),
    "CONV_2D": (3, 1, _WINDOW | {"activation": "b"}),
    "DEPTHWISE_CONV_2D": (4, 2, _WINDOW | {"multiplier": "i", "activation": "b"}),
    "RESHAPE": (22, 17, {}),
    "SOFTMAX": (25, 9, {"beta": "f"}),
}
SAME, VALID = 0, 1
RELU6 = 3
_FLOAT32, _INT32 = 0, 2
_SHAPE, _SIGNATURE = 0, 7  # fields of a tensor


@dataclass
class Model:
    """A float32 TFLite model under construction; tensors are numbered in the order in which they
    are added."""

    tensors: list[Table] = field(default_factory=list)
    operators: list[Table] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    buffers: list[Table] = field(default_factory=lambda: [{}])

    def tensor(self, name: str, shape: Sequence[int], data: npt.NDArray[Any] | None = None) -> int:
        """Adds a tensor (a constant when it has data, float32 or int32) and returns its number."""
        integer = data is not None and data.dtype.kind == "i"
        buffer = 0
        if data is not None:
            buffer = len(self.buffers)
            self.buffers.append(
                {0: np.ascontiguousarray(data, "<i4" if integer else "<f4").tobytes()}
            )
        kind = _INT32 if integer else _FLOAT32
        self.tensors.append({0: tuple(shape), 1: ("b", kind), 2: ("I", buffer), 3: name})
        return len(self.tensors) - 1

    def operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], **options: float
    ) -> None:
        """Adds an operator of version 1 with these options (names as in `_OPERATORS`)."""
        if name not in self.codes:
            self.codes.append(name)
        _, number, fields = _OPERATORS[name]
        slots = {key: slot for slot, key in enumerate(fields)}
        self.operators.append(
            {
                0: ("I", self.codes.index(name)),
                1: tuple(inputs),
                2: tuple(outputs),
                3: ("B", number),
                4: {slots[key]: (fields[key], value) for key, value in options.items()},
            }
        )

    def serialize(self, inputs: Sequence[int], outputs: Sequence[int], description: str) -> bytes:
        """Returns the finished file."""
        numbers = [_OPERATORS[name][0] for name in self.codes]
        codes = [{0: ("b", number), 2: ("i", 1), 3: ("i", number)} for number in numbers]
        graph = {0: self.tensors, 1: tuple(inputs), 2: tuple(outputs), 3: self.operators, 4: "main"}
        return _write({0: ("I", 3), 1: codes, 2: [graph], 3: description, 4: self.buffers})


def _write(root: Table) -> bytes:
    """Serializes breadth first: the targets of a table's references come after it, so that every
    offset is positive."""
    out = bytearray(8)
    out[4:8] = b"TFL3"
    pending: list[tuple[int, Any]] = [(0, root)]
    while pending:
        later: list[tuple[int, Any]] = []
        for offset, value in pending:
            start = _append(out, value, later)
            struct.pack_into("<I", out, offset, start - offset)
        pending = later
    return bytes(out)


def _append(out: bytearray, value: Any, later: list[tuple[int, Any]]) -> int:
    """Appends one object and returns its position; offsets of its references are added to
    `later`."""
    if isinstance(value, Mapping):
        return _append_table(out, value, later)
    if isinstance(value, str):
        return _append_vector(out, len(value.encode()), value.encode() + b"\0", 4)
    if isinstance(value, bytes):
        return _append_vector(out, len(value), value, 16)
    if isinstance(value, tuple):
        return _append_vector(out, len(value), struct.pack(f"<{len(value)}i", *value), 4)
    start = _append_vector(out, len(value), bytes(4 * len(value)), 4)
    later += [(start + 4 + 4 * i, item) for i, item in enumerate(value)]
    return start


def _append_vector(out: bytearray, length: int, data: bytes, alignment: int) -> int:
    # The elements are aligned, not the length before them.
    out += bytes(-(len(out) + 4) % alignment)
    start = len(out)
    out += struct.pack("<I", length) + data
    return start


def _append_table(out: bytearray, table: Table, later: list[tuple[int, Any]]) -> int:
    slots = max(table, default=-1) + 1
    vtable_bytes = 4 + 2 * slots
    out += bytes(-(len(out) + vtable_bytes) % 4)  # the table starts aligned, right after its vtable
    vtable = len(out)
    start = vtable + vtable_bytes
    offsets, body = [0] * slots, bytearray(4)
    for slot, value in table.items():
        inline = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
        packed = struct.pack("<" + value[0], value[1]) if inline else bytes(4)
        body += bytes(-len(body) % len(packed))
        offsets[slot] = len(body)
        if not inline:
            later.append((start + len(body), value))
        body += packed
    struct.pack_into("<i", body, 0, vtable_bytes)
    out += struct.pack(f"<{2 + slots}H", vtable_bytes, len(body), *offsets) + body
    return start


def with_outputs(model: bytes, extra: Sequence[int]) -> bytes:
    """Returns the model with these tensors as additional outputs of its first subgraph, after its
    own.

    Raises ValueError for bytes that are not a TFLite model."""
    file = File(model)
    offset = file.outputs_offset()
    out = bytearray(model)
    out += bytes(-len(out) % 4)
    outputs = [*file.ints(offset), *extra]
    struct.pack_into("<I", out, offset, len(out) - offset)
    out += struct.pack(f"<{1 + len(outputs)}I", len(outputs), *outputs)
    return bytes(out)


def with_shapes(model: bytes, shapes: Mapping[int, Sequence[int]]) -> bytes:
    """Returns the model with these shapes of tensors in its first subgraph, given by number, which
    are no longer open. Raises ValueError for bytes that are not a TFLite model."""
    file = File(model)
    file.outputs_offset()
    out = bytearray(model)
    out += bytes(-len(out) % 4)
    with whole():
        tensors = file.tables(file.field(file.tables(file.field(file.follow(0), 2))[0], 0))
        for number, shape in shapes.items():
            for slot in (_SHAPE, _SIGNATURE):
                if offset := file.field(tensors[number], slot):
                    struct.pack_into("<I", out, offset, len(out) - offset)
            out += struct.pack(f"<{1 + len(shape)}i", len(shape), *shape)
    return bytes(out)


def require_model(model: bytes) -> None:
    """Raises ValueError with a sentence for bytes that are not a complete TFLite model:
    tflite-runtime crashes on a file that was cut short."""
    file = File(model)
    file.outputs_offset()
    with whole():
        file.visit()


def results(model: bytes, kind: int | None = None) -> list[int]:
    """Returns the tensor numbers of the results in the first subgraph, all or those of this kind of
    elements, that depend on inputs, in execution order. Raises ValueError for bytes that are not a
    complete TFLite model."""
    file = File(model)
    file.outputs_offset()
    with whole():
        graph = file.tables(file.field(file.follow(0), 2))[0]
        kinds = [file.byte(tensor, 1) for tensor in file.tables(file.field(graph, 0))]
        return [t for t in file.computed(graph) if t >= 0 and kind in (None, kinds[t])]


def names(model: bytes) -> list[str]:
    """Returns the name of each tensor in the first subgraph. Raises ValueError like `results`.
    (tflite-runtime crashes when it is asked for the details of some sparse tensors.)"""
    file = File(model)
    file.outputs_offset()
    with whole():
        graph = file.tables(file.field(file.follow(0), 2))[0]
        return [file.text(file.field(tensor, 3)) for tensor in file.tables(file.field(graph, 0))]


def activations(model: bytes) -> list[int]:
    """Returns the `results` that are float32."""
    return results(model, _FLOAT32)
