"""Builders for convolution, transposed and deformable convolution, and pooling.

A convolution's input [N, C, W] is treated as an image of height 1. Output extents and padding are
those of the ONNX operator documentation (Conv-22, ConvTranspose-22, DeformConv-22, AveragePool-22,
MaxPool-22)."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin import ir
from tflgpu_plugin.ir import Array, Condition, Refusal, Shape, asks, needs
from tflgpu_plugin.providers import Builder

# List attributes: (name, numbers per spatial axis, least number).
LISTS = (("kernel_shape", 1, 1), ("strides", 1, 1), ("dilations", 1, 1), ("output_padding", 1, 0),
         ("output_shape", 1, 0), ("pads", 2, 0))  # fmt: skip


class Window(NamedTuple):
    """A window over spatial axes: extents of the input (`spatial`) and of the window (`kernel`),
    strides and dilations, and the (before, after) padding of each axis."""

    spatial: Shape
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...] = ()

    @property
    def reach(self) -> tuple[int, ...]:
        """Returns the extents of the dilated window, from first to last tap inclusive."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return tuple((extent - 1) * step + 1 for extent, step in pairs)

    @property
    def slack(self) -> list[tuple[int, int]]:
        """Returns (padded extent - reach of the window, stride) for each axis."""
        spans = zip(self.spatial, self.pads, self.reach, self.strides, strict=True)
        return [(extent + sum(pads) - reach, stride) for extent, pads, reach, stride in spans]

    @property
    def places(self) -> Shape:
        """Returns the number of window positions along each axis."""
        return tuple(left // stride + 1 for left, stride in self.slack)

    @property
    def attributes(self) -> dict[str, Any]:
        """Returns the attributes of an op; `padding` is (before, after) of each axis, flattened."""
        padding = tuple(amount for pair in self.pads for amount in pair)
        return {"strides": self.strides, "dilations": self.dilations, "padding": padding}

    @property
    def of_image(self) -> Window:
        """Returns the window with an additional height of 1 if there is only one spatial axis."""
        if len(self.spatial) > 1:
            return self
        spatial, kernel, strides, dilations = ((1, *values) for values in self[:4])
        return Window(spatial, kernel, strides, dilations, ((0, 0), *self.pads))


def _kernel(e: Builder) -> tuple[int, ...]:
    stated = e.integers("kernel_shape") or ()
    return e.of("weights")[2:] if "weights" in e.row.taken else stated


def window_of(e: Builder) -> Window:
    """Returns the node's window over its input."""
    return window_over(e, e.of("value")[2:], _kernel(e))


def window_over(e: Builder, spatial: Shape, kernel: tuple[int, ...]) -> Window:
    """Returns a window with the node's strides, dilations and pads."""
    ones = (1,) * len(spatial)
    strides, dilations = e.integers("strides") or ones, e.integers("dilations") or ones
    bare = Window(spatial, kernel, strides, dilations)
    return bare._replace(pads=_pads(e, bare))


def _pads(e: Builder, window: Window) -> tuple[tuple[int, int], ...]:
    auto, count = e.text("auto_pad", "NOTSET"), len(window.spatial)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return tuple(_halves(max(-left, 0), auto == "SAME_UPPER") for left in _left(window))
    if auto == "VALID":
        return ((0, 0),) * count
    given = e.integers("pads") or (0,) * (2 * count)
    return tuple(zip(given[:count], given[count:], strict=True))


def _left(window: Window) -> list[int]:
    """Returns for each axis how many elements remain after the last window, if windows start at
    every stride and none is padded; negative if the last window exceeds the input."""
    spans = zip(window.spatial, window.strides, window.reach, strict=True)
    return [extent - (-(-extent // stride) - 1) * stride - reach for extent, stride, reach in spans]


def _halves(total: int, upper: bool) -> tuple[int, int]:
    """Returns (before, after), the halves of `total`; with `upper` (SAME_UPPER) the larger half is
    the one after."""
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def _image(e: Builder, x: int) -> int:
    """Returns a tensor [A, W, B] as [A, 1, W, B], others unchanged."""
    shape = e.shape(x)
    if len(shape) != 3:
        return x
    image = (shape[0], 1, *shape[1:])
    if e.constant(x) is None:
        return e.reshape(x, image)
    axis = (0, 2, 3)[e.scales_axis(x)]
    return e.derived(x, "image", make=lambda data: data.reshape(image), axis=axis)


def _convolved(e: Builder, op: str, weights: int, *more: int, **attributes: Any) -> int:
    """Adds the op over the input as an NHWC image, and returns its result in the layout of ONNX.
    `weights` have one of their channel axes first and the other last."""
    image = _image(e, e.channels_last(e.x()))
    y = e.add(op, image, _image(e, weights), e.get(2), *more, **attributes)
    batch, *_, width, channels = e.shape(y)
    return e.channels_first(e.reshape(y, (batch, width, channels)) if e.rank() == 3 else y)


def conv(e: Builder) -> int:
    """Builds Conv; with one input channel per group, a depthwise convolution."""
    rank = e.rank()
    deep = e.shape()[1] > 1 == e.of("weights")[1] and rank < 5
    order = (1, *range(2, rank), 0) if deep else (0, *range(2, rank), 1)
    op = "conv_3d" if rank == 5 else "depthwise_conv_2d" if deep else "conv_2d"
    return _convolved(e, op, e.transpose(e.x(1), order), **window_of(e).of_image.attributes)


def conv_transpose(e: Builder) -> int:
    """Builds ConvTranspose: the full result, cropped by the padding."""
    window, groups = window_of(e), e.integer("group", 1)
    extents, pads = transposed(e)
    height = (1,) if len(extents) == 1 else ()
    size = e.index([e.shape()[0], *height, *extents, e.of("weights")[1] * groups])
    op = "transpose_conv_3d" if e.rank() == 5 else "transpose_conv"
    return _convolved(
        e, op, _grouped_weights(e, groups), size,
        **window._replace(pads=pads).of_image.attributes,
    )  # fmt: skip


def _grouped_weights(e: Builder, groups: int) -> int:
    """Returns the weights [I, O / groups, kernel...] as [O, kernel..., I / groups]."""
    if groups == 1:
        return e.transpose(e.x(1), (1, *range(2, e.rank()), 0))
    inputs, outputs, *kernel = e.shape(e.x(1))
    parts = (groups, inputs // groups, outputs, *kernel)
    order = (0, 2, *range(3, len(parts)), 1)
    return _regrouped(e, e.x(1), parts, order, (groups * outputs, *kernel, parts[1]))


def _regrouped(e: Builder, x: int, parts: Shape, order: tuple[int, ...], result: Shape) -> int:
    """Returns `x` reshaped to `parts`, transposed by `order`, and reshaped to `result`."""
    if e.constant(x) is None:
        return e.reshape(e.transpose(e.reshape(x, parts), order), result)

    def regroup(data: Array) -> Array:
        return data.reshape(parts).transpose(order).reshape(result)

    return e.derived(x, parts, order, make=regroup)


def transposed(e: Builder) -> tuple[Sequence[int], tuple[tuple[int, int], ...]]:
    """Returns (extents of a transposed convolution's result, pads). Pads are the (start, end) that
    are cropped from each axis of the full result, which includes output_padding."""
    window, spatial = window_of(e), e.of("value")[2:]
    sizes = zip(spatial, window.strides, window.reach, _added(e), strict=True)
    full = [(extent - 1) * stride + reach + more for extent, stride, reach, more in sizes]
    auto, wanted = e.text("auto_pad", "NOTSET"), e.integers("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        same = zip(spatial, window.strides, full, strict=True)
        wanted = tuple(min(extent * stride, most) for extent, stride, most in same)
    if wanted is None:
        return [f - sum(p) for f, p in zip(full, window.pads, strict=True)], window.pads
    wanted = wanted[-len(spatial) :]
    totals = [f - n for f, n in zip(full, wanted, strict=True)]
    return wanted, tuple(_halves(max(total, 0), auto == "SAME_UPPER") for total in totals)


def _added(e: Builder) -> tuple[int, ...]:
    return e.integers("output_padding") or (0,) * (e.rank() - 2)


def _steps(e: Builder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns strides and dilations."""
    ones = (1,) * (e.rank() - 2)
    return e.integers("strides") or ones, e.integers("dilations") or ones


def deform_conv(e: Builder) -> int:
    """Builds DeformConv: samples the image at the positions of all taps, multiplies by the mask,
    and applies a 1 x 1 convolution to the samples as channels [part, tap, channel]. The number of
    parts is the least common multiple of offset groups and groups."""
    (batch, channels, *image), (filters, _, *kernel) = e.shape(), e.shape(e.x(1))
    shifted, groups, taps = e.integer("offset_group", 1), e.integer("group", 1), prod(kernel)
    height, width = e.shape(e.x(2))[2:]
    grid, result = (batch * shifted, taps * height, width), (batch, height, width)
    x = e.channels_last(e.reshape(e.x(), (grid[0], channels // shifted, *image)))
    seen = e.add("grid_sample", x, e.exact(e.reshape(_shifted(e, taps), (*grid, 2))),
                 method="linear", outside="zeros", places="pixels")  # fmt: skip
    if e.has(4):
        seen = e.add("mul", seen, e.reshape(e.x(4), (*grid, 1)))
    parts = lcm(shifted, groups)
    each = channels // parts
    split = (batch, shifted, taps, height, width, parts // shifted, each)
    columns = _regrouped(e, seen, split, (0, 3, 4, 1, 5, 2, 6), (*result, channels * taps))
    weights = _regrouped(e, e.x(1), (filters, parts // groups, each, *kernel), (0, 1, 3, 4, 2),
                         (filters, 1, 1, channels // groups * taps))  # fmt: skip
    point: dict[str, Any] = dict(strides=(1, 1), dilations=(1, 1), padding=(0, 0, 0, 0))
    return e.channels_first(e.add("conv_2d", columns, weights, e.get(3), **point))


def _shifted(e: Builder, taps: int) -> int:
    """Returns the coordinates (x, y) at which the taps read the image, [batch * offset groups,
    taps, height, width, 2]."""
    made, extents = window_of(e), e.shape(e.x(2))[2:]
    given = e.reshape(e.exact(e.x(2)), (-1, taps, 2, *extents))
    turned = e.add("reverse", e.transpose(given, (0, 1, 3, 4, 2)), e.index([4]))
    tap = np.indices(made.kernel).reshape(2, taps).T * made.dilations - np.array(made.pads)[:, 0]
    first = np.moveaxis(np.indices(extents), 0, -1) * made.strides
    near = e.add("add", e.exact(turned), e.const(tap[:, None, None, ::-1]))
    return e.exact(e.add("add", e.exact(near), e.const(first[..., ::-1])))


def pooling(e: Builder) -> dict[str, Any]:
    """Returns the attributes of a pooling op for the node's window."""
    window = window_of(e)
    return {"window": window.kernel, **window.attributes}


# ---- conditions ----------------------------------------------------------------------------------


def _same(e: Builder) -> bool:
    return e.text("auto_pad", "NOTSET").startswith("SAME")


def _sized(e: Builder) -> Refusal | None:
    """Requires strides and dilations of at least 1 and pads of at least 0 for each spatial axis."""
    count = len(e.of("value")) - 2
    for name, each, least in LISTS:
        given, wanted = _kernel(e) if name == "kernel_shape" else e.integers(name), each * count
        if given and name == "output_shape":  # with batch and channels or without
            given = given[-wanted:]
        ignored = name == "pads" and e.text("auto_pad", "NOTSET") != "NOTSET"
        fits = len(given or ()) == wanted and min(given or (0,)) >= least
        if not fits and not ignored and (given or name == "kernel_shape"):
            sentence = f"{name} must be {wanted} numbers of at least {least}."
            return Refusal("attribute.invalid", sentence)
    return None


def _within(e: Builder) -> Refusal | None:
    """Requires a window that is inside of the padded input."""
    window = window_of(e)  # the host reports an error, not an empty result
    if all(left >= 0 for left, _ in window.slack):
        return None
    extents = ",".join(map(str, window.spatial))
    return _too_large(e, f"Invalid input shape: {{{extents}}}.")


def _met(e: Builder) -> Refusal | None:
    """Requires windows that overlap the padded input."""
    fits = all(left > -2 * stride for left, stride in window_of(e).slack)
    return None if fits else _too_large(e, "Calculated output dimension is negative.")


def _too_large(e: Builder, words: str) -> Refusal:
    """Returns the refusal of a window that is larger than its input; `words` is the host's error
    message, which ours follows."""
    window = window_of(e)
    padded = [n + sum(pads) for n, pads in zip(window.spatial, window.pads, strict=True)]
    return ir.ImpossibleShapeRefusal(
        "shape.window_too_large",
        f"{words} The window of {e.host.title}, {list(window.reach)}, is larger than its padded "
        f"input, {padded}.",
    )


def _grouped(e: Builder) -> Refusal | None:
    """Requires channels and weights that match the number of groups."""
    channels, weights = e.of("value")[1], e.of("weights")
    groups = e.integer("group", 1)
    layer = e.op.weights
    spreads = layer is not None and layer.spreads
    parted, taken = (channels, weights[0]) if spreads else (weights[0], weights[1] * groups)
    if groups > 0 and parted % groups == 0 and taken == channels:
        return None
    sentence = f"{channels} channels and weights of {list(weights)} do not match {groups} groups."
    return Refusal("shape.mismatch", sentence)


@asks(
    "host.ambiguous",
    "Implementations disagree about a window of {0} that is larger than its padded input.",
    ir.ShapeRefusal,
)
def _certain(e: Builder) -> bool:
    """Requires no part of a window that is larger than the padded input."""
    # The host rounds towards zero, and pools the part of the window that is in the input.
    slack = window_of(e).slack
    return bool(e.integer("ceil_mode")) or all(n >= 0 or n % stride == 0 for n, stride in slack)


@asks("rank.unsupported")
def _weighted(e: Builder) -> bool:
    """Requires an input of rank 3 to 5, and weights of that rank."""
    return 3 <= len(e.of("value")) == len(e.of("weights")) <= 5


def _gapless(most: int) -> Condition:
    """Returns the condition that with auto_pad SAME, the last window ends at most `most` elements
    before the input does: otherwise the padding is negative, which hosts treat differently."""
    return needs(
        "host.ambiguous",
        "No auto_pad with strides larger than the window.",
        lambda e: not _same(e) or max(_left(window_of(e))) <= most,
        "Implementations disagree about auto_pad with strides larger than the window.",
    )


@asks("shape.mismatch")
def _places(e: Builder) -> bool:
    """Requires offsets, and a mask if present, of shape [batch, values per offset group and tap,
    height, width], and channels that are divisible by the groups."""
    shifted, groups = e.integer("offset_group", 1), e.integer("group", 1)
    (batch, channels, *_), (filters, *_), taps = e.shape(), e.of("weights"), prod(_kernel(e))
    extents = window_of(e).places
    whole = shifted > 0 and channels % shifted == 0 and filters % groups == 0
    masks = not e.has(4) or e.shape(e.x(4)) == (batch, shifted * taps, *extents)
    return whole and masks and e.shape(e.x(2)) == (batch, 2 * shifted * taps, *extents)


SPATIAL = needs("rank.unsupported", "An input of rank 3 or more.", lambda e: e.rank() >= 3)
CONV = (_weighted, _sized, _within, _gapless(1), _grouped)  # half of -1 is 0 in hosts
CONV_TRANSPOSE = (
    _weighted,
    _grouped,
    _sized,
    needs(
        "shape.window_too_large",
        "Padding that does not remove the entire result.",
        lambda e: min(transposed(e)[0]) > 0,
    ),
    needs(
        "attribute.invalid",
        "Output padding below the larger of stride and dilation.",
        lambda e: all(more < max(pair) for more, *pair in zip(_added(e), *_steps(e), strict=True)),
    ),
)
DEFORM_CONV = (
    needs("rank.unsupported", "An image of rank 4, and weights of that rank.",
          lambda e: len(e.of("value")) == len(e.of("weights")) == 4),
    _sized, _within, _grouped, _places,
)  # fmt: skip
# Where such a window ends after the padding, onnxruntime's QLinearAveragePool divides by its whole
# size, AveragePool by the part before the end.
COVERED = needs(
    "host.ambiguous",
    "No padding that is counted (count_include_pad) with a window that ends after it (ceil_mode).",
    lambda e: (
        not (e.integer("count_include_pad") and e.integer("ceil_mode"))
        or all(n % stride == 0 for n, stride in window_of(e).slack)
    ),
    "Implementations disagree about the size of a window of {0} that ends after the padding.",
)
POOL = (
    SPATIAL,
    needs(
        "host.ambiguous",
        "No auto_pad with a dilated window.",
        lambda e: not _same(e) or max(e.integers("dilations") or (1,)) == 1,
        "Implementations disagree about auto_pad of a dilated window; give pads.",
    ),
    _sized,
    needs(
        "shape.empty",
        "An input of which only the batch may be empty.",
        lambda e: 0 not in e.shape()[1:],
    ),
    _met,
    _certain,
    _gapless(0),
)
