"""Tests the analysis of kernels and of assembly, without the compiler itself."""

from __future__ import annotations

import argparse
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.compiled import __main__ as command, driver, models
from benchmarks.compiled.amd import GCN, RDNA, Made
from benchmarks.compiled.blocks import BLOCKS
from benchmarks.compiled.cost import Cost, cost
from benchmarks.compiled.gpus import AMD
from benchmarks.compiled.networks import Estimate, threads
from benchmarks.compiled.rounds import Loop, loops
from benchmarks.engine import Unavailable
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Pipeline
from tflgpu_plugin.ir.calibration import SETTINGS
from tflgpu_plugin.ops import form_names

KERNELS = ("ahead", "half", "tile", "weights")  # settings
KERNEL = """
struct Params { rows: u32, step: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn total(count: u32) -> f32 {
  var sum = 0.0;
  for (var reach = count / 2u; reach > 0u; reach /= 2u) { sum += 1.0; }  // 4, 2, 1
  return sum;
}
@compute @workgroup_size(8, 4)
fn main(@builtin(workgroup_id) wid: vec3u) {
  let extent = vec2u(p.rows, 3u);
  let ok = extent.y < p.rows && !(wid.x == 0u);
  for (var k = 0u; k < extent.x; k += p.step) {
    let end = min(k + 2u, select(0u, extent.x, ok));
    for (var i = k; i < end; i++) { }
    if (k > 100u) { for (var never = 0u; never < 9u; never++) { } }
  }
  let y = total(8u);
}
"""


def told(found: list[Loop]) -> list[tuple[int, int, int]]:
    return [(loop.depth, loop.entries, loop.rounds) for loop in found]


def test_loops_are_followed_in_order_with_those_of_functions() -> None:
    found = loops(KERNEL, struct.pack("<2I", 7, 2), (3, 1, 1))
    assert told(found) == [(1, 1, 4), (2, 4, 7), (2, 0, 0), (1, 1, 3)]
    assert threads(Pipeline("", KERNEL, "u")) == 32


def test_values_of_structs_and_functions_are_computed() -> None:
    plane = """
struct Plane { batch: u32, taps: vec2u }
fn at_least(taps: vec2u) -> vec2u {
  let least = vec2u(2u, 1u);
  return max(taps, least);
}
fn plane_of(number: u32) -> Plane {
  return Plane(number, at_least(vec2u(1u, p.rows)));
}
"""
    code = KERNEL.replace("@compute", plane + "@compute").replace("vec2u(p.rows, 3u)", "plane.taps")
    code = code.replace("  let extent", "  let plane = plane_of(wid.x);\n  let extent")
    found = loops(code, struct.pack("<2I", 7, 1), (3, 1, 1))
    assert told(found)[0] == (1, 1, 2)


@pytest.mark.parametrize(("channels", "rounds"), [(32, (3, 6, 0)), (40, (3, 6, 6))])
def test_a_convolution_goes_four_steps_at_once_and_then_one_by_one(
    channels: int, rounds: tuple[int, int, int]
) -> None:
    """There are 3 rows of taps and 4 channels per step: two output slices per thread, and few
    threads."""
    b = Net()
    x = b.input((1, 6, 6, channels))
    weights = b.constant(np.ones((8, 3, 3, channels), np.float32))
    y = b.op("conv_2d", x, weights, None, **WINDOW)
    plan = compiler.compile(b.graph(y), replace(AMD, tuning={"split_k": "never"}))
    (each,) = (d for d in plan.dispatches if d.label == "conv")
    block = plan.uniforms[each.uniform_offset :]
    found = loops(plan.pipelines[each.pipeline].wgsl, block, each.groups)
    assert tuple(loop.rounds for loop in found[:3]) == rounds


