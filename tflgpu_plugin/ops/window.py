"""Windows of convolution and pooling: padding, dilation and output extents as in TFLite
(`ComputeOutSize` and `ComputePaddingWithOffset` of tensorflow/lite/kernels/padding.h). SAME has
ceil(extent / stride) positions with the smaller half of the padding before the input; VALID only
windows inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tflgpu_plugin.ir import Geometry, Refusal, Shape, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.symbolic import i32

BUSY_THREADS = 1 << 15  # threads that fill a large GPU


@dataclass(frozen=True)
class Span:
    """A window along one axis: `kernel` taps, `dilation` apart, over `extent` input elements. It
    moves by `stride` over `positions`, with `before` elements of padding. Tap t of position o reads
    input o * stride - before + t * dilation."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    positions: int

    @property
    def reach(self) -> int:
        """Returns the input elements from the first to the last tap, inclusive."""
        return (self.kernel - 1) * self.dilation + 1


def span(
    extent: int,
    kernel: int,
    stride: int,
    dilation: int = 1,
    padding: str | tuple[int, int] = "valid",
) -> Span:
    """Returns the window along one axis; `padding` is "same", "valid" or (before, after).
    `positions` is negative if the window exceeds the input by more than a stride."""
    reach = (kernel - 1) * dilation + 1
    if padding == "same":
        positions = -(-extent // stride)
        before = max((positions - 1) * stride + reach - extent, 0) // 2
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        positions = (extent + before + after - reach) // stride + 1
    return Span(extent, kernel, stride, dilation, before, positions)


def bounded(s: Span) -> Span:
    """Returns a window with the same taps at the same positions whose `dilation` and `before` do
    not exceed the extents. Beyond these, at most one tap is inside the input, so only its number
    matters."""
    room = (s.positions - 1) * s.stride + s.extent
    if s.positions < 1 or s.dilation <= room:
        return s
    tap = max(-((room - s.extent - s.before) // s.dilation), 0)  # the first tap in the input
    start = tap * s.dilation - s.before
    before = tap * room - start if tap < s.kernel and start < s.extent else s.kernel * room
    return replace(s, dilation=room, before=before)


def spans(shape: Shape, kernel: Sequence[int], attributes: Mapping[str, Any]) -> list[Span]:
    """Returns the window along each axis between batch and channels, by the attributes strides,
    dilations (default 1) and padding ("same", "valid" or (before, after) of each axis in order).
    With ceil_mode the last window may exceed the padded end if it begins before it."""
    padding, found = attributes["padding"], []
    if len(shape) != len(kernel) + 2:
        raise ValueError(f"a window of {len(kernel)} axes does not fit {list(shape)}")
    dilations = attributes.get("dilations", (1,) * len(kernel))
    axes = zip(shape[1:-1], kernel, attributes["strides"], dilations, strict=True)
    for k, axis in enumerate(axes):
        sides = padding if isinstance(padding, str) else (padding[2 * k], padding[2 * k + 1])
        one = span(*axis, sides)
        if attributes.get("ceil_mode") and not isinstance(padding, str):
            one = replace(one, positions=_rounded_up(one, int(sides[1])))
        found.append(one)
    return found


def _rounded_up(s: Span, after: int) -> int:
    """Returns the positions with ceil_mode: the last one begins inside the image or the padding
    before it."""
    positions = -(-(s.extent + s.before + after - s.reach) // s.stride) + 1
    return positions - ((positions - 1) * s.stride >= s.extent + s.before)


def edges(s: Span, windows: int, last: int) -> tuple[bool, ...]:
    """Returns, for each element that adjacent windows without dilation cover, whether it may be
    outside the input. The number of adjacent windows is `windows`; the first of them is at
    positions 0 to `last`."""
    end = last * s.stride - s.before  # the last start of the first window
    reach = s.kernel + (windows - 1) * s.stride
    return tuple(t < s.before or end + t >= s.extent for t in range(reach))


def parameters(axes: Sequence[Span]) -> dict[str, object]:
    """Returns a kernel's parameters of a window along up to three axes, with the letters d, h
    and w, the last one w."""
    found: dict[str, object] = {}
    for k, (letter, s) in enumerate(zip("dhw"[-len(axes) :], axes, strict=True)):
        found |= {f"in_{letter}": s.extent, f"kernel_{letter}": s.kernel}
        found |= {f"stride_{letter}": s.stride, f"dilation_{letter}": s.dilation}
        found |= {f"before_{letter}": i32(s.before)}
        if k:  # the first extent is not needed to split a pixel's number
            found |= {f"out_{letter}": s.positions}
    return found


def refuse_window(
    shape: Shape, kernel: Sequence[int], attributes: Mapping[str, Any]
) -> Refusal | None:
    """Refuses windows with a number below 1, or without a position that fits."""
    numbers = (*kernel, *attributes["strides"], *attributes.get("dilations", (1,)))
    if min(numbers) < 1:
        return Refusal(
            "attribute.invalid", "Window extents, strides and dilations must be at least 1."
        )
    if any(s.positions < 1 for s in spans(shape, kernel, attributes)):
        said = f"A window of {' x '.join(map(str, kernel))} does not fit {list(shape)}."
        return Refusal("shape.window_too_large", said)
    return None


def slices_per_thread(target: Target, stored: Geometry) -> int:
    """Returns how many channel slices of a pixel a thread computes. With more of them a thread
    computes indices less often, but GPUs need many threads."""
    return min(8 if target.software else _slices_on_gpus(stored), stored.slices)


@heuristic
def _slices_on_gpus(stored: Geometry) -> int:
    return int(min(max(1, stored.vectors // BUSY_THREADS), 8))
