"""Tests LSTM, GRU and RNN in onnxruntime: every option, against its CPU provider."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
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
    told: str = "",
    **attributes: Any,
) -> bytes:
    """Returns a model of one layer with the optional inputs `parts`: B, P and `sequence_lens` are
    constants, states and lengths are fed, and so are weights that are `told`."""
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
    if "lengths" in given:
        inputs[4] = "lengths"
    while not inputs[-1]:
        inputs.pop()
    fed: dict[str, m.Shape] = {"X": (steps, BATCH, INPUTS)}
    fed |= {name: (directions, BATCH, units) for name in given if name.startswith("initial")}
    fed |= {"lengths": (BATCH,)} if "lengths" in given else {}
    fed |= {name: held[name].shape for name in given if name in told}
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = m.node(op, inputs, outputs, hidden_size=units, **attributes)
    return m.model(
        [node],
        fed,
        dict.fromkeys(outputs),
        {name: value for name, value in held.items() if name in given and name not in told},
        opset=14,
        kinds={"lengths": np.int32},
    )


def compared(
    model: bytes,
    steps: int = STEPS,
    units: int = UNITS,
    directions: int = 1,
    lengths: Iterable[tuple[int, ...]] = ((),),
) -> None:
    """Asserts that both providers give the same results for all these `lengths` of the
    sequences."""
    session = m.session(model)
    tflgpu_plugin.assert_used(session)
    chance = np.random.default_rng(3)
    shapes = {"X": (steps, BATCH, INPUTS)} | dict.fromkeys(
        ("initial_h", "initial_c"), (directions, BATCH, units)
    )
    feed = {
        value.name: chance.uniform(-1, 1, shapes.get(value.name, value.shape)).astype(np.float32)
        for value in session.get_inputs()
        if value.name != "lengths"
    }
    for each in lengths:
        told = {"lengths": np.array(each, np.int32)} if each else {}
        wanted, got = m.cpu(model).run(None, feed | told), session.run(None, feed | told)
        for expected, found in zip(wanted, got, strict=True):
            assert expected.shape == found.shape
            np.testing.assert_allclose(found, expected, atol=5e-6)
    (partition,) = tflgpu_plugin.report(session).partitions
    assert partition.host_runs == 0


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
    compared(layer("LSTM", ("P", "sequence_lens")))
    compared(layer("LSTM", activations=["Sigmoid", "Tanh", "Tanh"]))


@pytest.mark.parametrize("op", GATES)
def test_clip(op: str) -> None:
    compared(layer(op, clip=0.2))
    if op == "GRU":
        compared(layer(op, clip=0.2, linear_before_reset=1))
    if op == "LSTM":  # what peepholes add is limited, too
        compared(layer(op, ("B", "P"), clip=0.2))


def test_options_of_a_gru() -> None:
    for parts in ((), ("B", "initial_h")):
        compared(layer("GRU", parts, linear_before_reset=1))
    compared(layer("GRU", linear_before_reset=1, direction="bidirectional"), directions=2)


@pytest.mark.parametrize("activation", ["Tanh", "Relu", "Sigmoid"])
def test_activations_of_an_rnn(activation: str) -> None:
    compared(layer("RNN", activations=[activation]))


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("LSTM", ["Tanh", "Relu", "Sigmoid"]),
        ("LSTM", ["Sigmoid", "Sigmoid", "Relu"]),
        ("LSTM", ["Relu", "Tanh", "Tanh"]),
        ("GRU", ["Tanh", "Relu"]),
        ("GRU", ["Sigmoid", "Sigmoid"]),
        ("GRU", ["Relu", "Tanh"]),
    ],
)
def test_activations_of_gates(op: str, names: list[str]) -> None:
    usual = ["Sigmoid", "Tanh", "Tanh"][: len(names)]
    for more in ({}, {"clip": 0.3}, {"linear_before_reset": 1} if op == "GRU" else {}):
        compared(layer(op, activations=names, **more))
    for both in (names * 2, names + usual, usual + names):
        compared(layer(op, activations=both, direction="bidirectional"), directions=2)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
@pytest.mark.parametrize("numbers", [(), (1 / 6, 0.5), (0.4, 0.3, 0.2, 0.6)])
def test_gates_of_hard_sigmoids(op: str, numbers: tuple[float, ...]) -> None:
    """Keras writes such gates, with a slope of a fifth or a sixth. What is given for a
    direction is its own; the other one has the usual numbers."""
    names = ["HardSigmoid", "Tanh", "Tanh"][: 3 if op == "LSTM" else 2]
    given = {"activation_alpha": numbers[::2], "activation_beta": numbers[1::2]} if numbers else {}
    if len(numbers) < 4:
        compared(layer(op, activations=names, **given))
        compared(layer(op, activations=names, clip=0.3, **given))
    compared(layer(op, activations=names * 2, direction="bidirectional", **given), directions=2)


EVERY = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus",
         "Softsign", "Tanh", "ThresholdedRelu")  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("numbers", [(), (0.3, 0.1, 0.2)])
def test_every_activation(op: str, name: str, numbers: tuple[float, ...]) -> None:
    """Results are the CPU's, which overflows in a Softplus of over 88: clipped sums stay below."""
    usual = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[op]
    given = {"activation_alpha": numbers, "activation_beta": numbers[1:]} if numbers else {}
    for k in range(len(usual)):
        names = [*usual[:k], name, *usual[k + 1 :]]
        compared(layer(op, activations=names, **given))
    every = [name] * len(usual)
    if op == "GRU":
        compared(layer(op, activations=every, linear_before_reset=1, **given))
    for both in (usual + every, every * 2):
        model = layer(
            op, ("lengths",), activations=both, direction="bidirectional", clip=0.8, **given
        )
        compared(model, directions=2, lengths=[(3, 5)])


