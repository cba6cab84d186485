"""Tests products of bytes: which layers are computed so, what is stored in bytes, and that results
are those of float32 sums to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import byte_storage, compiler
from tflgpu_plugin.ir import Array, Graph, Plan, Quantization, Target, Tensor
from tflgpu_plugin.ops import byte_products
from tflgpu_plugin.ops.blocks import Blocks
from tflgpu_plugin.ops.byte_products import Weights, shift
from tflgpu_plugin.ops.levels import BYTE, Level, level
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

BYTES = {"byte_products": "always"}
GPU = Target(vendor="amd", tuning=BYTES)
MAP = (1, 9, 10, 12)


def layer(b: Net, x: int, outputs: int, kernel: int, dtype: str, zero: int, scale: float) -> int:
    """Adds a convolution of 8 bits, in uint8 with weights whose zero point is 140."""
    depth, unsigned = b.shape(x)[-1], dtype == "u8"
    shape = outputs, kernel, kernel, depth
    least = np.iinfo(np.uint8 if unsigned else np.int8).min
    data = b.random.integers(least, least + 256, shape).astype("uint8" if unsigned else "int8")
    given = b.tensors[x].quantization
    assert given is not None
    weights = b.constant(data, dtype, Quantization((0.01,), (140 if unsigned else 0,)))
    sums = Quantization((0.01 * given.scale[0],), (0,))
    bias = b.constant(b.random.integers(-999, 999, outputs).astype(np.int32), "i32", sums)
    made = Tensor("", (), dtype, None, Quantization((scale,), (zero,)))
    return b.op("conv_2d", x, weights, bias, made=made, **WINDOW)


def network(dtype: str) -> Graph:
    """Returns a point, a window and another point, each on the result of the one before."""
    b = Net()
    zero = 100 if dtype == "u8" else -28
    x = b.input(MAP, dtype, Quantization((0.05,), (zero,)))
    x = layer(b, x, 24, 1, dtype, zero + 7, 0.3)
    x = layer(b, x, 18, 3, dtype, zero - 9, 5.0)
    return b.graph(layer(b, x, 8, 1, dtype, zero, 20.0))


def fed(dtype: str) -> Array:
    kind = np.dtype("uint8" if dtype == "u8" else "int8")
    limits = np.iinfo(kind)
    return np.random.default_rng(3).integers(limits.min, limits.max + 1, MAP).astype(kind)


def results(plan: Plan, value: Array) -> Array:
    device = adapter.open_device(adapter.select(None))
    (found,) = Instance(Program(plan, device.handle, device.pipelines)).run([value])
    return np.asarray(found)


def labels(plan: Plan) -> list[str]:
    return [dispatch.label for dispatch in plan.dispatches]


def test_layers_pass_on_bytes() -> None:
    plan = compiler.compile(network("i8"), GPU)
    assert labels(plan) == ["pack", "conv", "conv", "conv", "unpack"]
    assert [d.form for d in plan.dispatches[1:4]] == ["byte_products"] * 3
    texts = [plan.pipelines[d.pipeline].wgsl for d in plan.dispatches[1:4]]
    assert all("four_dots(" in text and "x_data: array<u32>" in text for text in texts)
    assert ["y_data: array<u32>" in text for text in texts] == [True, True, False]
    plain = compiler.compile(network("i8"), replace(GPU, tuning={}))
    assert "byte_products" not in {d.form for d in plain.dispatches}
    assert not any("four_dots(" in pipeline.wgsl for pipeline in plain.pipelines)


def test_bytes_take_a_quarter_of_the_memory() -> None:
    small, plain = (
        compiler.compile(network("u8"), replace(GPU, tuning=tuning)) for tuning in (BYTES, {})
    )
    pools = [
        sum(b.bytes - b.zeros for b in plan.buffers if b.role == "pool") for plan in (small, plain)
    ]
    assert pools[0] < pools[1] / 1.5  # the last result is not stored in bytes


@pytest.mark.adapter
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("lack", ["", "VECTOR", "FOLDED"])
def test_results_are_the_same_to_the_bit(
    dtype: str, lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lack`: no tensor can be stored in bytes, since nothing writes whole vec4, or nothing has
    parameters left, so that each layer gets a copy of its input."""
    own = adapter.open_device(adapter.select(None)).target
    graph, value = network(dtype), fed(dtype)
    expected = results(compiler.compile(graph, own), value)
    if lack:
        monkeypatch.setattr(byte_storage, lack, {"VECTOR": 0, "FOLDED": 64}[lack])
    assert len(np.unique(expected)) > 50
    hardware = replace(own, software=False)
    for target in (own, *(replace(hardware, vendor=name) for name in ("unknown", "nvidia"))):
        bytes_ = replace(target, tuning=BYTES)
        plan = compiler.compile(graph, bytes_)
        assert labels(plan).count("unary") == (3 if lack else 0)
        assert np.array_equal(results(plan, value), expected)


