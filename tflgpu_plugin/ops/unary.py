"""Elementwise ops of one operand: each is a copy of its input with the fused step of the same name
(`kernels.EPILOGUE_OPS`). `gelu(x): approximate` is `gelu_tanh` if set; `rsqrt(x): raises` fails
the run for negative numbers, where hosts raise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import (
    BFLOAT16,
    FLOAT8,
    Array,
    EpilogueOp,
    Graph,
    Node,
    Refusal,
    Target,
    float8,
    quantization,
)
from tflgpu_plugin.ops import lookup, quantized
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.elementwise import lower_pair, lower_step, overflow
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.stored_numbers import over_numbers
from tflgpu_plugin.ops.table import AS_THEY_ARE, BOUNDED, GATE, RELATIVE, Errors, Op, same_shape
from tflgpu_plugin.ops.unknown import PASSES

# Parameters of floats of 8 bits, as `ir.float8` has them.
FLOAT8_WRITTEN = ("mantissa", "bias", "greatest", "above", "not_number")
FLOAT8_READ = ("mantissa", "bias", "greatest", "infinite", "unsigned_zero")
# Attributes that are parameters of a step, in order, with their defaults. A limit of None is open.
PARAMETERS: dict[str, tuple[tuple[str, float], ...]] = {
    "elu": (("alpha", 1.0),),
    "selu": (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "celu": (("alpha", 1.0),),
    "leaky_relu": (("alpha", 0.01),),
    "thresholded_relu": (("alpha", 1.0),),
    "clip": (("low", -inf), ("high", inf)),
    "hard_sigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "swish": (("alpha", 1.0),),
    "shrink": (("lambd", 0.5), ("bias", 0.0)),
    "is_infinite": (("negative", 1.0), ("positive", 1.0)),
    "to_float8": tuple((name, 0.0) for name in FLOAT8_WRITTEN),
    "from_float8": tuple((name, 0.0) for name in FLOAT8_READ),
}


def step(op: str, attributes: Mapping[str, Any]) -> EpilogueOp:
    """Returns the fused step equivalent to an op of this family with these attributes."""
    values = [
        default if attributes.get(name) is None else float(attributes[name])
        for name, default in PARAMETERS.get(op, ())
    ]
    return EpilogueOp(op, None, tuple(values))


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Accepts any shape."""
    return None


def lower(low: Lowering, node: Node, integers: str | None = None, checked: bool = False) -> None:
    """Records one launch. `integers`: WGSL for integers, whose result may exceed int32 if
    `checked`."""
    if node.attributes.get("raises"):
        lower_pair(low, node, kernels.expression(node.op, []), refused="v < vec4f()")
    elif integers and quantization.is_integer(low.graph.tensors[node.outputs[0]]):
        lower_pair(low, node, integers, checked=overflow(low, node, integers) if checked else "")
    else:
        lower_step(low, node, step(node.op, node.attributes))


def decompose_gelu(steps: Decomposition, node: Node) -> bool:
    """Replaces an approximate gelu by `gelu_tanh`, except over int16, which has a table."""
    tensors = (steps.editor.tensors[t] for t in (node.operand(), node.outputs[0]))
    if not node.attributes.get("approximate") or all(map(quantization.is_int16, tensors)):
        return False
    steps.last("gelu_tanh", node.inputs[0])
    return True


def decompose_log(steps: Decomposition, node: Node) -> bool:
    """Takes negative numbers of 8 bits for 0, whose logarithm is the least result, as hosts do."""
    x, y = (steps.editor.tensors[t] for t in (node.operand(), node.outputs[0]))
    if x.dtype not in quantization.STORED or y.dtype not in quantization.STORED:
        return False
    steps.last("log", steps.add("relu", node.operand()))
    return True


def as_epilogue(graph: Graph, node: Node, position: int) -> EpilogueOp | None:
    """Returns the step of the op's name, None for a node that may fail the run."""
    return None if node.attributes.get("raises") else step(node.op, node.attributes)


def row(
    name: str,
    accuracy: str = "transcendental",
    types: tuple[str, ...] = ("f32",),
    errors: Errors = AS_THEY_ARE,
    integers: str | None = None,
    checked: bool = False,
    **traits: Any,
) -> Op:
    """Returns the row of an op that is the fused step of the same name; `integers` is WGSL that
    computes it on vec4 `v` of integers."""
    given = {"as_epilogue": as_epilogue, "unknown": PASSES if integers else "", **traits}
    types = (*types, "i32") if integers else types
    made = partial(lower, integers=integers, checked=checked)
    return Op(name, refuse, same_shape, made, accuracy, types=types, fuses=True,
              kind="elementwise", errors=errors, follows="elementwise", **given)  # fmt: skip


def clipped(data: Array, low: float = -inf, high: float = inf) -> Array:
    return np.asarray(np.clip(data, low, high), data.dtype)


