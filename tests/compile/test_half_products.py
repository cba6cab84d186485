"""Tests which products are summed in float16, and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from conformance.test_variants import DIRECT
from conformance.variants import half as half_cases
from tests.compile.test_half import HALF, SIDE, layers, weights
from tests.support.net import Net
from tflgpu_plugin.compile import compiler, error_sensitivity, half_products, precision
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Plan, Target
from tflgpu_plugin.ops.table import NO_OP
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

NATIVE = replace(HALF, native_half=True, vendor="amd")
HOW = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", "activation": "none"}


def added(plan: Plan) -> list[str]:
    """Returns the type of each dense kernel's sums: "half" or "float"."""
    convolutions = [p.wgsl for p in plan.pipelines if "c0_0" in p.wgsl]
    return ["half" if "half_x(" in text else "float" for text in convolutions]


def test_products_of_two_float16_are_added_up_so_on_devices_that_can() -> None:
    """The partition's input is float32, and so are products with it."""
    plan = compiler.compile(layers(), NATIVE)
    assert added(plan) == ["float", "half"]
    (text,) = (p.wgsl for p in plan.pipelines if "half_x(" in p.wgsl)
    assert "half_eight_w(" in text and "p.unscale" in text and "load_x(x" not in text
    for other in (HALF, replace(NATIVE, half=False), replace(NATIVE, software=True)):
        assert set(added(compiler.compile(layers(), other))) == {"float"}
    assert added(compiler.compile(layers(), replace(NATIVE, tuning={"half": "words"}))) == [
        "float", "float",
    ]  # fmt: skip


def test_two_runs_of_eight_products_go_on_in_float32() -> None:
    """There are two iterations of four channels each; the remaining channels follow one by one."""
    plan = compiler.compile(layers(), NATIVE)
    (text,) = (p.wgsl for p in plan.pipelines if "half_x(" in p.wgsl)
    assert (half_products.RUN, half_products.TERMS) == (8, 16)
    for sum_ in ("0_0", "3_1"):
        assert text.count(f"c{sum_} += vec4f(") == 2  # of the loads ahead, and the rest
        assert text.count(f"c{sum_} += vec4f(h{sum_}_1_0 + h{sum_}_0_0);") == 1
    assert "c0_0 = fma(" not in text


@pytest.mark.parametrize(
    ("channels", "side", "ahead", "stage"), [(16, 256, 8, 16), (24, 256, 4, 8), (16, 128, 8, 16)]
)
def test_two_runs_are_loaded_together_where_lanes_wait_for_workgroup_memory(
    channels: int, side: int, ahead: int, stage: int
) -> None:
    """Unless iterations would be left over at the end: 24 channels are 12 iterations. Few threads
    do so in float32, too. A stage has two rows at least."""
    nvidia = replace(NATIVE, vendor="nvidia", tuning=DIRECT)
    plan = compiler.compile(chain(channels, side), nvidia)
    (text,) = (p.wgsl for p in plan.pipelines if "h0_0" in p.wgsl)
    assert f"k += {ahead}u" in text
    assert f"var<workgroup> tile: array<array<Vector, {8 * ahead}u>, {stage // ahead}>;" in text
    assert np.uint32(stage).tobytes() in plan.uniforms


def test_weights_that_are_shuffled_are_multiplied_in_float32() -> None:
    target = replace(NATIVE, subgroup_size=32, tuning={"weights": "shuffle"})
    assert set(added(compiler.compile(layers(), target))) == {"float"}


def test_lanes_have_weights_from_workgroup_memory_in_registers_of_their_own() -> None:
    """Else Mesa's compiler for NVIDIA moves each pair to a register of the subgroup."""
    plan = compiler.compile(layers(), replace(NATIVE, tuning={"weights": "memory"}))
    (text,) = (p.wgsl for p in plan.pipelines if "half_x(" in p.wgsl)
    assert "let own_zero = select(0u, 1u, m0 ==" in text
    assert set(re.findall(r"let t_at = vec2u\((.*?),", text)) == {"(k - start) / 4u + own_zero"}


