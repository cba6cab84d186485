"""Quantized twins of the float32 cases: the same operator and shapes over int8 (weights per
channel), uint8 (as a whole) or int16 (weights of int8 per channel) tensors, with the scales that a
converter would choose.

Judged by the rule of the op's row: exactly the numbers of the reference kernels unless it says how
many levels of the output they may be off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import host, tolerance
from conformance.cases import Case, Input, all_cases
from conformance.host import Outputs
from conformance.models import tflite as models
from tflgpu_plugin import ops
from tflgpu_plugin.ir import INT16, NUMPY_DTYPES, Quantization
from tflgpu_plugin.providers.tflite.ops import HOST_OPS

Array = npt.NDArray[Any]
FAR, NEAR, SHARE = 3, 1, 0.001  # steps that no value, and few values, may be off
# The same for graphs of up to 20 operators, each of which passes on the steps of those before.
GRAPH_FAR, GRAPH_SHARE = 8, 0.1

# First version with int8 tensors, and which constant input is a weight, along which axis.
VERSIONS = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "RESHAPE": 1, "SQUEEZE": 1,
    "PRELU": 1, "ELU": 1, "HARD_SWISH": 1, "EXPAND_DIMS": 1,
}  # fmt: skip
INT16_VERSIONS = {"RSQRT": 3}  # with int16 tensors, where they are more than those
# Cases that rows refuse for int16: averages and means over too many numbers, products of one.
BEYOND_SHORT = {
    "AVERAGE_POOL_2D": (
        *("average_5x7_same", "average_half_of_33x33", "average_global_65x65_channels_3"),
        *("average_global_70001_rows", "average_sum_over_65504"),
    ),
    "BATCH_MATMUL": ("depth_1500",),
    "SOFTMAX": ("rank_6",),
    "MEAN": (
        *("image_positive_70000", "all_positive_66049", "all_positive_1000003", "rank_1_keep"),
    ),
    "REDUCE_PROD": ("channels_drop_channels_1", "no_axes", "scalar_no_axes"),
}
AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0, "FULLY_CONNECTED": None}
BIASES = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "TRANSPOSE_CONV": 3, "FULLY_CONNECTED": 2}
FIRST = {"TRANSPOSE_CONV": 2}  # place of the input that a weight multiplies
FIXED = {
    "SOFTMAX": {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)},
    "LOGISTIC": {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)},
    "TANH": {"i8": (1 / 128, 0), "u8": (1 / 128, 128), "i16": (1 / 32768, 0)},
    "LOG_SOFTMAX": {"i8": (16 / 256, 127), "u8": (16 / 256, 255)},
}
# Operators without kernels for 8 bits, or with state.
LEFT_OUT = {
    "LSTM",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "RNN",
    "SVDF",
    "LOGICAL_AND",
    "QUANTIZE",
    "DEQUANTIZE",
    "RELU_N1_TO_1",
    "DIV",
    "CAST",
    "SQRT",
}
MIN_VALUE, MAX_VALUE = 1e-6, 1e4  # of the values of sensible scales


def twins() -> Iterator[tuple[str, Case]]:
    """Returns (family, twin) for every case that has one; int8 and uint8 alternate within an
    operator, whose first case has both. Operators that take int16 have twins of that type, too."""
    turn: dict[str, int] = {}
    for family, cases in all_cases().items():
        for case in cases:
            if case.refused or not _plain(case):
                continue
            if HOST_OPS[case.op].int16 and _in_int16(case):
                yield family, replace(case, name=f"{INT16}_{case.name}")
            if case.op in LEFT_OUT or _float_only(case.op):
                continue
            turn[case.op] = turn.get(case.op, -1) + 1
            both = ("u8", "i8")
            for dtype in both if turn[case.op] == 0 else both[turn[case.op] % 2 :][:1]:
                yield family, replace(case, name=f"{dtype}_{case.name}")


def _in_int16(case: Case) -> bool:
    """Whether rows take the case over int16. They refuse layers with fed weights, layers too deep
    for exact sums, and dense and transposed ones without a bias, which tflite-runtime sums in 32
    bits."""
    if case.name in BEYOND_SHORT.get(case.op, ()):
        return False
    if case.op not in AXES:
        return True
    weights, bias = (*case.inputs, None, None)[1], BIASES[case.op]
    biased = case.op not in ("FULLY_CONNECTED", "TRANSPOSE_CONV") or case.inputs[bias:] not in (
        (),
        (None,),
    )
    return (
        weights is not None
        and weights.data is not None
        and biased
        and (weights.data.size // weights.shape[0] < 1 << 14 or case.op == "DEPTHWISE_CONV_2D")
    )


def _float_only(op: str) -> bool:
    """Whether the operator's row excludes tensors of 8 bits."""
    types = HOST_OPS[op].types
    return bool(types) and "i8" not in types


