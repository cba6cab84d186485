"""Runs a Plan with wgpu-py alone, slowly: a second opinion on the native replay, and a way to try
kernels without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from tflgpu_plugin import compiler
from tflgpu_plugin.graph import NUMPY_DTYPES, Array, Graph
from tflgpu_plugin.plan import Plan, Port
from tflgpu_plugin.target import Target


@cache
def device() -> Any:
    import wgpu

    adapter = wgpu.gpu.request_adapter_sync()
    features = [f for f in ("subgroup", "shader-f16") if f in adapter.features]
    return adapter.request_device_sync(required_features=features)


def target() -> Target:
    return Target(name="wgpu-py", vendor="software", software=True, subgroup_size=8)


def run_graph(
    graph: Graph, values: Mapping[int, Array], states: Mapping[int, Array] | None = None
) -> dict[int, Array]:
    """The same as `tests.harness.run_graph`."""
    plan = compiler.compile(graph, target())
    fed = {port.buffer: values[port.tensor] for port in plan.inputs}
    fed |= {port.buffer: (states or {})[port.tensor] for port in plan.states}
    buffers = _buffers(plan, fed)
    _dispatch(plan, buffers)
    for port in plan.states:
        (states or {})[port.tensor][...] = _read(port, buffers)
    return {port.tensor: _read(port, buffers) for port in plan.outputs}


def _buffers(plan: Plan, fed: Mapping[int, Array]) -> list[Any]:
    import wgpu

    gpu, made = device(), []
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
    for number, buffer in enumerate(plan.buffers):
        kind = usage | (wgpu.BufferUsage.UNIFORM if buffer.role == "uniforms" else 0)
        handle = gpu.create_buffer(size=max(16, buffer.bytes), usage=kind)
        if buffer.role == "uniforms":
            gpu.queue.write_buffer(handle, 0, plan.uniforms)
        elif number in fed:
            gpu.queue.write_buffer(handle, 0, _padded(fed[number]))
        else:
            gpu.queue.write_buffer(
                handle, 0, np.full(max(4, buffer.bytes // 4), np.nan, np.float32)
            )
        made.append(handle)
    for weight in plan.weights:
        packed = np.ascontiguousarray(weight.pack(), np.float32)
        assert packed.nbytes == weight.bytes, (weight.key, packed.nbytes, weight.bytes)
        gpu.queue.write_buffer(made[weight.buffer], weight.offset, packed)
    return made


def _padded(array: Array) -> bytes:
    data = np.ascontiguousarray(array).tobytes()
    return data.ljust(-(-len(data) // 4) * 4, b"\0")


def _dispatch(plan: Plan, buffers: Sequence[Any]) -> None:
    gpu = device()
    pipelines = []
    for pipeline in plan.pipelines:
        module = gpu.create_shader_module(code=pipeline.wgsl)
        stage = {"module": module, "entry_point": "main", "constants": dict(pipeline.constants)}
        pipelines.append(
            (
                gpu.create_compute_pipeline(layout=_layout(pipeline.kinds), compute=stage),
                pipeline.kinds,
            )
        )
    encoder = gpu.create_command_encoder()
    compute = encoder.begin_compute_pass()
    for dispatch in plan.dispatches:
        handle, kinds = pipelines[dispatch.pipeline]
        entries = []
        for binding, (number, kind) in enumerate(zip(dispatch.buffers, kinds, strict=True)):
            place = (dispatch.uniform_offset, 256) if kind == "u" else (0, buffers[number].size)
            resource = {"buffer": buffers[number], "offset": place[0], "size": place[1]}
            entries.append({"binding": binding, "resource": resource})
        group = gpu.create_bind_group(layout=handle.get_bind_group_layout(0), entries=entries)
        compute.set_pipeline(handle)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(*dispatch.groups)
    compute.end()
    gpu.queue.submit([encoder.finish()])


def _layout(kinds: str) -> Any:
    types = {"u": "uniform", "r": "read-only-storage", "w": "storage"}
    entries = [
        {"binding": k, "visibility": 4, "buffer": {"type": types[kind]}}
        for k, kind in enumerate(kinds)
    ]
    gpu = device()
    return gpu.create_pipeline_layout(
        bind_group_layouts=[gpu.create_bind_group_layout(entries=entries)]
    )


def _read(port: Port, buffers: Sequence[Any]) -> Array:
    data = bytes(device().queue.read_buffer(buffers[port.buffer]))[: port.bytes]
    return np.frombuffer(data, NUMPY_DTYPES[port.dtype]).reshape(port.shape)
