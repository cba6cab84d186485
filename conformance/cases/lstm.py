"""LSTM of the basic and the full kind, the latter for one step and for sequences: depths around the
width of a vector, batches, every optional part, and gates that saturate, over several runs."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, seeded


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
    if steps:
        options["timeMajor"] = time_major
        op, table = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"
    else:
        options["kernelType"] = "FULL"
        op, table = "LSTM", "LSTMOptions"
    return Case(name, op, 1, reads, table, options, **more)


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
]