@pytest.mark.adapter
@pytest.mark.parametrize("outputs", [8, 16])
@pytest.mark.parametrize("lanes", ["16", "64"])
def test_weights_of_several_stages_pass_through_workgroup_memory(outputs: int, lanes: str) -> None:
    """75 iterations: some stages, and a last one of an odd number."""
    own = adapter.open_device(adapter.select(None)).target
    b = Net()
    x = b.input((1, 5, 7, 300), "i8", Quantization((0.05,), (3,)))
    graph = b.graph(layer(b, x, outputs, 1, "i8", 5, 3.0))
    value = np.random.default_rng(5).integers(-128, 128, (1, 5, 7, 300)).astype(np.int8)
    tuning = BYTES | {"weights": "memory", "split_k": "never", "lanes": lanes, "serial": "256"}
    plan = compiler.compile(graph, replace(own, software=False, vendor="nvidia", tuning=tuning))
    assert ("dot4I8Packed", "workgroupBarrier") == tuple(
        word for word in ("dot4I8Packed", "workgroupBarrier")
        if any(word in each.wgsl for each in plan.pipelines)
    )  # fmt: skip
    assert np.array_equal(results(plan, value), results(compiler.compile(graph, own), value))


@pytest.mark.adapter
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("shape", [(1, 200), (3, 200), (2, 3, 1, 37)])
def test_few_rows_on_nvidia(dtype: str, shape: tuple[int, ...]) -> None:
    """Layers of few rows use workgroups of 32 lanes there, and threads of few results one slice."""
    own = adapter.open_device(adapter.select(None)).target
    b, unsigned = Net(), dtype == "u8"
    kind, zero = np.dtype("uint8" if unsigned else "int8"), 133 if unsigned else 5
    limits = np.iinfo(kind)
    x = b.input(shape, dtype, Quantization((0.05,), (zero,)))
    data = b.random.integers(limits.min, limits.max + 1, (45, shape[-1])).astype(kind)
    weights = b.constant(data, dtype, Quantization((0.01,), (140 if unsigned else 0,)))
    bias = b.random.integers(-999, 999, 45).astype(np.int32)
    sums = b.constant(bias, "i32", Quantization((0.01 * 0.05,), (0,)))
    made = Tensor("", (), dtype, None, Quantization((0.5,), (zero - 9,)))
    keep = {"keep_num_dims": len(shape) > 2}
    graph = b.graph(b.op("fully_connected", x, weights, sums, made=made, **keep))
    value = b.random.integers(limits.min, limits.max + 1, shape).astype(kind)
    plain = compiler.compile(graph, own)
    for more in ({}, {"serial": "16"}):
        target = replace(own, software=False, vendor="nvidia", tuning=BYTES | more)
        plan = compiler.compile(graph, target)
        texts = [plan.pipelines[d.pipeline].wgsl for d in plan.dispatches if d.label == "conv"]
        assert texts and all("dot4I8Packed" in text for text in texts)
        assert all("@workgroup_size(32)" in text for text in texts)
        assert np.array_equal(results(plan, value), results(plain, value))
    assert len(np.unique(results(plain, value))) > 20


@pytest.mark.adapter
def test_a_product_of_floats_beside_a_layer_of_bytes() -> None:
    """Weights in blocks, of which GPUs load several words at once, multiply the values of what a
    layer has in bytes."""
    b = Net()
    x = layer(b, b.input((1, 1, 2, 64), "i8", Quantization((0.05,), (3,))), 128, 1, "i8", 5, 0.3)
    words = b.random.integers(-(2**31), 2**31, (16, 4, 4)).astype(np.int32)
    scales = b.constant(np.full((16, 4), 0.01, np.float32))
    blocks = b.op("matmul_blocks", x, b.constant(words), scales, bits=4, block=32)
    graph = b.graph(blocks, layer(b, x, 8, 3, "i8", 0, 5.0))
    value = b.random.integers(-128, 128, (1, 1, 2, 64)).astype(np.int8)
    device = adapter.open_device(adapter.select(None))
    gpu = replace(device.target, software=False, vendor="amd", tuning=BYTES)
    made, expected = (
        Instance(Program(plan, device.handle, device.pipelines)).run([value])
        for plan in (compiler.compile(graph, target) for target in (gpu, device.target))
    )
    assert np.allclose(made[0], expected[0], atol=1e-3) and np.abs(expected[0]).max() > 1
    assert np.array_equal(made[1], expected[1])


