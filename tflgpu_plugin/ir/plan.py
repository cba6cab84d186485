"""A Plan: all that the runtime needs to build one partition, as plain data that refers to no host
and no device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from tflgpu_plugin.ir.digests import of_array
from tflgpu_plugin.ir.graph import Array, Shape

Digest = bytes  # named, since the field `bytes` shadows the type


@dataclass(frozen=True)
class Pipeline:
    """Generated WGSL. `kinds` has one letter per binding: u (uniform), r (read), w (write)."""

    label: str
    wgsl: str
    kinds: str

    @property
    def name(self) -> str:
        """Returns the label with a digest of all other fields: equal names mean equal code."""
        digest = sha256(repr((self.wgsl, self.kinds)).encode())
        return f"{self.label}-{digest.hexdigest()[:8]}"


@dataclass(frozen=True)
class Buffer:
    """A device buffer. `role` is "weights", "uniforms", "pool", "input", "output", "state",
    "shared" (of an input and an output) or "check", a word that is nonzero after a run that met a
    number outside of int32. No kernel writes the first `zeros` bytes of a pool; kernels read them
    as padding."""

    role: str
    bytes: int
    zeros: int = 0


Pack = Callable[[], Array | Iterable[Array]]


class Forgotten(ValueError):
    """An error for a constant whose values are no longer in memory."""


def forgotten() -> Array:
    """Stands in for the `pack` of a weight whose values are no longer available; raises
    Forgotten."""
    raise Forgotten("The values of this program's constants are no longer in memory.")


@dataclass(frozen=True)
class Weight:
    """A constant in device layout. `pack` returns its values, made from `data`, in one array or
    several. They are written to `buffer` at `offset` (in bytes), as float16 if `half`, else as
    float32; uint8 arrays are written unchanged. `digest` is the digest of `data`, where it is known
    without `data`."""

    key: tuple[object, ...]
    buffer: int
    offset: int
    bytes: int
    pack: Pack = field(default=forgotten, compare=False, repr=False)
    data: Array | None = field(default=None, compare=False, repr=False)
    digest: Digest | None = field(default=None, compare=False, repr=False)
    half: bool = False

    @cached_property
    def values(self) -> Digest:
        """Returns the digest of the constant's values (`data`). Raises ValueError where it is
        unknown."""
        if self.digest is not None:
            return self.digest
        if self.data is None:
            raise ValueError(f"the values of constant {self.key} are unknown")
        return of_array(self.data)

    @cached_property
    def identity(self) -> Digest:
        """Returns a digest that is equal for weights with equal packed bytes, whatever their tensor
        is. Raises ValueError."""
        how = self.key[1:] if isinstance(self.key[0], int) else self.key
        return sha256(repr((how, self.bytes, self.half)).encode() + self.values).digest()

    def forgotten(self) -> Weight:
        """Returns a copy of the weight without the values of its constant."""
        return replace(self, pack=forgotten, data=None, digest=self.values)

    def pieces(self) -> Iterator[Array]:
        """Yields the bytes for the device piece by piece (uint8, one-dimensional). Raises
        ValueError when their number is not `bytes`."""
        packed, given, kind = self.pack(), 0, np.float16 if self.half else np.float32
        for piece in (packed,) if isinstance(packed, np.ndarray) else packed:
            values = piece if piece.dtype == np.uint8 else np.ascontiguousarray(piece, kind)
            given += values.nbytes
            if given > self.bytes:
                break
            yield values.reshape(-1).view(np.uint8)
        if given != self.bytes:
            raise ValueError(f"constant {self.key} packs to {given} bytes, not {self.bytes}")

    def image(self) -> Array:
        """Returns all bytes in one array. Raises ValueError."""
        return np.concatenate(list(self.pieces()))


def contents(weights: Iterable[Weight], origin: bytes = b"") -> Digest:
    """Returns a digest that is equal for buffers that hold the same bytes: those of these weights,
    whose digests are claimed by `origin` (empty for those that this process has computed). Raises
    ValueError."""
    digest = sha256(origin)
    for weight in weights:
        digest.update(b"%d " % weight.offset + weight.identity)
    return digest.digest()


@dataclass(frozen=True)
class Dispatch:
    """One kernel launch: a buffer per binding (the uniform block included), the number of
    workgroups per dimension (`groups`), the host nodes that it computes (`nodes`), and the `form`
    of the op (see `ops.forms`). An `optional` launch may have no workgroups in some runs."""

    label: str
    pipeline: int
    buffers: tuple[int, ...]
    uniform_offset: int
    groups: tuple[int, int, int]
    nodes: tuple[int, ...]
    form: str = field(default="", repr=False)
    optional: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Port:
    """An input, output or state in the host's layout (row-major) and dtype. `counted` is (axis,
    index of another output): only the first n indices along the axis are valid, where n is the
    int32 value of that output."""

    tensor: int
    name: str
    shape: Shape
    dtype: str
    buffer: int
    bytes: int
    counted: tuple[int, int] | None = None


# The meaning of the numbers in a plan's symbols, by position (TG_* of native/core/tflgpu.h).
FORMULAS = ("plus", "times", "quotient", "remainder", "rounded_up", "larger", "smaller")
GUARDS = ("zero", "not_zero", "not_negative")
WORDS = ("u32", "i32", "f32")
_COLUMNS = {"places": 2, "formulas": 3, "guards": 2, "words": 3, "groups": 4, "sizes": 2,
            "extents": 2}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Symbols:
    """How a plan follows from the shapes of a run: tables for native code, with a row per entry and
    these columns (see tg_symbols in native/core/tflgpu.h). Registers are int64: first the `count`
    symbols, then the constants, then one per formula.

    places: position in the flat list of input shapes and run values, symbol;
    formulas: number of the operation in FORMULAS, register, register;
    guards: number of the condition in GUARDS, register;
    words: byte offset in the uniforms, register, number of the type in WORDS;
    groups: dispatch, axis, register of the workgroups, their least number (0 or 1);
    sizes: port, counted through inputs, outputs and states, register of its bytes;
    extents: position in the flat list of output shapes, register."""

    count: int
    places: Array
    constants: Array  # int64, of one dimension; all others are uint32
    formulas: Array
    guards: Array
    words: Array
    groups: Array
    sizes: Array
    extents: Array

    def __post_init__(self) -> None:
        """Raises ValueError for numbers that these tables cannot hold."""
        constants = np.ascontiguousarray(self.constants, np.int64).reshape(-1)
        object.__setattr__(self, "constants", constants)
        for name, columns in _COLUMNS.items():
            given = np.asarray(getattr(self, name), np.int64).reshape(-1, columns)
            table = np.ascontiguousarray(given, np.uint32)
            if (table != given).any():
                raise ValueError(f"a number of the {name} is not a uint32")
            object.__setattr__(self, name, table)

    @cached_property
    def digest(self) -> bytes:
        """Returns a digest that is equal for equal tables."""
        tables = [getattr(self, part.name) for part in fields(self)[1:]]
        shape = self.count, [len(table) for table in tables]
        return sha256(repr(shape).encode() + b"".join(map(bytes, tables))).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbols) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True)
class Plan:
    """The plan of one partition. `tensor_bytes` is the size that the pools would have without
    sharing memory, and `least_bytes` the peak of live tensors, the minimum with sharing. With
    `symbols`, the plan holds for other shapes, too."""

    pipelines: tuple[Pipeline, ...]
    buffers: tuple[Buffer, ...]
    weights: tuple[Weight, ...]
    uniforms: bytes
    dispatches: tuple[Dispatch, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...]
    tensor_bytes: int = 0
    least_bytes: int = 0
    symbols: Symbols | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Returns the indices of outputs that hold the number of valid indices of others."""
        counted = (port.counted for port in self.outputs)
        return tuple(dict.fromkeys(each[1] for each in counted if each is not None))

    @cached_property
    def structure(self) -> bytes:
        """Returns a digest of the plan without the constants' values."""
        ports = self.inputs, self.outputs, self.states
        shape = self.pipelines, self.buffers, self.weights, self.dispatches, *ports
        tables = self.symbols.digest if self.symbols else b""
        return sha256(repr(shape).encode() + self.uniforms + tables).digest()

    def weights_by_buffer(self) -> dict[int, list[Weight]]:
        """Returns the weights in each buffer that has some, by its number."""
        found: dict[int, list[Weight]] = {}
        for weight in self.weights:
            found.setdefault(weight.buffer, []).append(weight)
        return found

    def without_constants(self) -> Plan:
        """Returns the plan without the values of its constants, which can no longer be packed."""
        return replace(self, weights=tuple(weight.forgotten() for weight in self.weights))

    def bytes_of(self, role: str) -> int:
        return sum(buffer.bytes for buffer in self.buffers if buffer.role == role)