ASSEMBLY = """\
BB0:
\ts_load_b64 s[0:1], s[2:3], null                              ; f4004001
\ts_waitcnt lgkmcnt(0)                                         ; bf89fc07
BB1:
\tbuffer_load_b128 v[0:3], v4, s[0:3], 0 offen                 ; e05c0000
\tbuffer_load_b128 v[4:7], v4, s[0:3], 0 offen offset:16       ; e05c0010
\ts_waitcnt vmcnt(1)                                           ; bf8907f7
\tv_fmac_f32_e32 v8, v0, v1                                    ; 56100300
\tv_dual_fmac_f32 v9, v0, v1 :: v_dual_fmac_f32 v10, v2, v3    ; c8000300
\ts_waitcnt vmcnt(0)                                           ; bf8903f7
\tv_fmac_f32_e32 v8, v4, v5                                    ; 56100b04
\ts_cbranch_scc1 BB1                                           ; bfa2fff0
BB3:
\tbuffer_store_b128 v[8:11], v4, s[0:3], 0 offen               ; e0740000
\ts_endpgm                                                     ; bfb00000
"""
NUMBERS = {
    "Lanes": 32,
    "VGPRs": 12,
    "Spilled VGPRs": 0,
    "Spilled SGPRs": 0,
    "Subgroups per SIMD": 16,
}


def test_a_loop_of_loads_waits_for_each_round() -> None:
    made = Made(NUMBERS, ASSEMBLY)
    assert made.loops == [(1, 1)] and made.depths() == [1]
    found = cost(made, RDNA, [Loop(1, 1, 10)], groups=60, threads=32)
    assert (found.bound, found.waves, found.sure) == ("latency", 60, True)
    assert found.products == 4 * 10 * 32 * 60
    # The first load of a round is awaited: 250 cycles, and little else.
    assert 2500 < found.us * 2e3 < 2800
    assert cost(made, RDNA, [Loop(1, 1, 20)], 60, 32).us == pytest.approx(2 * found.us, rel=0.05)


def test_many_waves_are_bound_by_what_they_move_and_lanes_may_be_idle() -> None:
    made = Made(NUMBERS, ASSEMBLY)
    assert cost(made, RDNA, [Loop(1, 1, 10)], 60_000, 32).bound == "memory"
    whole = Made({**NUMBERS, "Lanes": 64}, ASSEMBLY)
    half, full = (cost(whole, GCN, [Loop(1, 1, 10)], 60_000, n) for n in (32, 64))
    assert half.us == full.us and half.products == full.products / 2


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        # Q, K and V at once, attention, three products (one in parts, which a norm adds), two norms
        ("bert_base_layer_128", 7), ("vit_b16_layer_197", 8), ("lstm_100_256", 2),
        # Two norms, rotary positions twice, attention; seven products, three of them over 128 MiB
        ("llama_8b_token_512", 15),
    ],
)  # fmt: skip
def test_blocks_of_networks_are_planned_without_weights_in_memory(name: str, layers: int) -> None:
    graph = BLOCKS[name]()
    plan = compiler.compile(graph, AMD)
    labels = [each.label for each in plan.dispatches if each.label not in ("pack", "unpack")]
    assert len(labels) == layers, labels
    held = [tensor.data for tensor in graph.tensors.values() if tensor.data is not None]
    assert held and not any(data.strides[0] for data in held if data.ndim > 1)


def test_loops_that_the_compiler_left_out_are_told() -> None:
    found = cost(Made(NUMBERS, ASSEMBLY), RDNA, [Loop(1, 1, 10), Loop(2, 10, 90)], 1, 32)
    assert not found.sure


