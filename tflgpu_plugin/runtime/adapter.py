"""Adapters, and one device for each, which is kept as long as the process and replaced for the next
plan when it is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tflgpu_plugin import native, switches, threads, trusted
from tflgpu_plugin.ir import Target
from tflgpu_plugin.native import dxc
from tflgpu_plugin.options import meant, shown
from tflgpu_plugin.registry import Registry, Single
from tflgpu_plugin.runtime.device import AdapterInfo, Device, NoAdapter, create, feature_numbers

BACKENDS = {4: "D3D12", 5: "Metal", 6: "Vulkan"}  # WGPUBackendType
KINDS = {1: "discrete", 2: "integrated", 3: "software"}  # WGPUAdapterType
INDEX_DIGITS = 2  # limit for an adapter's index; longer numbers are parts of names
PREFERENCE = ("discrete", "integrated", "other", "software")
BACKEND_PREFERENCE = ("Vulkan", "Metal", "D3D12")  # of one adapter: wgpu's D3D12 has no subgroups
VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x106B: "apple",
    0x13B5: "arm",
    0x5143: "qualcomm",
}

LIMITS = {  # WebGPU's names, and ours in tg_adapter
    "max-buffer-size": "max_buffer_bytes",
    "max-compute-invocations-per-workgroup": "max_invocations",
    "max-compute-workgroup-storage-size": "max_workgroup_bytes",
    "max-compute-workgroups-per-dimension": "max_groups",
    "max-storage-buffer-binding-size": "max_binding_bytes",
    "max-storage-buffers-per-shader-stage": "max_storage_buffers",
}
MAPPING = "mappable-primary-buffers"
# Invocations that a discrete adapter holds at once. AMD's wait little for memory: by the estimates
# of their compiler more threads save less than the launches that they cost.
DISCRETE_THREADS = 1 << 16
SHARED_MEMORY = ("integrated", "software")  # kinds whose mapped buffers are not slow for the GPU

_DRIVERS = {
    "win32": "Install the driver of your GPU's maker, which brings Vulkan or Direct3D 12.",
    "darwin": "Metal is part of macOS; virtual machines may lack it.",
}
INSTALL_HINT = "No usable GPU adapter was found. " + _DRIVERS.get(
    sys.platform,
    "Install a Vulkan driver for your GPU, or the software one: on Debian or Ubuntu "
    "`apt-get install mesa-vulkan-drivers libvulkan1`.",
)


def hint() -> str:
    """Returns INSTALL_HINT, after it the variable that chooses the Vulkan drivers, if one does."""
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        if trusted.variable(name):
            return f"{INSTALL_HINT} {name} is set: only the Vulkan drivers that it names are used."
    return INSTALL_HINT


def adapters() -> list[AdapterInfo]:
    """Returns all usable adapters, the best first (discrete, integrated, other, software; Vulkan
    before other backends of the same adapter)."""
    with native.busy():
        return _assumed.values() or list(_adapters())


@contextmanager
def assumed(info: AdapterInfo) -> Iterator[None]:
    """Makes this adapter, of which only features and limits are known, the only one while the
    context is entered. Nodes are judged and compiled for it, but none is claimed."""
    _devices.put(info, Device(info, None, _limited(info, frozenset(info.features))))
    _assumed.put(info, info)
    try:
        yield
    finally:
        _assumed.pop(info)
        _devices.pop(info)


def select(wanted: str | int | None = None) -> AdapterInfo:
    """Returns the adapter that a user names by its index in `adapters()` (up to two digits) or a
    part of its name, vendor, backend or driver; the best one for None.

    Raises NoAdapter with a sentence."""
    found = adapters()
    if not found:
        raise NoAdapter(hint())
    if wanted is None or wanted == "":
        return found[0]
    text = str(wanted).lower()
    indices = {str(k): info for k, info in enumerate(found)}
    if text in indices:
        return indices[text]
    words = list[str]()
    for info in [] if text.isdecimal() and len(text) <= INDEX_DIGITS else found:
        parts = [part.lower() for part in (info.name, info.vendor, info.backend, info.driver)]
        if any(text in part for part in parts):
            return info
        words += [*parts, *(word for part in parts for word in part.split())]
    names = ", ".join(f"adapter {k}: {info.name} ({info.backend})" for k, info in enumerate(found))
    raise NoAdapter(
        f"No adapter matches {shown(str(wanted))}.{meant(text, words)} This machine has {names}."
    )


def open_device(info: AdapterInfo) -> Device:
    """Returns the process's device on this adapter, a new one where it is lost. Raises NoAdapter
    where it cannot be opened."""
    with native.busy(), _opening:
        device = _devices.get(info)
        if device is not None and device.assumed:
            return device
        if device is None or native.lib.tg_device_is_lost(device.handle):
            device = _open(info)
            _devices.put(info, device)
        return device


def enumerated() -> list[AdapterInfo]:
    """Returns all usable adapters, looked up anew. Raises NoAdapter where a look-up fails and none
    finds any."""
    failures: list[native.NativeError] = []
    found = _looked_up(native.adapters, failures)
    if dxc.lists_d3d12() and asks_d3d12(found):
        found += _looked_up(native.d3d12_adapters, failures)
    if failures and not found:
        raise NoAdapter(f"{hint()} ({failures[0]})") from failures[0]
    return best_first([info for info in found if info.backend in BACKENDS.values()])


def _looked_up(
    adapters: Callable[[], tuple[Any, int]], failures: list[native.NativeError]
) -> list[AdapterInfo]:
    """Returns the adapters that a look-up finds; none if it fails, which is noted."""
    try:
        return _described(adapters())
    except native.NativeError as error:
        failures.append(error)
        return []


def asks_d3d12(found: Sequence[AdapterInfo]) -> bool:
    """Whether adapters of D3D12 are looked for beside those `found`: if these are no GPUs, or the
    variable TFLGPU_D3D12 is set."""
    return switches.on("TFLGPU_D3D12") or all(info.software for info in found)


_adapters = Single(enumerated)
_assumed: Registry[AdapterInfo, AdapterInfo] = Registry()  # takes the place of those that are there
_devices: Registry[AdapterInfo, Device] = Registry()  # the open device of each adapter
_opening = threads.RLock()  # held by the thread that opens a device


def best_first(found: Sequence[AdapterInfo]) -> list[AdapterInfo]:
    """Returns the adapters sorted by kind, each with its index. Adapters of the same kind keep the
    system's order, but the entries of one adapter (one for each backend) follow each other, Vulkan
    first."""
    listed = [(info.kind, info.vendor_id, info.device_id) for info in found]

    def rank(info: AdapterInfo) -> tuple[int, int, int]:
        first = listed.index((info.kind, info.vendor_id, info.device_id))
        return PREFERENCE.index(info.kind), first, BACKEND_PREFERENCE.index(info.backend)

    return [replace(info, index=place) for place, info in enumerate(sorted(found, key=rank))]


def _described(listed: tuple[Any, int]) -> list[AdapterInfo]:
    adapters, count = listed
    return [_describe(adapters[k]) for k in range(count)]


def _describe(raw: Any) -> AdapterInfo:
    kind = KINDS.get(raw.kind, "other")
    vendor = VENDORS.get(raw.vendor_id, "software" if kind == "software" else "unknown")
    numbers = {raw.features[k] for k in range(raw.feature_count)}
    return AdapterInfo(
        name=native.ffi.string(raw.name).decode(errors="replace"),
        vendor=vendor,
        driver=native.ffi.string(raw.driver).decode(errors="replace"),
        backend=BACKENDS.get(raw.backend, "other"),
        kind=kind,
        vendor_id=raw.vendor_id,
        device_id=raw.device_id,
        features=tuple(sorted(name for name, k in feature_numbers().items() if k in numbers)),
        limits=tuple((title, int(getattr(raw, name))) for title, name in LIMITS.items()),
        handle=raw.handle,
    )


def _open(info: AdapterInfo) -> Device:
    native.open_wgpu()
    wanted = list(info.features)
    # TFLGPU_NO_MAPPING=1 uses staging buffers for inputs and outputs, as on a discrete GPU.
    if info.kind not in SHARED_MEMORY or switches.on("TFLGPU_NO_MAPPING"):
        wanted = [name for name in wanted if name != MAPPING]
    handle = create(info, wanted)
    return Device(info, handle, _target(info, handle, frozenset(wanted)))


def _target(info: AdapterInfo, handle: Any, features: frozenset[str]) -> Target:
    from tflgpu_plugin.runtime import selftest

    # TFLGPU_NO_SUBGROUPS=1 plans as for an adapter without subgroup shuffles (for tests and to
    # investigate a defective driver).
    use = "subgroup" in features and not switches.on("TFLGPU_NO_SUBGROUPS")
    half = "shader-f16" in features and not info.software
    return replace(
        _limited(info, features),
        subgroup_size=selftest.subgroup_size(handle) if use else 0,
        least_subgroup=selftest.least_subgroup(handle) if use and not info.software else 0,
        unpacks=selftest.unpacks(handle),
        # `half` is false on software adapters, which are slower with native float16.
        native_half=half and selftest.native_half(handle),
        # Software drivers load a word of each thread after the other, whatever its size.
        pairs=info.software and "shader-int64" in features and selftest.pairs(handle),
    )


def _limited(info: AdapterInfo, features: frozenset[str]) -> Target:
    many = info.kind == "discrete" and info.vendor != "amd"
    return Target(
        name=info.name,
        vendor=info.vendor,
        driver=info.driver,
        backend=info.backend,
        software=info.software,
        features=features,
        max_storage_buffers=min(8, info.limit("max-storage-buffers-per-shader-stage", 8)),
        max_binding_bytes=info.limit("max-storage-buffer-binding-size", 128 << 20),
        max_buffer_bytes=info.limit("max-buffer-size", 256 << 20),
        threads=DISCRETE_THREADS if many else Target.threads,
        max_groups=info.limit("max-compute-workgroups-per-dimension", 65_535),
    )
