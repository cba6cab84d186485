"""Every kernel that any conformance case makes is linted, for three kinds of adapter and with
values stored as float16. No device is needed."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import pytest

from conformance import node_cases
from conformance.cases import Case, all_cases
from conformance.direct import graph
from conformance.node_cases import NodeCase
from conformance.test_variants import ALONG_ROWS
from conformance.variants import half as half_cases
from tests.support.shader_lint import MAX_SITES, lint
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Pipeline, Target
from tflgpu_plugin.ops import FAMILIES

TARGETS = (
    Target(name="software", vendor="software", software=True, subgroup_size=8,
           features=frozenset({"subgroup"})),
    Target(name="discrete", vendor="nvidia", subgroup_size=32, features=frozenset({"subgroup"})),
    Target(name="plain"),
    Target(name="pairs", vendor="software", software=True, subgroup_size=8, pairs=True),
    Target(name="half", half=True),
    Target(name="native", half=True, native_half=True),
    Target(name="along rows", tuning=ALONG_ROWS),
    Target(name="stem", vendor="amd", tuning={"strided_window": "always"}),
    Target(name="bytes", vendor="nvidia", subgroup_size=32, tuning={"byte_products": "always"}),
    Target(name="symbols", tuning={"resize_image": "never", "resize_places": "always"}),
)  # fmt: skip

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


@cache
def pipelines(family: str) -> dict[Pipeline, tuple[str, Target]]:
    """Returns the distinct pipelines of a family's cases, each with the first case and target that
    use it. Pipelines that software adapters use, too, are attributed to these."""
    found: dict[Pipeline, tuple[str, Target]] = {}
    for case in all_cases()[family]:
        for target in () if case.refused else TARGETS:
            for pipeline in _compile(case, target):
                found.setdefault(pipeline, (case.name, target))
    for node in node_cases.family_nodes(family):
        for target in () if node.refused else TARGETS:
            for pipeline in _compile(node, target):
                found.setdefault(pipeline, (f"{node.op} {node.name}", target))
    return found


def _compile(case: Case | NodeCase, target: Target) -> tuple[Pipeline, ...]:
    partition = node_cases.graph(case) if isinstance(case, NodeCase) else graph(case)
    try:
        with half_cases.everything() if target.half else nullcontext():
            return compiler.compile(partition, target).pipelines
    except Unsupported as refused:
        pytest.fail(f"{case.op} {case.name} is refused on {target.name}: {refused}")


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_kernels(family: str) -> None:
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
