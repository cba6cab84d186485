"""Finds the order in which a graph of a model takes its inputs and returns its outputs. The host's
API does not give this order, but the model file in the host's memory does.

A constant tensor points to its allocation, an object of the host whose fourth and fifth words are
the address and the size of the file (tflite-runtime 2.14, ai-edge-litert 2.3). Everything is
checked, since the file may be damaged: the constant's own bytes must be inside of the file, which
must begin like a TFLite model, and native code copies only bytes that are mapped. The tables are
those of TFLite's public schema (schema.fbs); https://flatbuffers.dev/internals describes their
encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import calcsize, unpack
from typing import Any

from tflgpu_plugin.ir import Refusal
from tflgpu_plugin.providers import Unsupported, native

from .tensors import IN_MODEL

IDENTIFIER = b"TFL3"  # bytes 4 to 7
MAX_BYTES = 1 << 40  # size limit of a file
MAX_ITEMS = 1 << 16  # limit of a list: graphs of a model, inputs or outputs of a graph
Order = tuple[tuple[int, ...], tuple[int, ...]]  # input and output tensors of a graph
GRAPHS, INPUTS, OUTPUTS = 2, 1, 2  # slots of fields: of the model's table, and of a graph's table
DAMAGED = Refusal("model.damaged", "The model file cannot be read: an offset points outside of it.")
HIDDEN = Refusal(
    "host.interface",
    "This host does not expose the model file, which has the order of a loop's values.",
)


@dataclass(frozen=True)
class File:
    """The model file in memory: `size` bytes from an address on."""

    ffi: Any
    address: int
    size: int

    def bytes(self, at: int, count: int) -> bytes:
        """Returns bytes of the file. Raises Unsupported for bytes outside of it, or not mapped."""
        if not 0 <= at <= self.size - count:
            raise Unsupported(DAMAGED)
        found = copied(self.ffi, self.address + at, count)
        if len(found) < count:
            raise Unsupported(DAMAGED)
        return found

    def number(self, at: int, kind: str) -> int:
        """Returns a number of this type (in the notation of Python's struct module)."""
        return int(unpack(f"<{kind}", self.bytes(at, calcsize(kind)))[0])

    def follow(self, at: int) -> int:
        """Returns the position that the offset stored at `at` points to."""
        return at + self.number(at, "I")

    def field(self, table: int, slot: int) -> int | None:
        """Returns the position of field `slot` of the table at `table`, or None if it is absent."""
        vtable = table - self.number(table, "i")
        if 4 + 2 * slot >= self.number(vtable, "H"):
            return None
        offset = self.number(vtable + 4 + 2 * slot, "H")
        return table + offset if offset else None

    def numbers(self, table: int, slot: int) -> tuple[int, ...]:
        """Returns the int32 list in field `slot` of a table, () if the field is absent."""
        start, count = self._list(table, slot)
        return unpack(f"<{count}i", self.bytes(start, 4 * count))

    def item(self, table: int, slot: int, number: int) -> int:
        """Returns the position of table `number` in the list in field `slot` of a table."""
        start, count = self._list(table, slot)
        if not 0 <= number < count:
            raise Unsupported(DAMAGED)
        return self.follow(start + 4 * number)

    def _list(self, table: int, slot: int) -> tuple[int, int]:
        """Returns (position of the first item, number of items) of the list in field `slot`."""
        at = self.field(table, slot)
        if at is None:
            return 0, 0
        start = self.follow(at)
        count = self.number(start, "I")
        if count > MAX_ITEMS:
            raise Unsupported(DAMAGED)
        return start + 4, count


def copied(ffi: Any, address: Any, count: int) -> bytes:
    """Returns `count` bytes of this process from `address` on, fewer where memory is unmapped."""
    held = ffi.new("char[]", max(count, 1))
    found = native.lib.tg_tflite_bytes(ffi.cast("void *", address), held, count)
    return bytes(ffi.buffer(held, found))


def order(ffi: Any, contexts: Iterable[Any], number: int) -> Order:
    """Returns the input and the output tensors of graph `number`, each in the model's order.
    `contexts` (tgl_context *) are graphs of the same model. Raises Unsupported with a sentence
    where the host does not expose the file, or it is damaged."""
    file = next((file for context in contexts for file in _files(ffi, context)), None)
    if file is None:
        raise Unsupported(HIDDEN)
    graph = file.item(file.follow(0), GRAPHS, number)
    return file.numbers(graph, INPUTS), file.numbers(graph, OUTPUTS)


def _files(ffi: Any, context: Any) -> Iterator[File]:
    """Yields the model file that a constant of the graph points to, for each constant."""
    for k in range(context.tensor_count):
        raw = context.tensors[k]
        if raw.allocation != IN_MODEL or not raw.data or not raw.owner:
            continue
        words = copied(ffi, int(ffi.cast("uintptr_t", raw.owner)), 40)
        if len(words) < 40:
            continue
        address, size = unpack("<24xQQ", words)
        first = int(ffi.cast("uintptr_t", raw.data)) - address
        if size <= MAX_BYTES and 8 <= first <= size - raw.bytes:
            if copied(ffi, address + 4, 4) == IDENTIFIER:
                yield File(ffi, address, size)
