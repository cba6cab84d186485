"""Values for the inputs of a graph with the statistics of pictures and speech, which noise lacks: a
mean of more than half the standard deviation, and channels and batches that differ."""

from __future__ import annotations

import numpy as np

from conformance.evaluation.numbers import is_real, typed
from tflgpu_plugin.ir import COMPLEX, Array, Graph, Tensor, quantization

MEAN, SPREAD = 0.6, 0.5  # of floats, a tenth of which is negative


def of_graph(graph: Graph, seed: int = 0, most: int = 2) -> dict[int, Array]:
    """Returns values by tensor id for inputs and states. Integers, which may be indices, are below
    `most`."""
    ids = [*graph.inputs, *(before for before, _ in graph.states)]
    return {t: of_tensor(graph.tensors[t], [seed, k], most) for k, t in enumerate(ids)}


def of_tensor(tensor: Tensor, seed: list[int], most: int = 2) -> Array:
    """Returns values for one tensor; for a quantized one on its levels, in the upper part of its
    range."""
    random = np.random.default_rng(seed)
    if tensor.dtype == COMPLEX:
        pairs = random.normal(MEAN, SPREAD, (2, *tensor.shape))
        return np.asarray(pairs[0] + 1j * pairs[1])
    if tensor.dtype == "bool":
        return np.asarray(random.random(tensor.shape) < 0.7)
    if is_real(tensor) and tensor.quantization is not None:
        held, few = tensor.quantization, 1 << 8
        limits = quantization.levels(tensor) if len(held.scale) == 1 else None
        least, top = (limits.least, limits.most) if limits else (0, few - 1)
        most_steps = min(top, least + few - 1)
        start = least + (most_steps - least) // 4
        return np.asarray(
            random.integers(int(start), int(most_steps) + 1, tensor.shape) * held.scale[0]
        )
    if tensor.dtype in ("f32", "f16", "f64"):
        return random.normal(MEAN, SPREAD, tensor.shape)
    return typed(random.integers(0, most, tensor.shape), tensor)


def moved(fed: dict[int, Array], seed: int) -> dict[int, Array]:
    """Returns the same values with every float changed by at most one rounding of float32: the
    change of the answer is then its tolerance."""
    random = np.random.default_rng(seed)
    return {
        t: value * (1 + 2.0**-23 * random.uniform(-1, 1, value.shape))
        if value.dtype.kind in "fc" else value
        for t, value in fed.items()
    }  # fmt: skip