def dtype_of(twin: Case) -> str:
    """Returns the type of a twin."""
    return twin.name.split("_", 1)[0]


def _plain(case: Case) -> bool:
    floats = [i for i in case.inputs if i is not None and i.dtype == "f32"]
    if case.output_type != "f32" or not floats or floats[0].data is not None:
        return False
    bias = BIASES.get(case.op, len(case.inputs))
    if bias < len(case.inputs) and (last := case.inputs[bias]) is not None and last.data is None:
        return False  # int32 biases of a run are refused
    if case.op == "SOFTMAX" and (floats[0].shape[-1] > 4096 or not case.options.get("beta")):
        return False  # the host's sums overflow, and without a beta it aborts
    if case.op == "RESIZE_BILINEAR" and max(floats[0].shape) > 4096:
        return False  # the host reads past the end
    finite = all(i.data is None or np.all(np.abs(i.data) < MAX_VALUE) for i in floats)
    return finite and all(max(abs(i.low), abs(i.high)) < MAX_VALUE for i in floats)


def quantize(case: Case) -> Case:
    """Returns the twin; its dtype is the first part of its name. Raises ValueError if the host
    gives no results from which a scale could be chosen."""
    dtype = dtype_of(case)
    inputs = list(case.inputs)
    biased = BIASES.get(case.op)
    weights = 1 if case.op in AXES else None
    first: Quantization | None = None
    for k, value in enumerate(inputs):
        if value is None or value.dtype != "f32" or k in (biased, weights):
            continue
        operands = HOST_OPS[case.op].operands
        narrow = dtype == INT16 and operands[min(k, len(operands) - 1)].role == "narrow_slope"
        kind = "i8" if narrow else dtype
        own = (
            first
            if same_quantization(case.op) and first is not None
            else quantization_of(*_range(value), kind)
        )
        first = first or own
        inputs[k] = stored(value, own, kind)
    if weights is not None:
        place = FIRST.get(case.op, 0)
        x, w = inputs[place], inputs[weights]
        assert x is not None and w is not None
        inputs[weights] = w = weights_of(w, dtype, AXES[case.op])
        bias = inputs[biased] if biased is not None and biased < len(inputs) else None
        if bias is not None and biased is not None:
            inputs[biased] = bias_of(bias, x, w, "i64" if dtype == INT16 else "i32")
    output = _output(case, first, dtype)
    version = VERSIONS.get(case.op, 2) if dtype != "u8" else 1
    version = max(version, INT16_VERSIONS.get(case.op, 1) if dtype == INT16 else 1)
    return replace(
        case, inputs=tuple(inputs), output_type=dtype, output_quantization=output,
        version=max(case.version, version),
    )  # fmt: skip


def _range(value: Input) -> tuple[float, float]:
    if value.data is None:
        return value.low, value.high
    return float(value.data.min()), float(value.data.max())


def quantization_of(low: float, high: float, dtype: str) -> Quantization:
    """Returns the quantization of a range: asymmetric with zero included, symmetric for int16."""
    low, high = min(low, 0.0), max(high, 0.0)
    if dtype == INT16:
        return Quantization((float(np.float32(max(-low, high) / 32767 or 1.0)),), (0,))
    scale = float(np.float32((high - low) / 255 or 1.0))
    least = -128 if dtype == "i8" else 0
    return Quantization((scale,), (int(np.clip(round(least - low / scale), least, least + 255)),))


