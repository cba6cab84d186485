"""Tests operators that onnxruntime's quantizer writes for transformers and LSTMs against its CPU
provider."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, compare, cpu, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from conformance.references import integers

pytestmark = pytest.mark.adapter

F, BATCH, LENGTH, WIDTH, HEADS, PAST = np.float32, 2, 5, 16, 4, 3
WHOLE = (np.uint8, np.int8)


def made(
    op: str,
    reads: list[str],
    writes: Mapping[str, Any],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Any],
    domain: str = "com.microsoft",
    **more: Any,
) -> bytes:
    """Returns a model of this node; `writes` are its outputs and their types."""
    kinds = {**{name: array.dtype for name, array in feeds.items()}, **writes}
    return model(
        [node(op, reads, [*writes], domain=domain, **more)],
        {name: array.shape for name, array in feeds.items()}, dict.fromkeys(writes),
        {name: np.asarray(value) for name, value in constants.items()}, kinds=kinds,
    )  # fmt: skip


def taken(content: bytes) -> Any:
    ours = session(content, optimize=False)
    assert {one.where for one in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    return ours


def weights(chance: Any, kind: Any, *shape: int) -> Array:
    """Returns weights of so few bits that their products saturate on no CPU."""
    middle = 128 if kind == np.uint8 else 3
    return np.asarray(chance.integers(-60, 60, shape) + middle, kind)


@pytest.mark.parametrize(
    ("kind", "columns", "mask", "past"),
    [*product(WHOLE, (False, True), (None, "lengths", "keys"), (False, True))],
)
def test_attention_over_stored_numbers(kind: Any, columns: bool, mask: Any, past: bool) -> None:
    chance = np.random.default_rng(0)
    before, zero = PAST if past else 0, 128 if kind == np.uint8 else 3
    feeds: dict[str, Array] = {"x": chance.integers(0, 256, (BATCH, LENGTH, 12), np.uint8)}
    if mask == "lengths":
        feeds["mask"] = np.array([LENGTH + before, 3], np.int32)
    if mask == "keys":
        feeds["mask"] = chance.integers(0, 2, (BATCH, LENGTH + before), np.int32)
        feeds["mask"][:, 0] = 1
    if past:
        shape = (2, BATCH, HEADS, PAST, WIDTH // HEADS)
        feeds["past"] = chance.standard_normal(shape, F)
    each = (3 * WIDTH,) if columns else ()
    constants = {
        "w": weights(chance, kind, 12, 3 * WIDTH), "b": chance.standard_normal(3 * WIDTH, F),
        "xs": F(0.02), "ws": chance.uniform(0.005, 0.01, each).astype(F), "xz": np.uint8(120),
        "wz": np.full(each, zero, kind),
    }  # fmt: skip
    reads = ["x", "w", "b", "xs", "ws", "mask" if mask else "", "xz", "wz"]
    writes = {"y": F} | ({"present": F} if past else {})
    content = made("QAttention", reads + ["past"] * past, writes, feeds, constants,
                   num_heads=HEADS, unidirectional=int(past))  # fmt: skip
    compare(taken(content), cpu(content, optimize=False), feeds, 1e-6)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_embeddings_in_8_bits(segments: bool, masked: bool) -> None:
    """The second result is the number of ones in each row of the mask, in which a two does not
    count."""
    chance = np.random.default_rng(1)
    feeds = {"ids": chance.integers(0, 9, (2, 5), np.int32)}
    feeds |= {"kinds": chance.integers(0, 2, (2, 5), np.int32)} if segments else {}
    feeds |= {"mask": np.array([[1, 1, 2, 0, 1], [1, 0, 0, -1, 0]], np.int32)} if masked else {}
    shapes = {"words": (9, 8), "places": (7, 8), "parts": (2, 8), "gamma": (8,), "beta": (8,)}
    constants: dict[str, Any] = {
        name: chance.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()
    }
    for k, name in enumerate(shapes):
        constants |= {f"{name}_scale": F(0.01 * (k + 1)), f"{name}_zero": np.uint8(100 + 9 * k)}
    there = [name if segments or name != "parts" else "" for name in shapes]
    scales, zeros = ([name and name + end for name in there] for end in ("_scale", "_zero"))
    reads = ["ids", "kinds" if segments else "", *there, "mask" if masked else "", *scales, *zeros]
    content = made("QEmbedLayerNormalization", reads, {"y": F, "lengths": np.int32}, feeds,
                   constants, epsilon=1e-6)  # fmt: skip
    if masked:
        compare(taken(content), cpu(content, optimize=False), feeds, 1e-6)
        return
    ours = session(content, optimize=False)
    (one,) = tflgpu_plugin.report(ours).nodes
    assert one.refusal_code == "input.missing"


@pytest.mark.parametrize(
    ("kind", "direction", "gates"),
    [*product(WHOLE, ("forward", "reverse", "bidirectional"), (False, True))],
)
def test_lstm_of_quantized_weights(kind: Any, direction: str, gates: bool) -> None:
    """The LSTM is computed with float32 weights; onnxruntime rounds the other factors, and on some
    CPUs the sums of its products of int8 saturate."""
    chance, both, units = np.random.default_rng(2), 1 + (direction == "bidirectional"), 8
    info, zero = np.iinfo(kind), 130 if kind == np.uint8 else 2 * (not gates)
    shape = (both, 4 * units) if gates else (both,)
    stored = {
        name: chance.integers(info.min, info.max + 1, (both, rows, 4 * units), kind)
        for name, rows in (("W", 6), ("R", units))
    }
    scales = {name: chance.uniform(0.002, 0.005, shape).astype(F) for name in stored}
    feeds = {
        "X": chance.standard_normal((7, 2, 6), F),
        "h": 0.3 * chance.standard_normal((both, 2, units), F),
        "c": chance.standard_normal((both, 2, units), F),
    }
    bias = 0.1 * chance.standard_normal((both, 8 * units), F)
    zeros = np.full(shape, zero, kind)
    constants = {**stored, "B": bias, "ws": scales["W"], "rs": scales["R"], "z": zeros}
    writes, more = {"Y": F, "Yh": F, "Yc": F}, {"hidden_size": units, "direction": direction}
    reads = ["X", "W", "R", "B", "", "h", "c", "", "ws", "z", "rs", "z"]
    content = made("DynamicQuantizeLSTM", reads, writes, feeds, constants, **more)
    ours = taken(content)
    real = {
        name: ((data.astype(F) - zero) * scales[name].reshape(both, 1, -1)).transpose(0, 2, 1)
        for name, data in stored.items()
    }
    floats = made("LSTM", ["X", "W", "R", "B", "", "h", "c"], writes, feeds,
                  {**real, "B": bias}, domain="", **more)  # fmt: skip
    compare(ours, cpu(floats, optimize=False), feeds, 1e-6)
    if kind == np.uint8 or integers.host_is_exact():
        compare(ours, cpu(content, optimize=False), feeds, 0.03)


@pytest.mark.parametrize("p", [1, 2])
def test_norms_of_whole_images(p: int) -> None:
    feeds = {"x": np.random.default_rng(3).standard_normal((2, 3, 4, 5), F)}
    content = made("GlobalLpPool", ["x"], {"y": F}, feeds, {}, domain="", p=p)
    compare(taken(content), cpu(content, optimize=False), feeds, 1e-6)


@pytest.mark.parametrize("kind", [np.uint16, np.int16])
def test_transposes_between_quantizations_of_16_bits(kind: Any) -> None:
    """The plan moves the transpose behind the convolution, so that one value is quantized twice."""
    held = {"s": F(1e-4), "z": kind(300), "w": weights(np.random.default_rng(1), np.int8, 8, 6, 1),
            "ws": F(0.01), "wz": np.int8(0)}  # fmt: skip
    constants = {name: np.asarray(value) for name, value in held.items()}
    nodes = [
        node("DequantizeLinear", ["w", "ws", "wz"], ["v"]), node("Tanh", ["x"], ["t"]),
        node("QuantizeLinear", ["t", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("Transpose", ["d"], ["m"], perm=[0, 2, 1]),
        node("QuantizeLinear", ["m", "s", "z"], ["p"]),
        node("DequantizeLinear", ["p", "s", "z"], ["e"]), node("Conv", ["e", "v"], ["y"]),
    ]  # fmt: skip
    feed = np.random.default_rng(2).normal(0, 1, (2, 5, 6)).astype(F)
    content = model(nodes, {"x": feed.shape}, {"y": None}, constants, opset=21)
    ours = session(content)
    assert {one.where for one in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    compare(ours, cpu(content), {"x": feed})