def test_what_is_wanted_elsewhere_as_it_is_stays() -> None:
    """The input of a layer is a state too: the host reads it."""
    b = Net()
    x = b.input(MAP, "i8", Quantization((0.05,), (3,)))
    first = layer(b, x, 12, 1, "i8", 5, 0.3)
    graph = b.graph(layer(b, first, 8, 1, "i8", 0, 5.0))
    low = compiler.assembly(graph, GPU).low
    assert len(low.in_bytes) == 2
    low.graph = replace(low.graph, states=((x, x),))
    found = byte_storage.levels(low, low.root)
    assert found[first] == Level(0.3, 5) and x not in found
    (copy,) = (made for made, of in low.in_bytes.items() if of == x)
    assert found[copy] == Level(0.05, 3) and low.root(copy) == copy
    assert [launch.kernel for launch in low.launches].count("unary") == 1


@pytest.mark.adapter
@pytest.mark.parametrize("scale", [0.3, 0.05])
@pytest.mark.parametrize("made_by", ["quantize", "layer"])
def test_inputs_in_their_place_in_a_result(scale: float, made_by: str) -> None:
    """A layer's input is computed in its place in a result, beside what it is computed from. The
    host rounds the result, so with another scale values are beyond its bytes; a layer must not read
    and write it."""
    b = Net()
    x = b.input(MAP, "u8", Quantization((scale,), (100,)))
    made = Tensor("", (), "u8", None, Quantization((0.05,), (100,)))
    if made_by == "layer":
        first = layer(b, x, 12, 1, "u8", 100, 0.05)
    else:
        first = b.op("quantize", x, made=made)
    joined = b.op("concat", first, x, made=made, axis=3, rescales=True)
    graph = b.graph(layer(b, first, 8, 1, "u8", 90, 5.0), joined)
    device = adapter.open_device(adapter.select(None))
    found = []
    for tuning in ({}, BYTES):
        plan = compiler.compile(graph, replace(device.target, tuning=tuning))
        found.append(Instance(Program(plan, device.handle, device.pipelines)).run([fed("u8")]))
    assert "byte_products" in {d.form for d in plan.dispatches}
    assert all(np.array_equal(a, c) for a, c in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (-128, 127, 0), (-127, 5, 0), (-120, 135, 8), (-135, 120, -7), (1, 255, 128),
        (-255, -1, -127), (-128, 128, None), (3, 256, None),
    ],
)  # fmt: skip
def test_weights_are_relative_to_a_number_where_they_must(
    least: int, most: int, expected: int | None
) -> None:
    assert shift(np.array([least, most], np.int16)) == expected
    if expected is not None:
        assert BYTE.min <= min(least, 0) - expected and max(most, 0) - expected <= BYTE.max


def test_sums_begin_with_what_zero_points_add() -> None:
    """For groups, broken slices and parts: products of bytes and the start make the exact sum."""
    random = np.random.default_rng(11)
    data = random.integers(-100, 156, (6, 3, 3, 8)).astype(np.int16)
    less = shift(data)
    assert less is not None and less > 0
    weights = Weights(Blocks(6, 9, 4, 1, 2), 2, -5, less)
    (first, second), start = weights.pieces(data), weights.start(data)
    assert start.shape == (2, 2, 4) and first.dtype == np.int8
    x = random.integers(-128, 128, (9, 8))
    for k, piece in enumerate((first, second)):
        part = x[:, 4 * k : 4 * k + 4]
        dots = np.einsum("btcsof,tf->so", piece.astype(np.int64), part)
        sums = dots + less * part.sum() + start[k]
        exact = (data[..., 4 * k : 4 * k + 4].reshape(6, 9, 4) * (part + 5)).sum((1, 2))
        assert np.array_equal(sums.reshape(-1)[:6], exact)


def test_values_of_other_types_have_no_bytes() -> None:
    b = Net()
    number = Quantization((1e-38,), (0,))
    tensors = [
        b.input(MAP),
        b.input(MAP, "i8", number),
        b.input(MAP, "i16", Quantization((1.0,), (0,))),
    ]
    tensors.append(b.input(MAP, "i8", Quantization((1.0, 2.0), (0, 0))))
    low = byte_products.Lowering(b.graph(*tensors), GPU)
    assert [level(low, tensor) for tensor in tensors] == [None] * 4


@pytest.mark.adapter
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize(("channels", "form"), [(3, "byte_products"), (2, "stem")])
def test_layers_of_few_channels(dtype: str, channels: int, form: str) -> None:
    """A word of an image of three channels has a byte that no weight is multiplied with."""
    b = Net()
    x = b.input(
        (*MAP[:3], channels), dtype, Quantization((0.05,), (100 if dtype == "u8" else -28,))
    )
    graph = b.graph(layer(b, x, 10, 3, dtype, 7, 0.4))
    device = adapter.open_device(adapter.select(None))
    hardware = replace(device.target, software=False, vendor="amd")
    found = []
    for tuning in ({}, BYTES):
        plan = compiler.compile(graph, replace(hardware, tuning=tuning))
        value = np.ascontiguousarray(fed(dtype)[..., :channels])
        found.append(results(plan, value))
    assert form in {d.form for d in plan.dispatches}
    assert np.array_equal(*found) and len(np.unique(found[0])) > 50
