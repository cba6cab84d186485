"""Tests CausalConvWithState against onnxruntime's kernel: layouts, dilations, activations, with and
without a past, for new lengths on the same session, and what stays on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import cpu, places, session
from tests.support.onnx_nodes import MS

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.adapter
BATCH, CHANNELS, WIDTH = 2, 5, 4


def model(past: bool, bias: bool, **attributes: Any) -> bytes:
    """Returns a model with one node over x [batch, 5, length], or [batch, length, 5] with
    channels_last."""
    last, reach = attributes.get("channels_last"), (WIDTH - 1) * attributes.get("dilation", 1)
    chance = np.random.default_rng(3)
    held = {"w": chance.normal(size=(CHANNELS, 1, WIDTH))}
    held |= {"b": chance.normal(size=CHANNELS)} if bias else {}
    reads = ["x", "w", "b" if bias else "", *(["past"] if past else [])]
    node = onnx.helper.make_node(
        "CausalConvWithState", reads, ["y", "state"], domain=MS, **attributes
    )
    shapes: dict[str, list[Any]] = {"x": ["batch", CHANNELS, "length"]}
    shapes |= {"past": ["batch", CHANNELS, reach]} if past else {}
    given = [
        onnx.helper.make_tensor_value_info(name, 1, [s[0], *s[:0:-1]] if last else s)
        for name, s in shapes.items()
    ]
    made = [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("y", "state")]
    constants = [
        onnx.numpy_helper.from_array(x.astype(np.float32), name) for name, x in held.items()
    ]
    graph = onnx.helper.make_graph([node], "g", given, made, constants)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(MS, 1)]
    written: bytes = onnx.helper.make_model(
        graph, opset_imports=opsets, ir_version=8
    ).SerializeToString()
    return written


def feeds(past: bool, length: int, seed: int, **attributes: Any) -> dict[str, Any]:
    chance, last = np.random.default_rng(seed), attributes.get("channels_last")
    reach = (WIDTH - 1) * attributes.get("dilation", 1)
    found = {"x": chance.normal(1, 3, (BATCH, CHANNELS, length))}
    found |= {"past": chance.normal(1, 3, (BATCH, CHANNELS, reach))} if past else {}
    turned = {name: x.swapaxes(1, 2) if last else x for name, x in found.items()}
    return {name: np.ascontiguousarray(x, np.float32) for name, x in turned.items()}


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"activation": "silu"},
        {"activation": "swish", "dilation": 2},
        {"channels_last": 1, "ndim": 1},
        {"channels_last": 1, "dilation": 3, "activation": "none"},
    ],
    ids=["plain", "silu", "dilated", "channels_last", "channels_last_dilated"],
)
def test_as_the_cpu(past: bool, bias: bool, attributes: dict[str, Any]) -> None:
    content = model(past, bias, **attributes)
    ours, theirs = session(content), cpu(content)
    assert set(places(ours).values()) == {"gpu"}
    for seed, length in enumerate((7, 1, 2, 12)):
        fed = feeds(past, length, seed, **attributes)
        for got, wanted in zip(ours.run(None, fed), theirs.run(None, fed), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_a_state_continues_a_sequence() -> None:
    ours, whole = session(model(True, True)), feeds(True, 9, 5)
    (y, state), given = ours.run(None, whole), dict(whole)
    parts = []
    for step in np.split(whole["x"], 9, axis=2):
        part, given["past"] = ours.run(None, {**given, "x": step})
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, 2), y, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(given["past"], state)


def test_several_axes_of_channels_stay_on_the_cpu() -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, [1, 5, 3, 2])
    filters = onnx.helper.make_tensor_value_info("w", 1, [6, 1, 2])
    made = [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("y", "state")]
    node = onnx.helper.make_node(
        "CausalConvWithState", ["x", "w"], ["y", "state"], domain=MS, channels_last=1
    )
    graph = onnx.helper.make_graph([node], "g", [x, filters], made)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(MS, 1)]
    content = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    assert set(places(session(content)).values()) == {"cpu"}


def test_an_open_batch_of_the_past_gets_that_of_the_input() -> None:
    made = onnx.load_from_string(model(True, True))
    (x,) = (value for value in made.graph.input if value.name == "x")
    x.type.tensor_type.shape.dim[0].dim_value = BATCH
    data = made.SerializeToString()
    ours = session(data)
    assert places(ours) == {f"{MS}:CausalConvWithState": "gpu"}
    for length in (3, 7):
        given = feeds(True, length, length)
        for got, wanted in zip(ours.run(None, given), cpu(data).run(None, given), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-4)
