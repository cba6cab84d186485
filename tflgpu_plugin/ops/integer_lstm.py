"""LSTM layers over int8 values with a cell state of int16, in the integers of `EvalInteger8x8_16`
of tensorflow/lite/kernels/lstm_eval.cc: products of int8 are summed in int32 and rescaled to gates
of 16 bits with 12 fractional bits, once for the input and once for the last output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import INT16, Array, Refusal, Tensor, quantization
from tflgpu_plugin.ops.quantized import factors

GATE_STEPS = 1 << 12  # of gates, before their functions
FRACTION = 1 << 15  # steps of the results of these functions
EXPONENTS = range(-15, -8)  # of scales of the cell state: powers of two
PART = 1 << 16  # a bias is `PART` times its first part, plus the second one
EXACT = 1 << 24  # float32 has all integers below it


class Layer(NamedTuple):
    """The tensors of a layer. `weights`, `recurrent` and `biases` have one for each gate."""

    x: Tensor
    weights: Sequence[Tensor]
    recurrent: Sequence[Tensor]
    biases: Sequence[Tensor]
    output: Tensor
    state: Tensor
    y: Tensor


def refuse(layer: Layer, hidden: Sequence[float]) -> Refusal | None:
    """Refuses layers that hosts do not compute in these integers, and such of which float32 cannot
    hold the sums. `hidden` is as in `stored`."""
    output, state = layer.output, layer.state
    if {layer.x.dtype, output.dtype, layer.y.dtype} != {"i8"} or state.dtype != INT16:
        said = "An LSTM in 8 bits needs int8 values and an output state of int8, and a cell state "
        return Refusal("dtype.unsupported", f"{said}of int16.")
    if not quantization.alike(output, layer.y):
        said = "An LSTM in 8 bits needs one quantization of its output and its output state."
        return Refusal("quantization.mismatch", said)
    scaled = (layer.x, *layer.weights, *layer.recurrent, output, state)
    if any(t.quantization is None or len(t.quantization.scale) != 1 for t in scaled):
        said = "An LSTM in 8 bits needs weights and states with one scale each."
        return Refusal("quantization.unsupported", said)
    if any(bias.dtype != "i32" for bias in layer.biases):
        return Refusal("dtype.unsupported", "An LSTM in 8 bits needs biases of int32.")
    if len(hidden) != 2 or not hidden[0] > 0:
        said = "An LSTM in 8 bits needs five intermediate tensors, the last of which has a scale."
        return Refusal("input.missing", said)
    if _exponent(state) not in EXPONENTS:
        said = "An LSTM in 8 bits needs a cell state whose scale is a power of two from 2^-15 on "
        return Refusal("quantization.unsupported", f"{said}and at most 2^-9.")
    if _largest_sum(layer) >= EXACT:
        said = "The weights of this LSTM in 8 bits are too many for sums that are exact."
        return Refusal("shape.too_large", said)
    return None


def _exponent(state: Tensor) -> int | None:
    scale, _ = quantization.parameters(state)
    fraction, exponent = np.frexp(scale)
    return int(exponent) - 1 if fraction == 0.5 else None


def _largest_sum(layer: Layer) -> int:
    _, zero = quantization.parameters(layer.x)
    sums = [np.abs(integers(w).astype(np.int64)).sum(axis=1) for w in layer.weights]
    return int(np.max(sums, initial=0)) * int(max(127 - zero, zero + 128))


def integers(tensor: Tensor) -> Array:
    """Returns the stored numbers of a constant, which may have been converted to float32."""
    assert tensor.data is not None and tensor.quantization is not None
    if tensor.data.dtype.kind == "i":
        return tensor.data
    (scale,) = tensor.quantization.scale
    return np.asarray(np.rint(tensor.data / np.float32(scale)), np.int32)


def numbers(layer: Layer) -> Array:
    """Returns [gates * units, 8]: for each row of the gates the factor of a sum over the input
    (high part, low part, shift to the left), the first part of its bias, the factor of a sum over
    the last output, and the second part of the bias."""
    x, output = (quantization.parameters(t)[0] for t in (layer.x, layer.output))
    rows = []
    for w, r, bias in zip(layer.weights, layer.recurrent, layer.biases, strict=True):
        assert bias.data is not None
        parts = np.divmod(bias.data.reshape(-1), PART)
        row = np.empty((len(parts[0]), 8), np.float32)
        row[:, :3], row[:, 4:7] = _factor(w, x), _factor(r, output)
        row[:, 3], row[:, 7] = parts
        rows.append(row)
    return np.concatenate(rows)


def _factor(weights: Tensor, scale: float) -> list[float]:
    """Returns the factor from sums to gates, computed in float32 as in hosts."""
    own = np.float32(quantization.parameters(weights)[0]) * np.float32(scale)
    return factors(own * np.float32(GATE_STEPS))


def stored(layer: Layer, hidden: Sequence[float], cell_clip: float) -> tuple[float, ...]:
    """Returns the attribute `stored` of `lstm`: the scale of the output, the least and greatest of
    its stored numbers and what is added to them, all relative to its zero point; the factor from
    products of 2^-30 to them; scale and integer bits of the cell state, and its greatest number (0:
    no limit). `hidden` is the scale and zero point that hosts give the output before a projection,
    also where there is none."""
    (scale, zero), (step, _) = (quantization.parameters(t) for t in (layer.output, layer.state))
    exponent = _exponent(layer.state)
    assert exponent is not None
    factor = factors(np.float32(FRACTION**-2 / float(np.float32(hidden[0]))))
    most = min(float(np.float32(cell_clip) / np.float32(step)), FRACTION - 1.0)
    levels = (scale, -128.0 - zero, 127.0 - zero, hidden[1] - zero)
    return (*map(float, levels), *factor, step, 15.0 + exponent, float(int(most)))