def test_functions_take_numbers_in_order() -> None:
    """Each takes as many as it has; where they end, the usual ones."""
    given = {"activation_alpha": [0.3, 0.2, 0.4, 0.7], "activation_beta": [0.1, 0.5]}
    for names in (
        ["HardSigmoid", "Elu", "ScaledTanh"],
        ["Sigmoid", "Affine", "LeakyRelu"],
        ["ThresholdedRelu", "Softsign", "Affine"],
    ):
        both = [*names, "HardSigmoid", "Softplus", "Elu"]
        compared(layer("LSTM", ("B", "P"), activations=names, **given))
        compared(layer("LSTM", activations=both, direction="bidirectional", **given), directions=2)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_forget_gate_that_is_the_rest_of_the_input_gate(direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    for parts in ((), ("B", "P", *STATES["LSTM"]), ("B", "lengths")):
        for more in ({}, {"clip": 0.3}):
            model = layer("LSTM", parts, input_forget=1, direction=direction, **more)
            lengths = [(3, 5)] if "lengths" in parts else [()]
            compared(model, directions=directions, lengths=lengths)


def test_directions_of_other_activations() -> None:
    for names in (["Relu", "Tanh"], ["Tanh", "Relu"], ["Relu", "Relu"]):
        compared(layer("RNN", activations=names, direction="bidirectional"), directions=2)


@pytest.mark.parametrize("op", GATES)
def test_both_directions_run_side_by_side(op: str) -> None:
    """There is one more product, and the join of the two directions."""

    def launches(direction: str) -> int:
        session = m.session(layer(op, direction=direction))
        session.run(None, {"X": np.zeros((STEPS, BATCH, INPUTS), np.float32)})
        return tflgpu_plugin.report(session).partitions[0].dispatches

    assert launches("bidirectional") == launches("forward") + 2


@pytest.mark.parametrize("op", GATES)
def test_full_lengths_take_no_launch(op: str) -> None:
    def launches(*parts: str) -> int:
        (partition,) = tflgpu_plugin.report(m.session(layer(op, parts))).partitions
        return partition.dispatches

    assert launches("sequence_lens") == launches() < launches("lengths")


@pytest.mark.parametrize("op", GATES)
def test_a_length_that_only_a_run_tells(op: str) -> None:
    model = layer(op, steps="length")
    for steps in (1, 7, 3, 7):
        compared(model, steps=steps)


# Lengths of two sequences: all steps, some, none, and the same for both.
LENGTHS = ((STEPS, STEPS), (1, STEPS), (3, 2), (0, 4), (4, 0), (0, 0), (2, 2))
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_lengths_that_only_a_run_tells(op: str, direction: str) -> None:
    for parts in (("lengths",), ("B", "lengths", *STATES[op])):
        model = layer(op, parts, direction=direction)
        compared(model, directions=DIRECTIONS[direction], lengths=LENGTHS)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_constant_lengths(op: str, direction: str) -> None:
    for each in LENGTHS:
        constants = {"sequence_lens": np.array(each, np.int32)}
        model = layer(op, ("B", "sequence_lens"), constants=constants, direction=direction)
        compared(model, directions=DIRECTIONS[direction])


def test_lengths_with_other_options() -> None:
    compared(layer("GRU", ("B", "lengths"), linear_before_reset=1, clip=0.3), lengths=LENGTHS)
    compared(
        layer("RNN", ("lengths",), activations=["Relu", "Tanh"], direction="bidirectional"),
        directions=2, lengths=LENGTHS,
    )  # fmt: skip
    for direction, count in DIRECTIONS.items():
        for states in ((), STATES["LSTM"]):
            model = layer("LSTM", ("B", "P", "lengths", *states), direction=direction)
            compared(model, directions=count, lengths=LENGTHS)
    model = layer("LSTM", ("lengths",), steps="length")
    for steps in (1, 7, 3):
        compared(model, steps=steps, lengths=((0, 1), (1, 0), (steps, 1)))


def test_a_model_of_packed_sequences_runs_whole() -> None:
    """The model sorts sequences by length, applies a layer in both directions, and restores the
    order."""
    nodes = [
        m.node("Shape", ["lengths"], ["count"]),
        m.node("TopK", ["lengths", "count"], ["sorted", "order"], axis=0),
        m.node("Gather", ["X", "order"], ["longest_first"], axis=0),
        m.node("Transpose", ["longest_first"], ["steps"], perm=[1, 0, 2]),
        m.node("Cast", ["sorted"], ["ends"], to=6),
        m.node("GRU", ["steps", "W", "R", "", "ends"], ["y", "h"], hidden_size=UNITS,
               direction="bidirectional"),
        m.node("Transpose", ["y"], ["rows"], perm=[2, 0, 1, 3]),
        m.node("Reshape", ["rows", "joined"], ["wide"]),
        m.node("TopK", ["order", "count"], ["ascending", "back"], axis=0, largest=0),
        m.node("Gather", ["wide", "back"], ["Y"], axis=0),
        m.node("Gather", ["h", "back"], ["Y_h"], axis=1),
    ]  # fmt: skip
    chance = np.random.default_rng(5)
    held = {"W": chance.uniform(-0.6, 0.6, (2, 3 * UNITS, INPUTS)).astype(np.float32),
            "R": chance.uniform(-0.6, 0.6, (2, 3 * UNITS, UNITS)).astype(np.float32),
            "joined": np.array([0, 0, -1])}  # fmt: skip
    fed = {"X": ("batch", "time", INPUTS), "lengths": ("batch",)}
    model = m.model(nodes, fed, dict.fromkeys(("Y", "Y_h")), held, kinds={"lengths": np.int64})
    session, cpu = m.session(model), m.cpu(model)
    for steps, lengths in ((4, [2, 4, 1]), (4, [4, 0, 3]), (6, [6, 1])):
        x = chance.uniform(-1, 1, (len(lengths), steps, INPUTS)).astype(np.float32)
        m.compare(session, cpu, {"X": x, "lengths": np.array(lengths)})
    found = tflgpu_plugin.report(session)
    assert {node.where for node in found.nodes} == {"gpu"}
    assert [part.host_runs for part in found.partitions] == [0]


@pytest.mark.parametrize("told", ["W", "R", "B", "P", "WRBP"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_weights_that_a_run_tells(op: str, direction: str, told: str) -> None:
    if told == "P" and op != "LSTM":
        return
    parts, directions = ("B", *STATES[op]), 2 if direction == "bidirectional" else 1
    compared(layer(op, parts, direction=direction, told=told, units=7), units=7,
             directions=directions)  # fmt: skip
    if op == "LSTM":
        compared(layer(op, (*parts, "P"), direction=direction, told=told), directions=directions)
    if op == "GRU":
        compared(layer(op, parts, direction=direction, told=told, linear_before_reset=1),
                 directions=directions)  # fmt: skip
    compared(layer(op, (*parts, "lengths"), direction=direction, told=told), directions=directions,
             lengths=[(5, 3), (0, 1)])  # fmt: skip


def test_values_past_the_end_of_a_sequence_are_not_read() -> None:
    session = m.session(layer("LSTM", ("B", "lengths"), direction="bidirectional"))
    x = np.full((STEPS, BATCH, INPUTS), np.nan, np.float32)
    x[:3, 0], x[:1, 1] = 0.5, -0.5
    results = session.run(None, {"X": x, "lengths": np.array([3, 1], np.int32)})
    assert all(np.all(np.isfinite(result)) for result in results)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("lengths", [(STEPS + 1, 1), (2, -1), (2**31 - 1, 0)])
def test_lengths_out_of_range_fail_as_on_the_cpu(op: str, lengths: tuple[int, ...]) -> None:
    model = layer(op, ("lengths",))
    feed = {
        "X": np.ones((STEPS, BATCH, INPUTS), np.float32),
        "lengths": np.array(lengths, np.int32),
    }
    for session in (m.cpu(model), m.session(model)):
        with pytest.raises(Exception, match="sequence_lens"):
            session.run(None, feed)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (layer("RNN", clip=0.0), "attribute.unsupported"),
        (layer("RNN", clip=-1.0), "attribute.unsupported"),
        (
            layer(
                "GRU",
                ("sequence_lens",),
                constants={"sequence_lens": np.array([6, 3], np.int32)},
            ),
            "constant.invalid",
        ),
        (
            layer("RNN", ("sequence_lens",), constants={"sequence_lens": np.ones(1, np.int32)}),
            "shape.mismatch",
        ),
        (layer("LSTM", ("lengths",), steps=0), "shape.empty"),
    ],
)  # fmt: skip
def test_what_stays_on_the_cpu_says_why(model: bytes, wanted: str) -> None:
    session = m.session(model)
    nodes = tflgpu_plugin.report(session).nodes
    assert wanted in {node.refusal_code for node in nodes}, [node.reason for node in nodes]
