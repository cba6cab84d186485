"""Reads TFLite models with no dependency beyond the standard library, and checks that all that a
host reads is inside of the file. `flatbuffer` explains the format."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# By the number of an operator's options in either union: the fields that are lists, and how many
# bytes each item has.
LISTS: dict[int, dict[int, int]] = {
    3: {1: 4, 2: 4}, 8: {5: 1}, 17: {0: 4}, 30: {0: 4}, 111: {0: 1, 1: 1}, 115: {0: 4},
}  # fmt: skip
LISTS_2: dict[int, dict[int, int]] = {
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
Fields = Mapping[int, Any]
NAMED: Fields = {0: 1}
BUFFER: Fields = {0: 1}
OPERATOR: Fields = {1: 4, 2: 4, 5: 1, 7: 1, 8: 4}  # and options, which `File.inside` adds
DIMENSION: Fields = {}  # of sparsity: unions of lists, which `File.inside` adds
INDEX_BYTES = {1: 4, 2: 2, 3: 1}  # of each index, by the kind of a list of them
TENSOR: Fields = {
    0: 4, 3: 1, 7: 4,
    4: {0: 4, 1: 4, 2: 4, 3: 8},  # quantization
    6: {0: 4, 1: 4, 2: [DIMENSION]},  # sparsity
}  # fmt: skip
GRAPH: Fields = {4: 1, 0: [TENSOR], 3: [OPERATOR]}
# Slots of the offset and size of bytes that large files store after all tables.
BEHIND = {"buffer": (1, 2), "operator": (9, 10)}
MODEL: Fields = {
    1: [{1: 1}], 4: [BUFFER], 3: 1, 5: 4, 6: [NAMED], 7: [{2: 1, 0: [NAMED], 1: [NAMED]}],
    2: [GRAPH],
}  # fmt: skip
DAMAGED = "The TFLite model is damaged or cut short; fetch the file again."


@contextmanager
def whole() -> Iterator[None]:
    """Raises ValueError with a sentence for offsets that point outside of a file."""
    try:
        yield
    except (struct.error, IndexError) as error:
        raise ValueError(DAMAGED) from error


@dataclass
class File:
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
        with whole():
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
        self._touch(root, MODEL)
        codes, tables = len(self.tables(self.field(root, 1))), self.tables(self.field(root, 4))
        buffers = len(tables)
        for table in tables:
            self.behind(table, "buffer")
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
                self.behind(operator, "operator")

    def _touch(self, table: int, fields: Fields) -> None:
        """Reads these fields, and the objects that they reference."""
        for slot, inside in self.inside(table, fields).items():
            offset = self.field(table, slot)
            if isinstance(inside, int):
                self.vector(offset, inside)
            elif isinstance(inside, list):
                for each in self.tables(offset):
                    self._touch(each, inside[0])
            elif offset:
                self._touch(self.table(self.follow(offset)), inside)

    def inside(self, table: int, fields: Fields) -> Fields:
        """Returns the fields of a table, including those of its unions, whose members depend on the
        kind of the union."""
        if fields is OPERATOR:
            options, more = self.byte(table, 3), self.byte(table, 11)
            return {**fields, 4: LISTS.get(options, {}), 12: LISTS_2.get(more, {})}
        if fields is DIMENSION:
            return {slot: {0: INDEX_BYTES.get(self.byte(table, slot - 1), 4)} for slot in (3, 5)}
        return fields

    def behind(self, table: int, kind: str) -> tuple[int, int]:
        """Returns the offset and size of the bytes of a table (a kind in `BEHIND`) that are stored
        after all tables, (0, 0) if it has none. Raises IndexError if they
        extend past the end of the file."""
        start, size = (self.long(self.field(table, slot)) for slot in BEHIND[kind])
        if start <= 1 or size <= 1:  # which the converter writes for others
            return 0, 0
        if start + size > len(self.model):
            raise IndexError(start)
        return start, size

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
        if offset and start + 4 + self.uint(start) * size > len(self.model):
            raise IndexError(offset)

    def text(self, offset: int) -> str:
        """Returns a string, "" when it is absent."""
        if not offset:
            return ""
        self.vector(offset, 1)
        start = self.follow(offset)
        return self.model[start + 4 : start + 4 + self.uint(start)].decode(errors="replace")

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
        return self.uint(offset) if offset else 0

    def long(self, offset: int) -> int:
        """Returns an unsigned number of 64 bits, 0 when it is absent."""
        return int(struct.unpack_from("<Q", self.model, offset)[0]) if offset else 0

    def follow(self, offset: int) -> int:
        return offset + self.uint(offset)

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
        start, count = self.list_at(offset)
        return [self.table(self.follow(start + 4 * i)) for i in range(count)]

    def ints(self, offset: int) -> list[int]:
        start, count = self.list_at(offset)
        return list(struct.unpack_from(f"<{count}i", self.model, start))

    def list_at(self, offset: int) -> tuple[int, int]:
        """Returns the position of the first item of a list, and the number of its items."""
        if not offset:
            return 0, 0
        start = self.follow(offset)
        count = self.uint(start)
        self.read += count + 1
        if self.read > len(self.model):
            raise IndexError(start)
        return start + 4, count

    def uint(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.model, offset)[0])
