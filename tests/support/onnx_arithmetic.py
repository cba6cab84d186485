"""The reader of ONNX graphs evaluates single nodes whose inputs are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.onnx_node_tests import of_bfloat16
from tflgpu_plugin.importer.model import HostNode, Value
from tflgpu_plugin.ir import BFLOAT16, NUMPY_NAMES
from tflgpu_plugin.providers.onnxruntime.reader import read
from tflgpu_plugin.providers.onnxruntime.snapshot import Snapshot

Array = np.ndarray[Any, np.dtype[Any]]


def dtype(array: Array) -> str:
    """Returns the type of its elements, "" where the reader has none."""
    return BFLOAT16 if of_bfloat16(array) else NUMPY_NAMES.get(array.dtype.name, "")


def worked_out(
    node: HostNode, inputs: Sequence[Array | None], dtypes: Sequence[str] = ("i64",)
) -> list[Array] | None:
    """Returns the node's results, of these types in the model; None where it is no shape
    arithmetic."""
    values = {}
    for name, array in zip(node.inputs, inputs, strict=True):
        if name is not None and array is not None:
            held = array.view(np.uint16) if of_bfloat16(array) else array
            values[name] = Value(name, dtype(array), array.shape, held)
    names = [name for name in node.outputs if name is not None]
    values |= {name: Value(name, kind, None) for name, kind in zip(names, dtypes, strict=True)}
    reader = HostNode(node.id + 1, "Nonsense", "", 1, "reader", (*names,), ("end",))
    values["end"] = Value("end", "f32", None)
    found = read(Snapshot((node, reader), values, ("end",)), {})
    if node.id not in found.arithmetic:
        return None
    known = [found.graph.tensors[found.ids[name]].data for name in names]
    return [array for array in known if array is not None]
