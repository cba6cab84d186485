"""Copies some operators of a TFLite model, and all that they need, into a small model."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin.harness import flatbuffer_file
from tflgpu_plugin.harness.flatbuffer_file import BEHIND, BUFFER, OPERATOR, Fields, File, whole

# All fields that refer to something, as in `flatbuffer_file`; None for those that are left out.
_TENSOR: Fields = {**flatbuffer_file.TENSOR, 9: None}
_GRAPH: Fields = {0: [_TENSOR], 1: 4, 2: 4, 3: [OPERATOR], 4: 1}
_OMITTED = dict.fromkeys((5, 6, 7, 8, 9))
_MODEL: Fields = {1: [{1: 1}], 2: [_GRAPH], 3: 1, 4: [BUFFER], **_OMITTED}
_EXTERNAL = 10  # the field of a tensor for a constant in another file


def operators(model: bytes) -> list[tuple[list[int], list[int]]]:
    """Returns the tensors that each operator of the first subgraph reads and writes. Raises
    ValueError for bytes that are not a complete TFLite model."""
    with whole():
        file = File(model)
        found = file.tables(file.field(_graph(file), 3))
        return [(_tensors(file, one, 1), _tensors(file, one, 2)) for one in found]


def part(
    model: bytes, kept: Collection[int], inputs: Sequence[int], outputs: Sequence[int]
) -> bytes:
    """Returns a model with those operators of the first subgraph whose places are `kept`, and with
    these inputs and outputs. Tensors keep their numbers; values and quantization of those that are
    not used are left out. Raises ValueError like `operators`, also for constants in other files."""
    with whole():
        file = File(model)
        graph, root = _graph(file), file.follow(0)
        copy = _Copy(file)
        places = [(graph, 3), (graph, 1), (graph, 2)]
        chosen = [
            one for place, one in enumerate(file.tables(file.field(graph, 3))) if place in kept
        ]
        values = (chosen, tuple(inputs), tuple(outputs))
        copy.changed.update(zip((file.field(*place) for place in places), values, strict=True))
        tensors = file.tables(file.field(graph, 0))
        used = {t for one in chosen for slot in (1, 2, 8) for t in _tensors(file, one, slot)}
        if any(file.number(tensors[t], _EXTERNAL) for t in used):
            raise ValueError("The model has constants in other files, which cannot be copied.")
        for number, tensor in enumerate(tensors):
            if number not in used:
                copy.changed.update((file.field(tensor, slot), None) for slot in (4, 6))
        buffers = _buffers(file, [tensors[t] for t in used])
        for number, buffer in enumerate(file.tables(file.field(root, 4))):
            if number not in buffers:
                copy.changed.update((file.field(buffer, slot), None) for slot in (0, 1))
        struct.pack_into("<I", copy.out, 0, copy.table(root, _MODEL))
        copy.finish()
        return bytes(copy.out)


def _tensors(file: File, operator: int, slot: int) -> list[int]:
    return [t for t in file.ints(file.field(operator, slot)) if t >= 0]


def _graph(file: File) -> int:
    return file.tables(file.field(file.follow(0), 2))[0]


def _buffers(file: File, tensors: Sequence[int]) -> set[int]:
    """Returns the buffers of these tensors and of those of all other subgraphs."""
    _, *others = file.tables(file.field(file.follow(0), 2))
    more = [tensor for graph in others for tensor in file.tables(file.field(graph, 0))]
    return {file.number(tensor, 2) for tensor in (*tensors, *more)}


@dataclass
class _Copy:
    """A copy of a model. `changed` has, by the position of a field in the model, the tables or
    numbers that it holds in the copy, or None where it is left out. `behind` has, by the position
    of a number in the copy, where the bytes are to which it is to point: start and size in the
    model."""

    file: File
    changed: dict[int, Any] = field(default_factory=dict)
    out: bytearray = field(default_factory=lambda: bytearray(b"\0\0\0\0TFL3"))
    behind: dict[int, tuple[int, int]] = field(default_factory=dict)

    def table(self, at: int, fields: Fields) -> int:
        """Appends a table, and then all objects that it refers to; returns its position in the
        copy."""
        model, out = self.file.model, self.out
        vtable = at - int(struct.unpack_from("<i", model, at)[0])
        size, length = struct.unpack_from("<HH", model, vtable)
        slots = bytearray(model[vtable : vtable + size])
        references = []
        for slot, inside in self.file.inside(at, fields).items():
            place = self.file.field(at, slot)
            if place and (inside is None or self.changed.get(place, ()) is None):
                struct.pack_into("<H", slots, 4 + 2 * slot, 0)
            elif place:
                references.append((place, inside))
        out += bytes(len(out) % 2) + slots
        start = len(out) + (at - len(out)) % 8  # numbers stay aligned
        copied = struct.pack("<i", start - len(out) + size) + model[at + 4 : at + length]
        out += bytes(start - len(out)) + copied
        self._note_behind(at, start, fields)
        for place, inside in references:
            self._refer(start + place - at, self._target(place, inside))
        return start

    def _note_behind(self, at: int, start: int, fields: Fields) -> None:
        """Notes which bytes of the table at `at` are stored after all tables. The table is copied
        to `start`."""
        kind = "buffer" if fields is BUFFER else "operator" if fields is OPERATOR else ""
        if not kind or self.file.behind(at, kind) == (0, 0):
            return
        place, size = (self.file.field(at, slot) for slot in BEHIND[kind])
        if self.changed.get(place, ()) is None:
            for each in (place, size):
                struct.pack_into("<Q", self.out, start + each - at, 0)
        else:
            self.behind[start + place - at] = self.file.behind(at, kind)

    def finish(self) -> None:
        """Appends the bytes that are stored after all tables."""
        for place, (start, size) in self.behind.items():
            self.out += bytes(-len(self.out) % 16)
            struct.pack_into("<Q", self.out, place, len(self.out))
            self.out += self.file.model[start : start + size]

    def _target(self, place: int, inside: Any) -> int:
        """Appends the object that a reference in the model points to; returns its position in the
        copy."""
        file, changed = self.file, self.changed.get(place)
        if isinstance(inside, list):
            tables = file.tables(place) if changed is None else changed
            start = self._vector(len(tables), bytes(4 * len(tables)))
            for number, table in enumerate(tables):
                self._refer(start + 4 + 4 * number, self.table(table, inside[0]))
            return start
        if not isinstance(inside, int):
            return self.table(file.follow(place), inside)
        if changed is not None:
            return self._vector(len(changed), struct.pack(f"<{len(changed)}i", *changed))
        start = file.follow(place)
        count = file.uint(start)
        return self._vector(count, file.model[start + 4 : start + 4 + count * inside])

    def _vector(self, count: int, data: bytes) -> int:
        """Appends a vector with aligned items, and a zero byte, which terminates strings; returns
        its position."""
        self.out += bytes(-(len(self.out) + 4) % 16)
        start = len(self.out)
        self.out += struct.pack("<I", count) + data + b"\0"
        return start

    def _refer(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.out, place, target - place)
