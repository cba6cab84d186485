"""Rows of the operators that onnxruntime's optimizer writes into diffusion models for GPUs: images
have their channels last. onnxruntime has no CPU kernels for them.
"""

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
    """Images whose channels divide into the groups."""
    groups = e.integer("groups")
    channels = 3 if e.integer("channels_last", 1) else 1
    return e.rank() == 4 and groups > 0 and e.shape()[channels] % groups == 0


SILU = needs(
    "activation.unsupported", "No activation but SiLU.", lambda e: e.integer("activation") in (0, 1)
)


@asks("shape.unsupported")
def skipped(e: Builder) -> bool:
    """Channels at the end (channels_last), and a summand for each element or each channel."""
    (count, *_, channels), skip = e.shape(), e.shape(e.x(3))
    shapes = (e.shape(), (count, 1, 1, channels), (count, channels))
    return bool(e.integer("channels_last", 1)) and skip in shapes


@asks("shape.unsupported")
def halved(e: Builder) -> bool:
    """An even number of channels."""
    return e.rank() > 0 and e.shape()[-1] % 2 == 0


def group_norm(e: Builder) -> int:
    """Builds GroupNorm: groups of channels are normalized, multiplied by gamma, added to beta, and
    activated.
    """
    last = e.integer("channels_last", 1)
    y = _normalized(e, e.x() if last else e.channels_last(e.x()))
    return y if last else e.channels_first(y)


def skip_group_norm(e: Builder) -> list[int]:
    """Builds SkipGroupNorm: GroupNorm of a sum, which is a result, too."""
    (count, *_, channels), skip = e.shape(), e.x(3)
    if e.rank(skip) == 2:
        skip = e.reshape(skip, (count, 1, 1, channels))
    total = e.plus(e.add("add", e.x(), skip), e.get(4))
    return [_normalized(e, total), total]


def _normalized(e: Builder, x: int) -> int:
    """Returns the group normalization of an image with its channels last."""
    groups, epsilon = e.integer("groups"), e.number("epsilon", 1e-5)
    y = e.channels_last(normalized_groups(e, e.channels_first(x), groups, epsilon))
    y = e.add("add", e.add("mul", y, e.x(1)), e.x(2))
    return e.add("swish", y, alpha=1.0) if e.integer("activation") else y


def _turned(e: Builder) -> Builder:
    """Returns a builder of the equivalent Conv of an NhwcConv: image and weights have channels
    first.
    """
    if e.rank() != 4 or e.rank(e.x(1)) != 4:
        return e
    weights = e.transpose(e.x(1), (0, 3, 1, 2))
    return replace(e, inputs=(e.channels_first(e.x()), weights, *e.inputs[2:]))


def _of_turned(condition: Condition) -> Condition:
    """Returns a condition of Conv as one of NhwcConv."""

    @wraps(condition)
    def asked(e: Builder) -> Refusal | None:
        return condition(_turned(replace(e, nodes=[])))

    return asked


IMAGE = needs("rank.unsupported", "Images.", lambda e: e.rank() == 4 and e.rank(e.x(1)) == 4)
CONV: Sequence[Condition] = (IMAGE, *map(_of_turned, windows.CONV))


def conv(e: Builder) -> int:
    """Builds NhwcConv: image [N, H, W, C], weights [O, H, W, I]. The host infers its shape as for
    Conv.
    """
    e.misinferred = True
    return e.channels_last(windows.conv(_turned(e)))


def bias_add(e: Builder) -> int:
    """Builds BiasAdd: the sum of the input, a bias and another input."""
    return e.add("add", e.add("add", e.x(), e.x(1)), e.x(2))


def bias_split_gelu(e: Builder) -> int:
    """Builds BiasSplitGelu: of the sum with a bias, the left half times the GELU of the right
    half.
    """
    total = e.add("add", e.x(), e.x(1))
    half = e.shape(total)[-1] // 2
    left, right = parts(e, total, (half, half))
    return e.add("mul", left, e.add("gelu", right))
