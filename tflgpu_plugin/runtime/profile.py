"""Where the time of a partition goes: device time of each launch, by timestamps inside the pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Port
from tflgpu_plugin.runtime.program import Instance


def launch_times(instance: Instance, runs: int) -> list[float]:
    """Milliseconds on the device of each launch of the plan, medians of `runs` runs on seeded
    values after one that is not counted. Raises native.NativeError with a sentence when the adapter
    takes no timestamps.
    """
    inputs, states = _values(instance.plan.inputs), _values(instance.plan.states)
    found = []
    for _ in range(1 + runs):
        found.append(np.diff(instance.timestamps(inputs, states)) / 1e6)
    return [float(time) for time in np.median(found[1:], axis=0)]


def _values(ports: Sequence[Port]) -> list[Array]:
    """Floats between 0 and 1; zeros elsewhere, since they may be indices."""
    random = np.random.default_rng(0)
    kinds = [(port.shape, np.dtype(NUMPY_DTYPES[port.dtype])) for port in ports]
    return [
        random.random(shape).astype(kind) if kind.kind == "f" else np.zeros(shape, kind)
        for shape, kind in kinds
    ]
