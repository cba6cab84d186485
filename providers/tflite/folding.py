"""Which results of the folder are those of TFLite's operators: small values that follow from shapes
(SHAPE -> STRIDED_SLICE -> MUL -> PACK), and whatever follows from constants alone, such as weights
that a model keeps sparse, in 16 bits, transposed or in pieces.

Elements that only change place keep their stored numbers, whatever these stand for. What is
computed is computed as the host does, where the same numbers come out everywhere: whole numbers
that fit, and steps of float32 that round once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflgpu_plugin import ops as internal
from tflgpu_plugin.frontend import fold
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Node, Quantization, Tensor
from tflgpu_plugin.passes.quant.dequantize import dequantized

from . import ops
from .host_node import HostNode
from .tensors import narrowed

MAX_FOLDED_ELEMENTS = 1 << 22  # of a result; beyond that, ...
TIMES = 16  # ... as many per element of the inputs
RANDOM = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}  # of constants, yet none
INTEGERS = ("i8", "u8", "i16")


def step(host: HostNode, node: Node, inputs: Sequence[Tensor]) -> fold.Step | None:
    """What a node does to inputs in the order of its op; None when that is not known, or not for
    inputs of these types."""
    outputs = [host.tensors[t] for t in host.outputs]
    found = None
    if node.row is not None:
        found = fold.of_op(node.op, node.attributes, outputs)
    elif row := ops.CPU_OPS.get(host.host_op):
        found = fold.of_op(row.op, {}, outputs)
    if found is None or (found.rounded and any(t.dtype[0] == "f" for t in inputs)):
        return None
    return found


def constants(
    host: HostNode, node: Node, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """The outputs with their values, from inputs that are all constants; None when they do not
    follow here, or have other shapes or types than the model says.
    """
    found = _results(host, node, inputs, outputs)
    if found is None or len(found) != len(outputs):
        return None
    pairs = zip(found, outputs, strict=True)
    held = [made for array, tensor in pairs if (made := _held(array, tensor)) is not None]
    return held if len(held) == len(outputs) else None


def _results(
    host: HostNode, node: Node, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Array] | None:
    if node.op == "quantize":
        return _listed(quantized(inputs[0], outputs[0]))
    if node.op == "dequantize":
        return _listed(dequantized(inputs[0]))
    meant = step(host, node, inputs)
    if meant is None or meant.of_shapes or not _stored_alike(meant, [*inputs, *outputs]):
        return None
    values = [t.data for t in inputs if t.data is not None]
    if not (meant.moves or meant.meaning == "cast"):
        if any(t.dtype in INTEGERS for t in inputs) or not all(map(_agreed, values)):
            return None
        values = [fold.wide(value) for value in values]
    limit = max(MAX_FOLDED_ELEMENTS, TIMES * sum(v.size for v in values))
    return fold.evaluate(meant, values, limit)


def _listed(result: Array | None) -> list[Array] | None:
    return None if result is None else [result]


def _stored_alike(meant: fold.Step, tensors: Sequence[Tensor]) -> bool:
    """Stored numbers stand for the same, where hosts rescale what they bring together."""
    row = internal.rows().get(meant.meaning)
    if row is None or row.keeps != "any":
        return True
    held = {t.quantization for t in tensors if t.dtype in INTEGERS}
    return held <= {None} or (len(held) < 2 and row.views is None)  # or the zero point is added


def _agreed(value: Array) -> bool:
    """Numbers that hosts agree about."""
    return value.dtype != np.uint64 and not (value.dtype.kind == "f" and np.isnan(value).any())


def _held(array: Array, tensor: Tensor) -> Tensor | None:
    """The tensor with this value, None when it is of another type."""
    if tensor.dtype not in NUMPY_DTYPES:
        return None
    kind = np.dtype(NUMPY_DTYPES[tensor.dtype])
    data = array.astype(kind)
    if array.dtype != kind and not (
        array.dtype.kind in "iu" and kind.kind in "iu" and np.array_equal(data, array)
    ):
        return None
    return narrowed(Tensor(tensor.name, data.shape, tensor.dtype, data, tensor.quantization))


# ---- quantized numbers ---------------------------------------------------------------------------


def quantized(source: Tensor, result: Tensor) -> Array | None:
    """float32 in steps: halves go away from zero."""
    if source.dtype != "f32" or result.dtype not in INTEGERS or result.quantization is None:
        return None
    assert source.data is not None
    scale, zero = (
        _along(np.asarray(numbers, kind), result.quantization, source.data.ndim)
        for numbers, kind in (
            (result.quantization.scale, np.float32),
            (result.quantization.zero_point, np.float64),
        )
    )
    with np.errstate(all="ignore"):
        steps = (source.data / scale).astype(np.float64)
        whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + zero
    if not np.all(np.isfinite(whole)):
        return None
    limits = np.iinfo(NUMPY_DTYPES[result.dtype])
    return np.clip(whole, limits.min, limits.max).astype(NUMPY_DTYPES[result.dtype])


def _along(numbers: Array, quantization: Quantization, rank: int) -> Array:
    if numbers.size == 1:
        return numbers.reshape(())
    shape = [1] * rank
    shape[quantization.axis] = numbers.size
    return numbers.reshape(shape)