def test_sums_of_integers_stay_float32() -> None:
    plain, step = layers(), EpilogueOp("whole")
    nodes = (
        replace(node, epilogue=(*node.epilogue, step)) if node.op == "conv_2d" else node
        for node in plain.nodes
    )
    assert added(compiler.compile(plain, NATIVE))[-1] == "half"
    assert set(added(compiler.compile(replace(plain, nodes=tuple(nodes)), NATIVE))) == {"float"}


def test_small_layers_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = SIDE * SIDE * 64 * 256
    for least, found in ((work, "half"), (work + 1, "float")):
        monkeypatch.setattr(half_products, "MIN_WORK", least)
        assert added(compiler.compile(layers(), NATIVE))[-1] == found


def test_what_is_known_of_no_layer_is_multiplied_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layers without known work or weights, or with transformed weights (Winograd), stay
    float32."""
    assert half_products.MIN_WORK == 8 << 20
    graph = chain(64, 64)
    low = compiler.lower(graph, NATIVE)
    assert {launch.variant["taps"] for launch in low.launches if "run" in launch.variant} == {
        "point"
    }
    assert half_products.candidates(low, lambda source: source) == {}
    direct = compiler.lower(graph, replace(NATIVE, tuning=DIRECT))
    assert len(half_products.candidates(direct, lambda source: source)) == 1
    monkeypatch.setattr(half_products, "MIN_WORK", 1)
    monkeypatch.setattr(half_products.ops, "traits", lambda op: NO_OP)
    assert half_products.candidates(direct, lambda source: source) == {}


def test_what_a_logarithm_is_taken_of_is_multiplied_in_float32() -> None:
    graph = layers(last="log")
    assert set(added(compiler.compile(graph, NATIVE))) == {"float"}
    wide = {**graph.tensors, 6: replace(graph.tensors[6], keep_f32=True)}
    assert added(compiler.compile(replace(layers(), tensors=wide), NATIVE))[-1] == "float"


@pytest.mark.parametrize(("share", "found"), [(0.99, "half"), (1.01, "float")])
def test_as_much_is_added_up_so_as_outputs_bear(
    share: float, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error grows by 5.5 squared roundings per sum."""
    limit = (precision.BEARABLE / precision.ROUNDING) ** 2 / 5.5
    given = {5: share * limit}
    monkeypatch.setattr(error_sensitivity, "sensitivities", lambda graph: given)
    low = compiler.lower(layers(), NATIVE)
    able = half_products.candidates(low, lambda source: source)
    stored = {3, *(w.key for _, w in able.values())}
    chosen = half_products.chosen(low, able, stored)
    assert [low.launches[place].node.id for place in chosen] == ([1] if found == "half" else [])


def test_what_outputs_do_not_depend_on_may_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_sensitivity, "sensitivities", lambda graph: {})
    monkeypatch.setattr(precision, "ROUNDING", 1.0)
    assert added(compiler.compile(layers(), NATIVE))[-1] == "half"


@pytest.mark.parametrize(
    ("largest", "power"),
    [
        (0.0, 0), (1.0, -5), (0.125, -2), (0.1, -1), (0.06, 0), (-3.0, -6), (65504.0, -21),
        (0.1235, -1), (0.124, -2),  # 1 % of room for what roundings add
    ],
)  # fmt: skip
def test_weights_are_scaled_so_that_no_sum_is_too_large(largest: float, power: int) -> None:
    data = np.float32([0.01 * largest, largest])
    assert half_products.shift(data) == power
    assert abs(largest) * half_products.TERMS * 2.0**power < 1
    assert half_products.shift(None) == 0


def test_packed_weights_are_scaled() -> None:
    (whole,) = half_products.shifted(lambda: np.float32([1, -3]), -2)
    assert list(whole) == [0.25, -0.75]
    pieces = half_products.shifted(lambda: iter([np.float32([1]), np.float32([2])]), 3)
    assert [list(piece) for piece in pieces] == [[8], [16]]


