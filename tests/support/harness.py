"""Runs a Graph on the device without any host: for tests of kernels and of the compiler."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir.graph import Array, Graph
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.adapter import Device
from tflgpu_plugin.runtime.program import Instance, Program


def device_of() -> Device:
    """The best adapter's device."""
    return adapter.open_device(adapter.select(None))


def run_graph(
    graph: Graph, values: Mapping[int, Array], states: Mapping[int, Array] | None = None
) -> dict[int, Array]:
    """Outputs by tensor id, for input values by tensor id, as one partition; `states` (by tensor
    id) change in place."""
    device = device_of()
    program = Program(compiler.compile(graph, device.target), device.handle, device.pipelines)
    held = [(states or {})[before] for before, _ in graph.states]
    results = Instance(program).run([values[t] for t in graph.inputs], held)
    return dict(zip(graph.outputs, results, strict=True))
