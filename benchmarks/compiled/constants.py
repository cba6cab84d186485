"""The constants that a dispatch reads from memory: those that its bindings point to."""

from __future__ import annotations

import re
from bisect import bisect_right

from benchmarks.compiled.rounds import uniform_block
from tflgpu_plugin.ir import Dispatch, Plan, Weight

_BINDING = re.compile(r"@binding\((\d+)\) var<storage, read> (\w+)_data: array<([^;]+)>;")
_VECTOR = re.compile(r"vec(\d)")


class Constants:
    """The constants of a plan, by buffer in the order of their offsets."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._held: dict[int, list[Weight]] = {}
        for weight in sorted(plan.weights, key=lambda each: (each.buffer, each.offset)):
            self._held.setdefault(weight.buffer, []).append(weight)

    def bytes_read(self, dispatch: Dispatch) -> int:
        """Returns the bytes of all constants that the dispatch reads, each counted once."""
        wgsl = self._plan.pipelines[dispatch.pipeline].wgsl
        given = uniform_block(wgsl, self._plan.uniforms[dispatch.uniform_offset :])
        read = dict[tuple[int, int], int]()
        for binding, name, element in _BINDING.findall(wgsl):
            buffer = dispatch.buffers[int(binding)]
            offset = int(getattr(given, f"off_{name}", 0)) * _size(element)
            if weight := self._at(buffer, offset):
                read[buffer, weight.offset] = weight.bytes
        return sum(read.values())

    def _at(self, buffer: int, offset: int) -> Weight | None:
        """Returns the constant of a buffer that contains this offset (in bytes), None for no such
        constant."""
        held = self._held.get(buffer, ())
        place = bisect_right(held, offset, key=lambda each: each.offset) - 1
        if place < 0 or offset >= held[place].offset + held[place].bytes:
            return None
        return held[place]


def _size(element: str) -> int:
    """Returns the bytes of what offsets in a storage buffer count: "f32", "vec2<f16>", or a vector
    of "array<vec4f, 8>"."""
    lanes = _VECTOR.search(element)
    each = 2 if "f16" in element else 4
    return each * (int(lanes[1]) if lanes else 1)
