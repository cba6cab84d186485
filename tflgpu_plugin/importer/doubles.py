"""Values of float64 that are computed as float32, where the user wants that (`HostModel.single`).

Their tensors are float32 and know the host's type (`Tensor.host_dtype`). Constants stay float64
where nodes are evaluated before a run, and are narrowed where a kernel reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.importer.tensors import Tensors
from tflgpu_plugin.ir import DOUBLE, SINGLE, Array, Refusal, Tensor

NORMAL = 2.0**-126  # the least normal number of float32; devices may flush smaller ones to zero
HINT = "With the option double=float32, float64 is computed as float32."


def typed(model: HostModel, value: Value, tensor: Tensor) -> Tensor:
    """Returns the tensor, which is no constant, with the value's type."""
    if model.single and value.dtype == DOUBLE:
        return replace(tensor, dtype=SINGLE, host_dtype=DOUBLE)
    return replace(tensor, dtype=value.dtype)


def stated(model: HostModel) -> Mapping[str, Value]:
    """Returns the values of a model with the types in which kernels compute them."""
    if not model.single:
        return model.values
    return {
        key: replace(value, dtype=SINGLE) if value.dtype == DOUBLE and value.data is None else value
        for key, value in model.values.items()
    }


def narrowed(tensors: Tensors, tensor: int) -> int:
    """Returns the float32 constant of a constant of float64; other tensors unchanged. Raises
    Unsupported for one that float32 cannot hold."""
    held = tensors.table[tensor]
    if held.dtype != DOUBLE or held.data is None:
        return tensor
    data = held.data
    return tensors.constant((tensor, SINGLE), held.name, lambda: single(data, held.name))


def attributes(host: HostNode) -> HostNode:
    """Returns the node with float32 in place of arrays of float64 among its attributes. Raises
    Unsupported."""
    arrays = {
        name: single(given, name)
        for name, given in host.attributes.items()
        if isinstance(given, np.ndarray) and given.dtype == np.float64
    }
    return replace(host, attributes={**host.attributes, **arrays}) if arrays else host


def single(data: Array, name: str) -> Array:
    """Returns a constant as float32. Raises Unsupported where a finite number would become
    infinite, or where nothing but zeros would remain."""
    most = float(np.max(np.abs(data), where=np.isfinite(data), initial=0.0))
    with np.errstate(over="ignore", under="ignore"):
        if np.isinf(np.float32(most)) or 0.0 < most < NORMAL:
            raise Unsupported(_beyond(name, "too small" if most < 1 else "too large"))
        return np.asarray(data.astype(np.float32))


def _beyond(name: str, what: str) -> Refusal:
    said = f"The constant {name!r} holds float64 numbers that are {what} for float32."
    return Refusal("constant.out_of_range", said)


def hinted(model: HostModel, host: HostNode, refusal: Refusal) -> Refusal:
    """Returns the refusal of a node's types, with the option that changes it where the node has
    values of float64."""
    if model.single or not model.doubles(host):
        return refusal
    return refusal.reworded(f"{refusal} {HINT}")
