"""Tests float16 storage: who enables it, which tensors are stored so, and which must not be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance.variants import half as half_cases, half_storage
from tests.support.harness import run_graph
from tests.support.net import Net
from tflgpu_plugin.compile import compiler, error_sensitivity, precision
from tflgpu_plugin.ir import Array, Graph, Node, Plan, Target, Tensor
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering
from tflgpu_plugin.options import parse
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

FULL, HALF = Target(), Target(half=True)
SIDE, CHANNELS = 64, 64  # a tensor of 1 MiB, weights of 144 KiB


@pytest.mark.parametrize(
    ("given", "half"),
    [
        ({}, False),
        ({"is_precision_loss_allowed": "0"}, False),
        ({"is_precision_loss_allowed": "1"}, True),
        ({"is_precision_loss_allowed": "-1"}, False),
        ({"inference_priority1": "max_precision"}, False),
        ({"inference_priority1": "min_latency"}, True),
        ({"inference_priority1": "3"}, True),
        ({"inference_priority1": "2", "inference_priority2": "1"}, True),
        ({"inference_priority1": "1", "inference_priority2": "2"}, False),
        ({"inference_priority1": "2", "is_precision_loss_allowed": "0"}, False),
        ({"inference_priority1": "1", "is_precision_loss_allowed": "1"}, True),
    ],
)
def test_who_asks_for_it(given: dict[str, str], half: bool) -> None:
    """The obsolete option takes precedence over the priorities."""
    assert parse(given).half is half


def weights(scale: float = 1.0) -> Array:
    values = np.random.default_rng(3).uniform(-scale, scale, (CHANNELS, 1, 1, CHANNELS * 4))
    return values.astype(np.float32)


def layers(data: Array | None = None, last: str = "relu", side: int = SIDE) -> Graph:
    """Returns the graph x -> 1x1 convolution to 256 channels -> 1x1 convolution to 64 -> `last`."""
    shape = (1, side, side, CHANNELS)
    wide = (1, side, side, CHANNELS * 4)
    first = weights().reshape(CHANNELS * 4, 1, 1, CHANNELS)
    second = weights() if data is None else data
    tensors = {
        0: Tensor("x", shape),
        1: Tensor("w", first.shape, data=first),
        2: Tensor("b", (CHANNELS * 4,), data=np.ones(CHANNELS * 4, np.float32)),
        3: Tensor("wide", wide),
        4: Tensor("w2", second.shape, data=second),
        5: Tensor("back", shape),
        6: Tensor("y", shape),
        7: Tensor("axes", (2,), "i32", np.array([1, 2], np.int32)),
    }
    how = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", "activation": "none"}
    nodes = (
        Node(0, "conv_2d", (0, 1, 2), (3,), how),
        Node(1, "conv_2d", (3, 4, None), (5,), how),
        Node(2, last, (5, 7), (6,), {"keep_dims": True})
        if last == "reduce_sum"
        else Node(2, last, (5,), (6,)),
    )
    if last == "reduce_sum":
        tensors[6] = Tensor("y", (1, 1, 1, CHANNELS))
    return Graph(tensors, nodes, (0,), (6,))


def stored(plan: Plan, name: str) -> list[bool]:
    """Whether each operand of this name is float16 in the plan's kernels."""
    texts = [pipeline.wgsl for pipeline in plan.pipelines if f"{name}_data:" in pipeline.wgsl]
    return [f"{name}_data: array<vec2u>" in text for text in texts]


def test_weights_and_values_take_half_of_the_bytes() -> None:
    full, half = (compiler.compile(layers(), target) for target in (FULL, HALF))
    bias = CHANNELS * 4 * 4
    assert half.bytes_of("weights") - bias == (full.bytes_of("weights") - bias) / 2
    assert [weight.half for weight in half.weights] == [
        weight.bytes > bias for weight in full.weights
    ]
    assert half.bytes_of("pool") < 0.7 * full.bytes_of("pool")  # inputs and outputs are float32
    for weight in half.weights:
        assert weight.image().nbytes == weight.bytes


def test_float32_is_the_same_as_ever() -> None:
    assert not any("halves" in p.wgsl for p in compiler.compile(layers(), FULL).pipelines)
    assert compiler.compile(layers(), FULL).pipelines != compiler.compile(layers(), HALF).pipelines


@pytest.mark.parametrize("scale", [1e5, 1e-5])
def test_weights_that_float16_cannot_hold_stay(scale: float) -> None:
    """They are too large, or so small that digits are lost."""
    plan = compiler.compile(layers(weights(scale)), HALF)
    assert sorted(weight.half for weight in plan.weights) == [False, False, True]


