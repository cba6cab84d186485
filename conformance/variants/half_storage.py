"""The error of float16 storage by itself: a model run node by node on the host's float32
CPU kernels, with every weight and every node's result rounded to float16. The measure for answers
with `is_precision_loss_allowed`, which may not be worse than twice this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance import host, tolerance
from conformance.host import Array, Feed, Outputs
from conformance.models import split_models, tflite_file

MAX_FLOAT16 = 65_504.0
# Outputs of custom operators in which the host keeps bits of integers.
BITS = {("MaxPoolingWithArgmax2D", 1)}


def rounded(array: Array) -> Array:
    """Returns float32 values rounded to float16, clamped to the largest finite one; others
    unchanged."""
    if array.dtype != np.float32:
        return array
    finite = np.where(np.isinf(array), array, np.clip(array, -MAX_FLOAT16, MAX_FLOAT16))
    return np.asarray(finite.astype(np.float16).astype(np.float32))


def simulate(content: bytes, feed: Feed, name: str | None = None) -> Outputs:
    """Returns the outputs of a TFLite model for one feed, with variables of zero."""
    schema = tflite_file.schema()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    _round_constants(schema, model)
    inputs = [int(t) for t in graph.inputs]
    values = {t: rounded(np.asarray(array)) for t, array in zip(inputs, feed, strict=True)}
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        fed = list(dict.fromkeys(int(t) for t in operator.inputs if int(t) in values))
        shapes = {t: values[t].shape for t in fed}
        alone = split_models.alone(schema, model, operator, code, fed, shapes)
        custom = code.customCode.decode() if code.customCode else ""
        cpu = host.interpreter(alone, name, "default" if custom else "optimized")
        cpu.allocate_tensors()
        (made,) = host.invoke(cpu, [[values[t] for t in fed]])
        for k, (t, array) in enumerate(zip(map(int, operator.outputs), made, strict=True)):
            values[t] = array if (custom, k) in BITS else rounded(array)
            if not fed:  # of constants alone: some custom operators take no other weights
                _fix(schema, model, t, values.pop(t))
    return [values[int(t)] for t in graph.outputs]


def _fix(schema: Any, model: Any, tensor: int, value: Array) -> None:
    """Make this the value of a constant."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(value.tobytes(), np.uint8)
    model.subgraphs[0].tensors[tensor].buffer = len(model.buffers)
    model.buffers.append(buffer)


def _round_constants(schema: Any, model: Any) -> None:
    for tensor in model.subgraphs[0].tensors:
        data = model.buffers[tensor.buffer].data
        if tensor.type == schema.TensorType.FLOAT32 and data is not None and len(data):
            values = rounded(np.frombuffer(bytes(bytearray(data)), np.float32))
            model.buffers[tensor.buffer].data = np.frombuffer(values.tobytes(), np.uint8)


@dataclass(frozen=True)
class Distance:
    """How far an answer is from the float32 one, as shares of the largest magnitude of each output:
    the largest error, and the root mean square (over outputs, of theirs)."""

    largest: float
    mean: float


def distance(expected: Sequence[Outputs], got: Sequence[Outputs]) -> Distance:
    """Returns the distance over the outputs of some runs."""
    worst, squares = 0.0, []
    for wanted, found in zip(expected, got, strict=True):
        for want, have in zip(wanted, found, strict=True):
            error = _error(want, have)
            worst = max(worst, float(error.max(initial=0.0)))
            squares.append(float(np.mean(error**2)) if error.size else 0.0)
    return Distance(worst, float(np.sqrt(np.mean(squares))))


def _error(expected: Array, got: Array) -> Array:
    if expected.shape != got.shape:
        return np.full(1, np.inf)
    want, have = expected.astype(np.float64), got.astype(np.float64)
    same = (want == have) | (np.isnan(want) & np.isnan(have))
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.nan_to_num(np.abs(want - have), nan=np.inf))
    return np.asarray(off / (float(np.abs(want[np.isfinite(want)]).max(initial=0.0)) or 1.0))


def wrong(found: Distance, simulated: Distance) -> str:
    """Returns a sentence if an answer is too far from float32: in its largest error, or in both
    errors compared with the simulation."""
    largest, mean = (
        max(tolerance.HALF_SIMULATED * error, tolerance.MODEL)
        for error in (simulated.largest, simulated.mean)
    )
    if found.largest <= min(tolerance.HALF_MODEL, largest) and found.mean <= mean:
        return ""
    return f"{found} where the simulation has {simulated}"
