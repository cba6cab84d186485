"""The order of a graph's inputs and outputs is read from the model file in the host's memory,
whatever it contains."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.support.recurrent_loops import Loop
from tests.support.refused import refused
from tflgpu_plugin import native
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.providers.tflite import model_file

ffi = native.ffi
IN_MODEL, IN_ARENA = 1, 2


class Memory:
    """A model file in memory, an object of the host that refers to it, and a context with one
    constant."""

    def __init__(self, content: bytes, **others: Any) -> None:
        self.content = ffi.from_buffer(content)
        self.address = int(ffi.cast("uintptr_t", self.content))
        words = [7, 7, 7, self.address, len(content)]
        self.owner = ffi.new("uint64_t[5]", others.get("words", words))
        self.tensor, self.context = ffi.new("tgl_tensor[2]"), ffi.new("tgl_context *")
        first = self.tensor[0]
        first.allocation = others.get("allocation", IN_MODEL)
        first.data = ffi.cast("void *", self.address + others.get("offset", 16))
        first.bytes = others.get("bytes", 4)
        first.owner = ffi.cast("void *", others.get("owner", ffi.cast("uintptr_t", self.owner)))
        self.context.tensors, self.context.tensor_count = self.tensor, 2

    def order(self, number: int = 2) -> model_file.Order:
        return model_file.order(ffi, [self.context], number)


def wanted(content: bytes, number: int) -> tuple[list[int], list[int]]:
    """Returns what the hosts' own reader finds in the file."""
    from conformance.models.tflite_file import schema

    graph = schema().ModelT.InitFromPackedBuf(content, 0).subgraphs[number]
    return list(graph.inputs), list(graph.outputs)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("cell", ["lstm", "rnn"])
def test_the_order_is_that_of_the_file(cell: str, number: int) -> None:
    content = Loop(cell, scattered=True, every=True).model()
    inputs, outputs = Memory(content).order(number)
    assert (list(inputs), list(outputs)) == wanted(content, number)
    assert inputs and outputs


CONTENT = Loop("rnn").model()
SIZE = len(CONTENT)


@pytest.mark.parametrize(
    "others",
    [
        {"allocation": IN_ARENA},
        {"offset": SIZE - 3},  # the constant ends outside
        {"bytes": SIZE},
        {"offset": 7},
        {"offset": -16},
        {"owner": 0},
        {"owner": 64},  # nothing is there
        {"words": [0, 0, 0, 64, SIZE]},
        {"words": [0] * 5},
        {"words": [(1 << 64) - 1] * 5},
    ],
    ids=str,
)
def test_a_host_that_does_not_show_the_file(others: dict[str, Any]) -> None:
    with refused("host.interface"):
        Memory(CONTENT, **others).order()


def test_a_file_of_another_kind_or_size() -> None:
    with refused("host.interface"):
        Memory(CONTENT[:4] + b"TFL2" + CONTENT[8:]).order()
    memory = Memory(CONTENT)
    memory.owner[4] = (1 << 40) + 1
    with refused("host.interface"):
        memory.order()


@pytest.mark.parametrize("constant", [8, SIZE - 4])
def test_constants_at_the_ends_of_the_file_lie_in_it(constant: int) -> None:
    assert Memory(CONTENT, offset=constant).order() == Memory(CONTENT).order()


def test_any_constant_of_any_graph_leads_to_the_file() -> None:
    first, other = Memory(CONTENT, owner=0), Memory(CONTENT)
    found = model_file.order(ffi, [first.context, other.context], 2)
    assert found == other.order()
    first.tensor[1] = other.tensor[0]
    assert first.order() == found


@pytest.mark.parametrize("number", [-1, 3, 1 << 31])
def test_no_such_graph(number: int) -> None:
    with refused("model.damaged"):
        Memory(CONTENT).order(number)


def test_damaged_files_are_refused_or_read() -> None:
    """Nothing is read outside of the file, whichever byte is wrong."""
    refused = 0
    chance = np.random.default_rng(0)
    for at in [*range(0, 64), *chance.integers(64, SIZE, 400)]:
        damaged = bytearray(CONTENT)
        damaged[at] ^= int(chance.integers(1, 256))
        try:
            inputs, outputs = Memory(bytes(damaged), offset=16).order()
        except Unsupported:
            refused += 1
        else:
            assert max(len(inputs), len(outputs)) < SIZE
    assert refused > 4


@pytest.mark.parametrize("length", [20, 200, SIZE // 2])
def test_a_file_that_is_cut_short(length: int) -> None:
    with refused("model.damaged"):
        Memory(CONTENT[:length]).order()


@contextmanager
def listed(count: int, items: int) -> Iterator[model_file.File]:
    """Returns a table at 16 whose only field is a list with this count, followed by this many
    items."""
    data = struct.pack("<8xHHHxxiiI", 6, 8, 4, 8, 4, count) + struct.pack(
        f"<{items}i", *range(items)
    )
    held = ffi.from_buffer(data)
    yield model_file.File(ffi, int(ffi.cast("uintptr_t", held)), len(data))


def test_lists_end_where_they_say() -> None:
    for count in (0, 3):
        with listed(count, 3) as file:
            assert file.numbers(16, 0) == tuple(range(count))
            assert file.numbers(16, 1) == ()  # a field that is absent
    with listed(4, 3) as file, pytest.raises(Unsupported):
        file.numbers(16, 0)
    most = 1 << 16
    with listed(most, most + 1) as file:
        assert len(file.numbers(16, 0)) == most
    with listed(most + 1, most + 1) as file, pytest.raises(Unsupported):
        file.numbers(16, 0)


def test_items_of_a_list() -> None:
    with listed(2, 4) as file:
        start = file.size - 4 * 4
        assert [file.item(16, 0, k) for k in range(2)] == [start, start + 4 + 1]
        for number in (-1, 2):
            with pytest.raises(Unsupported):
                file.item(16, 0, number)


def test_bytes_up_to_the_end() -> None:
    with listed(3, 3) as file:
        assert file.bytes(file.size - 4, 4) == struct.pack("<i", 2)
        for at, count in ((file.size - 3, 4), (-1, 2)):
            with pytest.raises(Unsupported):
                file.bytes(at, count)


def test_what_is_not_there_is_no_crash() -> None:
    nowhere = model_file.File(ffi, 64, 1 << 20)
    with refused("model.damaged"):
        nowhere.bytes(0, 4)
