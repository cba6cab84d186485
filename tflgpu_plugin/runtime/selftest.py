"""Measures the subgroup size of a device, proves that shuffles among aligned groups of 8 lanes work
on it, and asks whether it knows float16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tflgpu_plugin import native
from tflgpu_plugin.ir.plan import Buffer, Dispatch, Pipeline, Plan, Port
from tflgpu_plugin.runtime import pipelines

LANES, FEW_LANES = 64, 32  # of a workgroup
# Each lane writes its subgroup's size, what it got from the lane `base + 3` of its group of 8, and
# a subgroup sum of 1.
WGSL = """
@group(0) @binding(1) var<storage, read_write> result: array<vec4<u32>>;
@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_size) size: u32,
        @builtin(subgroup_invocation_id) id: u32) {
  let base = id - id % 8u;
  let shuffled = subgroupShuffle(lane * 7u + 1u, base + 3u);
  let sum = subgroupAdd(1u);
  result[lane] = vec4<u32>(size, shuffled, sum, id);
}
"""


def subgroup_size(device: Any) -> int:
    """The measured size in lanes; 0 when it varies or the shuffles are wrong or unsupported."""
    try:
        result = _measure(device, LANES)
    except (native.NativeError, pipelines.PipelineError):
        return 0
    size, shuffled, sums, ids = (result[:, k] for k in range(4))
    lanes = np.arange(LANES)
    right = (
        (shuffled == (lanes - lanes % 8 + 3) * 7 + 1).all()
        and (sums == size).all()
        and (ids == lanes % size).all()
    )
    if not right or len(set(size.tolist())) != 1:
        return 0
    return int(size[0])


def least_subgroup(device: Any) -> int:
    """The size in small workgroups, which some GPUs run in smaller subgroups than large ones; 0
    when it varies or cannot be measured."""
    try:
        sizes = set(_measure(device, FEW_LANES)[:, 0].tolist())
    except (native.NativeError, pipelines.PipelineError):
        return 0
    return int(sizes.pop()) if len(sizes) == 1 else 0


UNPACK = """
@group(0) @binding(1) var<storage, read_write> result: array<vec2f>;
@compute @workgroup_size(1) fn main() { result[0] = unpack2x16float(bitcast<u32>(result[1].x)); }
"""


def unpacks(device: Any) -> bool:
    """Whether kernels may call `unpack2x16float`: llvmpipe on a CPU without F16C refuses it."""
    try:
        pipelines.make((Pipeline("unpack", UNPACK, "uw"),), device, {}, warm=False)
    except pipelines.PipelineError:
        return False
    return True


def _measure(device: Any, lanes: int) -> Any:
    from tflgpu_plugin.runtime.program import Instance, Program

    port = Port(0, "result", (lanes, 4), "u32", 1, lanes * 16)
    plan = Plan(
        (Pipeline("selftest", WGSL.replace("LANES", str(lanes)), "uw"),),
        (Buffer("uniforms", 256), Buffer("output", lanes * 16)),
        (),
        bytes(256),
        (Dispatch("selftest", 0, (0, 1), 0, (1, 1, 1), ()),),
        (),
        (port,),
        (),
    )
    (result,) = Instance(Program(plan, device)).run([])
    return result.reshape(lanes, 4)
