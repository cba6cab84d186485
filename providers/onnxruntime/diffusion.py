"""Table rows and builders for the operators that onnxruntime's optimizer writes into diffusion
models for GPUs. Images are NHWC. onnxruntime has no CPU kernels for these operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import wraps

from tflgpu_plugin.ir import Condition, Refusal, asks, needs
from tflgpu_plugin.providers import Builder

from . import windows
from .matmul_norm import normalized_groups
from .rearranging import parts


@asks("shape.mismatch")
def grouped(e: Builder) -> bool:
    """Requires images of rank 4 with a number of channels that is divisible by groups."""
    groups = e.integer("groups")
    channels = 3 if e.integer("channels_last", 1) else 1
    return e.rank() == 4 and groups > 0 and e.shape()[channels] % groups == 0


SILU = needs(
    "activation.unsupported",
    "The activation SiLU, or none.",
    lambda e: e.integer("activation") in (0, 1),
)


@asks("shape.unsupported")
def skipped(e: Builder) -> bool:
    """Requires channels on the last axis (channels_last), and a skip input with one value per
    element or per image and channel."""
    (count, *_, channels), skip = e.shape(), e.shape(e.x(3))
    shapes = (e.shape(), (count, 1, 1, channels), (count, channels))
    return bool(e.integer("channels_last", 1)) and skip in shapes


@asks("shape.unsupported")
def halved(e: Builder) -> bool:
    """Requires a last axis of even extent."""
    return e.rank() > 0 and e.shape()[-1] % 2 == 0


def group_norm(e: Builder) -> int:
    """Builds GroupNorm: normalizes groups of channels, applies gamma, beta and activation."""
    last = e.integer("channels_last", 1)
    y = _normalized(e, e.x() if last else e.channels_last(e.x()))
    return y if last else e.channels_first(y)


def skip_group_norm(e: Builder) -> list[int]:
    """Builds SkipGroupNorm: the GroupNorm of x + skip + bias, and that sum."""
    (count, *_, channels), skip = e.shape(), e.x(3)
    if e.rank(skip) == 2:
        skip = e.reshape(skip, (count, 1, 1, channels))
    total = e.plus(e.add("add", e.x(), skip), e.get(4))
    return [_normalized(e, total), total]


def _normalized(e: Builder, x: int) -> int:
    """Returns the group normalization of `x` [N, H, W, C], with gamma, beta and activation."""
    groups, epsilon = e.integer("groups"), e.number("epsilon", 1e-5)
    y = e.channels_last(normalized_groups(e, e.channels_first(x), groups, epsilon))
    y = e.add("add", e.add("mul", y, e.x(1)), e.x(2))
    return e.add("swish", y, alpha=1.0) if e.integer("activation") else y


def _turned(e: Builder) -> Builder:
    """Returns a builder of the equivalent Conv, with image and weights transposed to NCHW."""
    if e.rank() != 4 or e.rank(e.x(1)) != 4:
        return e
    weights = e.transpose(e.x(1), (0, 3, 1, 2))
    return replace(e, inputs=(e.channels_first(e.x()), weights, *e.inputs[2:]))


def _of_turned(condition: Condition) -> Condition:
    """Returns the condition of NhwcConv that checks `condition` of the equivalent Conv."""

    @wraps(condition)
    def asked(e: Builder) -> Refusal | None:
        return condition(_turned(replace(e, nodes=[])))

    return asked


IMAGE = needs("rank.unsupported", "An image and weights of rank 4.",
              lambda e: e.rank() == 4 and e.rank(e.x(1)) == 4)  # fmt: skip
CONV: Sequence[Condition] = (IMAGE, *map(_of_turned, windows.CONV))


def conv(e: Builder) -> int:
    """Builds NhwcConv: image [N, H, W, C], weights [O, H, W, I]. The host infers the result's shape
    as for Conv (NCHW), which `misinferred` declares wrong."""
    e.misinferred = True
    return e.channels_last(windows.conv(_turned(e)))


def bias_add(e: Builder) -> int:
    """Builds BiasAdd: the sum of input, bias and skip."""
    return e.add("add", e.add("add", e.x(), e.x(1)), e.x(2))


def bias_split_gelu(e: Builder) -> int:
    """Builds BiasSplitGelu: adds the bias, splits the last axis in halves, and returns the left
    half times the GELU of the right half."""
    total = e.add("add", e.x(), e.x(1))
    half = e.shape(total)[-1] // 2
    left, right = parts(e, total, (half, half))
    return e.add("mul", left, e.add("gelu", right))
