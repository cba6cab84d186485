"""GPUs of Intel, NVIDIA, Apple and Qualcomm as data: what Mesa's driver must find to take a DRM
node for one, and what the plugin's self-test measures there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tflgpu_plugin.ir import Target
from tflgpu_plugin.runtime.adapter import DISCRETE_THREADS


@dataclass(frozen=True)
class Device:
    """`kernel` is the kernel's driver, `library` Mesa's. A `pci` device has vendor, device and
    revision; others a `compatible` string of the device tree. `shim` are the numbers that the
    emulated kernel driver reports. `lanes`: of a subgroup in large and in small workgroups.
    `half`: it has shader-f16. `trusted`: bounds checks are off, since Mesa's driver makes them with
    instructions and the maker's own does not."""

    vendor: str
    kernel: str
    library: str
    lanes: tuple[int, int]
    shim: Mapping[str, int] = field(default_factory=dict)
    pci: tuple[int, int, int] | None = None
    compatible: str = ""
    half: bool = True
    trusted: bool = False

    @property
    def target(self) -> Target:
        """Returns the target that kernels are planned for."""
        large, least = self.lanes
        threads = DISCRETE_THREADS if "vram" in self.shim else Target.threads
        return Target(
            "null", self.vendor, subgroup_size=large, least_subgroup=least,
            features=frozenset({"subgroup"}), native_half=self.half, threads=threads,
        )  # fmt: skip


def _intel(pci: tuple[int, int, int], lanes: int, topology: int, **shim: int) -> Device:
    """`topology`: a byte each for slices, subslices per slice, execution units per subslice; those
    with an `ip` are of the newer kernel driver."""
    kernel = "xe" if "ip" in shim else "i915"
    shim = {"topology": topology, "clock": 19_200_000, **shim}
    return Device("intel", kernel, "libvulkan_intel.so", (lanes, lanes), shim, pci)


def _nvidia(number: int, chipset: int, tpcs: int, classes: int, gigabytes: int) -> Device:
    """`classes`: those of copies, compute and 3D."""
    shim = {"chipset": chipset, "units": tpcs, "classes": classes, "vram": gigabytes << 30}
    shim |= {"major": 1, "minor": 4, "patch": 0}
    pci = 0x10DE, number, 0xA1
    return Device("nvidia", "nouveau", "libvulkan_nouveau.so", (32, 32), shim, pci, trusted=True)


DEVICES = {
    "skl": _intel((0x8086, 0x1916, 0x07), 16, 0x010308, clock=12_000_000),
    "tgl": _intel((0x8086, 0x9A49, 0x03), 16, 0x010610),
    "dg2": _intel((0x8086, 0x56A0, 0x08), 16, 0x012010, vram=16 << 30),
    "mtl": _intel((0x8086, 0x7D55, 0x08), 16, 0x010810),
    "lnl": _intel((0x8086, 0x64A0, 0x04), 32, 0x020408, ip=0x140404),
    "bmg": _intel((0x8086, 0xE20B, 0x00), 32, 0x050408, ip=0x140104, vram=12 << 30),
    "tu102": _nvidia(0x1E04, 0x162, 34, 0xC5B5_C5C0_C597, 11),
    "ga102": _nvidia(0x2204, 0x172, 41, 0xC7B5_C7C0_C797, 24),
    "ad102": _nvidia(0x2684, 0x192, 64, 0xC7B5_C9C0_C997, 24),
    "m1": Device(
        "apple", "asahi", "libvulkan_asahi.so", (32, 32), compatible="apple,agx",
        shim={"generation": 13, "variant": ord("G"), "chip": 0x8103, "clusters": 1,
              "major": 0, "minor": 0, "patch": 0},
    ),
    "a740": Device(
        "qualcomm", "msm", "libvulkan_freedreno.so", (64, 64), compatible="qcom,adreno",
        shim={"chip": 0x43050A01, "gmem": 3 << 20, "major": 1, "minor": 12, "patch": 0},
        half=False,
    ),
}  # fmt: skip
