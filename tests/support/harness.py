"""Runs a Graph on the device without any host: for tests of kernels and of the compiler."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Buffer, Dispatch, Graph, Pipeline, Plan, Port
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import Device
from tflgpu_plugin.runtime.program import Instance, Program


def device_of() -> Device:
    """Returns the best adapter's device."""
    return adapter.open_device(adapter.select(None))


def run_graph(
    graph: Graph, values: Mapping[int, Array], states: Mapping[int, Array] | None = None
) -> dict[int, Array]:
    """Returns outputs by tensor id, for input values by tensor id, as one partition; `states` (by
    tensor id) change in place."""
    device = device_of()
    program = Program(compiler.compile(graph, device.target), device.handle, device.pipelines)
    held = [(states or {})[before] for before, _ in graph.states]
    results = Instance(program).run([values[t] for t in graph.inputs], held)
    return dict(zip(graph.outputs, results, strict=True))


def run_wgsl(main: str, values: Array, count: int) -> Array:
    """Runs these statements over `x`, an array of float32: `count` float32 numbers in `y`."""
    wgsl = f"""
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() {{ {main} }}
"""
    ports = (
        Port(0, "x", values.shape, "f32", 1, values.nbytes),
        Port(1, "y", (count,), "f32", 2, 4 * count),
    )
    plan = Plan(
        (Pipeline("statements", wgsl, "urw"),),
        (Buffer("uniforms", 256), Buffer("input", values.nbytes), Buffer("output", 4 * count)),
        (),
        bytes(256),
        (Dispatch("statements", 0, (0, 1, 2), 0, (1, 1, 1), ()),),
        ports[:1],
        ports[1:],
        (),
    )
    (found,) = Instance(Program(plan, device_of().handle)).run([values])
    return found
