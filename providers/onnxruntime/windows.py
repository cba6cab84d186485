"""Rows for convolution, transposed convolution and pooling.

A convolution's input [N, C, W] is seen as an image of height 1. Output extents and padding are
those of the ONNX operator documentation (Conv-22, ConvTranspose-22, AveragePool-22, MaxPool-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.graph import Array

from .expansion import Expansion, Impossible, Unfit


class Window(NamedTuple):
    """A window over the spatial axes: extents, strides, dilations, and (before, after) of each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Places from the first to the last tap of each axis, both included."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return tuple((extent - 1) * step + 1 for extent, step in pairs)


def _window(e: Expansion, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """The node's window over an input of these spatial extents."""
    ones = (1,) * len(spatial)
    strides, dilations = e.integers("strides") or ones, e.integers("dilations") or ones
    for what, numbers in {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": dilations,
    }.items():
        if len(numbers) != len(spatial) or min(numbers) < 1:
            raise Unsupported(f"{what} must be {len(spatial)} numbers of at least 1.")
    window = Window(tuple(kernel), strides, dilations, ())
    return window._replace(pads=_pads(e, spatial, window))


def _pads(e: Expansion, spatial: Sequence[int], window: Window) -> tuple[tuple[int, int], ...]:
    auto, count = e.text("auto_pad", "NOTSET"), len(spatial)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-extent // stride) - 1) * stride + reach - extent, 0)
            for extent, stride, reach in zip(spatial, window.strides, window.reach, strict=True)
        ]
        return tuple(_halves(total, auto == "SAME_UPPER") for total in totals)
    if auto == "VALID":
        return ((0, 0),) * count
    given = e.integers("pads") or (0,) * (2 * count)
    if len(given) != 2 * count or min(given) < 0:
        raise Unsupported(f"pads must be {2 * count} numbers of at least 0.")
    return tuple(zip(given[:count], given[count:], strict=True))