def test_scaled_weights_are_others_in_caches() -> None:
    """The key includes the power of two, by which the sums are divided."""
    plans = [compiler.compile(layers(weights(s)), NATIVE) for s in (1.0, 0.03)]
    scaled = [[w.key[-1] for w in plan.weights if w.half][-1] for plan in plans]
    assert scaled == [-5, 1]
    plain = compiler.compile(layers(), replace(NATIVE, native_half=False))
    assert [w.key[-1] for w in plain.weights if w.half][-1] != -5
    for plan, power in zip(plans, scaled, strict=True):
        assert np.float32(2.0**-power).tobytes() in plan.uniforms


def chain(channels: int, side: int, shared: bool = False) -> Graph:
    """Returns the graph x -> relu -> 3x3 convolution -> relu, with weights below 64 KiB. `shared`:
    a second convolution, whose map is too small for float16 to pay, uses the same weights."""
    n = Net()
    x = n.op("softmax", n.input((1, side, side, channels)), beta=1.0)
    w = n.constant(np.full((channels, 3, 3, channels), 0.25, np.float32))
    y = n.op("softmax", n.op("conv_2d", x, w, None, **HOW), beta=1.0)
    if not shared:
        return n.graph(y)
    return n.graph(y, n.op("conv_2d", n.input((1, 4, 4, channels)), w, None, **HOW))


def test_small_weights_are_float16_only_to_be_multiplied_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = compiler.compile(chain(16, 128), NATIVE)
    assert added(plan) == ["half"] and [w.half for w in plan.weights] == [True]
    monkeypatch.setattr(half_products, "MIN_WORK", 1 << 40)
    plan = compiler.compile(chain(16, 128), NATIVE)
    assert added(plan) == ["float"] and [w.half for w in plan.weights] == [False]


def test_weights_are_scaled_for_all_that_read_them_or_for_none() -> None:
    plan = compiler.compile(chain(16, 128, shared=True), replace(NATIVE, tuning={"tile": "2x2"}))
    assert set(added(plan)) == {"float"} and not any(w.half for w in plan.weights)


