"""The results of a device's calibration, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tflgpu_plugin.ir.target import Target

# All possible results: the settings in `Target.tuning` with their values, and numbers of threads.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "weights": ("global", "shuffle", "memory"),
    "lanes": ("16", "32", "64", "128"),
    "ahead": ("1", "4", "8"),
    "serial": ("16", "32", "64", "128", "256"),
    "attention_tile": (
        "1x1",
        "1x2",
        "1x4",
        "2x1",
        "2x2",
        "2x4",
        "4x1",
        "4x2",
        "4x4",
    ),  # rows x ahead
    "half_products": ("never",),
    "byte_products": ("always",),
}
THREADS = tuple(1 << n for n in range(12, 18))


@dataclass(frozen=True)
class Calibration:
    """The `tuning` and `threads` (0: unchanged) that replace a vendor's. `figures` are times in
    microseconds by measurement and setting. `state` says why nothing, or not all, was measured;
    `milliseconds` is how long it took. `left` are the measurements that the next process makes."""

    tuning: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    state: str = ""
    milliseconds: float = 0.0
    left: tuple[str, ...] = ()

    def applied(self, target: Target) -> Target:
        """Returns the target with these settings; those in its own tuning take precedence."""
        threads = self.threads or target.threads
        return replace(target, tuning={**self.tuning, **target.tuning}, threads=threads)