def _refuse_gaps(e: Expansion, window: Window, most: int) -> None:
    """Refuse an auto_pad whose last window would end more than `most` places before the input does:
    hosts take the negative padding for a shift, or fail."""
    if not e.text("auto_pad", "NOTSET").startswith("SAME"):
        return
    spans = zip(e.shape(e.x())[2:], window.strides, window.reach, strict=True)
    if any(n - (-(-n // stride) - 1) * stride - reach > most for n, stride, reach in spans):
        raise Unsupported("auto_pad of strides wider than the window is read in several ways.")


def _slack(spatial: Sequence[int], window: Window) -> list[int]:
    """Places of each axis, padding included, less what one window takes."""
    spans = zip(spatial, window.pads, window.reach, strict=True)
    return [extent + sum(pads) - reach for extent, pads, reach in spans]


def _unfit(e: Expansion, spatial: Sequence[int], window: Window) -> str:
    """The sentence, after the host's own words, for a window that is larger than its input."""
    padded = [extent + sum(pads) for extent, pads in zip(spatial, window.pads, strict=True)]
    return (
        f"The window of {e.host.title}, {list(window.reach)}, does not fit into its padded input, "
        f"{padded}."
    )


def _halves(total: int, upper: bool) -> tuple[int, int]:
    """The odd one goes to the end with SAME_UPPER."""
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def _image(e: Expansion, x: int) -> int:
    """[N, C, H, W] or [N, C, W] as [N, H, W, C]."""
    shape = e.shape(x)
    if len(shape) not in (3, 4):
        raise Unsupported(f"{e.host.title} is not supported for an input of rank {len(shape)}.")
    last = e.channels_last(x)
    return last if len(shape) == 4 else e.reshape(last, (shape[0], 1, shape[2], shape[1]))


def _unimage(e: Expansion, y: int, rank: int) -> int:
    """Back from [N, H, W, C] to the layout of a node whose input has this rank."""
    batch, _, width, channels = e.shape(y)
    return e.channels_first(y if rank == 4 else e.reshape(y, (batch, width, channels)))


def _pair(values: Sequence[int]) -> tuple[int, int]:
    """Height and width; the height is 1 where there is one spatial dimension."""
    first, last = values if len(values) == 2 else (1, *values)
    return int(first), int(last)


def _sides(pads: Sequence[tuple[int, int]]) -> tuple[int, int, int, int]:
    """(top, bottom, left, right)."""
    rows, columns = pads if len(pads) == 2 else ((0, 0), *pads)
    return (*rows, *columns)


def _weights(e: Expansion, order: tuple[int, ...], rank: int) -> int:
    """Input 1 with its axes [_, _, KH, KW] in another order; one spatial axis becomes two."""
    weights = e.x(1)
    shape = e.shape(weights)
    if len(shape) != rank:
        raise Unsupported(f"Weights of shape {list(shape)} do not fit an input of rank {rank}.")
    if rank == 3:
        image = (*shape[:2], 1, shape[2])
        if e.constant(weights) is None:
            weights = e.reshape(weights, image)
        else:
            axis = (0, 1, 3)[e.scales_axis(weights)]
            weights = e.derived(weights, "image", make=lambda data: data.reshape(image), axis=axis)
    return e.transpose(weights, order)


def _bias(e: Expansion) -> int | None:
    return e.x(2) if e.has(2) else None


def conv(e: Expansion) -> int:
    """Convolution; one channel per group runs as a depthwise convolution."""
    x = e.x()
    shape, filters = e.shape(x), e.shape(e.x(1))
    if len(filters) != len(shape) or len(shape) < 3:
        raise Unsupported(f"Weights of shape {list(filters)} do not fit {list(shape)}.")
    window = _window(e, shape[2:], filters[2:])
    if min(_slack(shape[2:], window)) < 0:  # for the host an error, not an empty result
        wanted = ",".join(map(str, shape[2:]))
        raise Impossible(f"Invalid input shape: {{{wanted}}}. {_unfit(e, shape[2:], window)}")
    _refuse_gaps(e, window, 1)  # half of one place is none
    groups = e.integer("group", 1)
    if groups < 1 or shape[1] != groups * filters[1] or filters[0] % groups:
        raise Unsupported(
            f"{shape[1]} channels and filters of {list(filters)} do not make {groups} groups."
        )
    if len(shape) == 5:
        return _conv_3d(e, window)
    settings: dict[str, Any] = {
        "strides": _pair(window.strides),
        "dilations": _pair(window.dilations),
        "padding": _sides(window.pads),
        "activation": "none",
    }
    image = _image(e, x)
    if groups == shape[1] > 1:
        weights = _weights(e, (1, 2, 3, 0), len(shape))
        settings["multiplier"] = filters[0] // groups
        y = e.add("depthwise_conv_2d", image, weights, _bias(e), **settings)
    else:
        y = e.add("conv_2d", image, _weights(e, (0, 2, 3, 1), len(shape)), _bias(e), **settings)
    return _unimage(e, y, len(shape))


def _conv_3d(e: Expansion, window: Window) -> int:
    y = e.add(
        "conv_3d", e.channels_last(e.x()), e.transpose(e.x(1), (0, 2, 3, 4, 1)), _bias(e),
        strides=window.strides, dilations=window.dilations, padding=_flat(window.pads),
        activation="none",
    )  # fmt: skip
    return e.channels_first(y)


def _flat(pads: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """(before, after) of each axis, one after another."""
    return tuple(amount for pair in pads for amount in pair)


def conv_transpose(e: Expansion) -> int:
    """Transposed convolution: the full result, cut by the padding."""
    x = e.x()
    shape, filters = e.shape(x), e.shape(e.x(1))
    image = _image(e, x)
    groups = e.integer("group", 1)
    if len(filters) != len(shape) or groups < 1 or shape[1] % groups or filters[0] != shape[1]:
        raise Unsupported(
            f"{shape[1]} channels and weights of {list(filters)} do not make {groups} groups."
        )
    window = _window(e, shape[2:], filters[2:])
    extents, pads = _cut(e, shape[2:], window, _full(e, shape[2:], window))
    if min(extents) < 1:
        raise Unsupported(
            "The padding of this transposed convolution leaves nothing of its result."
        )
    size = e.index([shape[0], *_pair(extents), filters[1] * groups])
    y = e.add(
        "transpose_conv", image, _grouped_weights(e, groups, len(shape)), _bias(e), size,
        strides=_pair(window.strides), dilations=_pair(window.dilations), padding=_sides(pads),
        activation="none",
    )  # fmt: skip
    return _unimage(e, y, len(shape))


def _grouped_weights(e: Expansion, groups: int, rank: int) -> int:
    """[I, O / groups, KH, KW] as [O, KH, KW, I / groups]."""
    if groups == 1:
        return _weights(e, (1, 2, 3, 0), rank)
    inputs, outputs, *kernel = e.shape(e.x(1))
    parts = (groups, inputs // groups, outputs, *(kernel if rank == 4 else (1, *kernel)))
    order = (0, 2, 3, 4, 1)
    result = (groups * outputs, *parts[3:], parts[1])
    if e.constant(e.x(1)) is None:
        return e.reshape(e.transpose(e.reshape(e.x(1), parts), order), result)

    def regroup(data: Array) -> Array:
        return data.reshape(parts).transpose(order).reshape(result)

    return e.derived(e.x(1), "groups", groups, make=regroup)


def _full(e: Expansion, spatial: Sequence[int], window: Window) -> list[int]:
    """Extents before anything is cut, output_padding included."""
    added = e.integers("output_padding") or (0,) * len(spatial)
    sizes = zip(spatial, window.strides, window.reach, added, strict=True)
    return [(extent - 1) * stride + reach + more for extent, stride, reach, more in sizes]


def _cut(
    e: Expansion, spatial: Sequence[int], window: Window, full: Sequence[int]
) -> tuple[Sequence[int], tuple[tuple[int, int], ...]]:
    """The extents of the result, and what is cut from the full one at the (start, end) of each
    axis."""
    auto, wanted = e.text("auto_pad", "NOTSET"), e.integers("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        same = zip(spatial, window.strides, full, strict=True)
        wanted = tuple(min(extent * stride, most) for extent, stride, most in same)
    if wanted is None:
        return [f - sum(p) for f, p in zip(full, window.pads, strict=True)], window.pads
    wanted = wanted[-len(spatial) :]
    totals = [f - n for f, n in zip(full, wanted, strict=True)]
    return wanted, tuple(_halves(max(total, 0), auto == "SAME_UPPER") for total in totals)


def _pool(e: Expansion, op: str, **attributes: Any) -> int:
    """Any number of spatial axes."""
    x, kernel = e.x(), e.integers("kernel_shape")
    if kernel is None:
        raise Unsupported("kernel_shape is missing.")
    spatial = e.shape(x)[2:]
    window, ceil = _window(e, spatial, kernel), bool(e.integer("ceil_mode"))
    if 0 in e.shape(x)[1:]:
        raise Unsupported(f"Only the batch of the input of {e.host.title} may be empty.")
    slack = list(zip(_slack(spatial, window), window.strides, strict=True))
    if any(left <= -2 * stride for left, stride in slack):
        wrong = "Calculated output dimension is negative."
        raise Impossible(f"{wrong} {_unfit(e, spatial, window)}")
    if not ceil and any(left < 0 and left % stride for left, stride in slack):
        raise Unfit(  # the host rounds towards zero, and takes the part that is there
            f"A window of {e.host.title} that is larger than its padded input is read in several "
            "ways."
        )
    if e.text("auto_pad", "NOTSET").startswith("SAME"):
        _refuse_gaps(e, window, 0)
    y = e.add(
        op, e.channels_last(x), window=window.kernel, strides=window.strides,
        dilations=window.dilations, padding=_flat(window.pads),
        ceil_mode=ceil, activation="none", **attributes,
    )  # fmt: skip
    return e.channels_first(y)


def average_pool(e: Expansion) -> int:
    """Average pooling."""
    return _pool(e, "average_pool_2d", counted=bool(e.integer("count_include_pad")))


def max_pool(e: Expansion) -> int:
    """Max pooling, without the positions."""
    return _pool(e, "max_pool_2d")


def lp_pool(e: Expansion) -> int:
    """The p-norm of each window."""
    return _pool(e, "lp_pool", p=e.integer("p", 2))


def lrn(e: Expansion) -> int:
    """Local response normalization across channels."""
    y = e.add(
        "lrn", e.channels_last(e.x()), size=e.integer("size", 1), alpha=e.number("alpha", 1e-4),
        beta=e.number("beta", 0.75), bias=e.number("bias", 1.0),
    )  # fmt: skip
    return e.channels_first(y)
