"""Emulated render nodes: our preloaded library (the folder shim), which Mesa's drivers of makers
other than AMD take for the kernel's driver of a GPU."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks import layers
from benchmarks.compiled.devices import Device
from benchmarks.engine import Unavailable

NODE, SLOT = "renderD128", "0000:03:00.0"
NUMBER = "226:128"  # of the node


def environment(device: Device, folder: Path) -> dict[str, str]:
    """Returns the environment of a process that sees the device; `folder` holds what it finds in
    /dev and /sys. Raises Unavailable."""
    root, headers = _mesa()
    _tree(folder / "tree", device)
    library = next(root.glob(f"usr/lib/*/{device.library}"), None)
    if library is None:
        raise Unavailable(f"The newer Mesa holds no {device.library}")
    icd = folder / "icd.json"
    told = {"library_path": str(library), "api_version": "1.4.0"}
    icd.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": told}))
    source = Path(__file__).with_name("shim")
    preloaded = layers.library(source, headers, flags=("-std=gnu11", "-ldl", "-lpthread"))
    found = {**os.environ, "LD_PRELOAD": str(preloaded), "SHIM_TREE": str(folder / "tree")}
    found |= {"SHIM_DRIVER": device.kernel, "NULL_DEVICE_SHIM": "1"}
    found |= {f"SHIM_{name.upper()}": str(value) for name, value in device.shim.items()}
    if device.pci:
        _, number, revision = device.pci
        found |= {"SHIM_PCI_DEVICE": str(number), "SHIM_PCI_REVISION": str(revision)}
    if device.trusted:
        found["NULL_DEVICE_TRUST"] = "1"
    return found | {"VK_ICD_FILENAMES": str(icd), "VK_DRIVER_FILES": str(icd)}


def command(wanted: list[str]) -> list[str]:
    """Returns the command under the loader and the C library of the newer release. Raises
    Unavailable."""
    libraries = next(_mesa()[0].glob("usr/lib/*-linux-gnu"))
    loader = next(libraries.glob("ld-linux-*"))
    return [str(loader), "--library-path", str(libraries), *wanted]


def package() -> str:
    """Returns Mesa's package with its version. Raises Unavailable."""
    return (_mesa()[0] / "package.txt").read_text()


def _mesa() -> tuple[Path, Path]:
    drivers, archive = layers.tools()
    try:
        found: tuple[Path, Path] = drivers.newer_release()
    except archive.Unavailable as error:
        raise Unavailable(f"Mesa of a newer release is missing: {error}") from error
    return found


def _tree(folder: Path, device: Device) -> None:
    """Writes the files of /dev/dri and /sys in which libdrm finds the device."""
    bus = "pci" if device.pci else "platform"
    place = folder / "sys/devices/shim" / SLOT
    node = place / "drm" / NODE
    for made in (node, folder / "dev/dri", *(folder / "sys" / name for name in (
            "bus/pci/devices", "bus/platform/devices", "class/drm", "dev/char"))):  # fmt: skip
        made.mkdir(parents=True)
    (folder / "dev/dri" / NODE).touch()
    (folder / "sys/dev/char" / NUMBER).symlink_to(node)
    (folder / "sys/class/drm" / NODE).symlink_to(node)
    (node / "device").symlink_to(place)
    major, minor = NUMBER.split(":")
    (node / "uevent").write_text(
        f"MAJOR={major}\nMINOR={minor}\nDEVNAME=dri/{NODE}\nDEVTYPE=drm_minor\n"
    )
    (place / "subsystem").symlink_to(folder / "sys/bus" / bus)
    (folder / "sys/bus" / bus / "devices" / SLOT).symlink_to(place)
    (place / "uevent").write_text(_uevent(device))
    if device.pci:
        _pci_files(place, *device.pci)


def _uevent(device: Device) -> str:
    if not device.pci:
        compatible = f"OF_COMPATIBLE_N=1\nOF_COMPATIBLE_0={device.compatible}"
        named = f"OF_NAME=gpu\nOF_FULLNAME=/soc/gpu@1\n{compatible}"
    else:
        vendor, number, _ = device.pci
        named = f"PCI_CLASS=30000\nPCI_ID={vendor:04X}:{number:04X}\nPCI_SLOT_NAME={SLOT}"
    return f"DRIVER={device.kernel}\n{named}\n"


def _pci_files(place: Path, vendor: int, number: int, revision: int) -> None:
    """Writes the numbers, and the beginning of the configuration space that holds them."""
    numbers = {
        "vendor": vendor, "device": number, "revision": revision,
        "subsystem_vendor": vendor, "subsystem_device": number,
    }  # fmt: skip
    for name, value in numbers.items():
        (place / name).write_text(f"0x{value:04x}\n")
    ids = vendor.to_bytes(2, "little") + number.to_bytes(2, "little")
    display = bytes([revision, 0, 0, 3])
    (place / "config").write_bytes(ids + bytes(4) + display + bytes(32) + ids + bytes(16))
