"""A timeline of a profile, in the trace event format that Perfetto and chrome://tracing read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tflgpu_plugin.cli.profile import Profile

PROCESS = 1
HOST, CPU, UPLOAD, DEVICE, DOWNLOAD = range(1, 6)
LANES = {HOST: "host", CPU: "host's own kernels", UPLOAD: "upload", DEVICE: "device",
         DOWNLOAD: "download"}  # fmt: skip


def trace(profile: Profile) -> dict[str, Any]:
    """Returns the trace as a JSON object."""
    title = f"{profile.model} in {profile.host}, {profile.adapter}"
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(title), *events(profile)]}


def _names(title: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0, "args": {"name": title}}
    for lane, name in LANES.items():
        for key, value in (("name", name), ("sort_index", lane)):
            yield {"ph": "M", "name": f"thread_{key}", "pid": PROCESS, "tid": lane,
                   "args": {key: value}}  # fmt: skip


def events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yields the events of all inferences, with times in microseconds since the first began."""
    found = profile.recording
    zero = found.inferences[0][0]

    def event(lane: int, name: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
        return {"ph": "X", "name": name, "cat": LANES[lane], "pid": PROCESS, "tid": lane,
                "ts": (begin - zero) / 1e3, "dur": (end - begin) / 1e3, "args": more}  # fmt: skip

    for number, (begin, end) in enumerate(found.inferences, 1):
        yield event(HOST, f"inference {number}", begin, end)
    for run in found.runs:
        number = found.numbers.get(run.partition, 0)
        yield event(HOST, f"partition {number}", run.start, run.end)
        yield event(UPLOAD, "upload", run.start, run.submitted, partition=number)
        yield event(DOWNLOAD, "download", run.finished, run.end, partition=number)
        for label, begin, end in run.launches():
            kernel, _, names = label.partition(": ")
            yield event(DEVICE, names or kernel, begin, end, kernel=kernel, partition=number)
    for (begin, end), host in zip(found.inferences, found.host_runs, strict=False):
        start = (begin + end - host.taken) // 2  # the host's clock is another one
        for node in host.nodes:
            yield event(CPU, node.name, start + node.begin, start + node.end, op=node.operator)
