"""Maps constants from external data files beside the model. Constants that must outlive the host's
view of them, for plans with other shapes, are memory-mapped instead of copied."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tflgpu_plugin.cache import folders
from tflgpu_plugin.ir import Array
from tflgpu_plugin.providers import BuildError

MIN_BYTES = 1 << 16  # smaller constants are copied
COMPARED = 1 << 20  # bytes that are compared at once


@dataclass(frozen=True)
class Origin:
    """The location of a constant: file name as in the model, offset and length in bytes."""

    file: str
    offset: int
    bytes: int


@dataclass
class Files:
    """The memory-mapped external data files of the model in `folder`, by file name."""

    folder: Path
    _maps: dict[str, mmap.mmap] = field(default_factory=dict)
    _states: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)

    def view(self, origin: Origin, data: Array) -> Array | None:
        """Returns a view of the mapped file that equals `data` (C order); None if the file differs
        or `data` has less than 64 KiB."""
        if data.nbytes < MIN_BYTES or data.nbytes != origin.bytes or not data.flags.c_contiguous:
            return None
        try:
            mapped = self.mapped_file(origin.file)
            found = np.frombuffer(mapped, data.dtype, data.size, origin.offset)
        except (OSError, ValueError):
            return None
        return found.reshape(data.shape) if _same(found, data.reshape(-1)) else None

    def check(self) -> None:
        """Raises BuildError if a mapped file was modified since it was mapped."""
        for name, before in self._states.items():
            if _state(self._open[name]) != before:
                sentence = (
                    f"The file {name!r} of this model's weights has changed since the session was "
                    "made; make a new session."
                )
                raise BuildError.of((), "model.damaged", sentence)

    def mapped_file(self, name: str) -> mmap.mmap:
        if name not in self._maps:
            number = folders.opened(self.folder / name, None, private=False)
            self._open[name], self._states[name] = number, _state(number)
            self._maps[name] = mmap.mmap(number, 0, access=mmap.ACCESS_READ)
        return self._maps[name]

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # `os` may be gone at exit
        for number in self._open.values():
            close(number)


def _same(found: Array, wanted: Array) -> bool:
    """Whether all bytes are equal; compares 1 MiB at a time."""
    pairs = zip(*(np.split(a.view(np.uint8), range(COMPARED, a.nbytes, COMPARED))
                  for a in (found, wanted)), strict=True)  # fmt: skip
    return all(np.array_equal(*pair) for pair in pairs)


def _state(number: int) -> tuple[int, ...]:
    """Returns size and modification time of the open file with descriptor `number`."""
    found = os.fstat(number)
    return found.st_size, found.st_mtime_ns
