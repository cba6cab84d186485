"""Every kernel that any conformance case makes is linted, for three kinds of adapter and with
values stored as float16. No device is needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.case_kernels import pipelines
from tests.support.shader_lint import MAX_SITES, lint
from tflgpu_plugin.ops import FAMILIES

# Kernels that load the inputs of several iterations at once where compilers are those of GPUs.
GPU_SITES = {
    "conv": 136,
    "transpose_conv": 82,
    "fully_connected": 26,
    "recurrent": 72,
    "attention": 64,
    "winograd_input": 48,
    "winograd_output": 38,
    "stem": 23,
    "matmul_blocks": 31,
    "sum_parts": 17,
    "depthwise": 29,
    "normalization": 32,
    "winograd_row": 64,
    "squeeze_excite": 42,
    "matmul": 29,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_kernels(family: str, launched: Callable[[str], set[str]]) -> None:
    assert launched(family), f"no case of {family} launches a kernel"
    problems = []
    for pipeline, (case, target) in pipelines(family).items():
        allowed = MAX_SITES if target.software else GPU_SITES.get(pipeline.label, MAX_SITES)
        for sentence in lint(pipeline.wgsl, allowed):
            problems.append(f"{pipeline.label} ({case} on {target.name}): {sentence}")
    assert not problems, "\n".join(sorted(set(problems)))


GOOD = """
struct Params { off_x: u32, vectors: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x_data: array<vec4f>;
fn load_x(i: u32) -> vec4f { return x_data[p.off_x + i]; }
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u) {
  var v = vec4f(0.0);
  for (var k = 0u; k < p.vectors; k++) { v += load_x(k); }
}
"""

BAD = {
    "literal bound": GOOD.replace("k < p.vectors", "k < 4096u"),
    "invocations": GOOD.replace("@workgroup_size(64)", "@workgroup_size(64, 8)"),
    "multiple of 8": GOOD.replace("@workgroup_size(64)", "@workgroup_size(12, 2)"),
    "storage buffers": GOOD + "".join(
        f"@group(0) @binding({k}) var<storage, read> e{k}_data: array<f32>;\n" for k in range(2, 10)
    ),
    "in f16": GOOD.replace("v += load_x(k);", "let h = exp(vec4h(load_x(k)));"),
    "rounds a quotient": GOOD.replace("v += load_x(k);", "v += floor(load_x(k / 2u) / 3.0);"),
    "returns early": GOOD.replace(
        "v += load_x(k);", "if (k > 3u) { return; } v += subgroupShuffle(load_x(k), 1u);"
    ),
    "without its accessor": GOOD.replace("v += load_x(k);", "v += x_data[k];"),
    "bytes, more than": GOOD.replace("vectors: u32", "vectors: u32, " + ", ".join(
        f"f{k}: f32" for k in range(64)
    )),
    "32-bit scalars": GOOD.replace("vectors: u32", "vectors: u32, v: vec4f"),
    "load or store": GOOD.replace("v += load_x(k);", "v += load_x(k);" * 17),
    "remainder of signed": GOOD.replace(
        "v += load_x(k);", "let s = vec4i(load_x(k)); v += vec4f(vec4i(k) % s);"
    ),
    "main takes the remainder": GOOD.replace("v += load_x(k);", "v += f32(i32(k) % i32(wid.x));"),
    "zero value of an alias": GOOD.replace("v += load_x(k);", "v += vector_x();"),
    "Sum() is the zero value": "alias Sum = vec4<f32>;" + GOOD.replace("vec4f(0.0)", "Sum()"),
    "neither a number": GOOD.replace("@workgroup_size(64)", "@workgroup_size(width)"),
}  # fmt: skip


def test_a_good_kernel_passes() -> None:
    assert lint(GOOD) == []


@pytest.mark.parametrize("problem", BAD)
def test_each_rule_can_fail(problem: str) -> None:
    found = lint(BAD[problem])
    assert any(problem in sentence for sentence in found), found


def test_constants_give_the_workgroup_size() -> None:
    for width, wrong in ((8, []), (128, ["the workgroup has 512 invocations, more than 256"])):
        kernel = GOOD.replace(
            "@compute @workgroup_size(64)",
            f"const w: u32 = {width};\n@compute @workgroup_size(w, 4)",
        )
        assert lint(kernel) == wrong
