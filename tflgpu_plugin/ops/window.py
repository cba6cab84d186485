"""Window arithmetic of convolution and pooling: padding, dilation and output extents as in TFLite.

SAME gives ceil(extent / stride) places and puts the smaller half of the padding in front; VALID
takes only windows that lie inside (`ComputeOutSize` and `ComputePaddingWithOffset` of
tensorflow/lite/kernels/padding.h).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tflgpu_plugin.ir.graph import Geometry, Shape
from tflgpu_plugin.ir.target import Target

BUSY_THREADS = 1 << 15  # that fill a large GPU

Padding = str | tuple[int, int, int, int]


@dataclass(frozen=True)
class Span:
    """A window along one axis: `kernel` taps, `dilation` apart, over `extent` input places.

    It moves by `stride`, has `before` places of padding in front and stands at `places` positions.
    Tap t of place o reads input o * stride - before + t * dilation.
    """

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    places: int

    @property
    def reach(self) -> int:
        """Input places from the first to the last tap, both included."""
        return (self.kernel - 1) * self.dilation + 1


def span(
    extent: int,
    kernel: int,
    stride: int,
    dilation: int = 1,
    padding: str | tuple[int, int] = "valid",
) -> Span:
    """One axis; `padding` is "same", "valid" or (before, after). `places` is below 0 where the
    window is longer by more than a stride.
    """
    reach = (kernel - 1) * dilation + 1
    if padding == "same":
        places = -(-extent // stride)
        before = max((places - 1) * stride + reach - extent, 0) // 2
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        places = (extent + before + after - reach) // stride + 1
    return Span(extent, kernel, stride, dilation, before, places)


def bounded(s: Span) -> Span:
    """The same taps in the same places, `dilation` and `before` being bounded by extents: beyond
    what a tap goes over on its way, only one at most meets the input, and which is all that counts.
    """
    room = (s.places - 1) * s.stride + s.extent
    if s.places < 1 or s.dilation <= room:
        return s
    tap = max(-((room - s.extent - s.before) // s.dilation), 0)  # the first to reach the input
    start = tap * s.dilation - s.before
    before = tap * room - start if tap < s.kernel and start < s.extent else s.kernel * room
    return replace(s, dilation=room, before=before)


def spans(
    shape: Shape, kernel: tuple[int, int], attributes: Mapping[str, Any]
) -> tuple[Span, Span]:
    """Height and width of an NHWC `shape` under a `kernel` (h, w).

    Reads the attributes strides (h, w), dilations (h, w; absent means 1) and padding ("same",
    "valid" or (top, bottom, left, right)).
    """
    strides = attributes["strides"]
    dilations = attributes.get("dilations", (1, 1))
    padding: Padding = attributes["padding"]
    rows = padding if isinstance(padding, str) else (padding[0], padding[1])
    columns = padding if isinstance(padding, str) else (padding[2], padding[3])
    return (
        bounded(span(shape[1], kernel[0], strides[0], dilations[0], rows)),
        bounded(span(shape[2], kernel[1], strides[1], dilations[1], columns)),
    )


def refuse_window(
    shape: Shape, kernel: tuple[int, int], attributes: Mapping[str, Any]
) -> str | None:
    """The sentence for a window that cannot run: a number below 1, or no place that fits."""
    numbers = (*kernel, *attributes["strides"], *attributes.get("dilations", (1, 1)))
    if min(numbers) < 1:
        return "Kernel extents, strides and dilations must be at least 1."
    if min(s.places for s in spans(shape, kernel, attributes)) < 1:
        return f"A window of {kernel[0]} x {kernel[1]} does not fit an input of {list(shape)}."
    return None


def quads_per_thread(target: Target, stored: Geometry) -> int:
    """Channel quads that a thread of one place goes through: index arithmetic is done once, but a
    GPU wants many threads."""
    few = 8 if target.software else max(1, stored.vectors // BUSY_THREADS)
    return min(few, 8, stored.quads)
