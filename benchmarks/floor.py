"""What no run can do without: one submission waited for, and one copy of its inputs and outputs.

All in nanoseconds. `Small` is a run of one dispatch that writes a single number, through the same
library; beside the run of a network it tells what the driver and wgpu take for any submission, and
what taking timestamps adds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tflgpu_plugin.plan import Buffer, Dispatch, Pipeline, Plan, Port
from tflgpu_plugin.runtime.adapter import Device
from tflgpu_plugin.runtime.program import Instance, Program

WGSL = """
@group(0) @binding(1) var<storage, read> given: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(1)
fn main() { result[0] = given[0]; }
"""
SHAPE, BYTES = (4,), 16


@dataclass
class Small:
    """One dispatch, 16 bytes in, 16 bytes out; two instances, since each prepares its next run as
    the one before it was."""

    plain: Instance
    stamped: Instance

    @classmethod
    def on(cls, device: Device) -> Small:
        given, result = (
            Port(index, name, SHAPE, "f32", index + 1, BYTES)
            for index, name in enumerate(("given", "result"))
        )
        plan = Plan(
            (Pipeline("small", WGSL, "urw"),),
            (Buffer("uniforms", 256), Buffer("input", BYTES), Buffer("output", BYTES)),
            (),
            bytes(256),
            (Dispatch("small", 0, (0, 1, 2), 0, (1, 1, 1), ()),),
            (given,),
            (result,),
            (),
        )
        program = Program(plan, device.handle)
        return cls(Instance(program), Instance(program))

    def run(self) -> int:
        """The time of a run."""
        self.plain.run([np.zeros(SHAPE, np.float32)])
        return int(self.plain.counters().last_nanoseconds)

    def outside(self) -> int:
        """The time of a run with timestamps, less that between them."""
        wall, on_device = self.stamped.timed([np.zeros(SHAPE, np.float32)])
        return wall - on_device


class Copies:
    """Host memory of the size of a plan's inputs and outputs."""

    def __init__(self, plan: Plan) -> None:
        sizes = [port.bytes for port in plan.inputs + plan.outputs]
        self._pairs: list[Any] = [
            (np.ones(size, np.uint8), np.ones(size, np.uint8)) for size in sizes
        ]

    def run(self) -> int:
        """The time to copy each once, from host memory to host memory."""
        start = time.perf_counter_ns()
        for target, source in self._pairs:
            np.copyto(target, source)
        return time.perf_counter_ns() - start
