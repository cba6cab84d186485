"""Measures the subgroup size of a device, and tests whether shuffles in aligned groups of 8 lanes,
unpacking float16, words of 64 bits and arithmetic in float16 are right."""

from __future__ import annotations

from typing import Any

import numpy as np

from tflgpu_plugin import native
from tflgpu_plugin.ir import Buffer, Dispatch, Pipeline, Plan, Port
from tflgpu_plugin.runtime import pipelines
from tflgpu_plugin.runtime.program import Instance, Program

LANES, FEW_LANES = 64, 32  # of a workgroup
# Each lane writes its subgroup's size, the value of lane `base + 3` of its group of 8, and a
# subgroup sum of 1.
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
    """Returns the measured size in lanes; 0 where it varies or shuffles do not work."""
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
    """Returns the subgroup size of small workgroups, which is less than that of large ones on some
    GPUs; 0 where it varies or cannot be measured."""
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
    """Returns whether kernels may call `unpack2x16float`, which llvmpipe refuses without F16C."""
    try:
        pipelines.Pipelines().made(Pipeline("unpack", UNPACK, "uw"), device)
    except pipelines.PipelineError:
        return False
    return True


PAIRS = """
@group(0) @binding(1) var<storage, read> given: array<vec2<u64>>;
@group(0) @binding(2) var<storage, read_write> found: array<vec4u>;
@compute @workgroup_size(8) fn main(@builtin(local_invocation_index) i: u32) {
  let v = given[7u - i];
  let low = v & vec2<u64>(0xfffffffflu);
  found[i] = vec4u(u32(low.x), u32(v.x >> 32u), u32(low.y), u32(v.y >> 32u));
}
"""


def pairs(device: Any) -> bool:
    """Returns whether kernels may read words of 64 bits."""
    bits = np.random.default_rng(5).integers(0, 1 << 32, (8, 4), np.uint32)
    ports = (
        Port(0, "given", bits.shape, "u32", 1, bits.nbytes),
        Port(1, "found", bits.shape, "u32", 2, bits.nbytes),
    )
    try:
        found = _run(device, Pipeline("pairs", PAIRS, "urw"), ports, [bits])
    except (native.NativeError, pipelines.PipelineError):
        return False
    return bool((found == bits[::-1]).all())


# Kernels with native float16 rely on this: float32 is rounded to nearest even, also below 2^-14;
# infinities and NaN stay; loads return the stored bits; a product is rounded once.
_TINY = 2.0**-24
ROUNDED = np.array([
    0.0, 1.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-20, 0.1, 1 / 3, 1000.3,
    2047.5, 2049.0, 2051.0, 65504.0, 65488.0, 65470.0, np.inf, np.nan,
    2.0**-14, 2.0**-14 - _TINY / 2, 2.0**-15 + _TINY / 2, _TINY, _TINY / 2, 1.5 * _TINY,
    0.75 * _TINY, 2.0**-16, 1e-5, 3.3e-6, 2.0**-13, 5.96e-5, 511 * _TINY, 0.5, 3.14159, 8.0,
], np.float32)  # fmt: skip
HALF = """
enable f16;
@group(0) @binding(1) var<storage, read> wide: array<vec4f>;
@group(0) @binding(2) var<storage, read> narrow: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> found: array<vec4<f16>>;
@compute @workgroup_size(COUNT) fn main(@builtin(local_invocation_index) i: u32) {
  let h = narrow[i];
  found[i] = vec4<f16>(wide[i]);
  found[COUNT + i] = vec4<f16>(vec4f(h));
  found[2 * COUNT + i] = h * narrow[COUNT];
  found[3 * COUNT + i] = fma(h, h, h);
}
"""


def native_half(device: Any) -> bool:
    """Returns whether kernels may load, store and multiply float16 natively."""
    try:
        got = _halves(device).astype(np.float64)
    except (native.NativeError, pipelines.PipelineError):
        return False
    wide = np.concatenate([ROUNDED, -ROUNDED])
    half = wide.astype(np.float16)
    exact = half.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        eighths = (exact / 8).astype(np.float16)
        once = (exact * exact + exact).astype(np.float16)
        twice = (half * half + half).astype(np.float16)  # where `fma` is two roundings
    expected = half, half, eighths
    right = all(np.array_equal(g, e, equal_nan=True) for g, e in zip(got, expected, strict=False))
    fused = np.where(got[3] == twice, twice, once)
    return right and np.array_equal(got[3], fused, equal_nan=True)


def _halves(device: Any) -> Any:
    """Returns the results of HALF for ROUNDED and its negatives, as rows of float16."""
    wide = np.concatenate([ROUNDED, -ROUNDED])
    narrow = np.concatenate([wide, np.full(4, 0.125)]).astype(np.float16)
    ports = (
        Port(0, "wide", wide.shape, "f32", 1, wide.nbytes),
        Port(1, "narrow", narrow.shape, "f16", 2, narrow.nbytes),
        Port(2, "found", (4, len(wide)), "f16", 3, 8 * len(wide)),
    )
    wgsl = HALF.replace("COUNT", str(len(wide) // 4))
    return _run(device, Pipeline("half", wgsl, "urrw"), ports, [wide, narrow])


def _measure(device: Any, lanes: int) -> Any:
    port = Port(0, "result", (lanes, 4), "u32", 1, lanes * 16)
    return _run(device, Pipeline("selftest", WGSL.replace("LANES", str(lanes)), "uw"), (port,), [])


def _run(device: Any, pipeline: Pipeline, ports: tuple[Port, ...], given: list[Any]) -> Any:
    """Returns the last port after one launch; `given` holds the contents of the other ports."""
    inputs, result = ports[:-1], ports[-1]
    buffers = (
        Buffer("uniforms", 256),
        *(Buffer("input", port.bytes) for port in inputs),
        Buffer("output", result.bytes),
    )
    dispatch = Dispatch(pipeline.label, 0, tuple(range(len(buffers))), 0, (1, 1, 1), ())
    plan = Plan((pipeline,), buffers, (), bytes(256), (dispatch,), inputs, (result,), ())
    (found,) = Instance(Program(plan, device)).run(given)
    return found
