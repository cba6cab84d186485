"""Tests refusals of layers with weights: shapes and parts that do not fit, and the last ones that
fit. No device is needed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.ops.test_op_refusals import asks, graph_of
from tests.support.refused import code
from tflgpu_plugin.ir import NUMPY_DTYPES, Node, Quantization, Refusal, Target, Tensor
from tflgpu_plugin.ops import recurrent, rows

Asked = partial[Refusal | None]


def held(*shape: int, dtype: str = "f32") -> Tensor:
    """Returns a constant."""
    return Tensor("w", shape, dtype, np.zeros(shape, NUMPY_DTYPES[dtype]))


def stored(*shape: int, dtype: str = "i8", scale: float = 0.5) -> Tensor:
    """Returns a quantized value that is an input of the run."""
    return Tensor("q", shape, dtype, quantization=Quantization((scale,), (0,)))


# Inputs of lstm_full by position: 3 features, 4 units, 5 outputs of a projection; a batch of 2.
X, STATE, PEEPHOLES, PROJECTION, NORMS = (2, 3), 19, (9, 10, 11), 16, (20, 21, 22, 23)


def full(changed: dict[int, Any] | None = None, outputs: int = 4, **attributes: Any) -> Asked:
    """Returns the inputs of an LSTM with all gates, of which some are `changed`."""
    given: list[Any] = [X, *[held(4, 3)] * 4, *[held(4, outputs)] * 4, *[None] * 3]
    given += [*[held(4)] * 4, None, None, (2, outputs), (2, 4), *[None] * 4]
    for position, value in (changed or {}).items():
        given[position] = value
    y = stored(2, 4) if isinstance(given[0], Tensor) else Tensor("y", (2, 4))
    return asks("lstm_full", *given, results=[y], **attributes)


def large(units: int = 4, outputs: int = 4, steps: int = 1) -> Asked:
    """Returns an LSTM of this size, with a projection if the outputs are not as many as units."""
    changed: dict[int, Any] = {0: (steps, 2, 3), STATE: (2, units), 18: (2, outputs)}
    changed |= dict.fromkeys(range(1, 5), held(units, 3))
    changed |= dict.fromkeys(range(5, 9), held(units, outputs))
    changed |= dict.fromkeys(range(12, 16), held(units))
    return full(changed | ({PROJECTION: held(outputs, units)} if outputs != units else {}))


def simple(units: int = 4, steps: int = 1, **attributes: Any) -> Asked:
    """Returns an RNN_BASIC of this size."""
    x = (2, steps, 3) if attributes.get("time_axis") else (steps, 2, 3)
    given = (x, held(units, 3), held(units, units), held(units), (2, units))
    return asks("rnn_basic", *given, results=2, activation="tanh", **attributes)


def eight(
    changed: dict[int, Any] | None = None, hidden: tuple[float, ...] = (0.5, 0.0), inputs: int = 3
) -> Asked:
    """Returns the same in 8 bits."""
    kinds: dict[int, Any] = {0: stored(2, inputs), 18: stored(2, 4)}
    kinds |= {STATE: stored(2, 4, dtype="i16", scale=2.0**-11)}
    kinds |= dict.fromkeys(range(1, 5), whole(4, inputs))
    kinds |= dict.fromkeys(range(5, 9), whole(4, 4))
    kinds |= dict.fromkeys(range(12, 16), held(4, dtype="i32"))
    return full(kinds | (changed or {}), hidden=hidden)


def whole(*shape: int, scales: int = 1) -> Tensor:
    """Returns weights of int8, each of them 127."""
    data = np.full(shape, 127, np.int8)
    return Tensor("w", shape, "i8", data, Quantization((0.5,) * scales, (0,) * scales))


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


GATES = "input.missing"
NO_FIT = "shape.mismatch"
COUPLED = {1: None, 5: None, 12: None}
MAX_UNITS, STEPS = recurrent.MAX_UNITS, recurrent.MAX_STEPS

LSTM: list[tuple[Asked, str | None]] = [
    (basic(), None),
    (basic(activation="relu"), "activation.unsupported"),
    (basic(cell_clip=1.0), "attribute.unsupported"),
    (basic(proj_clip=1.0), "attribute.unsupported"),
    (asks("lstm_basic", X, (2, 4), held(16, 7), held(16)), "input.missing"),
    (asks("lstm_basic", X, (2, 4), held(16, 7), held(16), *[(2, 4)] * 2), "input.missing"),
    (basic({4: None}), "input.missing"),
    (basic({2: (16, 7)}), "constant.required"),
    (basic({3: (16,)}), "constant.required"),
    (basic({0: (2, 0)}), "shape.unsupported"),
    (basic({1: (2, 0)}), "shape.unsupported"),
    (basic({0: (2, 3, 1)}), "shape.unsupported"),
    (basic({1: (2, 4, 1)}), "shape.unsupported"),
    (basic({1: (1, 4)}), NO_FIT),
    (basic({2: held(16, 8)}), NO_FIT),
    (basic({2: held(17, 7)}), NO_FIT),
    (basic({3: held(15)}), NO_FIT),
    (basic({4: (2, 3)}), NO_FIT),
    (full(), None),
    (full(activation="relu"), "activation.unsupported"),
    (asks("lstm_full", X, *[None] * 22), "input.missing"),
    (full({0: (2, 5, 3)}, time_axis=1), None),
    (full({0: (5, 2, 3)}), None),
    (full({0: (2, 5, 3)}), NO_FIT),
    (full({0: (5, 2, 3)}, time_axis=1), NO_FIT),
    (full({0: (3,)}), "rank.unsupported"),
    (full({0: (1, 1, 2, 3)}), "rank.unsupported"),
    *((full({k: (4, 3)}), "constant.required") for k in (1, 8, 15, *NORMS)),
    *((full({k: None}), GATES) for k in (2, 3, 4, 6, 7, 8, 13, 14, 15, 18, STATE)),
    (full(COUPLED), None),
    *((full({k: None}), "input.missing") for k in COUPLED),
    *((full(COUPLED | {k: held(4)}), "input.missing") for k in COUPLED),
    (full(dict.fromkeys(PEEPHOLES, held(4))), None),
    (full({10: held(4), 11: held(4)}), None),
    (full({10: held(4)}), "input.missing"),
    (full({11: held(4)}), "input.missing"),
    (full(dict.fromkeys(NORMS, held(4))), None),
    (full(COUPLED | dict.fromkeys(NORMS[1:], held(4))), None),
    (full(COUPLED | dict.fromkeys(NORMS, held(4))), "input.missing"),
    *((full({k: held(4)}), "input.missing") for k in NORMS),
    (full({PROJECTION: held(5, 4)}, outputs=5), None),
    (full({PROJECTION: held(5, 4), 17: held(5)}, outputs=5), None),
    (large(MAX_UNITS, MAX_UNITS), None),
    (large(MAX_UNITS + 1, MAX_UNITS + 1), "shape.too_large"),
    (large(MAX_UNITS + 1), "shape.too_large"),
    (large(outputs=MAX_UNITS + 1), "shape.too_large"),
    (large(steps=STEPS), None),
    (large(steps=STEPS + 1), "shape.too_large"),
    (simple(MAX_UNITS), None),
    (simple(MAX_UNITS + 1), "shape.too_large"),
    *((simple(steps=STEPS, time_axis=axis), None) for axis in (0, 1)),
    *((simple(steps=STEPS + 1, time_axis=axis), "shape.too_large") for axis in (0, 1)),
    (full({2: (held(4, 3, 1))}), "rank.unsupported"),
    (full({6: (held(4))}), "rank.unsupported"),
    *((full({k: held(4, 2)}), NO_FIT) for k in range(1, 9)),
    *((full({k: held(3)}), NO_FIT) for k in range(12, 16)),
    *((full(dict.fromkeys(PEEPHOLES, held(4)) | {k: held(3)}), NO_FIT) for k in PEEPHOLES),
    *((full(dict.fromkeys(NORMS, held(4)) | {k: held(3)}), NO_FIT) for k in NORMS),
    (full({PROJECTION: held(4, 4)}, outputs=5), NO_FIT),
    (full({PROJECTION: held(5, 4), 17: held(4)}, outputs=5), NO_FIT),
    (full({18: (2, 5)}), NO_FIT),
    (full({STATE: (1, 4)}), NO_FIT),
    (full({18: stored(2, 4)}), "dtype.mismatch"),
    (full({STATE: stored(2, 4, dtype="i16")}), "dtype.mismatch"),
    (eight(), None),
    (eight(dict.fromkeys(PEEPHOLES, held(4))), "attribute.unsupported"),
    (eight({10: held(4), 11: held(4)}), "attribute.unsupported"),
    (eight({PROJECTION: held(4, 4)}), "attribute.unsupported"),
    (eight(dict.fromkeys(NORMS, held(4))), "attribute.unsupported"),
    (eight(COUPLED), "attribute.unsupported"),
    (eight({0: stored(2, 3, dtype="u8")}), "dtype.unsupported"),
    (eight({12: held(4)}), "dtype.unsupported"),
    (eight({6: whole(4, 4, scales=4)}), "quantization.unsupported"),
    (eight(hidden=()), "input.missing"),
    (eight(hidden=(0.0, 0.0)), "input.missing"),
    *(
        (eight({STATE: stored(2, 4, dtype="i16", scale=s)}), "quantization.unsupported")
        for s in (0.3, 2.0**-8, 2.0**-16)
    ),
    (eight({STATE: stored(2, 4, dtype="i16", scale=2.0**-15)}), None),
    (eight(inputs=1032), None),  # 127 * 128 * 1032 < 2^24
    (eight(inputs=1033), "shape.too_large"),
    (eight({18: (2, 4)}), "dtype.unsupported"),
    (eight({STATE: stored(2, 4)}), "dtype.unsupported"),
    (eight({18: stored(2, 4, scale=0.25)}), "quantization.mismatch"),
    (eight({2: held(4, 2)}), NO_FIT),
]

CELLS: list[tuple[Asked, str | None]] = [
    *((cell(op), None) for op in ("lstm", "gru", "rnn")),
    *((cell(op, units=MAX_UNITS), None) for op in ("lstm", "gru", "rnn")),
    (cell("lstm", units=MAX_UNITS + 1), "shape.too_large"),
    (cell("rnn", units=1, steps=STEPS), None),
    (cell("rnn", units=1, steps=STEPS + 1), "shape.too_large"),
    (cell("rnn", activation="relu"), None),
    (cell("rnn", activation="gelu"), "activation.unsupported"),
    (cell("rnn", activation="elu"), "attribute.invalid"),
    (cell("rnn", activation="elu", activation_numbers=(0.5,)), None),
    (asks("rnn", (3, 2, 4), (4, 4), (2, 4)), None),
    (cell("gru", held(4)), None),
    (cell("gru", (4,)), None),
    (cell("lstm", (3, 4)), None),
    *((cell("lstm", *[None] * k, (3, 4)), "constant.required") for k in range(1, 4)),
    (cell("lstm", (3, 4), held(4, 4)), "constant.required"),
    (asks("lstm", (3, 2, 16), (16, 4), (2, 4), (2, 4), None, held(4, 4)), "constant.required"),
    (cell("lstm", held(3, 4)), None),
    (cell("lstm", *[None] * 5, held(16, 8), stored=(0.0,) * 10), None),
    (cell("lstm", *[None] * 5, held(16, 7), stored=(0.0,) * 10), "constant.required"),
    (cell("lstm", *[None] * 5, held(16, 8)), "constant.required"),
    (cell("lstm", stored=(0.0,) * 10), "constant.required"),
    (asks("rnn", (3, 2, 4, 1), held(4, 4), (2, 4)), "rank.unsupported"),
    (asks("rnn", (3, 0, 4), held(4, 4), (0, 4)), "rank.unsupported"),
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
            "attribute.unsupported",
        )
        for k, part in ((0, held(3, 4)), (1, held(4, 4)), (3, held(2, 16)))
    ),
    (asks("rnn", (3, 2, 4), held(8, 4), (2, 4), directions=2), None),
    (asks("rnn", (3, 2, 4), held(4, 4), (2, 4), directions=2), NO_FIT),
    *(
        (cell("lstm", *[None] * k, part, directions=2), "attribute.unsupported")
        for k, part in ((0, held(3, 4)), (1, held(4, 4)), (3, held(2, 16)))
    ),
    (
        asks(
            "lstm", (3, 2, 4), held(4, MAX_UNITS), (2, MAX_UNITS), (2, 1), None, held(MAX_UNITS, 1)
        ),
        None,
    ),
    (
        asks(
            "lstm",
            (3, 2, 4),
            held(4, MAX_UNITS + 1),
            (2, MAX_UNITS + 1),
            (2, 1),
            None,
            held(MAX_UNITS + 1, 1),
        ),
        "shape.too_large",
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
    (layer("conv_2d", (2, 6, 8), (6, 3, 3, 4), **PLANE), "rank.unsupported"),
    (layer("conv_2d", IMAGE, (6, 3, 4), **PLANE), "rank.unsupported"),
    (layer("conv_3d", CUBE, (6, 3, 3, 3, 4), **VOLUME), None),
    (layer("conv_3d", IMAGE, (6, 3, 3, 4), **VOLUME), "rank.unsupported"),
    (layer("conv_2d", (2, 0, 8, 4), (6, 1, 1, 4), **PLANE), "shape.empty"),
    (layer("conv_2d", IMAGE, (0, 1, 1, 4), **PLANE), "shape.empty"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 2), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 3), **PLANE), "shape.mismatch"),
    (layer("conv_2d", IMAGE, (5, 3, 3, 2), **PLANE), "shape.mismatch"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 1), **PLANE), "shape.mismatch"),
    (layer("conv_3d", CUBE, (3, 3, 3, 4, 6), filters_last=True, **VOLUME), None),
    (layer("conv_3d", CUBE, (3, 3, 3, 2, 6), filters_last=True, **VOLUME), "shape.mismatch"),
    (layer("conv_2d", IMAGE, (6, 6, 8, 4), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 7, 8, 4), **PLANE), "shape.window_too_large"),
    (layer("conv_2d", IMAGE, (6, 6, 9, 4), **PLANE), "shape.window_too_large"),
    (layer("conv_2d", IMAGE, (6, 9, 9, 4), **SAME), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), **PLANE | {"strides": (1, 0)}), "attribute.invalid"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), **PLANE, dilations=(0, 1)), "attribute.invalid"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(6), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(1, 1, 1, 6), **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(6, 1), **PLANE), "shape.mismatch"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(5), **PLANE), "shape.mismatch"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), held(1), **PLANE), "shape.mismatch"),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), activation="relu", **PLANE), None),
    (layer("conv_2d", IMAGE, (6, 3, 3, 4), activation="tanh", **PLANE), "activation.unsupported"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 4), y=IMAGE, **PLANE), None),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 8), y=(*IMAGE[:3], 8), **PLANE), None),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 6), **PLANE), "shape.mismatch"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 3), **PLANE), "shape.mismatch"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 4), multiplier=2, **PLANE), "shape.mismatch"),
    (layer("depthwise_conv_2d", IMAGE, (2, 3, 3, 4), **PLANE), "shape.unsupported"),
    (layer("depthwise_conv_2d", (2, 0, 8, 4), (1, 3, 3, 4), **PLANE), "shape.unsupported"),
    (layer("depthwise_conv_2d", IMAGE, (1, 0, 3, 4), **PLANE), "shape.unsupported"),
    (layer("depthwise_conv_2d", IMAGE, (3, 3, 4), **PLANE), "rank.unsupported"),
    (layer("depthwise_conv_2d", (6, 8, 4), (1, 3, 3, 4), **PLANE), "rank.unsupported"),
    (layer("depthwise_conv_2d", IMAGE, (1, 3, 3, 4), held(3), **PLANE), "shape.mismatch"),
    (layer("depthwise_conv_2d", IMAGE, (1, 7, 3, 4), **PLANE), "shape.window_too_large"),
]


def turned(x: Any, weights: Any, *more: Any, **attributes: Any) -> Asked:
    """Returns the refusal of a transposed convolution."""
    return asks("transpose_conv", x, weights, *more, **{**SAME, "strides": (2, 2)} | attributes)


SMALL = (2, 3, 4, 4)
TRANSPOSED: list[tuple[Asked, str | None]] = [
    (turned(SMALL, (6, 3, 3, 4), None, [2, 6, 8, 6]), None),
    (turned(SMALL, (6, 3, 3, 4)), None),
    (turned((3, 4, 4), (6, 3, 3, 4)), "rank.unsupported"),
    (turned(SMALL, (6, 3, 4)), "rank.unsupported"),
    (turned(SMALL, (6, 3, 3, 4), strides=(0, 1)), "attribute.invalid"),
    (turned(SMALL, (6, 3, 3, 4), strides=(1, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), None, Tensor("n", (4,), "i32")), "constant.required"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 6, 8]), "constant.invalid"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 0, 8, 6]), "constant.invalid"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 1, 1, 6]), "shape.mismatch"),
    (turned((2, 1, 1, 4), (6, 3, 3, 4), None, [2, 1, 1, 6]), None),
    (turned((2, 0, 4, 4), (6, 3, 3, 4), None, [2, 6, 8, 6]), "constant.invalid"),
    (turned(SMALL, (6, 0, 3, 4), None, [2, 6, 8, 6]), "constant.invalid"),
    (turned(SMALL, (6, 3, 3, 3), None, [2, 6, 8, 6]), "shape.mismatch"),
    (turned(SMALL, (6, 3, 3, 4), None, [1, 6, 8, 6]), "shape.mismatch"),
    (turned(SMALL, (6, 3, 3, 4), None, [2, 6, 8, 5]), "shape.mismatch"),
    (turned(SMALL, held(6, 3, 3, 4), dilations=(2, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), dilations=(1, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), dilations=(2, 1)), None),
    (turned(SMALL, (6, 3, 3, 4), dilations=(1, 2)), None),
    # 2 taps, the last one at 65,535 and at 65,536
    (turned((1, 1, 1, 1), held(1, 2, 1, 1), dilations=(65_534, 1)), None),
    (turned((1, 1, 1, 1), held(1, 2, 1, 1), dilations=(65_535, 1)), "shape.too_large"),
    # 32,768 taps of 4 bytes for each pair of channels: 128 MiB for 1,024
    (turned((1, 1, 1, 32), held(32, 2, 1, 32), dilations=(32_767, 1)), None),
    (turned((1, 1, 1, 32), held(32, 2, 1, 32), dilations=(32_768, 1)), "shape.too_large"),
    (turned(SMALL, (6, 3, 3, 4), activation="tanh"), "activation.unsupported"),
]

DENSE: list[tuple[Asked, str | None]] = [
    (layer("fully_connected", (3, 8), (6, 8), y=(3, 6)), None),
    (layer("fully_connected", (3, 8), (6, 4), y=(6, 6)), None),
    (layer("fully_connected", (3, 8), (6, 5), y=(3, 6)), "shape.mismatch"),
    (layer("fully_connected", (3, 8), (6, 8, 1), y=(3, 6)), "shape.unsupported"),
    (layer("fully_connected", (3, 8), (0, 8), y=(3, 0)), "shape.unsupported"),
    (layer("fully_connected", (0, 8), (6, 8), y=(0, 6)), "shape.unsupported"),
    (layer("fully_connected", (3, 8), (6, 4), y=(3, 6), keep_num_dims=True), "shape.mismatch"),
    (layer("fully_connected", (), (6, 1), y=(6,), keep_num_dims=True), "shape.mismatch"),
    (layer("fully_connected", (1, 1, 3, 8), (6, 8), y=(1, 1, 3, 6), keep_num_dims=True), None),
    (layer("fully_connected", (1,) * 4 + (8,), (6, 8), keep_num_dims=True), None),
    (layer("fully_connected", (1,) * 4 + (8,), (6, 8), y=(1, 6)), None),
    (layer("fully_connected", (3, 8), (6, 8), held(6), y=(3, 6)), None),
    (layer("fully_connected", (3, 8), (6, 8), held(8), y=(3, 6)), "shape.mismatch"),
    (
        layer("fully_connected", (3, 8), (6, 8), y=(3, 6), activation="tanh"),
        "activation.unsupported",
    ),
]


def looped(
    x: tuple[int, ...] = (6, 2, 3), units: int = 4, steps: int = 5, changed: Any = None
) -> Asked:
    """Returns a GRU that a host writes as a loop."""
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
    (looped(steps=7), "shape.mismatch"),
    (looped((6, 1, 3)), "shape.mismatch"),
    (looped((6, 2)), "shape.mismatch"),
    (looped((6, 2, 0)), "shape.mismatch"),
    (looped((6, 2, 4)), "shape.mismatch"),
    (looped(units=recurrent.MAX_UNITS), None),
    (looped(units=recurrent.MAX_UNITS + 1), "shape.too_large"),
    (looped((recurrent.MAX_STEPS, 2, 3), steps=recurrent.MAX_STEPS), None),
    (looped((65_536, 2, 3), steps=65_536), "shape.too_large"),
    (looped(changed={4: (1, 4)}), "shape.mismatch"),
    (looped(changed={3: held(11)}), "shape.mismatch"),
    (looped(changed={6: held(5)}), "shape.mismatch"),
    *((looped(changed={k: shape}), "constant.required")
      for k, shape in ((1, (12, 3)), (2, (12, 4)), (3, (12,)), (6, (4,)))),
]  # fmt: skip
CASES = [*LSTM, *LOOPED, *CELLS, *CONVOLUTIONS, *TRANSPOSED, *DENSE]


@pytest.mark.parametrize(
    ("said", "wanted"), CASES, ids=[f"{k} {said.args[0]}" for k, (said, _) in enumerate(CASES)]
)
def test_what_does_not_fit(said: Asked, wanted: str | None) -> None:
    found = said()
    assert code(found) == wanted


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
    assert code(rows()["lstm_basic"].refuse(other, node, Target())) == "output.unsupported"
