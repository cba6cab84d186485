"""An adapter as users see it, and a device that is open on one, which programs are made on."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.ir import Target
from tflgpu_plugin.registry import KeyLocks, WeakCache
from tflgpu_plugin.runtime.pipelines import Pipelines


class NoAdapter(RuntimeError):
    """There is no adapter, or none that matches what was asked for; the text says what to do."""


@dataclass(frozen=True)
class AdapterInfo:
    """What users see of an adapter. `kind` is discrete, integrated, software or other; limits in
    WebGPU's units. `index` is its place in `adapters()`, which tells equal ones apart.
    """

    name: str
    vendor: str
    driver: str
    backend: str
    kind: str
    vendor_id: int
    device_id: int
    features: tuple[str, ...] = field(repr=False, default=())
    limits: tuple[tuple[str, int], ...] = field(repr=False, default=())
    index: int = 0
    handle: Any = field(repr=False, compare=False, default=None)

    @property
    def software(self) -> bool:
        return self.kind == "software"

    def limit(self, name: str, default: int) -> int:
        return dict(self.limits).get(name, default)


@dataclass
class Device:
    """An open device: the native handle, and the target the compiler plans for. Programs share
    `pipelines`, and equal plans share a program for as long as somebody uses it; threads that build
    equal structures take `turns`, so that the second one finds the program of the first."""

    info: AdapterInfo
    handle: Any
    target: Target
    pipelines: Pipelines = field(default_factory=Pipelines)
    programs: WeakCache[bytes, Any] = field(default_factory=WeakCache)
    turns: KeyLocks[bytes] = field(default_factory=KeyLocks)

    def helper(self) -> Callable[[], Any] | None:
        """What opens a second device to compile on, where that helps: its driver generates code
        one kernel at a time per device and has a disk cache, through which the first device gets
        it."""
        off = ("MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE")
        if "llvmpipe" not in self.info.name or any(os.environ.get(name) == "true" for name in off):
            return None
        return lambda: create(self.info, sorted(self.target.features))


@functools.cache
def feature_numbers() -> Mapping[str, int]:
    """The features that a device asks for when the adapter has them, all of them optional, with
    their numbers in wgpu."""
    found, number, position = dict[str, int](), native.ffi.new("uint32_t *"), 0
    while name := native.lib.tg_feature(position, number):
        found[native.ffi.string(name).decode()] = int(number[0])
        position += 1
    return found


def create(info: AdapterInfo, features: Iterable[str]) -> Any:
    """A native device, released with its handle. Raises NoAdapter."""
    numbers = [feature_numbers()[name] for name in features]
    try:
        handle = native.call(
            native.lib.tg_device_create,
            info.handle,
            native.ffi.new("uint32_t[]", numbers),
            len(numbers),
        )
    except native.NativeError as error:
        raise NoAdapter(f"The adapter {info.name} cannot be opened: {error}") from error
    return native.ffi.gc(handle, native.lib.tg_device_release)
