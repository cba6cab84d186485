"""Windows whose dilation exceeds their input reach the same taps after the dilation is reduced."""

from __future__ import annotations

from tflgpu_plugin.ops.window import Span, bounded, span


def _taps(s: Span) -> set[tuple[int, int, int]]:
    """Returns output positions, taps, and the input positions that these reach."""
    met = ((o, t, o * s.stride - s.before + t * s.dilation) for o in range(s.positions)
           for t in range(s.kernel))  # fmt: skip
    return {meeting for meeting in met if 0 <= meeting[2] < s.extent}


def test_bounded_windows_meet_the_same_taps() -> None:
    sides = ("same", "valid", (3, 2), (0, 9), (9, 40))
    for extent in (1, 2, 5):
        for kernel in (1, 2, 3, 4):
            for stride in (1, 2, 7):
                for dilation in (1, 2, 3, 5, 8, 13, 40):
                    for padding in sides:
                        free = span(extent, kernel, stride, dilation, padding)
                        held = bounded(free)
                        assert _taps(held) == _taps(free), free
                        if free.positions > 0:
                            assert held.dilation <= extent + (free.positions - 1) * stride
