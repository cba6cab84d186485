"""Builders for gates of com.microsoft that onnxruntime-genai writes for Mamba, Gated DeltaNet and
mixtures of experts, and of distances."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin.ir import ShapeRefusal, needs
from tflgpu_plugin.providers import Builder

from .operand_shapes import by_last, exactly
from .presence import absent

# Input positions of GatedRMSNorm, GatedAdd and LinearAttentionGate.
SCALE, GATE = 1, 2
BIAS, FACTOR, RATE = 1, 2, 3
SILU_OP: tuple[str, dict[str, Any]] = ("swish", {"alpha": 1.0})
GATES = {"silu": SILU_OP, "swish": SILU_OP, "sigmoid": ("logistic", {})}


def rms_norm(e: Builder) -> int:
    """Builds GatedRMSNorm: each group of as many values as the scale has is normalized, then
    multiplied with a function of the gate."""
    shape, width = e.shape(), e.shape(e.x(SCALE))[0]
    rows = e.x() if shape[-1] == width else e.reshape(e.x(), (*shape[:-1], -1, width))
    more = {"epsilon": e.number("epsilon", 1e-5)}
    y = e.reshape(e.run("RMSNormalization", rows, e.x(SCALE), attributes=more)[0], shape)
    return e.add("mul", y, _opened(e, e.x(GATE)))


def _opened(e: Builder, gate: int) -> int:
    op, attributes = GATES[_activation(e)]
    return e.add(op, gate, **attributes)


def _activation(e: Builder) -> str:
    return e.text("activation", "silu")


def sum_of_gated(e: Builder) -> int:
    """Builds GatedAdd: X + Y * gate, with one gate per row."""
    return e.add("add", e.x(), e.add("mul", e.x(1), e.x(GATE)))


def scaled_silu(e: Builder) -> int:
    """Builds ScaledSiLU: z * sigmoid(z), where z is X times the scale, or else alpha."""
    if not e.has(SCALE):
        return e.add("swish", e.times(e.x(), e.number("alpha", 1.0)), alpha=1.0)
    return e.add("swish", e.add("mul", e.x(), _like(e, e.x(SCALE))), alpha=1.0)


def distances(e: Builder) -> int:
    """Builds CDist: the Euclidean distances of all rows of both matrices, or their squares."""
    squares: int = e.add("squared_distances", e.x(), e.x(1))
    return e.add("sqrt", squares) if _metric(e) == "euclidean" else squares


def _metric(e: Builder) -> str:
    return e.text("metric", "sqeuclidean")


def attention_gate(e: Builder) -> list[int | None]:
    """Builds LinearAttentionGate: the decay is a factor times softplus(a + bias), and the rate at
    which the state follows is sigmoid(b)."""
    held = e.dtype()
    a = e.x() if held == "f32" else e.add("cast", e.x(), dtype="f32")
    open_ = e.add("softplus", e.add("add", a, e.x(BIAS)))
    decay = e.add("mul", open_, e.x(FACTOR))
    decay = decay if held == "f32" else e.add("cast", decay, dtype=held)
    return [decay, e.add("logistic", e.x(RATE)) if e.has(RATE) else None]


def _like(e: Builder, tensor: int) -> int:
    """Returns a tensor in the type of the first input."""
    return tensor if e.dtype(tensor) == e.dtype() else e.add("cast", tensor, dtype=e.dtype())


# ---- conditions ----------------------------------------------------------------------------------


def _grouped(e: Builder) -> bool:
    """Whether rows are groups of as many values as the scale has."""
    scale = e.shape(e.x(SCALE))
    return e.rank() > 0 and len(scale) == 1 and scale[0] > 0 and e.shape()[-1] % scale[0] == 0


RMS_NORM = (
    needs("attribute.unsupported", "The activation silu, swish or sigmoid.",
          lambda e: _activation(e) in GATES),
    needs("shape.mismatch", "Rows of groups of as many values as the scale has.", _grouped,
          kind=ShapeRefusal),
    exactly("A gate of the shape of the input.", lambda e: e.shape(), GATE),
)  # fmt: skip
ADDED = (
    absent("No weights of the gate (gate_weight).", GATE + 1),
    exactly("Two inputs of one shape.", lambda e: e.shape(), 1),
    exactly("One gate for each row.", lambda e: (*e.shape()[:-1], 1), GATE),
)
SILU = (
    needs("shape.mismatch", "A scalar scale.",
          lambda e: not e.has(SCALE) or e.shape(e.x(SCALE)) == (), kind=ShapeRefusal),
    needs("rank.unsupported", "An input of rank 1 or more.", lambda e: e.rank() > 0),
)  # fmt: skip
DISTANCES = needs(
    "attribute.unsupported",
    "The metric euclidean or sqeuclidean.",
    lambda e: _metric(e) in ("euclidean", "sqeuclidean"),
)
ATTENTION_GATE = (
    needs("rank.unsupported", "An input of rank 3.", lambda e: e.rank() == 3),
    by_last(BIAS, FACTOR),
    exactly("Two inputs of one shape.", lambda e: e.shape(), RATE),
    needs("input.missing", "The input b, if its result is read.",
          lambda e: e.has(RATE) or not e.wants(1)),
)  # fmt: skip
