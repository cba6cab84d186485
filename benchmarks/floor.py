"""The floor of every run: one submission waited for, and one copy of its inputs and outputs.

Both in nanoseconds. `Small` is a run of one dispatch that writes a single number, through the same
library: beside the run of a network it shows the cost of the driver and of wgpu for any submission.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Buffer, Dispatch, Pipeline, Plan, Port
from tflgpu_plugin.runtime.device import Device
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
    """One dispatch, 16 bytes in, 16 bytes out."""

    instance: Instance

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
        return cls(Instance(Program(plan, device.handle)))

    def given(self) -> list[Array]:
        return [np.zeros(SHAPE, np.float32)]

    def run(self) -> int:
        """Returns the time of a run, in which the next one is encoded as in every run."""
        self.instance.run(self.given())
        return int(self.instance.counters().last_nanoseconds)


class Copies:
    """Host memory of the size of a plan's inputs and outputs."""

    def __init__(self, plan: Plan) -> None:
        sizes = [port.bytes for port in plan.inputs + plan.outputs]
        self._pairs: list[Any] = [
            (np.ones(size, np.uint8), np.ones(size, np.uint8)) for size in sizes
        ]

    def run(self) -> int:
        """Returns the time to copy each once, from host memory to host memory."""
        start = time.perf_counter_ns()
        for target, source in self._pairs:
            np.copyto(target, source)
        return time.perf_counter_ns() - start
