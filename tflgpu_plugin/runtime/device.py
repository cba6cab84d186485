"""Adapters as users see them, and devices, on which programs are made."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.ir import Target
from tflgpu_plugin.runtime.pipelines import Pipelines


class NoAdapter(RuntimeError):
    """An error for a machine that has no adapter, or none that matches the request; the text says
    what to do."""


@dataclass(frozen=True)
class AdapterInfo:
    """The properties of an adapter that users see. `kind` is discrete, integrated, software or
    other; limits are in WebGPU's units. `index` is its position in `adapters()`, which
    distinguishes equal adapters. `assumed`: only its limits and features are known, so that nothing
    can be built."""

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
    assumed: bool = False
    handle: Any = field(repr=False, compare=False, default=None)

    @property
    def software(self) -> bool:
        return self.kind == "software"

    def limit(self, name: str, default: int) -> int:
        return dict(self.limits).get(name, default)


@dataclass
class Device:
    """An open device: the native handle, the target the compiler plans for, and the `pipelines`,
    which its programs share."""

    info: AdapterInfo
    handle: Any
    target: Target
    pipelines: Pipelines = field(default_factory=Pipelines)

    @property
    def assumed(self) -> bool:
        return self.info.assumed

    def helper(self) -> Callable[[], Any] | None:
        """Returns a function that opens a second device to compile on, where that helps: where the
        driver compiles one kernel at a time per device and has a disk cache, from which the first
        device gets the code."""
        off = ("MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE")
        if "llvmpipe" not in self.info.name or any(os.environ.get(name) == "true" for name in off):
            return None
        return lambda: create(self.info, sorted(self.target.features))


@functools.cache
def feature_numbers() -> Mapping[str, int]:
    """Returns the optional features that a device requires when the adapter has them, with their
    numbers in wgpu."""
    found, number, position = dict[str, int](), native.ffi.new("uint32_t *"), 0
    while name := native.lib.tg_feature(position, number):
        found[native.ffi.string(name).decode()] = int(number[0])
        position += 1
    return found


def create(info: AdapterInfo, features: Iterable[str]) -> Any:
    """Returns a native device, which is released with its handle. Raises NoAdapter."""
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
