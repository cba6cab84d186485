"""A plot of a benchmark as an SVG file: the times of each engine, and where an inference on the GPU
spends its time."""

from __future__ import annotations

from collections.abc import Iterator

from tflgpu_plugin.cli import page
from tflgpu_plugin.cli.bench import Bench, Timing

WIDTH, LEFT, RIGHT, ROW, BAR = 900, 110, 90, 34, 20  # pixels
PARTS = {"upload_ms": "d", "waiting_ms": "a", "download_ms": "c", "host_ms": "e"}
NAMES = {"upload_ms": "upload", "waiting_ms": "wait for the device", "download_ms": "download",
         "host_ms": "host"}  # fmt: skip


def written(found: Bench) -> str:
    """Returns the plot as SVG."""
    shapes, bottom = [*_shapes(found)], _height(found)
    return page.picture(WIDTH, bottom, shapes, alone=True)


def _height(found: Bench) -> int:
    on_gpu = sum(timing.parts is not None for timing in found.timings)
    return 76 + ROW * len(found.timings) + (70 + ROW * on_gpu if on_gpu else 0)


def _shapes(found: Bench) -> Iterator[str]:
    yield page.text(10, 24, f"{found.model} in {found.host}, {found.adapter}")
    yield page.text(10, 44, "ms for an inference: the fastest to p90 (bar), p50 (number), the "
                    "slowest (line)", color="dim")  # fmt: skip
    longest = max(timing.max_ms for timing in found.timings)
    scale, top = (WIDTH - LEFT - RIGHT) / longest, 60
    for place, timing in enumerate(found.timings):
        yield from _row(timing, top + ROW * place, scale)
    top += ROW * len(found.timings) + 34
    on_gpu = [timing for timing in found.timings if timing.parts]
    if on_gpu:
        yield from _legend(top)
        longest = max(timing.parts.inference_ms for timing in on_gpu if timing.parts)
        for place, timing in enumerate(on_gpu):
            yield from _part_row(timing, top + 14 + ROW * place, (WIDTH - LEFT - RIGHT) / longest)


def _row(timing: Timing, y: float, scale: float) -> Iterator[str]:
    told = f"{timing.engine}: p50 {timing.median_ms:.2f} ms, p99 {timing.p99_ms:.2f} ms"
    best, last = LEFT + timing.best_ms * scale, LEFT + timing.max_ms * scale
    yield page.text(LEFT - 8, y + 15, timing.engine, "end")
    yield page.box(best, y + BAR / 2 - 1, last - best, 2, "dim", told)
    yield page.box(best, y, (timing.p90_ms - timing.best_ms) * scale, BAR, "a", told)
    yield page.box(LEFT + timing.median_ms * scale - 1, y - 3, 2, BAR + 6, "ink", told)
    yield page.text(last + 8, y + 15, f"{timing.median_ms:.2f} ms")


def _part_row(timing: Timing, y: float, scale: float) -> Iterator[str]:
    x = float(LEFT)
    yield page.text(LEFT - 8, y + 15, timing.engine, "end")
    for name, color in PARTS.items():
        taken = max(getattr(timing.parts, name), 0.0)
        yield page.box(x, y, taken * scale, BAR, color, f"{NAMES[name]}: {taken:.2f} ms")
        x += taken * scale
    if timing.parts:
        yield page.text(x + 8, y + 15, f"{timing.parts.inference_ms:.2f} ms")


def _legend(y: float) -> Iterator[str]:
    x = float(LEFT)
    for name, color in PARTS.items():
        yield page.box(x, y - 10, 10, 10, color)
        yield page.text(x + 15, y, NAMES[name], color="dim")
        x += 40 + 7 * len(NAMES[name])
