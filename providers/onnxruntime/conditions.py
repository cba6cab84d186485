"""Conditions that every node must meet, and conditions of single table rows; conditions of larger
operator families stand in the modules of their builders. A condition reads the host's node."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import (
    BITS_ONLY,
    COUNTS,
    NARROW,
    NUMPY_DTYPES,
    UNSIGNED,
    WHOLE,
    Condition,
    Refusal,
    ShapeRefusal,
    needs,
    type_name,
)
from tflgpu_plugin.providers import COUNTED, Builder, shaped, without_kernel

from . import fused_operators
from .quantize import made_type, named

REAL = ("f32", "f16", "bool", *COUNTS)
CAST = (*REAL, *UNSIGNED, *COUNTED, *BITS_ONLY)


# ---- what every node needs -----------------------------------------------------------------------


def listed(e: Builder) -> Refusal | None:
    """The node has no outputs beyond those that its row lists."""
    if not e.row.outputs or not any(e.host.outputs[len(e.row.outputs) :]):
        return None
    sentence = f"{e.host.title} is supported with at most {len(e.row.outputs)} output(s)."
    return Refusal("output.unsupported", sentence)


def constant(e: Builder) -> Refusal | None:
    """Inputs that the row marks as constant are constants of the model."""
    for position, what in e.row.planned.items():
        if e.has(position) and e.constant(e.x(position)) is None:
            otherwise = (
                "" if position in e.row.constants else ", or come from outside the partition"
            )
            sentence = f"The {what} of {e.host.title} must be a constant of the model{otherwise}."
            return Refusal("constant.required", sentence)
    return None


def kernels(e: Builder) -> Refusal | None:
    """Inputs of bfloat16, uint32, uint64, and of types of at most 8 bits that numpy lacks, are read
    only by operators whose row lists the type, as only for these the host has kernels. Nodes that
    are evaluated before a run may read any if an op computes them, else uint32 and uint64, too."""
    if e.known_limit and e.row.op:
        return None
    held = [e.tensors.table[t] for t in e.inputs if t is not None]
    if e.known_limit:
        held = [tensor for tensor in held if tensor.dtype in BITS_ONLY]
    return next(filter(None, (without_kernel(t, e.row) for t in held)), None)


def doubles(e: Builder) -> Refusal | None:
    """Values of float64 are computed as float32, with the option double, where the host has kernels
    of float64. Nodes that are evaluated before a run may read any."""
    if not e.doubles or e.row.double is True:
        return None
    why = e.row.double or "for which the host has no CPU kernel"
    said = f"{e.row.name} has values of float64, {why}."
    return Refusal("dtype.unsupported", said)


def filled(e: Builder) -> Refusal | None:
    """Inputs have elements, unless the operator is elementwise, only moves elements, or works on
    rows (products, normalizations, Softmax): for others, onnxruntime's rules for empty tensors
    differ, or its kernels crash."""
    row, host = e.op, e.row
    moves = row.kind in ("elementwise", "movement") or row.joins
    if moves or host.fragile or host.identity or host.rowless:
        return None
    given, last = e.row.operands, len(e.row.operands) - 1
    for k, t in enumerate(e.inputs):
        if t is None or last < 0 or given[min(k, last)].role not in ("value", "weights"):
            continue
        tensor = e.tensors.table[t]
        if 0 in tensor.shape:
            shape = list(tensor.shape)
            return ShapeRefusal(
                "shape.empty", f"Tensor {tensor.name!r} has no elements: its shape is {shape}."
            )
    return None


NO_GRAPHS = needs(
    "operator.host_only", "No subgraphs.", lambda e: bool(e.host.bodies or not e.host.implicit)
)
EVERY: tuple[Condition, ...] = (
    kernels, doubles, NO_GRAPHS, listed, constant, shaped,
)  # fmt: skip

# ---- elements ------------------------------------------------------------------------------------

REMAINDER = needs(
    "attribute.unsupported",
    "The attribute fmod = 1, integer operands, or opset 28.",
    lambda e: bool(e.integer("fmod")) or e.dtype() in (*WHOLE, *COUNTED) or e.version >= 28,
)


def _exponents(e: Builder) -> bool:
    value = e.constant(e.x(1))
    if e.dtype() not in COUNTS or (value is None and e.dtype(e.x(1)) in COUNTS):
        return True
    return value is not None and bool(np.all((np.trunc(value) == value) & (abs(value) < 2**31)))


EXPONENTS = needs(
    "dtype.unsupported", "Integer exponents where the base is an integer.", _exponents
)


def castable(e: Builder) -> Refusal | None:
    """Requires input and result of floats of 8 to 32 bits, bool, or integers of 2 to 64 bits."""
    held, wanted = e.dtype(), named(e, "to")
    types = NUMPY_DTYPES if e.known_limit else CAST
    if held in types and wanted in types:
        return None
    said = f"Casting {type_name(held)} to {type_name(wanted)} is not supported."
    return Refusal("dtype.unsupported", said)


# ---- layers --------------------------------------------------------------------------------------


def _kept(e: Builder) -> bool:
    ratio = e.constant(e.x(1)) if e.has(1) else None
    training = e.has(2) and bool(e.value(2).any())
    return not training or (ratio is not None and not ratio.any())


NOTHING_DROPPED = needs("attribute.unsupported", "Inference mode, or a ratio of 0.", _kept)
NORM = needs("attribute.unsupported", "A norm p of 1 or 2.", lambda e: e.integer("p", 2) in (1, 2))
MATRICES = needs(
    "rank.unsupported", "Two matrices.", lambda e: len(e.of("value")) == len(e.of("weights")) == 2
)
GROUPS = needs(
    "shape.mismatch",
    "A number of channels that is divisible by num_groups.",
    lambda e: (
        e.rank() > 1
        and e.integer("num_groups", 1) > 0
        and e.shape()[1] % e.integer("num_groups", 1) == 0
    ),
)
CHANNELS_FIRST = needs(
    "attribute.unsupported", "No channels_last.", lambda e: not e.integer("channels_last")
)
UNREAD_MEAN = needs("output.unsupported", "A mean that nothing reads.", lambda e: not e.wants(1))


def activation(e: Builder) -> Refusal | None:
    """Requires an activation that is also supported as a separate operator."""
    name = e.text("activation", "")
    if not name or name in fused_operators.ACTIVATIONS:
        return None
    if name == fused_operators.CUT and len(fused_operators.parameters(e)) == 2:
        return None
    return Refusal(
        "activation.unsupported", f"{e.host.title} with the activation {name} is not supported."
    )


# ---- quantized tensors ---------------------------------------------------------------------------

QUANTIZED = needs(
    "dtype.unsupported",
    "Results of 16 bits or fewer.",
    lambda e: made_type(e) in (*COUNTED, *NARROW),
)
DEQUANTIZED = needs("dtype.unsupported", "Results in float32.", lambda e: e.dtype(e.x(1)) == "f32")
SCALE_AND_ZERO_POINT = needs(
    "input.missing",
    "A zero point of the result where it has a scale (y_scale).",
    lambda e: not e.has(7) or e.has(8),
)
