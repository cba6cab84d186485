"""A Plan: all that the runtime needs to build one partition, as pure data without handles, host or
device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np

from tflgpu_plugin.ir.digests import of_array
from tflgpu_plugin.ir.graph import Array, Shape

Digest = bytes  # under a name that no field shadows


@dataclass(frozen=True)
class Pipeline:
    """Generated WGSL, and one letter per binding: u(niform), r(ead), w(rite)."""

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
    """A device buffer. `role` is weights, uniforms, pool, input, output, state or check: a word
    that is nonzero after a run that met a number beyond int32. No kernel writes the first `zeros`
    bytes of a pool; kernels read them as padding.
    """

    role: str
    bytes: int
    zeros: int = 0


Pack = Callable[[], Array | Iterable[Array]]


def forgotten() -> Array:
    """The `pack` of a weight whose values are no longer available; raises ValueError."""
    raise ValueError("The values of this program's constants are no longer in memory.")


@dataclass(frozen=True)
class Weight:
    """A constant in device layout: `pack` makes its values from `data`, or returns its bytes
    (uint8) unchanged, in one piece or in several; they are written to `buffer` at `offset` (bytes),
    as float16 with `half`, else as float32. `digest` is the digest of `data`, where it is known
    without `data`.
    """

    key: tuple[object, ...]
    buffer: int
    offset: int
    bytes: int
    pack: Pack = field(default=forgotten, compare=False, repr=False)
    data: Array | None = field(default=None, compare=False, repr=False)
    digest: Digest | None = field(default=None, compare=False, repr=False)
    half: bool = False

    def pieces(self) -> Iterator[Array]:
        """Yields the bytes for the device piece by piece (uint8, one-dimensional). Raises
        ValueError when their number is not `bytes`.
        """
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


@dataclass(frozen=True)
class Dispatch:
    """One kernel launch: `buffers` per binding (the uniform block among them), workgroups per
    dimension, the host nodes that it computes, and the form in which it does (see `ops.forms`).
    """

    label: str
    pipeline: int
    buffers: tuple[int, ...]
    uniform_offset: int
    groups: tuple[int, int, int]
    nodes: tuple[int, ...]
    form: str = field(default="", repr=False)


@dataclass(frozen=True)
class Port:
    """An input, output or state, in the host's layout and dtype (row-major). `counted` is (an axis,
    the index of another output): only the first n indices along the axis are valid, where n is the
    int32 number in that output.
    """

    tensor: int
    name: str
    shape: Shape
    dtype: str
    buffer: int
    bytes: int
    counted: tuple[int, int] | None = None


@dataclass(frozen=True)
class Plan:
    """The plan of one partition. Sizes are in bytes; `tensor_bytes` is the size of the pools
    without sharing, `least_bytes` the peak of live tensors, below which no sharing can go.
    """

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

    @property
    def counts(self) -> tuple[int, ...]:
        """Returns the indices of outputs that say how many elements of others are valid."""
        counted = (port.counted for port in self.outputs)
        return tuple(dict.fromkeys(each[1] for each in counted if each is not None))

    @cached_property
    def structure(self) -> bytes:
        """Returns a digest of everything but the constants' values."""
        ports = self.inputs, self.outputs, self.states
        shape = self.pipelines, self.buffers, self.weights, self.dispatches, *ports
        return sha256(repr(shape).encode() + self.uniforms).digest()

    def fingerprint(self) -> bytes | None:
        """Returns a digest that is equal for plans that build the same program, constants' values
        included; None when a value is unknown.
        """
        digest = sha256(self.structure)
        for found in self.digests:
            if found is None:
                return None
            digest.update(found)
        return digest.digest()

    @cached_property
    def digests(self) -> tuple[bytes | None, ...]:
        """Returns the digest of each weight's value; None where it is unknown."""
        return tuple(
            weight.digest
            if weight.digest is not None or weight.data is None
            else of_array(weight.data)
            for weight in self.weights
        )

    def packings(self) -> list[tuple[object, ...]] | None:
        """Returns the layout of the weights with their digests: equal for plans whose packed
        weights are the same, whatever their tensor ids; None when a value is unknown.
        """
        if None in self.digests:
            return None
        return [
            (w.key[1:] if isinstance(w.key[0], int) else w.key, digest, w.offset, w.bytes)
            for w, digest in zip(self.weights, self.digests, strict=True)
        ]

    def sizes(self) -> dict[str, int]:
        """Returns bytes of device memory: weights, pools, and the size that the pools would have
        without sharing and at the theoretical minimum.
        """
        return {
            "weight_bytes": self.bytes_of("weights"),
            "pool_bytes": self.bytes_of("pool"),
            "tensor_bytes": self.tensor_bytes,
            "least_bytes": self.least_bytes,
        }

    def bytes_of(self, role: str) -> int:
        return sum(buffer.bytes for buffer in self.buffers if buffer.role == role)
