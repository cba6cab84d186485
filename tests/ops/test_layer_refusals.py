"""What layers with weights say to shapes and parts that do not fit, beside the last that fits. No
device is needed."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.ops.test_op_refusals import asks, graph_of
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Node, Quantization, Tensor
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import recurrent, rows

Asked = partial[str | None]


def held(*shape: int, dtype: str = "f32") -> Tensor:
    """A constant."""
    return Tensor("w", shape, dtype, np.zeros(shape, NUMPY_DTYPES[dtype]))


def stored(*shape: int, dtype: str = "i8", scale: float = 0.5) -> Tensor:
    """A quantized value that a run tells."""
    return Tensor("q", shape, dtype, quantization=Quantization((scale,), (0,)))


# Of lstm_full, by position: 3 features, 4 units, 5 outputs of a projection; a batch of 2.
X, STATE, PEEPHOLES, PROJECTION, NORMS = (2, 3), 19, (9, 10, 11), 16, (20, 21, 22, 23)


def full(changed: dict[int, Any] | None = None, outputs: int = 4, **attributes: Any) -> Asked:
    """An LSTM with all its gates, and what is `changed` of its inputs."""
    given: list[Any] = [X, *[held(4, 3)] * 4, *[held(4, outputs)] * 4, *[None] * 3]
    given += [*[held(4)] * 4, None, None, (2, outputs), (2, 4), *[None] * 4]
    for position, value in (changed or {}).items():
        given[position] = value
    y = stored(2, 4) if isinstance(given[0], Tensor) else Tensor("y", (2, 4))
    return asks("lstm_full", *given, results=[y], **attributes)


def eight(changed: dict[int, Any] | None = None) -> Asked:
    """The same in 8 bits."""
    kinds = {0: stored(2, 3), 18: stored(2, 4), STATE: stored(2, 4, dtype="i16")}
    return full(kinds | (changed or {}))


def basic(changed: dict[int, Any] | None = None, **attributes: Any) -> Asked:
    given: list[Any] = [X, (2, 4), held(16, 7), held(16), (2, 4)]
    for position, value in (changed or {}).items():
        given[position] = value
    return asks("lstm_basic", *given, results=2, **attributes)


def cell(op: str, *inputs: Any, units: int = 4, steps: int = 3, **more: Any) -> Asked:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op]
    r, h = held(gates * units, units), (2, units)
    given = [(steps, 2, gates * units), r, h, *([(2, units)] if op == "lstm" else []), *inputs]
    return asks(op, *given, **more)


GATES = "weights and biases of all gates but the input gate, and its state"
NO_FIT = "have shapes that do not fit"
COUPLED = {1: None, 5: None, 12: None}
MOST, STEPS = recurrent.MAX_UNITS, recurrent.MAX_STEPS

LSTM: list[tuple[Asked, str | None]] = [
    (basic(), None),
    (basic(activation="relu"), "needs the tanh activation"),
    (basic(cell_clip=1.0), "Clipping of an LSTM cell"),
    (basic(proj_clip=1.0), "Clipping of an LSTM cell"),
    (asks("lstm_basic", X, (2, 4), held(16, 7), held(16)), "needs five inputs"),
    (asks("lstm_basic", X, (2, 4), held(16, 7), held(16), *[(2, 4)] * 2), "needs five inputs"),
    (basic({4: None}), "needs five inputs"),
    (basic({2: (16, 7)}), "must be constant"),
    (basic({3: (16,)}), "must be constant"),
    (basic({0: (2, 0)}), "not empty"),
    (basic({1: (2, 0)}), "not empty"),
    (basic({0: (2, 3, 1)}), "needs an input .B, I."),
    (basic({1: (2, 4, 1)}), "needs an input .B, I."),
    (basic({1: (1, 4)}), f"over .2, 3. with 4 units {NO_FIT}"),
    (basic({2: held(16, 8)}), NO_FIT),
    (basic({2: held(17, 7)}), NO_FIT),
    (basic({3: held(15)}), NO_FIT),
    (basic({4: (2, 3)}), NO_FIT),
    (full(), None),
    (full(activation="relu"), "needs the tanh activation"),
    (asks("lstm_full", X, *[None] * 22), "needs 24 inputs"),
    (full({0: (2, 5, 3)}, time_axis=1), None),
    (full({0: (5, 2, 3)}), None),
    (full({0: (2, 5, 3)}), NO_FIT),
    (full({0: (5, 2, 3)}, time_axis=1), NO_FIT),
    (full({0: (3,)}), "input of rank 2 or 3"),
    (full({0: (1, 1, 2, 3)}), "input of rank 2 or 3"),
    *((full({k: (4, 3)}), "weights of an LSTM must be constant") for k in (1, 8, 15, *NORMS)),
    *((full({k: None}), GATES) for k in (2, 3, 4, 6, 7, 8, 13, 14, 15, 18, STATE)),
    (full(COUPLED), None),
    *((full({k: None}), "its input gate together") for k in COUPLED),
    *((full(COUPLED | {k: held(4)}), "its input gate together") for k in COUPLED),
    (full(dict.fromkeys(PEEPHOLES, held(4))), None),
    (full({10: held(4), 11: held(4)}), None),
    (full({10: held(4)}), "peepholes of all its gates together"),
    (full({11: held(4)}), "peepholes of all its gates together"),
    (full(dict.fromkeys(NORMS, held(4))), None),
    (full(COUPLED | dict.fromkeys(NORMS[1:], held(4))), None),
    (full(COUPLED | dict.fromkeys(NORMS, held(4))), "layer normalization of all its gates"),
    *((full({k: held(4)}), "layer normalization of all its gates") for k in NORMS),
    (full({PROJECTION: held(5, 4)}, outputs=5), None),
    (full({PROJECTION: held(5, 4), 17: held(5)}, outputs=5), None),
    (full({2: (held(4, 3, 1))}), "must be matrices"),
    (full({6: (held(4))}), "must be matrices"),
    *((full({k: held(4, 2)}), NO_FIT) for k in range(1, 9)),
    *((full({k: held(3)}), NO_FIT) for k in range(12, 16)),
    *((full(dict.fromkeys(PEEPHOLES, held(4)) | {k: held(3)}), NO_FIT) for k in PEEPHOLES),
    *((full(dict.fromkeys(NORMS, held(4)) | {k: held(3)}), NO_FIT) for k in NORMS),
    (full({PROJECTION: held(4, 4)}, outputs=5), NO_FIT),
    (full({PROJECTION: held(5, 4), 17: held(4)}, outputs=5), NO_FIT),
    (full({18: (2, 5)}), NO_FIT),
    (full({STATE: (1, 4)}), NO_FIT),
    (full({18: stored(2, 4)}), "needs a state of float32 values"),
    (full({STATE: stored(2, 4, dtype="i16")}), "needs a state of float32 values"),
    (eight(), None),
    (eight(dict.fromkeys(PEEPHOLES, held(4))), "in 8 bits are not supported"),
    (eight({10: held(4), 11: held(4)}), "in 8 bits are not supported"),
    (eight({PROJECTION: held(4, 4)}), "in 8 bits are not supported"),
    (eight(dict.fromkeys(NORMS, held(4))), "in 8 bits are not supported"),
    (eight(COUPLED), "Coupled gates of an LSTM in 8 bits"),
    (eight({18: (2, 4)}), "needs an output state of 8 bits"),
    (eight({STATE: stored(2, 4)}), "a cell state of 16"),
    (eight({18: stored(2, 4, scale=0.25)}), "needs one quantization of its output"),
    (eight({2: held(4, 2)}), NO_FIT),
]

CELLS: list[tuple[Asked, str | None]] = [
    *((cell(op), None) for op in ("lstm", "gru", "rnn")),
    *((cell(op, units=MOST), None) for op in ("lstm", "gru", "rnn")),
    (cell("lstm", units=MOST + 1), f"with {MOST + 1} units is not supported"),
    (cell("rnn", units=1, steps=STEPS), None),
    (cell("rnn", units=1, steps=STEPS + 1), "steps is not supported"),
    (cell("rnn", activation="relu"), None),
    (cell("rnn", activation="elu"), "RNN with the activation elu"),
    (asks("rnn", (3, 2, 4), (4, 4), (2, 4)), "weights of RNN must be constant"),
    (cell("gru", held(4)), None),
    (cell("gru", (4,)), "weights of GRU must be constant"),
    *((cell("lstm", *[None] * k, (3, 4)), "weights of LSTM must be") for k in range(4)),
    (cell("lstm", held(3, 4)), None),
    (asks("rnn", (3, 2, 4, 1), held(4, 4), (2, 4)), "needs a sequence of rank 3"),
    (asks("rnn", (3, 0, 4), held(4, 4), (0, 4)), "that is not empty"),
    (asks("rnn", (2, 3, 4), held(4, 4), (2, 4), time_axis=1), None),
    (asks("rnn", (3, 2, 4), held(4, 4), (3, 4)), NO_FIT),
    (asks("rnn", (3, 2, 4), held(5, 4), (2, 4)), NO_FIT),
    (asks("rnn", (3, 2, 4), held(4, 5), (2, 5)), NO_FIT),
    (asks("lstm", (3, 2, 16), held(16, 4), (2, 4), (2, 5)), NO_FIT),
    (asks("lstm", (3, 2, 16), held(16, 5), (2, 5), (2, 4), None, held(5, 4)), None),
    (asks("lstm", (3, 2, 16), held(16, 5), (2, 5), (2, 4), None), NO_FIT),
    (asks("lstm", (3, 2, 12), held(12, 4), (2, 4), (2, 4), gates="fco"), None),
    (asks("rnn", (3, 2, 4), held(8, 4), (2, 4), directions=2), None),
    (asks("rnn", (3, 2, 4), held(4, 4), (2, 4), directions=2), NO_FIT),
    *(
        (
            asks("lstm", (3, 2, 16), held(32, 4), (2, 4), (2, 4), *[None] * k, part, directions=2),
            "of both directions takes no peepholes",
        )
        for k, part in ((0, held(3, 4)), (1, held(4, 4)), (3, held(2, 16)))
    ),
    (asks("rnn", (3, 2, 4), held(8, 4), (2, 4), directions=2), None),
    (asks("rnn", (3, 2, 4), held(4, 4), (2, 4), directions=2), NO_FIT),
    *(
        (cell("lstm", *[None] * k, part, directions=2), "of both directions takes no peepholes")
        for k, part in ((0, held(3, 4)), (1, held(4, 4)), (3, held(2, 16)))
    ),
    (
        asks("lstm", (3, 2, 4), held(4, MOST), (2, MOST), (2, 1), None, held(MOST, 1)),
        None,
    ),
    (
        asks("lstm", (3, 2, 4), held(4, MOST + 1), (2, MOST + 1), (2, 1), None, held(MOST + 1, 1)),
        "units is not supported",
    ),
]

IMAGE, CUBE = (2, 6, 8, 4), (1, 5, 5, 5, 4)
PLANE: dict[str, Any] = {"strides": (1, 1), "padding": "valid"}
SAME = {**PLANE, "padding": "same"}
VOLUME: dict[str, Any] = {"strides": (1, 1, 1), "padding": "valid"}


def layer(op: str, *inputs: Any, y: tuple[int, ...] = (2, 6, 8, 6), **attributes: Any) -> Asked:
    return asks(op, *inputs, results=[Tensor("y", y)], **attributes)


CONVOLUTIONS: list[tuple[Asked, str | None]] = [
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), **PLANE), None),
    (layer("conv_2d", (2, 6, 8), (6, 3, 3, 4), **PLANE), "needs an input and weights of 4"),
    (layer("conv_2d", IMAGE, (6, 3, 4), **PLANE), "needs an input and weights of 4"),
    (layer("conv_3d", CUBE, (6, 3, 3, 3, 4), **VOLUME), None),
    (layer("conv_3d", IMAGE, (6, 3, 3, 4), **VOLUME), "needs an input and weights of 5"),
    (layer("conv_2d", (2, 0, 8, 4), (6, 1, 1, 4), **PLANE), "of empty tensors"),
    (layer("conv_2d", IMAGE, (0, 1, 1, 4), **PLANE), "of empty tensors"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 2), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 3), **PLANE), "do not make groups"),
    (layer("conv_2d", IMAGE, (5, 3, 3, 2), **PLANE), "do not make groups"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 1), **PLANE), "do not make groups"),
    (layer("conv_3d", CUBE, (3, 3, 3, 4, 6), filters_last=True, **VOLUME), None),
    (layer("conv_3d", CUBE, (3, 3, 3, 2, 6), filters_last=True, **VOLUME), "Weights for 2"),
    (layer("conv_2d", IMAGE, (6, 6, 8, 4), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 7, 8, 4), **PLANE), "A window of 7 x 8 does not fit"),
    (layer("conv_2d", IMAGE, (6, 6, 9, 4), **PLANE), "A window of 6 x 9 does not fit"),
    (layer("conv_2d", IMAGE, (6, 9, 9, 4), **SAME), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), **PLANE | {"strides": (1, 0)}), "at least 1"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), **PLANE, dilations=(0, 1)), "at least 1"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(6), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(1, 1, 1, 6), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(6, 1), **PLANE), "bias has shape .6, 1. for 6"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(5), **PLANE), "bias has shape .5. for 6"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(1), **PLANE), "bias has shape .1. for 6"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), activation="relu", **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), activation="tanh", **PLANE), "tanh fused into conv"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 4), y=IMAGE, **PLANE), None),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 8), y=(*IMAGE[:3], 8), **PLANE), None),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 6), **PLANE), "6 filters are not 1 for each"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 3), **PLANE), "3 filters are not 0 for each"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 4), multiplier=2, **PLANE), "not 2 for each"),
    (layer("depthwise_conv_2d", IMAGE, (2, 3, 3, 4), **PLANE), "Weights of shape"),
    (layer("depthwise_conv_2d", (2, 0, 8, 4), (1, 3, 3, 4), **PLANE), "Weights of shape"),
    (layer("depthwise_conv_2d", IMAGE, (1, 0, 3, 4), **PLANE), "Weights of shape"),
    (layer("depthwise_conv_2d", IMAGE, (3, 3, 4), **PLANE), "weights of 4 dimensions"),
    (layer("depthwise_conv_2d", (6, 8, 4), (1, 3, 3, 4), **PLANE), "weights of 4 dimensions"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 4), held(3), **PLANE), "bias has shape"),
    (layer("depthwise_conv_2d", IMAGE, (1, 7, 3, 4), **PLANE), "A window of 7 x 3 does not fit"),
]


def turned(x: Any, weights: Any, *more: Any, **attributes: Any) -> Asked:
    """A transposed convolution."""
    return asks("transpose_conv", x, weights, *more, **{**SAME, "strides": (2, 2)} | attributes)


SMALL = (2, 3, 4, 4)
TRANSPOSED: list[tuple[Asked, str | None]] = [
    (turned(SMALL, (6, 3, 3, 4), None, [2, 6, 8, 6]), None),
    (turned(SMALL, (6, 3, 3, 4)), None),
    (turned((3, 4, 4), (6, 3, 3, 4)), "needs an input and weights of 4 dimensions"),
    (turned(SMALL, (6, 3, 4)), "needs an input and weights of 4 dimensions"),
    (turned(SMALL, (6, 3, 3, 4), strides=(0, 1)), "Strides must be at least 1"),
    (turned(SMALL, (6, 3, 3, 4), strides=(1, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), None, Tensor("n", (4,), "i32")), "must be a constant"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 6, 8]), "is not four positive extents"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 0, 8, 6]), "is not four positive extents"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 1, 1, 6]), r"does not have \[3, 4\] windows"),
    (turned((2, 1, 1, 4), (6, 3, 3, 4), None, [2, 1, 1, 6]), None),
    (turned((2, 0, 4, 4), (6, 3, 3, 4), None, [2, 6, 8, 6]), "is not four positive extents"),
    (turned(SMALL, (6, 0, 3, 4), None, [2, 6, 8, 6]), "is not four positive extents"),
    (turned(SMALL, (6, 3, 3, 3), None, [2, 6, 8, 6]), "do not make groups"),
    (turned(SMALL, (6, 3, 3, 4), None, [1, 6, 8, 6]), "do not agree"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 6, 8, 5]), "do not agree"),
    (turned(SMALL, held(6, 3, 3, 4), dilations=(2, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), dilations=(1, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), dilations=(2, 1)), "dilated transposed .* must be constant"),
    (turned(SMALL, (6, 3, 3, 4), dilations=(1, 2)), "dilated transposed .* must be constant"),
    # 2 taps, the last one at 65,535 and at 65,536
    (turned((1, 1, 1, 1), held(1, 2, 1, 1), dilations=(65_534, 1)), None),
    (turned((1, 1, 1, 1), held(1, 2, 1, 1), dilations=(65_535, 1)), "are too large"),
    # 32,768 taps of 4 bytes for each pair of channels: 128 MiB for 1,024
    (turned((1, 1, 1, 32), held(32, 2, 1, 32), dilations=(32_767, 1)), None),
    (turned((1, 1, 1, 32), held(32, 2, 1, 32), dilations=(32_768, 1)), "are too large"),
    (turned(SMALL, (6, 3, 3, 4), activation="tanh"), "tanh fused into transpose_conv"),
]

DENSE: list[tuple[Asked, str | None]] = [
    (layer("fully_connected", (3, 8), (6, 8), y=(3, 6)), None),
    (layer("fully_connected", (3, 8), (6, 4), y=(6, 6)), None),
    (layer("fully_connected", (3, 8), (6, 5), y=(3, 6)), "24 input elements do not divide"),
    (layer("fully_connected", (3, 8), (6, 8, 1), y=(3, 6)), "are not a matrix"),
    (layer("fully_connected", (3, 8), (0, 8), y=(3, 0)), "are not a matrix"),
    (layer("fully_connected", (0, 8), (6, 8), y=(0, 6)), "are not a matrix"),
    (layer("fully_connected", (3, 8), (6, 4), y=(3, 6), keep_num_dims=True), "does not end with"),
    (layer("fully_connected", (), (6, 1), y=(6,), keep_num_dims=True), "does not end with"),
    (layer("fully_connected", (1, 1, 3, 8), (6, 8), y=(1, 1, 3, 6), keep_num_dims=True), None),
    (layer("fully_connected", (1,) * 4 + (8,), (6, 8), keep_num_dims=True), None),
    (layer("fully_connected", (1,) * 4 + (8,), (6, 8), y=(1, 6)), None),
    (layer("fully_connected", (3, 8), (6, 8), held(6), y=(3, 6)), None),
    (layer("fully_connected", (3, 8), (6, 8), held(8), y=(3, 6)), "bias has shape .8. for 6"),
    (layer("fully_connected", (3, 8), (6, 8), y=(3, 6), activation="tanh"), "tanh fused into"),
]


def looped(
    x: tuple[int, ...] = (6, 2, 3), units: int = 4, steps: int = 5, changed: Any = None
) -> Asked:
    """A GRU that a host spells out as a loop."""
    rows_ = 3 * units
    given: list[Any] = [x, held(rows_, 3), held(rows_, units), held(rows_), (2, units), None,
                        held(units)]  # fmt: skip
    for position, value in (changed or {}).items():
        given[position] = value
    kinds = {"cell": "gru", "linear": True, "every": True, "steps": steps, "batch": 2}
    return asks("recurrent_layer", *given, results=2, **kinds)


LOOPED = [
    (looped(), None),
    (looped(steps=6), None),
    (looped(steps=7), "takes 7 steps over a batch of 2"),
    (looped((6, 1, 3)), "over a batch of 2"),
    (looped((6, 2)), "not over"),
    (looped((6, 2, 0)), "not over"),
    (looped((6, 2, 4)), "do not fit"),
    (looped(units=recurrent.MAX_UNITS), None),
    (looped(units=recurrent.MAX_UNITS + 1), "513 units"),
    (looped((recurrent.MAX_STEPS, 2, 3), steps=recurrent.MAX_STEPS), None),
    (looped((65_536, 2, 3), steps=65_536), "65,536 steps"),
    (looped(changed={4: (1, 4)}), "do not fit"),
    (looped(changed={3: held(11)}), "do not fit"),
    (looped(changed={6: held(5)}), "do not fit"),
    *((looped(changed={k: shape}), "must be constant")
      for k, shape in ((1, (12, 3)), (2, (12, 4)), (3, (12,)), (6, (4,)))),
]  # fmt: skip
CASES = [*LSTM, *LOOPED, *CELLS, *CONVOLUTIONS, *TRANSPOSED, *DENSE]


@pytest.mark.parametrize(
    ("said", "sentence"), CASES, ids=[f"{k} {said.args[0]}" for k, (said, _) in enumerate(CASES)]
)
def test_what_does_not_fit(said: Asked, sentence: str | None) -> None:
    found = said()
    assert found is None if sentence is None else re.search(sentence, found or "")


@pytest.mark.parametrize(("scratch", "read"), [(2, False), (3, False), (2, True), (3, True)])
def test_scratch_results_of_an_lstm_are_not_to_be_had(scratch: int, read: bool) -> None:
    graph = graph_of("lstm_basic", X, (2, 4), held(16, 7), held(16), (2, 4), results=4)
    (node,) = graph.nodes
    without = replace(graph, outputs=graph.outputs[:2])
    assert rows()["lstm_basic"].refuse(without, node, Target()) is None
    wanted = node.outputs[scratch]
    if read:
        reader = Node(1, "neg", (wanted,), (99,))
        other = replace(
            without, tensors={**graph.tensors, 99: Tensor("z", ())}, nodes=(node, reader)
        )
    else:
        other = replace(without, outputs=(wanted,))
    sentence = rows()["lstm_basic"].refuse(other, node, Target())
    assert sentence and "scratch outputs of a basic LSTM" in sentence