def test_whole_numbers_and_their_like_are_not_stored_so() -> None:
    assert precision.representable(np.array([1.0, -65504.0], np.float32))
    assert precision.representable(np.array([True, False]))
    assert precision.representable(np.zeros(3, np.float32))
    for wrong in (
        np.array([3], np.int32),
        np.array([np.nan, 1], np.float32),
        np.array([np.inf], np.float32),
        np.array([65505.0], np.float32),
    ):
        assert not precision.representable(wrong)


def test_sums_stay_float32() -> None:
    plan = compiler.compile(layers(last="reduce_sum"), HALF)
    assert any(stored(plan, "y")) and stored(plan, "out") == [False]


def normalised(states: tuple[tuple[int, int], ...] = (), keep_f32: bool = False) -> Graph:
    """Returns the graph x -> softmax a -> a + s -> softmax; tensor 2 is s, tensor 3 the sum."""
    n = Net()
    a = n.op("softmax", n.input((1, 8, 8, 8)), beta=1.0)
    s = n.tensor((1, 8, 8, 8)) if states else n.input((1, 8, 8, 8))
    total = n.op("add", a, s, activation="none")
    n.tensors[total] = replace(n.tensors[total], keep_f32=keep_f32)
    return n.graph(n.op("softmax", total, beta=1.0), states=states)


def test_state_and_steps_inside_of_ops_stay_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding errors of each run would add up, and differences of large numbers would be
    inaccurate."""
    monkeypatch.setattr(precision, "CACHED_VECTORS", 0)
    for graph, half in (
        (normalised(), True),
        (normalised(((2, 3),)), False),
        (normalised(keep_f32=True), False),
    ):
        plan = compiler.compile(graph, HALF)
        assert any(stored(plan, "out")) is half  # the sum, made by the first softmax
        assert any(stored(plan, "x")) is half


@pytest.mark.parametrize(("largest", "wide"), [(0.09, set()), (0.2, {5}), (1.0, {3, 5})])
def test_the_worse_the_whole_the_less_may_be_left(
    largest: float, wide: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors are 0.006, 0.04 and `largest`; an error of 0.1 is acceptable."""
    squares = {
        t: (error / precision.ROUNDING) ** 2 for t, error in {0: 0.006, 3: 0.04, 5: largest}.items()
    }
    monkeypatch.setattr(error_sensitivity, "sensitivities", lambda graph: squares)
    low = Lowering(layers(), FULL)
    assert precision.unbearable(low, lambda source: source, {t: t for t in squares}) == wide


def test_what_a_logarithm_is_taken_of_stays_float32() -> None:
    """This includes weights, through roots and squares, but not tensors before a saturating
    function."""
    for before, halves in (("abs", False), ("sqrt", False), ("pow", False), ("logistic", True)):
        graph = layers(last=before)
        extra = {8: Tensor("log", graph.shape(6)), 9: Tensor("p", (), data=np.float32([2])[0])}
        nodes = [*graph.nodes[:2], replace(graph.nodes[2], inputs=(5,)), Node(3, "log", (6,), (8,))]
        if before == "pow":
            nodes[2] = replace(nodes[2], inputs=(5, 9))
        taken = Graph({**graph.tensors, **extra}, tuple(nodes), (0,), (8,))
        plan = compiler.compile(taken, HALF)
        assert any(weight.half for weight in plan.weights) is halves, before
        pools = [compiler.compile(taken, target).bytes_of("pool") for target in (FULL, HALF)]
        assert (pools[1] < pools[0]) is halves


@pytest.mark.parametrize(
    ("read", "written", "found"),
    [
        (4, 4, {3, 5}), (2, 4, {3, 5}), (1, 4, {3, 5}), (0, 4, {5}),
        (4, 2, {3}), (4, 1, {3}), (0, 0, set()),
    ],
)  # fmt: skip
def test_what_kernels_see_as_bits_or_write_in_parts_stays_float32(
    read: int, written: int, found: set[int]
) -> None:
    low = Lowering(layers(weights(1e-2)), FULL)
    node = low.graph.nodes[1]
    low.dispatch(
        Kernel("unary"),
        node,
        {"x": Access(3, read)},
        {"out": Access(5, written)},
        (1, 1, 1),
    )
    assert precision.halves(low, lambda source: source, lambda tensor: 1 << 20) == found


