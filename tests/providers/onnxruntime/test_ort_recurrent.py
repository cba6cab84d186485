"""LSTM, GRU and RNN through onnxruntime: every option, against its CPU provider."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]
STEPS, BATCH, INPUTS, UNITS = 5, 2, 3, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(
    op: str,
    parts: tuple[str, ...] = ("B",),
    steps: int | str = STEPS,
    units: int = UNITS,
    constants: dict[str, Any] | None = None,
    **attributes: Any,
) -> bytes:
    """A model of one layer. `parts` are the optional inputs that it has: B and P are constant,
    states are fed."""
    chance = np.random.default_rng([units, len(op)])
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[op]

    def random(*shape: int) -> Any:
        return chance.uniform(-0.6, 0.6, shape).astype(np.float32)

    held = {
        "W": random(directions, gates * units, INPUTS),
        "R": random(directions, gates * units, units),
        "B": random(directions, 2 * gates * units),
        "P": random(directions, 3 * units),
        "sequence_lens": np.full(BATCH, steps if isinstance(steps, int) else STEPS, np.int32),
    } | (constants or {})
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    given = ["X", "W", "R", *parts]
    inputs = [name if name in given else "" for name in order]
    while not inputs[-1]:
        inputs.pop()
    fed: dict[str, m.Shape] = {"X": (steps, BATCH, INPUTS)}
    fed |= {name: (directions, BATCH, units) for name in given if name.startswith("initial")}
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = m.node(op, inputs, outputs, hidden_size=units, **attributes)
    return m.model(
        [node],
        fed,
        dict.fromkeys(outputs),
        {name: value for name, value in held.items() if name in given},
        opset=14,
    )


def compared(model: bytes, steps: int = STEPS, units: int = UNITS, directions: int = 1) -> None:
    session = m.session(model)
    tflgpu_plugin.assert_used(session)
    chance = np.random.default_rng(3)
    shapes = {"X": (steps, BATCH, INPUTS)} | dict.fromkeys(
        ("initial_h", "initial_c"), (directions, BATCH, units)
    )
    feed = {
        value.name: chance.uniform(-1, 1, shapes[value.name]).astype(np.float32)
        for value in session.get_inputs()
    }
    wanted, got = m.cpu(model).run(None, feed), session.run(None, feed)
    for expected, found in zip(wanted, got, strict=True):
        assert expected.shape == found.shape
        np.testing.assert_allclose(found, expected, atol=5e-6)


STATES = {"LSTM": ("initial_h", "initial_c"), "GRU": ("initial_h",), "RNN": ("initial_h",)}


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_states(op: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    for parts in ((), ("B",), ("B", "sequence_lens", *STATES[op])):
        compared(layer(op, parts, direction=direction), directions=directions)


@pytest.mark.parametrize("units", [1, 4, 9])
@pytest.mark.parametrize("op", GATES)
def test_units(op: str, units: int) -> None:
    compared(layer(op, units=units), units=units)


def test_options_of_an_lstm() -> None:
    compared(layer("LSTM", ("B", "P")))
    compared(layer("LSTM", ("B", "P"), direction="bidirectional"), directions=2)
    compared(layer("LSTM", activations=["Sigmoid", "Tanh", "Tanh"]))


@pytest.mark.parametrize("op", GATES)
def test_clip(op: str) -> None:
    compared(layer(op, clip=0.2))
    if op == "GRU":
        compared(layer(op, clip=0.2, linear_before_reset=1))


def test_options_of_a_gru() -> None:
    for parts in ((), ("B", "initial_h")):
        compared(layer("GRU", parts, linear_before_reset=1))
    compared(layer("GRU", linear_before_reset=1, direction="bidirectional"), directions=2)


@pytest.mark.parametrize("activation", ["Tanh", "Relu", "Sigmoid"])
def test_activations_of_an_rnn(activation: str) -> None:
    compared(layer("RNN", activations=[activation]))


def test_directions_of_other_activations() -> None:
    for names in (["Relu", "Tanh"], ["Tanh", "Relu"], ["Relu", "Relu"]):
        compared(layer("RNN", activations=names, direction="bidirectional"), directions=2)


@pytest.mark.parametrize("op", GATES)
def test_both_directions_run_side_by_side(op: str) -> None:
    """One more product, and the join of the two."""

    def launches(direction: str) -> int:
        session = m.session(layer(op, direction=direction))
        session.run(None, {"X": np.zeros((STEPS, BATCH, INPUTS), np.float32)})
        return tflgpu_plugin.report(session).partitions[0].dispatches

    assert launches("bidirectional") == launches("forward") + 2


@pytest.mark.parametrize("op", GATES)
def test_a_length_that_only_a_run_tells(op: str) -> None:
    model = layer(op, steps="length")
    for steps in (1, 7, 3, 7):
        compared(model, steps=steps)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (layer("LSTM", input_forget=1), "attribute.unsupported"),
        (layer("RNN", activations=["Softsign"]), "activation.unsupported"),
        (layer("RNN", activations=["Affine"], activation_alpha=[0.5]), "attribute.unsupported"),
        (layer("GRU", activations=["Sigmoid", "Relu"]), "activation.unsupported"),
        (
            layer(
                "GRU",
                ("sequence_lens",),
                constants={"sequence_lens": np.array([5, 3], np.int32)},
            ),
            "input.unsupported",
        ),
    ],
)  # fmt: skip
def test_what_stays_on_the_cpu_says_why(model: bytes, wanted: str) -> None:
    session = m.session(model)
    nodes = tflgpu_plugin.report(session).nodes
    assert wanted in {node.refusal_code for node in nodes}, [node.reason for node in nodes]
