"""Tests depthwise layers that read bytes: results are those of float32 sums to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.test_byte_products import BYTES, fed, layer, results
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import byte_storage, compiler
from tflgpu_plugin.ir import Array, Graph, Quantization, Target, Tensor
from tflgpu_plugin.ops import byte_products
from tflgpu_plugin.ops.depthwise_bytes import MAX_SUM
from tflgpu_plugin.runtime import adapter

CHANNELS = 10  # two of the last slice are padding
GPU = Target(vendor="amd", tuning=BYTES)
WINDOWS = {
    "rows": ((3, 3), (1, 1), (1, 1)),
    "dilated rows": ((3, 3), (1, 1), (2, 2)),
    "strided rows": ((3, 3), (2, 2), (1, 1)),
    "span": ((5, 5), (1, 1), (1, 1)),
    "strided span": ((5, 5), (2, 2), (1, 1)),
    "taps": ((2, 9), (1, 1), (1, 1)),
}


def depthwise(b: Net, x: int, window: str, dtype: str, zero: int, scale: float) -> int:
    """Adds a depthwise convolution of 8 bits, in uint8 with weights whose zero point is 140."""
    kernel, strides, dilations = WINDOWS[window]
    unsigned, kind = dtype == "u8", np.dtype("uint8" if dtype == "u8" else "int8")
    least, channels = np.iinfo(kind).min, b.shape(x)[-1]
    data = b.random.integers(least, least + 256, (1, *kernel, channels)).astype(kind)
    given = b.tensors[x].quantization
    assert given is not None
    weights = b.constant(data, dtype, Quantization((0.01,), (140 if unsigned else 0,)))
    sums = Quantization((0.01 * given.scale[0],), (0,))
    bias = b.constant(b.random.integers(-999, 999, channels).astype(np.int32), "i32", sums)
    made = Tensor("", (), dtype, None, Quantization((scale,), (zero,)))
    attributes = WINDOW | {"strides": strides, "dilations": dilations}
    return b.op("depthwise_conv_2d", x, weights, bias, made=made, **attributes)


def network(window: str, dtype: str, zero: int) -> Graph:
    """Returns a depthwise layer between two points."""
    b = Net()
    x = b.input((1, 9, 10, 12), dtype, Quantization((0.05,), (zero,)))
    x = layer(b, x, CHANNELS, 1, dtype, zero, 0.3)
    x = depthwise(b, x, window, dtype, zero + 7, 0.3)
    return b.graph(layer(b, x, 8, 1, dtype, zero, 0.3))


def test_a_layer_between_others_reads_and_stores_bytes() -> None:
    plan = compiler.compile(network("rows", "i8", -28), GPU)
    (made,) = (d for d in plan.dispatches if d.label == "depthwise")
    text = plan.pipelines[made.pipeline].wgsl
    assert made.form == byte_products.NAME and "unary" not in {d.label for d in plan.dispatches}
    assert "x_data: array<u32>" in text and "y_data: array<u32>" in text
    assert "requantized_small_sums(" in text


@pytest.mark.parametrize(
    ("window", "dtype", "words"),
    [
        ("rows", "i8", ("row_of_dots(",)),
        ("strided rows", "u8", ("row_of_dots(", "byte_sums(")),
        ("dilated rows", "u8", ("unsigned_numbers(",)),
        ("span", "i8", ("unsigned_numbers(",)),
    ],
)
def test_nvidia_multiplies_words_of_windows_of_three(
    window: str, dtype: str, words: tuple[str, ...]
) -> None:
    """Weights of uint8 around 140 need the sums of bytes, too."""
    target = replace(GPU, vendor="nvidia", subgroup_size=32)
    plan = compiler.compile(network(window, dtype, -28 + 128 * (dtype == "u8")), target)
    (text,) = (plan.pipelines[d.pipeline].wgsl for d in plan.dispatches if d.label == "depthwise")
    body = text[text.index("@compute") :]
    every = "row_of_dots(", "byte_sums(", "unsigned_numbers("
    assert tuple(word for word in every if word in (body if word != every[2] else text)) == words


@pytest.mark.adapter
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("zero", [0, -28], ids=["zeros", "others"])
def test_results_are_the_same_to_the_bit(dtype: str, window: str, zero: int) -> None:
    """With a zero point of 0, padding is the zeros before a pool of tensors."""
    own = adapter.open_device(adapter.select(None)).target
    graph, value = network(window, dtype, zero + 128 * (dtype == "u8")), fed(dtype)
    expected = results(compiler.compile(graph, own), value)
    assert len(np.unique(expected)) > 50
    hardware = replace(own, software=False)
    for target in (own, *(replace(hardware, vendor=name) for name in ("amd", "intel", "nvidia"))):
        plan = compiler.compile(graph, replace(target, tuning=BYTES))
        assert "byte_products" in {d.form for d in plan.dispatches if d.label == "depthwise"}
        assert np.array_equal(results(plan, value), expected)


@pytest.mark.adapter
def test_inputs_that_no_bytes_hold_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    own = adapter.open_device(adapter.select(None)).target
    graph, value = network("rows", "i8", 3), fed("i8")
    expected = results(compiler.compile(graph, own), value)
    monkeypatch.setattr(byte_storage, "VECTOR", 0)
    plan = compiler.compile(graph, replace(own, tuning=BYTES))
    assert [d.label for d in plan.dispatches].count("unary") == 3
    assert np.array_equal(results(plan, value), expected)


@pytest.mark.adapter
@pytest.mark.parametrize("more", [0, 1])
def test_sums_that_float32_holds_as_integers(more: int) -> None:
    """The largest sum, of numbers from 0 to 255, whose integer the last bits of a float32 are, and
    one that is beyond."""
    own = adapter.open_device(adapter.select(None)).target
    taps = MAX_SUM // 255 // 127 + more
    b = Net()
    x = b.input((1, 1, taps, 4), "i8", Quantization((1.0,), (-128,)))
    weights = b.constant(np.full((1, 1, taps, 4), 127, np.int8), "i8", Quantization((1.0,), (0,)))
    bias = b.constant(np.zeros(4, np.int32), "i32", Quantization((1.0,), (0,)))
    made = Tensor("", (), "i8", None, Quantization((2.0**12,), (0,)))
    attributes = WINDOW | {"padding": "valid"}
    graph = b.graph(b.op("depthwise_conv_2d", x, weights, bias, made=made, **attributes))
    plan = compiler.compile(graph, replace(own, tuning=BYTES))
    assert ("byte_products" in {d.form for d in plan.dispatches}) == (more == 0)
    for number in (0, 30, 255):
        value: Array = np.full((1, 1, taps, 4), number - 128, np.int8)
        expected = min(round(taps * 127 * number / 2**12), 127)
        assert (results(plan, value) == expected).all()


def test_a_refused_form_is_not_taken() -> None:
    graph = network("rows", "i8", 3)
    plans = [
        compiler.compile(graph, replace(GPU, without=frozenset(refused)))
        for refused in ((), ("depthwise_rows",), ("byte_products",))
    ]
    texts = [p.pipelines[d.pipeline].wgsl for p in plans for d in p.dispatches
             if d.label == "depthwise"]  # fmt: skip
    assert len(set(texts)) == 3 and ["unsigned_numbers(" in text for text in texts] == [
        True,
        True,
        False,
    ]