@pytest.mark.parametrize(
    ("native", "software", "forced", "found"),
    [
        (True, False, "", "native"), (True, True, "", "words"), (False, False, "", "words"),
        (True, False, "words", "words"), (False, True, "native", "native"),
    ],
)  # fmt: skip
def test_gpus_that_are_right_in_float16_store_it_as_it_is(
    native: bool, software: bool, forced: str, found: str
) -> None:
    tuning = {"half": forced} if forced else {}
    target = Target(half=True, native_half=native, software=software, tuning=tuning)
    assert target.halves == found
    texts = [pipeline.wgsl for pipeline in compiler.compile(layers(), target).pipelines]
    stored = [text for text in texts if "halves(" in text]
    assert stored and all(("native_halves(" in text) == (found == "native") for text in stored)
    for text in texts:
        assert text.startswith("enable f16;") == ("f16>" in text) == ("array<vec4<f16>" in text)
        assert ("array<vec2u>" in text) <= (found == "words")


def test_small_things_stay_float32() -> None:
    n = Net()
    between = n.op("softmax", n.input((1, 16, 16, 8)), beta=1.0)
    graph = n.graph(n.op("softmax", between, beta=1.0))
    assert compiler.compile(graph, HALF).pipelines == compiler.compile(graph, FULL).pipelines


# ---- on the device ------------------------------------------------------------------------------


def numbers() -> Array:
    """Returns all float16 numbers, the midpoints between neighbours, the float32 numbers next to
    these, and floats of random bits."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    ends = np.array([65504, 65519, 65520, 65536, 1e30, np.inf, np.nan, 0, 2.0**-24], np.float32)
    finite = np.unique(every[np.isfinite(every)])
    between = (finite[:-1] + finite[1:]) / 2
    beside = [np.nextafter(between, np.float32(end)) for end in (-np.inf, np.inf)]
    chance = np.random.default_rng(2).integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    found = np.concatenate([every, ends, -ends, between, *beside, chance])
    return np.resize(found, (1, -(-found.size // 4), 4))


@pytest.mark.adapter
@pytest.mark.parametrize("how", ["native", "unpacked", "by hand"])
def test_rounding_is_that_of_numpy(how: str) -> None:
    """Values are rounded to the nearest float16, halves to even, also on devices without
    `unpack2x16float`; numbers that are too large become 65504, infinities and NaN are kept."""
    given, unpacks, native = numbers(), how == "unpacked", how == "native"
    n = Net()
    graph = n.graph(n.op("neg", n.input(given.shape)))
    device = adapter.open_device(adapter.select(None))
    with half_cases.everything():
        able = unpacks and device.target.unpacks
        tuning = {"half": "native" if native else "words"}
        target = replace(device.target, half=True, unpacks=able, tuning=tuning)
        plan = compiler.compile(graph, target)
    if native and "shader-f16" not in device.target.features:
        pytest.skip("no shader-f16 here")
    for word, there in (("unpack2x16float", able), ("enable f16;", native)):
        assert any(word in pipeline.wgsl for pipeline in plan.pipelines) == there
    (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([given])
    np.testing.assert_array_equal(got, -half_storage.rounded(given))


@pytest.mark.adapter
def test_float16_inputs_and_outputs_are_those_of_the_host() -> None:
    """Numbers that are too large become infinite there, as in a cast; a float16 input is
    unchanged."""
    given = numbers()
    with np.errstate(over="ignore", invalid="ignore"):
        short = given.astype(np.float16)
    wide, narrow = Tensor("wide", given.shape), Tensor("narrow", given.shape, "f16")
    node = Node(0, "reshape", (0, None), (1,), {"shape": given.shape})
    for source, target, value, expected in (
        (wide, narrow, given, short),
        (narrow, wide, short, short.astype(np.float32)),
        (narrow, replace(narrow, name="copy"), short, short),
    ):
        graph = Graph({0: source, 1: target}, (node,), (0,), (1,))
        np.testing.assert_array_equal(run_graph(graph, {0: value})[1], expected)


@pytest.mark.parametrize(
    ("vendor", "queries", "half"),
    [("nvidia", 64, False), ("nvidia", 1, True), ("intel", 64, True)],
)
def test_keys_that_many_tiles_read_stay_float32_where_conversions_are_slow(
    vendor: str, queries: int, half: bool
) -> None:
    net, width = Net(), 64
    x, source = (net.input((1, rows, width)) for rows in (queries, 1024))
    parts = [net.dense(each, width) for each in (x, source, source)]
    y = net.op("attention", *parts, scale=0.125)
    target = Target(half=True, native_half=True, software=False, vendor=vendor)
    plan = compiler.compile(net.graph(y), target)
    (text,) = (each.wgsl for each in plan.pipelines if "k_data: " in each.wgsl)
    for name in "kv":
        assert (f"{name}_data: array<vec4<f16>>" in text) == half
