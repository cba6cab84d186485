"""Rows for convolution, transposed convolution and pooling of one or two spatial dimensions.

An input [N, C, W] is seen as an image of height 1. Output extents and padding are those of the ONNX
operator documentation (Conv-22, ConvTranspose-22, AveragePool-22, MaxPool-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .expansion import Expansion, Unreadable


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
            raise Unreadable(f"{what} must be {len(spatial)} numbers of at least 1.")
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
        raise Unreadable(f"pads must be {2 * count} numbers of at least 0.")
    return tuple(zip(given[:count], given[count:], strict=True))


def _halves(total: int, upper: bool) -> tuple[int, int]:
    """The odd one goes to the end with SAME_UPPER."""
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def _image(e: Expansion, x: int) -> int:
    """[N, C, H, W] or [N, C, W] as [N, H, W, C]."""
    shape = e.shape(x)
    if len(shape) not in (3, 4):
        raise Unreadable(
            f"{e.host.title} is supported for 1 and 2 spatial dimensions, "
            f"and the input has rank {len(shape)}."
        )
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
        raise Unreadable(f"Weights of shape {list(shape)} do not fit an input of rank {rank}.")
    if rank == 3:
        image = (*shape[:2], 1, shape[2])
        if e.constant(weights) is None:
            weights = e.reshape(weights, image)
        else:
            weights = e.derived(weights, "image", make=lambda data: data.reshape(image))
    return e.transpose(weights, order)


def conv(e: Expansion) -> int:
    """Convolution; one channel per group runs as a depthwise convolution."""
    x = e.x()
    shape = e.shape(x)
    image = _image(e, x)
    filters = e.shape(e.x(1))
    window = _window(e, shape[2:], filters[2:])
    groups = e.integer("group", 1)
    if groups < 1 or shape[1] != groups * filters[1] or filters[0] % groups:
        raise Unreadable(
            f"{shape[1]} channels and filters of {list(filters)} do not make {groups} groups."
        )
    bias = e.x(2) if e.has(2) else None
    settings: dict[str, Any] = {
        "strides": _pair(window.strides),
        "dilations": _pair(window.dilations),
        "padding": _sides(window.pads),
        "activation": "none",
    }
    if groups == shape[1] > 1:
        weights = _weights(e, (1, 2, 3, 0), len(shape))
        settings["multiplier"] = filters[0] // groups
        y = e.add("depthwise_conv_2d", image, weights, bias, **settings)
    else:
        y = e.add("conv_2d", image, _weights(e, (0, 2, 3, 1), len(shape)), bias, **settings)
    return _unimage(e, y, len(shape))


def conv_transpose(e: Expansion) -> int:
    """Transposed convolution: the full result, cut by the padding."""
    x = e.x()
    shape, filters = e.shape(x), e.shape(e.x(1))
    image = _image(e, x)
    if e.integer("group", 1) != 1:
        raise Unreadable("A transposed convolution with groups is not supported.")
    window = _window(e, shape[2:], filters[2:])
    if max(window.dilations) > 1:
        raise Unreadable("A dilated transposed convolution is not supported.")
    full = _full(e, shape[2:], window)
    wanted, pads = _cut(e, shape[2:], window, full)
    full = [max(f, n) for f, n in zip(full, wanted, strict=True)]  # what is over holds the bias
    extents = [f - sum(p) for f, p in zip(full, pads, strict=True)]
    if min(extents) < 1 or any(sum(p) and min(p) < 0 for p in pads):
        raise Unreadable("The padding of this transposed convolution leaves nothing of its result.")
    weights, bias = _weights(e, (1, 2, 3, 0), len(shape)), e.x(2) if e.has(2) else None
    sizes = zip(shape[2:], extents, window.strides, window.kernel, pads, strict=True)
    same = all(_same_before(*axis) for axis in sizes)
    rows, columns = _pair(extents if same else full)
    size = e.index([shape[0], rows, columns, filters[1]])
    y = e.add(
        "transpose_conv", image, weights, bias, size, strides=_pair(window.strides),
        padding="same" if same else "valid", activation="none",
    )  # fmt: skip
    if not same and any(map(sum, pads)):
        top, _, left, _ = _sides(pads)
        height, width = _pair(extents)
        ends = (shape[0], top + height, left + width, filters[1])
        y = e.add("strided_slice", y, *map(e.index, ((0, top, left, 0), ends, (1,) * 4)))
    return _unimage(e, y, len(shape))


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
        wanted = tuple(n * s for n, s in zip(spatial, window.strides, strict=True))
    if wanted is None:
        return [f - sum(p) for f, p in zip(full, window.pads, strict=True)], window.pads
    wanted = wanted[-len(spatial) :]
    totals = [f - n for f, n in zip(full, wanted, strict=True)]
    return wanted, tuple(_halves(max(total, 0), auto == "SAME_UPPER") for total in totals)


def _same_before(extent: int, out: int, stride: int, kernel: int, pads: tuple[int, int]) -> bool:
    """What the op cuts with padding "same" is what this axis has to lose."""
    before = max((-(-out // stride) - 1) * stride + kernel - out, 0) // 2
    return -(-out // stride) == extent and before == pads[0]


def _pooled(e: Expansion, spatial: Sequence[int]) -> tuple[Window, bool]:
    """The window of a pooling node, with what ceil_mode adds at the ends; and whether it added."""
    kernel = e.integers("kernel_shape")
    if kernel is None:
        raise Unreadable("kernel_shape is missing.")
    window = _window(e, spatial, kernel)
    if max(window.dilations) > 1:
        raise Unreadable("A dilated pooling window is not supported.")
    if not e.integer("ceil_mode"):
        return window, False
    pads = []
    for extent, size, stride, (before, after) in zip(
        spatial, window.kernel, window.strides, window.pads, strict=True
    ):
        places = -(-(extent + before + after - size) // stride) + 1
        if (places - 1) * stride >= extent + before:  # the last window must begin inside
            places -= 1
        missing = (places - 1) * stride + size - (extent + before + after)
        pads.append((before, after + max(missing, 0)))
    return window._replace(pads=tuple(pads)), tuple(pads) != window.pads


def average_pool(e: Expansion) -> int:
    """Average pooling; counted padding is real zeros."""
    x = e.x()
    shape = e.shape(x)
    window, rounded = _pooled(e, shape[2:])
    image, padding = _image(e, x), _sides(window.pads)
    if e.integer("count_include_pad") and any(padding):
        if rounded:
            raise Unreadable("count_include_pad together with ceil_mode is not supported.")
        top, bottom, left, right = padding
        amounts = e.const([[0, 0], [top, bottom], [left, right], [0, 0]], "int32")
        image, padding = e.add("pad", image, amounts, None), (0, 0, 0, 0)
    y = e.add(
        "average_pool_2d", image, window=_pair(window.kernel), strides=_pair(window.strides),
        padding=padding, activation="none",
    )  # fmt: skip
    return _unimage(e, y, len(shape))


def max_pool(e: Expansion) -> int:
    """Max pooling, without the positions."""
    x = e.x()
    shape = e.shape(x)
    if e.wants(1):
        raise Unreadable("The positions of a MaxPool are not supported.")
    window, _ = _pooled(e, shape[2:])
    y = e.add(
        "max_pool_2d", _image(e, x), window=_pair(window.kernel), strides=_pair(window.strides),
        padding=_sides(window.pads), activation="none",
    )  # fmt: skip
    return _unimage(e, y, len(shape))