@pytest.mark.parametrize(
    ("made", "status"),
    [(Made(NUMBERS, ""), 0), (Made({**NUMBERS, "Spilled SGPRs": 3}, ""), 1), ("no such thing", 1)],
)
def test_spills_and_refusals_fail(
    made: Made | str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines = [Pipeline("conv", KERNEL, "u"), Pipeline("pool", KERNEL, "u")]
    monkeypatch.setattr(command, "look", lambda gpu: None)
    monkeypatch.setattr(command, "of_cases", lambda *given: dict.fromkeys(pipelines, "some"))
    found: list[Made | str] = [Made(NUMBERS, ""), made]
    monkeypatch.setattr(command, "compiled", lambda wanted, gpu: found)
    given = argparse.Namespace(gpus=["navi31"], sample=1, ops=[], translated=0)
    assert command.check(given) == status


def test_settings_that_no_kernel_has_are_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [command.setting(text) for text in ("stem=never", "tile=3x2", "ahead=4")] == [
        ("stem", "never"), ("tile", "3x2"), ("ahead", "4"),
    ]  # fmt: skip
    for text, sentence in (
        (
            "winogard_rows=always",
            f"the settings are {', '.join(sorted({*KERNELS, *SETTINGS, *form_names()}))}.",
        ),
        ("rows=alway", "rows=alway: the values of rows are always, never."),
        ("rows", "rows: the values of rows are always, never."),
    ):
        monkeypatch.setattr(sys, "argv", ["compiled", "estimates", "--against", text])
        with pytest.raises(SystemExit):
            command.main()
        assert sentence in capsys.readouterr().err


def test_a_machine_that_opens_no_null_device_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compiled(wanted: object, family: str) -> list[Made | str]:
        raise RuntimeError("compiling failed: no adapter")

    monkeypatch.setattr(driver, "compiled", compiled)
    monkeypatch.setattr(sys, "argv", ["compiled", "check"])
    assert command.main() == 0
    assert "NOT RUN: No null device can be opened here" in capsys.readouterr().out


def test_rows_of_tiles_are_compiled_at_every_size() -> None:
    from benchmarks.compiled.kernels import start_rows
    from tflgpu_plugin.ops.tiles import STARTS

    made = {(row.sizes[0], row.lanes, row.weights) for row in start_rows().values()}
    for start in STARTS.values():
        assert {(size, start.lanes, start.weights) for size in start.sizes} <= made


def test_loops_of_other_engines_are_those_that_make_the_multiply_adds() -> None:
    """One of three loops is chosen: neither the first, nor the nested one."""
    loops = [Loop(1, 1, 3), Loop(1, 1, 10), Loop(2, 10, 90)]
    made = Made(NUMBERS, ASSEMBLY)
    found = cost(made, RDNA, loops, groups=60, threads=32, products=40)
    assert found.sure and found.products == 4 * 10 * 32 * 60
    assert not cost(made, RDNA, loops, 60, 32, products=4000).sure
    assert cost(made, RDNA, loops, 60, 32, products=12).products == 4 * 3 * 32 * 60
    assert cost(made, RDNA, [], 60, 32, products=4).sure


def test_the_compilers_own_form_is_read_as_assembly() -> None:
    own = """
After lowering to hw instructions:
BB0
/* logical preds: / linear preds: / kind: top-level, */
\t s2: %1:s[0-1] = s_load_dwordx2 %2:s[2-3], 0
\ts_wait_kmcnt imm:0
BB1
\t v4: %3:v[0-3] = buffer_load_dwordx4 %4:s[0-3], %5:v[4], 0 offen
\ts_wait_loadcnt imm:0
\t v1: %6:v[8] = v_dual_fmac_f32 %7:v[0] :: v1: %8:v[9] = v_dual_fmac_f32 %9:v[1]
\ts_cbranch_scc1 block:BB1
BB2
\ts_endpgm
"""
    made = Made(NUMBERS, own)
    assert made.loops == [(1, 1)]
    kinds = [[each.kind for each in block] for block in made.blocks]
    assert kinds == [["scalar", "wait"], ["vector load", "wait", "vector", "alu"], ["other"]]
    load, wait, products, _ = made.blocks[1]
    assert (load.bytes, wait.waits, products.products) == (16, (("vector", 0),), 2)


@pytest.mark.parametrize("lanes", [32, 64])
def test_products_of_matrices_take_32_cycles_of_a_wave(lanes: int) -> None:
    line = "BB0:\n\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]\n"
    ((one,),) = Made({**NUMBERS, "Lanes": lanes}, line).blocks
    assert one.products * lanes == 16**3 and one.slots * RDNA.issue[lanes] == 32


@pytest.mark.parametrize(
    ("lines", "products"),
    [
        (("v_mul_f32_e32 v0, v1, v2", "v_add_f32_e32 v0, v0, v3"), 1),
        (("v_mul_f32_e32 v0, v1, v2", "v_mul_f32_e32 v0, v0, v3"), 0),
        (("v_mul_f32_e32 v0, v1, v2", "v_add_u32_e32 v0, v0, v3"), 0),
        (("v_fma_f32 v0, v1, v2, v3", "v_mul_f32_e32 v0, v1, v2"), 1),
    ],
)
def test_products_of_other_engines_may_be_in_two_instructions(
    lines: tuple[str, ...], products: int
) -> None:
    made = Made(NUMBERS, "BB0:\n" + "".join(f"\t{line}\n" for line in lines))
    found = cost(made, RDNA, [], groups=1, threads=32, products=1)
    assert found.products == products * 32 and found.sure == (products == 1)
    alone = cost(made, RDNA, [], groups=1, threads=32)
    assert alone.products == 32 * lines[0].startswith("v_fma")  # ours are fused


def test_models_stand_beside_webgpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def taking(us: float, family: str, sure: bool = True) -> Estimate:
        taken = Cost(us, "latency", 240, 1, sure)
        return Estimate(family, [("conv", Made(NUMBERS, ""), taken)])

    theirs = {"navi31": 4.0, "vega10": 16.0}
    monkeypatch.setattr(models, "plans", lambda model, families: [dict.fromkeys(families)] * 2)
    monkeypatch.setattr(
        models, "of_plans", lambda plans, family: {k: taking(1.0, family) for k in plans}
    )
    monkeypatch.setattr(
        models, "webgpu_model", lambda model, family: taking(theirs[family], family, sure=False)
    )
    (tmp_path / "bert.npz").touch()
    files = str(tmp_path / "bert.onnx"), str(tmp_path / "face.tflite")
    monkeypatch.setattr(sys, "argv", ["compiled", "estimates", "--models", *files])
    assert command.main() == 0
    *_, one, other, third, _, last = capsys.readouterr().out.splitlines()
    assert third.startswith("| face | navi31 | 2 |") and "| not run |" in third
    assert one.startswith("| bert | navi31 | 2 |") and "| 4? |" in one and one.endswith("| 2.00 |")
    assert other.startswith("| bert | vega10 | 2 |") and other.endswith("| 8.00 |")
    assert last == "geometric mean 4.00, worst 2.00"


def test_peers_stand_below_with_what_ours_take_by_theirs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def taking(us: float) -> Estimate:
        return Estimate("navi31", [("conv", Made(NUMBERS, ""), Cost(us, "latency", 240, 1, True))])

    def theirs(name: str, family: str, half: bool) -> Estimate:
        if half:
            raise Unavailable("its environment cannot be made")
        return taking(8.0)

    monkeypatch.setattr(command, "PEERS", {"ncnn": theirs})
    ours = {("unet_256", 0): taking(2.0), ("unet_256", 1): taking(1.0)}
    monkeypatch.setattr(command, "estimates", lambda *given: ours)
    given = ["compiled", "estimates", "--networks", "unet_256", "--gpus", "navi31"]
    monkeypatch.setattr(sys, "argv", given)
    assert command.main() == 0
    *_, single, ratio, half = capsys.readouterr().out.splitlines()
    assert single.startswith("unet_256, ncnn float32") and " 8 " in single
    assert ratio.split() == ["ours", "by", "it", "0.25"]
    assert half.endswith("NOT RUN: its environment cannot be made")
    monkeypatch.setattr(sys, "argv", [*given, "--peers"])
    assert command.main() == 0 and "ncnn" not in capsys.readouterr().out
