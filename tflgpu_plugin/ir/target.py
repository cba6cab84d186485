"""What the compiler may know of an adapter. Frozen and plain, so that a plan can be made without a
device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """An adapter as the compiler sees it; sizes in bytes.

    `subgroup_size` is measured with a kernel, and 0 unless subgroup shuffles passed the self-test
    on this adapter; `least_subgroup` is that of small workgroups, 0 on software adapters. `vendor`
    is one of nvidia, amd, intel, apple, arm, qualcomm, software, unknown. `tuning` holds on-device
    choices. `half`: values may be stored as float16 (what the user allows, not what the adapter
    can: all can). `unpacks`: kernels may call `unpack2x16float`. `native_half`: WGSL's own float16
    passed the self-test on this adapter.
    """

    name: str = "nominal"
    vendor: str = "unknown"
    driver: str = ""
    backend: str = "Vulkan"
    software: bool = False
    features: frozenset[str] = frozenset()
    subgroup_size: int = 0
    least_subgroup: int = 0
    max_storage_buffers: int = 8
    max_binding_bytes: int = 128 << 20
    max_buffer_bytes: int = 256 << 20
    max_groups: int = 65_535
    max_invocations: int = 256
    tuning: Mapping[str, str] = field(default_factory=dict)
    half: bool = False
    unpacks: bool = True
    native_half: bool = False

    @property
    def storage_bytes(self) -> int:
        """The most that one operand of a kernel may take: a buffer bound as a whole, in which every
        byte has a number of 31 bits, as some drivers' compilers want it.
        """
        return min(self.max_binding_bytes, self.max_buffer_bytes, 1 << 31)

    def workgroup(self, invocations: int) -> int:
        """Of a kernel that would have so many: on GPUs as many as the smallest subgroup has lanes
        (up to 64), of which none is idle then."""
        return invocations if self.software else max(invocations, min(self.least_subgroup, 64))

    @property
    def halves(self) -> str:
        """How kernels see float16 in memory: "words", or "native" types of their own, which GPUs
        load and store in one instruction and software drivers in more than words take; or "never":
        all stays float32, of which some GPUs issue two multiply-adds at once."""
        start = "native" if self.native_half and not self.software else "words"
        return self.tuning.get("half", start)

    @property
    def shuffles(self) -> bool:
        """Kernels that share weights among aligned groups of 8 lanes are right here."""
        return self.subgroup_size >= 8 and self.subgroup_size % 8 == 0
