"""A Plan: everything the runtime needs to build one island, as pure data. No handles, no host, no
device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from tflgpu_plugin.graph import Array, Shape


@dataclass(frozen=True)
class Pipeline:
    """Generated WGSL, its override constants, and one letter per binding: u(niform), r(ead),
    w(rite).
    """

    label: str
    wgsl: str
    kinds: str
    constants: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Buffer:
    """A device buffer. `role` is weights, uniforms, pool, input, output or state."""

    role: str
    bytes: int


@dataclass(frozen=True)
class Weight:
    """A constant in device layout: `pack` makes its bytes from `data`, and they go to `buffer` at
    `offset` (bytes).
    """

    key: tuple[object, ...]
    buffer: int
    offset: int
    bytes: int
    pack: Callable[[], Array] = field(compare=False, repr=False)
    data: Array | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Dispatch:
    """One kernel launch: `buffers` per binding (the uniform block among them), groups per
    dimension, host nodes served.
    """

    label: str
    pipeline: int
    buffers: tuple[int, ...]
    uniform_offset: int
    groups: tuple[int, int, int]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Port:
    """A tensor at the border, in the host's layout and dtype (row-major)."""

    tensor: int
    name: str
    shape: Shape
    dtype: str
    buffer: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """One island. Sizes in bytes; `tensor_bytes` is what the pools would need without sharing."""

    pipelines: tuple[Pipeline, ...]
    buffers: tuple[Buffer, ...]
    weights: tuple[Weight, ...]
    uniforms: bytes
    dispatches: tuple[Dispatch, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...]
    tensor_bytes: int = 0

    def fingerprint(self) -> bytes | None:
        """Equal for plans that would build the same program, constants' values included; None when
        a value is unknown.
        """
        shape = (
            self.pipelines,
            self.buffers,
            self.weights,
            self.dispatches,
            self.inputs,
            self.outputs,
            self.states,
        )
        digest = sha256(repr(shape).encode())
        digest.update(self.uniforms)
        for weight in self.weights:
            if weight.data is None:
                return None
            digest.update(np.ascontiguousarray(weight.data).data)
        return digest.digest()

    def bytes_of(self, role: str) -> int:
        return sum(buffer.bytes for buffer in self.buffers if buffer.role == role)
