"""A profile as a page: a timeline of its median inference, and tables."""

from __future__ import annotations

from collections.abc import Iterator

from tflgpu_plugin.cli import page, trace
from tflgpu_plugin.cli.profile import Profile

COLORS = {trace.HOST: "e", trace.CPU: "b", trace.UPLOAD: "d", trace.DEVICE: "a",
          trace.DOWNLOAD: "c"}  # fmt: skip
WIDTH, LEFT, LANE, BAR = 1200, 130, 26, 18  # pixels


def written(found: Profile) -> str:
    """Returns the page as HTML."""
    return page.page(f"{found.model} in {found.host}, {found.adapter}", _parts(found))


def _parts(found: Profile) -> Iterator[str]:
    total = found.total or 1
    yield (
        f"<p>{found.total:.2f} ms on the device in {len(found.launches)} launches; an inference "
        f"takes {found.inference_ms:.2f} ms with timestamps, {found.outside_ms:.2f} of them in the "
        "host and its own kernels. Each time is a median.</p>"
    )
    yield "<h2>The median inference</h2>\n<div class=wide>" + _timeline(found) + "</div>"
    yield "<h2>Launches</h2>"
    head = ("partition", "ms", "", "GFLOP/s", "GB/s", "% of limit", "kernel", "nodes")
    yield page.table(head, [
        (one.partition, one.milliseconds, one.milliseconds / total, one.gflops, one.gbs,
         None if one.of_limit is None else 100 * one.of_limit, one.kernel,
         ", ".join(one.names or one.nodes)) for one in found.launches
    ])  # fmt: skip
    yield "<h2>Kernels</h2>"
    rows = [(name, count, taken, taken / total) for name, count, taken in found.by_kernel()]
    yield page.table(("kernel", "launches", "ms", ""), rows)
    if found.cpu_nodes:
        longest = max(node.milliseconds for node in found.cpu_nodes) or 1.0
        yield "<h2>On the CPU</h2>"
        yield page.table(("operator", "ms", "", "node"), [
            (node.operator, node.milliseconds, node.milliseconds / longest, node.name)
            for node in found.cpu_nodes
        ])  # fmt: skip


def _timeline(found: Profile) -> str:
    """Returns a picture of the inference whose time is the median."""
    ordered = sorted(found.recording.inferences, key=lambda span: span[1] - span[0])
    begin, end = ordered[(len(ordered) - 1) // 2]
    zero = found.recording.inferences[0][0]
    start, span = (begin - zero) / 1e3, max((end - begin) / 1e3, 1e-3)
    scale = (WIDTH - LEFT - 10) / span
    shapes = [
        page.text(LEFT - 8, LANE * place + BAR - 4, name, "end", "dim")
        for place, name in enumerate(trace.LANES.values())
    ]
    for event in trace.events(found):
        at, taken = event["ts"] - start, event["dur"]
        if at + taken < 0 or at > span:
            continue
        left, right = max(at, 0.0), min(at + taken, span)
        told = f"{event['name']}: {taken / 1e3:.3f} ms"
        lane, width = event["tid"], (right - left) * scale
        x, y = LEFT + left * scale, LANE * (lane - 1)
        shapes.append(page.box(x, y, width, BAR, COLORS[lane], told))
    bottom = LANE * len(trace.LANES) + 14
    shapes += [
        page.text(LEFT, bottom, "0 ms", "start", "dim"),
        page.text(WIDTH - 10, bottom, f"{span / 1e3:.2f} ms", "end", "dim"),
    ]
    return page.picture(WIDTH, bottom + 6, shapes)