def stored(value: Input, quantization: Quantization, dtype: str) -> Input:
    """Returns a float32 input quantized; without data, one that may be fed any of its values."""
    kind = np.dtype(NUMPY_DTYPES[dtype])
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    if value.data is None:
        return replace(value, dtype=dtype, low=least, high=most + 1, quantization=quantization)
    steps = np.round(value.data / quantization.scale[0]) + quantization.zero_point[0]
    data = np.clip(steps, least, most).astype(kind)
    return replace(value, dtype=dtype, data=data, quantization=quantization)


def weights_of(value: Input, dtype: str, axis: int | None) -> Input:
    """Returns weights: uint8 with a single scale, else int8 with a scale per index along `axis`
    (None: a single scale)."""
    if value.data is None:
        largest = max(-value.low, value.high)
        symmetric = Quantization((float(np.float32(largest / 127)),), (0,))
        if dtype != "u8":
            return stored(value, symmetric, "i8")
        return stored(value, quantization_of(value.low, value.high, dtype), dtype)
    if dtype == "u8":
        return stored(value, quantization_of(*_range(value), dtype), dtype)
    others = tuple(k for k in range(value.data.ndim) if axis is not None and k != axis)
    largest = np.abs(value.data).max(axis=others if axis is not None else None, keepdims=True)
    scale = np.where(largest > 0, largest / 127, 1.0).astype(np.float32)
    data = np.clip(np.round(value.data / scale), -127, 127).astype(np.int8)
    scales = tuple(float(s) for s in scale.reshape(-1))
    quantization = Quantization(scales, (0,) * len(scales), axis or 0)
    return replace(value, dtype="i8", data=data, quantization=quantization)


def bias_of(value: Input, x: Input, weights: Input, dtype: str = "i32") -> Input:
    """Returns a bias of integers in the scale of the sums of these quantized inputs and weights."""
    assert x.quantization is not None and weights.quantization is not None
    scales = np.array(weights.quantization.scale) * x.quantization.scale[0]
    quantization = Quantization(tuple(float(s) for s in scales), (0,) * len(scales))
    whole = None if value.data is None else np.round(value.data / scales)
    data = None if whole is None else whole.astype(NUMPY_DTYPES[dtype])
    return replace(value, dtype=dtype, data=data, quantization=quantization, low=-999, high=999)


def _output(case: Case, first: Quantization | None, dtype: str) -> Quantization:
    if same_quantization(case.op) and first is not None:
        return first
    if case.op in FIXED:
        scale, zero = FIXED[case.op][dtype]
        return Quantization((scale,), (zero,))
    feeds = host.case_feeds(case, 1)
    model = models.build(case)
    (results,) = host.cached_on_cpu(model, feeds, *host.oracle(model))
    largest = np.abs(results[0]).max(initial=0.0)
    if not MIN_VALUE < largest < MAX_VALUE:
        raise ValueError("no results that 8 bits could hold")
    return quantization_of(float(results[0].min()), float(results[0].max()), dtype)


def same_quantization(host_op: str) -> bool:
    """Whether the operator works on stored numbers, so that inputs and outputs have the same
    quantization."""
    row = ops.rows()[HOST_OPS[host_op].op]
    return bool(row.keeps or row.same_quantization)


def rule_of(*host_ops: str) -> str:
    """Returns the least exact rule of these operators for results in 8 bits."""
    rules = [tolerance.RULES.get(HOST_OPS[host_op].op, "exact") for host_op in host_ops]
    return max(rules, key=lambda rule: tolerance.IN_8_BITS[rule])


def judge(case: Case, expected: Outputs, got: Outputs) -> tolerance.Verdict:
    """Returns the worst output of a twin."""
    rule = rule_of(case.op)
    verdicts = [tolerance.in_8_bits(rule, *pair) for pair in zip(expected, got, strict=True)]
    return max(verdicts, key=lambda verdict: verdict.share)


def steps_off(expected: Array, got: Array) -> tuple[int, float]:
    """Returns (largest difference, fraction of values that are more than one step off) of 8-bit
    arrays."""
    difference = np.abs(expected.astype(np.int32) - got.astype(np.int32))
    if difference.size == 0:
        return 0, 0.0
    return int(difference.max()), float((difference > NEAR).mean())
