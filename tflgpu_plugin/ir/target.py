"""The properties of an adapter that the compiler may use. They are frozen and plain, so that a plan
can be made without a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """An adapter as the compiler sees it; sizes in bytes.

    `subgroup_size` is measured with a kernel, and 0 unless subgroup shuffles passed the self-test
    on this adapter; `least_subgroup` is the size in small workgroups, 0 on software adapters.
    `threads`: invocations that fill the adapter; a layer with fewer may be split into more.
    `vendor` is one of nvidia, amd, intel, apple, arm, qualcomm, software, unknown. `tuning` holds
    choices made on the device: settings of kernels (see `compile.tuning`), and for a form
    "never" or "always". `without` names the forms and ops that the user refuses. `half`: the user
    permits tensors stored as float16, which every adapter supports. `unpacks`: kernels may call
    `unpack2x16float`. `native_half`: WGSL's type f16 passed the self-test on this adapter. `pairs`:
    kernels of software adapters read two words at once, as one of 64 bits."""

    name: str = "nominal"
    vendor: str = "unknown"
    driver: str = ""
    backend: str = "Vulkan"
    software: bool = False
    features: frozenset[str] = frozenset()
    subgroup_size: int = 0
    least_subgroup: int = 0
    threads: int = 1 << 14
    max_storage_buffers: int = 8
    max_binding_bytes: int = 128 << 20
    max_buffer_bytes: int = 256 << 20
    max_groups: int = 65_535
    tuning: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    half: bool = False
    unpacks: bool = True
    native_half: bool = False
    pairs: bool = False

    @property
    def storage_bytes(self) -> int:
        """Returns the largest size of one operand of a kernel in bytes: the whole buffer is bound,
        and byte offsets must fit 31 bits, as some drivers' compilers require."""
        return min(self.max_binding_bytes, self.max_buffer_bytes, 1 << 31)

    def workgroup(self, invocations: int) -> int:
        """Returns the workgroup size of a kernel that needs this many invocations: on GPUs at least
        the smallest subgroup size (up to 64), so that workgroups fill their subgroups."""
        return invocations if self.software else max(invocations, min(self.least_subgroup, 64))

    @property
    def halves(self) -> str:
        """Returns how kernels access float16 in memory: as "words" (32 bits, which they unpack), as
        "native" f16, which GPUs load and store in one instruction but software drivers slower than
        words, or "never": everything stays float32, for which some GPUs issue two multiply-adds at
        once."""
        start = "native" if self.native_half and not self.software else "words"
        return self.tuning.get("half", start)

    def prefers(self, form: str) -> bool:
        """Whether tuning marks this form as faster for every node that it suits. A form before it
        in the list is still chosen if it pays."""
        return self.tuning.get(form) == "always"

    @property
    def shuffles(self) -> bool:
        """Whether kernels that share weights among aligned groups of 8 lanes are correct here."""
        return self.subgroup_size >= 8 and self.subgroup_size % 8 == 0

    @property
    def teams(self) -> bool:
        """Whether 8 threads share the inputs of a result: with shuffles, and without them on GPUs,
        which exchange values in workgroup memory faster than one thread reads a row of weights."""
        return self.shuffles or not self.software
