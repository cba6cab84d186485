"""Writes TFLite models, and adds outputs to existing ones, with no dependency beyond the standard
library.

FlatBuffers in short (https://flatbuffers.dev/internals): a table starts with a signed offset back
to its vtable, which holds one 16-bit offset per field; strings, vectors and tables are reached by
unsigned offsets that point forward. Numbers of fields are those of TFLite's public schema
(schema.fbs, file identifier TFL3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

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
# By the number of an operator's options in either union: the fields that are lists, and how many
# bytes each item has.
_LISTS: dict[int, dict[int, int]] = {
    3: {1: 4, 2: 4}, 8: {5: 1}, 17: {0: 4}, 30: {0: 4}, 111: {0: 1, 1: 1}, 115: {0: 4},
}  # fmt: skip
_LISTS_2: dict[int, dict[int, int]] = {
    **{number: {0: 8} for number in (2, 6, 9, 17)},
    **{number: {0: 8, 1: 8, 2: 8} for number in (3, 10)},
    4: {0: 8, 1: 8, 2: 8, 3: 8, 4: 1, 7: 8, 10: 8, 13: 8, 16: 4},
    5: {0: 1, 2: 1, 4: 4, 5: 1},
    7: {1: 8, 2: 8, 3: 8},
    12: {0: 8, 1: 8, 2: 8, 3: 8, 4: 4},
    13: {0: 8, 1: 8, 2: 8, 3: 8, 4: 8},
    16: {0: 8, 1: 8, 2: 8, 4: 8},
    21: {0: 1, 2: 1},
    23: {0: 4},
}
# The fields that a host reads before it runs a model. By field: the bytes of each item of a list,
# the fields of a table, or in brackets those of each table of a list.
_Read = Mapping[int, Any]
_NAMED: _Read = {0: 1}
_TENSOR: _Read = {
    0: 4, 3: 1, 7: 4,
    4: {0: 4, 1: 4, 2: 4, 3: 8},  # quantization
    6: {0: 4, 1: 4, 2: [{3: _NAMED, 5: _NAMED}]},  # sparsity, with unions of lists
}  # fmt: skip
_GRAPH: _Read = {4: 1, 0: [_TENSOR], 3: [{5: 1, 7: 1}]}
_MODEL: _Read = {
    1: [{1: 1}], 4: [_NAMED], 3: 1, 5: 4, 6: [_NAMED], 7: [{2: 1, 0: [_NAMED], 1: [_NAMED]}],
    2: [_GRAPH],
}  # fmt: skip
DAMAGED = "The TFLite model is damaged or cut short; fetch the file again."


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
    file = _File(model)
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
    file = _File(model)
    file.outputs_offset()
    out = bytearray(model)
    out += bytes(-len(out) % 4)
    with _whole():
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
    file = _File(model)
    file.outputs_offset()
    with _whole():
        file.visit()


def results(model: bytes, kind: int | None = None) -> list[int]:
    """Returns the tensor numbers of the results in the first subgraph, all or those of this kind of
    elements, that depend on inputs, in execution order. Raises ValueError for bytes that are not a
    complete TFLite model."""
    file = _File(model)
    file.outputs_offset()
    with _whole():
        graph = file.tables(file.field(file.follow(0), 2))[0]
        kinds = [file.byte(tensor, 1) for tensor in file.tables(file.field(graph, 0))]
        return [t for t in file.computed(graph) if t >= 0 and kind in (None, kinds[t])]


def names(model: bytes) -> list[str]:
    """Returns the name of each tensor in the first subgraph. Raises ValueError like `results`.
    (tflite-runtime crashes when it is asked for the details of some sparse tensors.)"""
    file = _File(model)
    file.outputs_offset()
    with _whole():
        graph = file.tables(file.field(file.follow(0), 2))[0]
        return [file.text(file.field(tensor, 3)) for tensor in file.tables(file.field(graph, 0))]


def activations(model: bytes) -> list[int]:
    """Returns the `results` that are float32."""
    return results(model, _FLOAT32)


@contextmanager
def _whole() -> Iterator[None]:
    """Raises ValueError with a sentence for offsets that point outside of a file."""
    try:
        yield
    except (struct.error, IndexError) as error:
        raise ValueError(DAMAGED) from error


@dataclass
class _File:
    """A model that is being read. Its lists may overlap, so that a small file could have any number
    of items: reading stops at a limit of items that a file without overlaps cannot reach. Methods
    raise struct.error or IndexError for offsets outside of the file, and beyond that limit."""

    model: bytes
    read: int = 0  # items of lists

    def outputs_offset(self) -> int:
        """Returns the position of the reference to the first subgraph's outputs."""
        if self.model[4:8] != b"TFL3":
            raise ValueError(
                "This is not a TFLite model (the file identifier TFL3 is missing). Pass a .tflite "
                "file; the name of an ONNX model must end in .onnx."
            )
        with _whole():
            graphs = self.tables(self.field(self.follow(0), 2))
            return self.field(graphs[0], 2)

    def computed(self, graph: int) -> list[int]:
        """Returns the tensors in a subgraph that depend on its inputs or on state (results of
        operators without inputs), in execution order."""
        found: dict[int, None] = {}
        reached = set(self.ints(self.field(graph, 1)))
        for operator in self.tables(self.field(graph, 3)):
            taken = self.ints(self.field(operator, 1))
            if not taken or not reached.isdisjoint(taken):
                results = self.ints(self.field(operator, 2))
                found.update(dict.fromkeys(results))
                reached.update(t for t in results if t >= 0)
        return list(found)

    def visit(self) -> None:
        """Reads all that a host reads of a model before it runs it: tflite-runtime verifies
        nothing, and crashes on offsets that point outside."""
        root = self.table(self.follow(0))
        self._touch(root, _MODEL)
        codes, buffers = (len(self.tables(self.field(root, slot))) for slot in (1, 4))
        for graph in self.tables(self.field(root, 2)):
            tensors = self.tables(self.field(graph, 0))
            for tensor in tensors:
                self.index(self.number(tensor, 2), buffers)
            for slot in (1, 2):
                self.ids(self.field(graph, slot), len(tensors))
            for operator in self.tables(self.field(graph, 3)):
                self.index(self.number(operator, 0), codes)
                for slot in (1, 2, 8):
                    self.ids(self.field(operator, slot), len(tensors))
                options, more = self.byte(operator, 3), self.byte(operator, 11)
                self._touch(operator, {4: _LISTS.get(options, {}), 12: _LISTS_2.get(more, {})})

    def _touch(self, table: int, fields: _Read) -> None:
        """Reads these fields, and the objects that they reference."""
        for slot, inside in fields.items():
            offset = self.field(table, slot)
            if isinstance(inside, int):
                self.vector(offset, inside)
            elif isinstance(inside, list):
                for each in self.tables(offset):
                    self._touch(each, inside[0])
            elif offset:
                self._touch(self.table(self.follow(offset)), inside)

    def table(self, table: int) -> int:
        """Returns the table's offset, after checking that all of its fields begin in the file."""
        vtable = table - int(struct.unpack_from("<i", self.model, table)[0])
        size, length = struct.unpack_from("<HH", self.model, vtable) if vtable >= 0 else (0, 0)
        if size < 4 or size % 2 or vtable + size > len(self.model):
            raise IndexError(table)
        fields = struct.unpack_from(f"<{size // 2 - 2}H", self.model, vtable + 4)
        if table + length > len(self.model) or any(offset >= length for offset in fields if offset):
            raise IndexError(table)
        return table

    def vector(self, offset: int, size: int) -> None:
        """Raises IndexError for a list, of items of this size, that does not end in the file."""
        start = self.follow(offset) if offset else 0
        if offset and start + 4 + self._uint(start) * size > len(self.model):
            raise IndexError(offset)

    def text(self, offset: int) -> str:
        """Returns a string, "" when it is absent."""
        if not offset:
            return ""
        self.vector(offset, 1)
        start = self.follow(offset)
        return self.model[start + 4 : start + 4 + self._uint(start)].decode(errors="replace")

    def ids(self, offset: int, count: int) -> None:
        """Raises IndexError for a list of tensors with an invalid number; -1 stands for an absent
        one."""
        for number in self.ints(offset):
            self.index(number + 1, count + 1)

    def index(self, number: int, count: int) -> None:
        """Raises IndexError for a number that is not below the count."""
        if not 0 <= number < count:
            raise IndexError(number)

    def number(self, table: int, slot: int) -> int:
        """Returns an unsigned number of 32 bits, 0 when it is absent."""
        offset = self.field(table, slot)
        return self._uint(offset) if offset else 0

    def follow(self, offset: int) -> int:
        return offset + self._uint(offset)

    def field(self, table: int, slot: int) -> int:
        """Returns the position of a field of a table, 0 when it is absent."""
        vtable = table - int(struct.unpack_from("<i", self.model, table)[0])
        if 4 + 2 * slot >= struct.unpack_from("<H", self.model, vtable)[0]:
            return 0
        offset = int(struct.unpack_from("<H", self.model, vtable + 4 + 2 * slot)[0])
        return table + offset if offset else 0

    def byte(self, table: int, slot: int) -> int:
        offset = self.field(table, slot)
        return self.model[offset] if offset else 0

    def tables(self, offset: int) -> list[int]:
        start, count = self._list(offset)
        return [self.table(self.follow(start + 4 * i)) for i in range(count)]

    def ints(self, offset: int) -> list[int]:
        start, count = self._list(offset)
        return list(struct.unpack_from(f"<{count}i", self.model, start))

    def _list(self, offset: int) -> tuple[int, int]:
        """Returns the position of the items of a list, and their number."""
        if not offset:
            return 0, 0
        start = self.follow(offset)
        count = self._uint(start)
        self.read += count + 1
        if self.read > len(self.model):
            raise IndexError(start)
        return start + 4, count

    def _uint(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.model, offset)[0])
