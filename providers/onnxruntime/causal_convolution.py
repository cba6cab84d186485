"""Builder for the causal convolution of com.microsoft, which keeps the end of its input for the
next call: short convolutions of LFM2, Mamba and Gated DeltaNet."""

from __future__ import annotations

from collections.abc import Sequence

from tflgpu_plugin.ir import Condition, Shape, ShapeRefusal, needs
from tflgpu_plugin.providers import Builder

from .rearranging import part

# Input positions of CausalConvWithState.
WEIGHTS, BIAS, PAST = 1, 2, 3
SWISH = ("silu", "swish")
TIME = 2  # the axis of positions, with channels first


def causal(e: Builder) -> list[int]:
    """Builds CausalConvWithState: the depthwise convolution over past and input (zeros without a
    past), and the last positions of both, which are the next call's past."""
    past = e.x(PAST) if e.has(PAST) else e.filled(_kept(e))
    x, past = (_first(e, tensor) for tensor in (e.x(), past))
    whole = e.add("concat", past, x, axis=TIME)
    more = {"group": _sizes(e)[1], "dilations": (e.integer("dilation", 1),)}
    y = e.run("Conv", whole, e.x(WEIGHTS), e.get(BIAS), attributes=more)
    if e.text("activation", "none") in SWISH:
        y = e.add("swish", y, alpha=1.0)
    length = e.shape(x)[TIME]
    state = part(e, whole, length, length + _reach(e), TIME)
    return [_first(e, y), _first(e, state)]


def _first(e: Builder, x: int) -> int:
    """Returns `x` with its last two axes swapped if the node has its channels last: from its layout
    to channels first, and back."""
    return e.transpose(x, (0, 2, 1)) if e.integer("channels_last", 0) else x


def _sizes(e: Builder) -> Shape:
    """Returns (batch, channels, positions) of the input."""
    batch, *both = e.shape()
    channels, length = both[::-1] if e.integer("channels_last", 0) else both
    return batch, channels, length


def _reach(e: Builder) -> int:
    """Returns how many positions before its own a result reads."""
    return (e.shape(e.x(WEIGHTS))[-1] - 1) * e.integer("dilation", 1)


def _kept(e: Builder) -> Shape:
    """Returns the shape of the past in the node's layout."""
    batch, channels, _ = _sizes(e)
    kept = (_reach(e), channels) if e.integer("channels_last", 0) else (channels, _reach(e))
    return batch, *kept


# ---- conditions ----------------------------------------------------------------------------------


def _fits(e: Builder) -> bool:
    """Whether the operands have the shapes of one axis of positions."""
    weights = e.shape(e.x(WEIGHTS))
    if e.rank() != 3 or len(weights) != 3:
        return False
    channels = _sizes(e)[1]
    bias = e.shape(e.x(BIAS)) if e.has(BIAS) else (channels,)
    past = e.shape(e.x(PAST)) if e.has(PAST) else _kept(e)
    return weights[:2] == (channels, 1) and bias == (channels,) and past == _kept(e)


CONDITIONS: Sequence[Condition] = (
    needs("attribute.unsupported", "One axis of positions (ndim 1), and no state_window.",
          lambda e: e.integer("ndim", 1) == 1 and not e.integer("state_window", 0)),
    needs("attribute.unsupported", "A state in the layout of the input (state_channels_last -1).",
          lambda e: e.integer("state_channels_last", -1) == -1),
    needs("attribute.unsupported", "A dilation of at least 1.",
          lambda e: e.integer("dilation", 1) >= 1),
    needs("attribute.unsupported", "The activation silu, swish or none.",
          lambda e: e.text("activation", "none") in (*SWISH, "none")),
    needs("shape.mismatch", "Tensors of rank 3, one filter and one bias for each channel, and a "
          "past of (filter length - 1) * dilation positions.", _fits, kind=ShapeRefusal),
)  # fmt: skip
