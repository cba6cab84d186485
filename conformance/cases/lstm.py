"""LSTM of the basic and the full kind, the latter for one step and for sequences: depths around the
width of a vector, batches, every optional part, and gates that saturate, over several runs. In
integers, too: scales of the cell state, zero points, clips, and gates of every size."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, seeded
from conformance.cases.quantization import scaled, stored as value
from tflgpu_plugin.ir import Quantization


def lstm(
    name: str,
    batch: int,
    inputs: int,
    units: int,
    scale: float = 0.5,
    activation: str = "TANH",
    clips: tuple[float, float] = (0.0, 0.0),
    **more: Any,
) -> Case:
    """Returns a case with seeded weights; the previous activation and state are variables of the
    interpreter."""
    reads = (
        Input((batch, inputs)),
        Input((batch, units), variable=True),
        constant(seeded(4 * units, inputs + units, scale=scale)),
        constant(seeded(4 * units, seed=2, scale=scale)),
        Input((batch, units), variable=True),
    )
    options = {
        "fusedActivationFunction": activation,
        "cellClip": clips[0],
        "projClip": clips[1],
        "kernelType": "BASIC",
    }
    return Case(name, "LSTM", 2, reads, "LSTMOptions", options, outputs=4, **more)


def full(
    name: str,
    units: int,
    inputs: int = 5,
    batch: int = 2,
    steps: int = 0,
    time_major: bool = False,
    outputs: int = 0,
    coupled: bool = False,
    peephole: bool = False,
    bias: bool = True,
    normalized: bool = False,
    scale: float = 0.4,
    clips: tuple[float, float] = (0.0, 0.0),
    activation: str = "TANH",
    **more: Any,
) -> Case:
    """Returns a case of the LSTM with many inputs: a sequence if it has `steps`, else one step. A
    projection computes `outputs`."""
    wide = outputs or units
    shape = (steps, batch) if time_major else (batch, steps)

    def gates(*extents: int, seed: int, without: bool = False) -> list[Input | None]:
        made = (constant(seeded(*extents, seed=seed + k, scale=scale)) for k in range(4))
        return [None if without and k == 0 else gate for k, gate in enumerate(made)]

    holes = gates(units, seed=20)[:3]
    reads = (
        Input((*(shape if steps else (batch,)), inputs)),
        *gates(units, inputs, seed=1, without=coupled),
        *gates(units, wide, seed=10, without=coupled),
        *([None if coupled else holes[0], *holes[1:]] if peephole else [None] * 3),
        *gates(units, seed=30, without=coupled),
        constant(seeded(outputs, units, scale=scale)) if outputs else None,
        constant(seeded(outputs, seed=3, scale=scale)) if outputs and bias else None,
        Input((batch, wide), variable=True),
        Input((batch, units), variable=True),
        *(gates(units, seed=40, without=coupled) if normalized else [None] * 4),
    )
    options: dict[str, Any] = {
        "fusedActivationFunction": activation,
        "cellClip": clips[0],
        "projClip": clips[1],
    }
    op, table, own = _operator(steps, time_major)
    return Case(name, op, 1, reads, table, options | own, **more)


def _operator(steps: int, time_major: bool) -> tuple[str, str, dict[str, Any]]:
    """Returns the operator of a layer, the table of its options, and those that only it has."""
    if steps:
        op, table = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"
        return op, table, {"timeMajor": time_major}
    return "LSTM", "LSTMOptions", {"kernelType": "FULL"}


OUTPUT = Quantization((1 / 128,), (3,))


def stored(
    name: str,
    units: int,
    inputs: int = 5,
    batch: int = 2,
    steps: int = 4,
    weights: float = 0.02,
    state: float = 2.0**-11,
    output: Quantization = OUTPUT,
    hidden: Quantization | None = None,
    clip: float = 0.0,
    time_major: bool = False,
    **more: Any,
) -> Case:
    """Returns a case over int8 with a cell state of int16 in units of `state`. `weights` is the
    largest scale of the gates' weights, `output` the quantization of the output; `hidden` (default:
    the same) that which hosts give the output before a projection. One step if `steps` is 0."""
    random = np.random.default_rng([units, inputs, batch, steps])

    def gates(*extents: int, ratios: tuple[float, ...]) -> list[Input]:
        shape = (units, *extents)
        return [Input(shape, "i8", random.integers(-127, 128, shape, np.int8),
                      quantization=scaled(weights * ratio, 0)) for ratio in ratios]  # fmt: skip

    entering = gates(inputs, ratios=(1.0, 0.7, 0.9, 0.8))
    biases = [
        Input((units,), "i32", random.integers(-(2**13), 2**13, units, np.int32),
              quantization=scaled(0.04 * float(gate.quantization.scale[0]), 0))
        for gate in entering if gate.quantization
    ]  # fmt: skip
    shape = (steps, batch) if time_major else (batch, steps)
    reads = (
        value((*(shape if steps else (batch,)), inputs), "i8", 0.04, -5),
        *entering,
        *gates(units, ratios=(0.6, 1.0, 0.8, 0.9)),
        *[None] * 3,
        *biases,
        *[None] * 2,
        Input((batch, units), "i8", variable=True, quantization=output),
        Input((batch, units), "i16", variable=True, quantization=scaled(state, 0)),
        *[None] * 4,
    )
    op, table, own = _operator(steps, time_major)
    options = {"fusedActivationFunction": "TANH", "cellClip": clip} | own
    return Case(
        name, op, 3, reads, table, options, output_type="i8", output_quantization=output,
        intermediates=(None, None, None, None, hidden or output), **more,
    )  # fmt: skip


BOTH: list[dict[str, Any]] = [
    {"name": "full_units_1", "units": 1, "batch": 1},
    {"name": "full_units_4", "units": 4, "inputs": 8},
    {"name": "full_units_17", "units": 17, "inputs": 3, "batch": 3},
    {"name": "full_coupled", "units": 6, "coupled": True},
    {"name": "full_peephole", "units": 6, "peephole": True},
    {"name": "full_coupled_peephole", "units": 6, "coupled": True, "peephole": True},
    {"name": "full_projection", "units": 7, "outputs": 5},
    {"name": "full_bare_projection", "units": 6, "outputs": 9, "bias": False},
    {"name": "full_clips", "units": 6, "outputs": 6, "clips": (0.2, 0.1)},
    {"name": "full_saturated", "units": 5, "scale": 20.0},
    {"name": "full_normalized", "units": 6, "normalized": True},
    {"name": "full_normalized_coupled", "units": 6, "coupled": True, "normalized": True},
    {"name": "full_normalized_peephole", "units": 7, "peephole": True, "normalized": True},
    {
        "name": "full_normalized_everything",
        "units": 7,
        "outputs": 5,
        "peephole": True,
        "normalized": True,
    },
    {"name": "full_relu", "units": 6, "activation": "RELU", "refused": True},
]

CASES = [
    lstm("units_1", 1, 1, 1),
    lstm("units_3", 1, 5, 3),
    lstm("units_4", 1, 4, 4),
    lstm("units_5_batch_3", 3, 3, 5),
    lstm("units_8_inputs_1", 1, 1, 8),
    lstm("units_17_batch_3", 3, 8, 17),
    lstm("units_16_inputs_64", 2, 64, 16, 0.3),
    lstm("units_128_inputs_128", 1, 128, 128, 0.2),
    lstm("units_33_inputs_257", 1, 257, 33, 0.2),
    lstm("saturated", 2, 6, 6, 40.0),
    lstm("nearly_zero", 1, 6, 6, 1e-4),
    lstm("cell_clip", 1, 4, 4, clips=(0.1, 0.0), refused=True),
    lstm("proj_clip", 1, 4, 4, clips=(0.0, 0.1), refused=True),
    *(full(**more) for more in BOTH),
    *(full(**more, steps=4) for more in BOTH),
    full("full_time_major", 6, steps=3, time_major=True),
    full("full_time_major_everything", 7, steps=3, time_major=True, outputs=5, peephole=True),
    full("full_one_step", 6, steps=1),
    full("full_long", 5, steps=60, scale=0.2),
    full("full_wide", 96, inputs=40, batch=1, steps=3, scale=0.1),
    *(stored(f"stored_units_{n}", n) for n in (1, 4, 7, 17)),
    *(stored(f"stored_state_{n}", 6, state=2.0**-n, steps=9) for n in (9, 10, 12, 14, 15)),
    stored("stored_one_step", 6, steps=0, runs=5),
    stored("stored_time_major", 6, batch=3, time_major=True),
    stored("stored_clip", 6, clip=0.4),
    stored("stored_saturated", 9, weights=0.3, steps=12),
    stored("stored_small", 40, inputs=24, batch=1, steps=12, weights=1e-3),
    stored("stored_large_bias", 5, weights=1e-4),
    stored("stored_zero_point", 8, output=Quantization((1 / 200,), (-128,))),
    stored("stored_other_hidden", 8, hidden=Quantization((1 / 90,), (-9,))),
    stored("stored_long", 33, inputs=20, batch=1, steps=60),
    full("full_most_units", 512, batch=1, steps=2, scale=0.05),
    full("full_too_many_units", 513, batch=1, steps=2, refused=True),
    stored("stored_most_units", 512, batch=1, steps=2),
    stored("stored_too_many_units", 513, batch=1, steps=2, refused=True),
    stored("stored_state_8", 4, state=2.0**-16, refused=True),
]
