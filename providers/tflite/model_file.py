"""In what order a graph of a model takes its inputs and gives its outputs, which no table of the
host tells: the model file does, in the host's memory.

A constant tensor names its allocation, an object of the host's whose fourth and fifth words are the
address and the size of the file (tflite-runtime 2.14, ai-edge-litert 2.3). Nothing is taken on
trust: the constant's own bytes must lie in the file, which must begin as a TFLite model, and native
code copies without touching what is not there. Tables of the file are those of TFLite's public
schema (schema.fbs); how they lie, https://flatbuffers.dev/internals says. The file may be damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import calcsize, unpack
from typing import Any

from tflgpu_plugin.ir import Refusal
from tflgpu_plugin.providers import Unsupported, native

from .tensors import IN_MODEL

IDENTIFIER = b"TFL3"  # bytes 4 to 7
MOST_BYTES = 1 << 40  # of a file
MOST_ITEMS = 1 << 16  # graphs of a model, inputs and outputs of a graph
Order = tuple[tuple[int, ...], tuple[int, ...]]  # tensors that a graph is given, and that it gives
GRAPHS, INPUTS, OUTPUTS = 2, 1, 2  # fields of the model, and of a graph
DAMAGED = Refusal("model.damaged", "The model file cannot be read: an offset in it leads outside.")
HIDDEN = Refusal(
    "host.interface",
    "This host does not show the model file, which tells the order of a loop's values.",
)


@dataclass(frozen=True)
class File:
    """`size` bytes from an address on."""

    ffi: Any
    address: int
    size: int

    def bytes(self, at: int, count: int) -> bytes:
        """Raises Unsupported for what is not in the file, or not there."""
        if not 0 <= at <= self.size - count:
            raise Unsupported(DAMAGED)
        found = copied(self.ffi, self.address + at, count)
        if len(found) < count:
            raise Unsupported(DAMAGED)
        return found

    def number(self, at: int, kind: str) -> int:
        """One of this type (as Python's struct module has it)."""
        return int(unpack(f"<{kind}", self.bytes(at, calcsize(kind)))[0])

    def follow(self, at: int) -> int:
        """Where the offset that stands here leads."""
        return at + self.number(at, "I")

    def field(self, table: int, slot: int) -> int | None:
        """Where a field of a table lies, None when it is absent."""
        vtable = table - self.number(table, "i")
        if 4 + 2 * slot >= self.number(vtable, "H"):
            return None
        offset = self.number(vtable + 4 + 2 * slot, "H")
        return table + offset if offset else None

    def numbers(self, table: int, slot: int) -> tuple[int, ...]:
        """The int32 list of a field, () when it is absent."""
        start, count = self._list(table, slot)
        return unpack(f"<{count}i", self.bytes(start, 4 * count))

    def item(self, table: int, slot: int, number: int) -> int:
        """Where a table of a field's list lies."""
        start, count = self._list(table, slot)
        if not 0 <= number < count:
            raise Unsupported(DAMAGED)
        return self.follow(start + 4 * number)

    def _list(self, table: int, slot: int) -> tuple[int, int]:
        """Where the items of a list begin, and how many there are."""
        at = self.field(table, slot)
        if at is None:
            return 0, 0
        start = self.follow(at)
        count = self.number(start, "I")
        if count > MOST_ITEMS:
            raise Unsupported(DAMAGED)
        return start + 4, count


def copied(ffi: Any, address: Any, count: int) -> bytes:
    """What can be read of these bytes of the process, from the first on."""
    held = ffi.new("char[]", max(count, 1))
    found = native.lib.tg_tflite_bytes(ffi.cast("void *", address), held, count)
    return bytes(ffi.buffer(held, found))


def order(ffi: Any, contexts: Iterable[Any], number: int) -> Order:
    """That of graph `number` of a model, some of whose graphs have these contexts (tgl_context *).
    Raises Unsupported with a sentence where the host does not show the file, or it is damaged."""
    file = next((file for context in contexts for file in _files(ffi, context)), None)
    if file is None:
        raise Unsupported(HIDDEN)
    graph = file.item(file.follow(0), GRAPHS, number)
    return file.numbers(graph, INPUTS), file.numbers(graph, OUTPUTS)


def _files(ffi: Any, context: Any) -> Iterator[File]:
    """The model file, by each constant that leads to it."""
    for k in range(context.tensor_count):
        raw = context.tensors[k]
        if raw.allocation != IN_MODEL or not raw.data or not raw.owner:
            continue
        words = copied(ffi, int(ffi.cast("uintptr_t", raw.owner)), 40)
        if len(words) < 40:
            continue
        address, size = unpack("<24xQQ", words)
        first = int(ffi.cast("uintptr_t", raw.data)) - address
        if size <= MOST_BYTES and 8 <= first <= size - raw.bytes:
            if copied(ffi, address + 4, 4) == IDENTIFIER:
                yield File(ffi, address, size)
