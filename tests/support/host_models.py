"""Graphs of a TFLite host as plain data, written by hand, and their import."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tflgpu_plugin.importer.imported import Facts, Imported
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.ir import Array, Refusal, Shape, Tensor
from tflgpu_plugin.providers.tflite import codes
from tflgpu_plugin.providers.tflite.host_node import RawNode
from tflgpu_plugin.providers.tflite.ops import TABLE
from tflgpu_plugin.providers.tflite.snapshot import decided


def node(
    number: int, op: str, inputs: Sequence[int | None], outputs: Sequence[int],
    attributes: Mapping[str, Any] | None = None, refusal: Refusal | None = None,
) -> HostNode:  # fmt: skip
    """Returns a node of a host whose tensors have numbers."""
    keys = tuple(None if t is None else str(t) for t in inputs)
    return HostNode(number, op, "", 1, op, keys, tuple(map(str, outputs)),
                    attributes=attributes or {}, refusal=refusal)  # fmt: skip


def model(
    given: Sequence[Tensor], nodes: Sequence[HostNode], loose: Collection[int] = (),
    dense: Mapping[int, Callable[[], Array]] | None = None,
) -> HostModel:  # fmt: skip
    """Returns a model in which tensor k is the k-th; the shapes of `loose` tensors are open, and
    shapes that depend on values are not stated."""
    raw = [_raw(one) for one in nodes]
    unknown = decided(raw, dict(enumerate(given)))
    values = {}
    for k, tensor in enumerate(given):
        shape = None if k in unknown else tensor.shape
        value = Value(tensor.name, tensor.dtype, shape, tensor.data,
                      quantization=tensor.quantization, variable=tensor.variable,
                      constant=tensor.data is not None, dense=(dense or {}).get(k))  # fmt: skip
        if k in loose:
            value = replace(value, shape=tuple(f"{k} {axis}" for axis in range(len(tensor.shape))))
        values[str(k)] = value
    return HostModel(tuple(nodes), values, (), numbered=True)


def imported(made: HostModel, shapes: Mapping[int, Shape] | None = None) -> Imported:
    """Returns the model as the TFLite frontend imports it; `shapes` gives its dynamic extents."""
    symbols = {f"{k} {axis}": n for k, s in (shapes or {}).items() for axis, n in enumerate(s)}
    return import_(made, TABLE, Facts(symbols=symbols))


def _raw(one: HostNode) -> RawNode:
    inputs = tuple(None if key is None else int(key) for key in one.inputs)
    outputs = tuple(int(key) for key in one.writes)
    code = codes.CUSTOM if one.op.startswith("CUSTOM ") else 0
    return RawNode(None, one.id, code, one.op, one.version, inputs, outputs, None, {})