@pytest.mark.parametrize(("side", "stored"), [(8, [False, True]), (7, [True, True])])
def test_weights_that_lanes_would_widen_for_many_pixels_stay_float32(
    side: int, stored: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first layer's weights stay float32, because it reads the host's buffer."""
    monkeypatch.setattr(precision, "CACHED_VECTORS", 0)
    monkeypatch.setattr(half_products, "MIN_WORK", 0)
    assert half_products.MANY == 64
    plan = compiler.compile(layers(side=side), replace(NATIVE, tuning={"split_k": "never"}))
    assert added(plan) == ["float", "half"]
    assert [w.half for w in plan.weights if w.key[1] == "blocks"] == stored
    words = replace(NATIVE, tuning={"half": "words"})
    halved = [w.half for w in compiler.compile(layers(side=side), words).weights]
    assert halved.count(True) >= 2


def test_depthwise_weights_that_lanes_have_in_registers_stay_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half_products, "MIN_WORK", 0)
    monkeypatch.setattr(precision, "CACHED_VECTORS", 0)
    n = Net()
    x = n.op("softmax", n.input((1, 4, 4, 8)), beta=1.0)
    w = n.constant(weights().reshape(-1)[:72].reshape(1, 3, 3, 8))
    y = n.op("depthwise_conv_2d", x, w, None, **HOW, multiplier=1)
    graph = n.graph(n.op("softmax", y, beta=1.0))
    shuffled = replace(NATIVE, vendor="something new", subgroup_size=32)
    for target, stored in ((NATIVE, False), (shuffled, True)):
        assert [w.half for w in compiler.compile(graph, target).weights] == [stored]
    monkeypatch.setattr(half_products, "MIN_WORK", 4 * 4 * 8 * 9 + 1)
    assert [w.half for w in compiler.compile(graph, NATIVE).weights] == [True]


# ---- on the device ------------------------------------------------------------------------------


def targets() -> Iterator[Target]:
    """Yields targets whose kernels read one or four channels per iteration, and load several
    iterations at once."""
    own = adapter.open_device(adapter.select(None)).target
    if "shader-f16" not in own.features:
        pytest.skip("no shader-f16 here")
    for software in (True, False):
        yield replace(own, half=True, tuning=half_cases.NATIVE, software=software, vendor="amd")


def product(x: Array, w: Array) -> Iterator[Array]:
    """Yields the product of [1, pixels, 1, channels] and [outputs, channels], computed entirely in
    float16."""
    n = Net()
    held = n.constant(w.reshape(len(w), 1, 1, -1))
    graph = n.graph(n.op("conv_2d", n.input(x.shape), held, None, **HOW))
    device = adapter.open_device(adapter.select(None))
    for target in targets():
        with half_cases.everything():
            plan = compiler.compile(graph, target)
        assert added(plan) == ["half"]
        (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([x])
        yield got


@pytest.mark.adapter
def test_a_run_is_eight_products_and_no_more() -> None:
    """2048 + 1 is 2048 in float16, seven times in a row; the following products are exact."""
    w = np.ones((8, 40), np.float32)
    w[:, 0] = 2048
    for got in product(np.ones((1, 5, 1, 40), np.float32), w):
        np.testing.assert_array_equal(got, np.full((1, 5, 1, 8), 2048.0 + 32))


@pytest.mark.adapter
def test_the_second_run_is_added_to_the_first_in_float16() -> None:
    """2048 + 1 is 2048 once more, unless each iteration is a run. The stored result is float16."""
    w = np.zeros((8, 64), np.float32)
    w[:, 0], w[:, 8:16], w[:, 16] = 2048, 0.125, 1
    whole, lost = product(np.ones((1, 5, 1, 64), np.float32), w)
    np.testing.assert_array_equal(whole, np.full((1, 5, 1, 8), 2050.0))
    np.testing.assert_array_equal(lost, np.full((1, 5, 1, 8), 2048.0))


@pytest.mark.adapter
@pytest.mark.parametrize("channels", [64, 72, 40])
def test_two_runs_are_added_in_float16_with_weights_in_workgroup_memory(channels: int) -> None:
    """72 and 40 channels are 36 and 20 iterations, so that each run is added in float32. Stages are
    of 16 and 8 iterations; the last number is in the last stage."""
    n = Net()
    w = np.zeros((16, 1, 1, channels), np.float32)
    w[:, 0, 0, 0], w[:, 0, 0, 8:16], w[:, 0, 0, 16], w[:, 0, 0, -1] = 2048, 0.125, 1, 4
    graph = n.graph(n.op("conv_2d", n.input((1, 1, 9, channels)), n.constant(w), None, **HOW))
    tuning = {"half": "native", "weights": "memory", "tile": "1x4"}
    target = replace([*targets()][-1], vendor="nvidia", tuning=tuning)
    with half_cases.everything():
        plan = compiler.compile(graph, target)
    assert added(plan) == ["half"]
    device = adapter.open_device(adapter.select(None))
    x = np.ones((1, 1, 9, channels), np.float32)
    (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([x])
    lost = 2 if channels == 64 else 0
    np.testing.assert_array_equal(got, np.full((1, 1, 9, 16), 2054.0 - lost))


@pytest.mark.adapter
def test_no_sum_is_too_large_for_float16() -> None:
    """The inputs are the largest numbers, whose sums cancel; infinities and NaN are kept."""
    w = np.ones((8, 16), np.float32)
    w[:, 8:] = -1
    w[1] = 2.0**-10
    x = np.full((1, 6, 1, 16), 65504, np.float32)
    x[0, 3, 0, 2], x[0, 4, 0, 9], x[0, 5, 0, 1] = np.inf, np.inf, np.nan
    for got in product(x, w):
        np.testing.assert_array_equal(got[0, :3, 0, 0], 0.0)
        np.testing.assert_allclose(got[0, :3, 0, 1], 65504 / 64, rtol=2e-3)
        assert (got[0, 3, 0, 0], got[0, 4, 0, 0]) == (np.inf, -np.inf)
        assert np.isnan(got[0, 5, 0]).all()
