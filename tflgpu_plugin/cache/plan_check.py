"""Checks that the numbers of a plan that was read fit together, whoever wrote them."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.cache.codec import require
from tflgpu_plugin.ir import NUMPY_DTYPES, Buffer, Dispatch, Plan, Port, stored_bytes

UNIFORM_BLOCK = 256
MAX_DISPATCHES = 1 << 18
ROLES = ("weights", "uniforms", "pool", "input", "output", "shared", "state", "check")


def check(plan: Plan) -> None:
    """Raises Mismatch for inconsistent numbers."""
    buffers = plan.buffers
    for buffer in buffers:
        inside = buffer.bytes >= 0 and 0 <= buffer.zeros <= buffer.bytes
        require(buffer.role in ROLES and inside, "a buffer")
    uniforms = [k for k, buffer in enumerate(buffers) if buffer.role == "uniforms"]
    require(len(uniforms) == 1, "the uniform buffer")
    require(len(plan.uniforms) <= buffers[uniforms[0]].bytes, "the uniforms")
    for weight in plan.weights:
        held = _buffer(buffers, weight.buffer, "weights").bytes
        require(weight.offset % 4 == 0 and weight.bytes % 4 == 0, "a weight")
        require(0 <= weight.offset <= weight.offset + weight.bytes <= held, "a weight")
    require(len(plan.dispatches) <= MAX_DISPATCHES, "the number of dispatches")
    for dispatch in plan.dispatches:
        _check_dispatch(plan, dispatch)
    for role in ("input", "output", "state"):
        for port in getattr(plan, f"{role}s"):
            _check_port(buffers, port, role)
    for number, buffer in enumerate(buffers):
        if buffer.role == "shared":
            _check_shared(plan, number)


def _check_dispatch(plan: Plan, dispatch: Dispatch) -> None:
    require(0 <= dispatch.pipeline < len(plan.pipelines), "a dispatch")
    kinds = plan.pipelines[dispatch.pipeline].kinds
    require(len(kinds) == len(dispatch.buffers), "a dispatch")
    require(all(0 <= number < len(plan.buffers) for number in dispatch.buffers), "a dispatch")
    for kind, number in zip(kinds, dispatch.buffers, strict=True):
        # Kernels also read symbolic constants, which are behind the uniform blocks.
        require(kind in {"uniforms": "ur"}.get(plan.buffers[number].role, "rw"), "a binding")
    end = dispatch.uniform_offset + UNIFORM_BLOCK
    require(0 <= dispatch.uniform_offset and end <= len(plan.uniforms), "a dispatch")
    require(dispatch.uniform_offset % UNIFORM_BLOCK == 0, "a dispatch")
    least = 0 if dispatch.optional else 1
    require(all(least <= count < 1 << 32 for count in dispatch.groups), "a dispatch")
    # Each workgroup reads or writes different bytes; more workgroups would only block the device.
    bound = {number for number in dispatch.buffers if plan.buffers[number].role != "uniforms"}
    most = sum(plan.buffers[number].bytes for number in bound)
    require(prod(dispatch.groups) <= most, "a dispatch")


def _check_port(buffers: tuple[Buffer, ...], port: Port, role: str) -> None:
    shared = 0 <= port.buffer < len(buffers) and buffers[port.buffer].role == "shared"
    held = _buffer(buffers, port.buffer, "shared" if shared and role != "state" else role).bytes
    require(port.dtype in NUMPY_DTYPES, "a port")
    require(all(extent >= 0 for extent in port.shape), "a port")
    require(port.bytes == stored_bytes(port.shape, port.dtype) <= held, "a port")


def _check_shared(plan: Plan, number: int) -> None:
    """Requires one input and one output of the same size in a shared buffer."""
    given = [port.bytes for port in plan.inputs if port.buffer == number]
    made = [port.bytes for port in plan.outputs if port.buffer == number]
    require(len(given) == 1 and given == made, "a shared buffer")


def _buffer(buffers: tuple[Buffer, ...], number: int, role: str) -> Buffer:
    require(0 <= number < len(buffers) and buffers[number].role == role, f"a buffer for {role}")
    return buffers[number]
