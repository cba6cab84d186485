"""Values that a plan was made for, as native code tells them of a run."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import INT32, NUMPY_DTYPES, Array, Shape


def numbers(value: Array) -> tuple[int, ...]:
    """A value as int32, as native code tells it: what is beyond int32 is the nearest in it, which
    is as far beyond every tensor; floats are their bits."""
    if value.dtype == np.float32:
        value = value.view(np.int32)
    return tuple(int(n) for n in np.clip(value.reshape(-1), INT32.min, INT32.max))


def restored(given: tuple[int, ...], shape: Shape, dtype: str) -> Array:
    """The value of these `numbers`."""
    held = np.array(given, np.int32)
    whole = held.view(np.float32) if dtype == "f32" else held.astype(NUMPY_DTYPES[dtype])
    return whole.reshape(shape)