def limit(name: str, low: float, high: float, errors: Errors = AS_THEY_ARE) -> Op:
    """Returns the op of an activation that only clamps."""
    limits = (low, high)
    integers = f"clamp(v, {LIMITED[name]})"
    return row(name, "exact", errors=errors, integers=integers, limits=limits,
               quantize=quantized.limited(*limits))  # fmt: skip


def cubed(x: Array) -> Array:
    return np.asarray(x * x * x)


def inverse(x: Array) -> Array:
    if x.dtype.kind != "f":
        raise ValueError("hosts have no inverses of integers")
    return np.asarray(1 / x, x.dtype)


def in_8_bits(data: Array, dtype: str, greatest: int, above: int, **form: float) -> Array:
    """Returns the bits of the numbers as floats of 8 bits."""
    return float8.bits(np.asarray(data, np.float32), dtype, saturates=above == greatest)


def of_8_bits(data: Array, dtype: str, **form: float) -> Array:
    """Returns the values, which are float32 already."""
    return data


FUNCTION = (
    *("erf", "softsign"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
)
# Activations that hosts fuse into most ops, and their limits of integers.
LIMITED = {
    "relu": "vec4i(), vec4i(0x7fffffff)",
    "relu_n1_to_1": "vec4i(-1), vec4i(1)",
    "relu6": "vec4i(), vec4i(6)",
}
LIMITS = tuple(LIMITED)
ATTRIBUTES = {
    name: " ".join(f"{parameter}?" for parameter, _ in given) for name, given in PARAMETERS.items()
} | {"gelu": "approximate", "leaky_relu": "alpha? negates", "rsqrt": "raises", "sqrt": "raises"}
OPS = (
    limit("relu", 0.0, inf, GATE),
    limit("relu6", 0.0, 6.0, GATE),
    limit("relu_n1_to_1", -1.0, 1.0),
    row("thresholded_relu", "exact", errors=GATE),
    row("clip", "exact", meaning=clipped, errors=Errors(floors=True), quantize=quantized.clipped),
    row("ceil", "exact", meaning=np.ceil),
    row("floor", "exact", meaning=np.floor),
    row("round", "exact", meaning=np.rint),
    row(
        "abs",
        "exact",
        integers="abs(v)",
        checked=True,
        quantize=quantized.magnitude,
        meaning=np.abs,
    ),
    row(
        "neg",
        "exact",
        integers="-v",
        checked=True,
        stored=True,
        meaning=np.negative,
        decompose=over_numbers(lambda steps, node: False),
    ),
    row("sign", "exact", integers="sign(v)", meaning=np.sign),
    row("leaky_relu", "elementwise", errors=GATE, quantize=quantized.leaky_relu),
    row("square", "elementwise", integers="v * v", checked=True, meaning=np.square),
    row("cube", "elementwise", integers="v * v * v", checked=True, meaning=cubed, inexact=True),
    row("shrink", "elementwise"),
    row("sqrt", "function", int16=lookup.root, meaning=np.sqrt),
    row("reciprocal", "function", meaning=inverse),
    *(row(name, "function") for name in FUNCTION),
    row("rsqrt", "function", quantize=quantized.inverse_root, int16=lookup.inverse_root),
    row("log", "function", errors=RELATIVE, int16=lookup.log, decompose=decompose_log),
    row("tanh", "function", errors=BOUNDED, int16=lookup.tanh),
    row("logistic", errors=BOUNDED, int16=lookup.logistic),
    row("hard_sigmoid", errors=BOUNDED),
    *(row(name, errors=GATE) for name in ("elu", "selu", "celu", "swish")),
    row("hard_swish", errors=GATE, quantize=quantized.hard_swish),
    *(row(name, errors=GATE) for name in ("softplus", "mish", "gelu_tanh")),
    row("exp", int16=lookup.exp),
    *(row(name) for name in ("sinh", "cosh")),
    row("gelu", errors=GATE, int16=lookup.gelu, decompose=decompose_gelu),
    # These change the type, so they cannot be fused into another op.
    row("is_nan", "exact", ("f32", "bool"), as_epilogue=None),
    row("is_infinite", "exact", ("f32", "bool"), as_epilogue=None),
    row("logical_not", "exact", ("bool",), meaning=np.logical_not),
    # These change the type, too, and are nevertheless steps: what makes or moves the values may
    # store them as the other type, which is float32 on the device as well.
    row("to_bfloat16", "exact", ("f32", "bool", BFLOAT16)),
    row("from_bfloat16", "exact", ("f32", BFLOAT16)),
    row("to_float8", "exact", ("f32", "bool", *FLOAT8), meaning=in_8_bits, converts=True),
    row("from_float8", "exact", ("f32", *FLOAT8), meaning=of_8_bits, converts=True),
    row("bitwise_not", "exact", (), integers="~v", as_epilogue=None),
)
