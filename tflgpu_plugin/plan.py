"""A Plan: everything the runtime needs to build one island, as pure data. No handles, no host, no device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tflgpu_plugin.graph import Array, Shape


@dataclass(frozen=True)
class Pipeline:
    """Generated WGSL, its override constants, and one letter per binding: u(niform), r(ead), w(rite)."""

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
    """A constant in device layout: `pack` makes its bytes, which go to `buffer` at `offset` (bytes)."""

    key: tuple[object, ...]
    buffer: int
    offset: int
    bytes: int
    pack: Callable[[], Array]


@dataclass(frozen=True)
class Dispatch:
    """One kernel launch: `buffers` per binding (the uniform block among them), groups per dimension, host nodes served."""

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

    def bytes_of(self, role: str) -> int:
        return sum(buffer.bytes for buffer in self.buffers if buffer.role == role)
