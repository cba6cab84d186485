"""Layers over sequences in both directions, of LSTM and of plain recurrent cells: results side by
side and apart, time first and last, units around the width of a vector, optional parts of the
LSTM, over several runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, seeded
from tflgpu_plugin.ir import Quantization


def rnn(name: str, units: int = 6, backward: int = 0, inputs: int = 5, batch: int = 2,
        steps: int = 4, merged: bool = True, time_major: bool = False, activation: str = "TANH",
        auxiliary: bool = False, in_8_bits: bool = False, **more: Any) -> Case:  # fmt: skip
    """Returns a case; `backward` is the number of units of that direction if it differs.
    `in_8_bits`: weights are int8. Hosts crash with such weights if time is the first axis, unless
    inputs are quantized asymmetrically."""
    shape = (steps, batch) if time_major else (batch, steps)

    def weights(*extents: int, seed: int) -> Input:
        made = constant(seeded(*extents, seed=seed, scale=0.4))
        return _in_8_bits(made) if in_8_bits else made

    def direction(units: int, seed: int) -> list[Input]:
        return [
            weights(units, inputs, seed=seed),
            weights(units, units, seed=seed + 1),
            constant(seeded(units, seed=seed + 2, scale=0.4)),
            Input((batch, units), variable=True),
        ]

    extra = [Input((*shape, inputs))] + [constant(seeded(units, inputs, seed=k)) for k in (7, 8)]
    reads = (
        Input((*shape, inputs)),
        *direction(units, 1),
        *direction(backward or units, 4),
        *(extra if auxiliary else [None] * 3),
    )
    options = {
        "fusedActivationFunction": activation, "timeMajor": time_major, "mergeOutputs": merged,
        "asymmetricQuantizeInputs": in_8_bits,
    }  # fmt: skip
    op, table = "BIDIRECTIONAL_SEQUENCE_RNN", "BidirectionalSequenceRNNOptions"
    return Case(name, op, 3 if in_8_bits else 1, reads, table, options, outputs=2 - merged, **more)


def _in_8_bits(weights: Input) -> Input:
    data = np.round(np.asarray(weights.data) * 256).astype(np.int8)
    return replace(weights, dtype="i8", data=data, quantization=Quantization((1 / 256,), (0,)))


def lstm(name: str, units: int = 6, inputs: int = 5, batch: int = 2, steps: int = 4,
         merged: bool = False, time_major: bool = False, outputs: int = 0, coupled: bool = False,
         peephole: bool = False, scale: float = 0.4, clips: tuple[float, float] = (0.0, 0.0),
         auxiliary: bool = False, activation: str = "TANH", **more: Any) -> Case:  # fmt: skip
    """Returns a case; a projection computes `outputs`. If results are merged and time is not the
    first axis, hosts read the states of several sequences from the wrong place."""
    wide = outputs or units
    shape = (steps, batch) if time_major else (batch, steps)

    def gates(*extents: int, seed: int) -> list[Input | None]:
        made = [constant(seeded(*extents, seed=seed + k, scale=scale)) for k in range(4)]
        return [None if coupled and k == 0 else gate for k, gate in enumerate(made)]

    def direction(seed: int) -> list[Input | None]:
        return [
            *gates(units, inputs, seed=seed),
            *gates(units, wide, seed=seed + 10),
            *(gates(units, seed=seed + 20)[:3] if peephole else [None] * 3),
            *gates(units, seed=seed + 30),
            constant(seeded(outputs, units, seed=seed, scale=scale)) if outputs else None,
            constant(seeded(outputs, seed=seed + 3, scale=scale)) if outputs else None,
        ]

    states = [Input((batch, n), variable=True) for n in (wide, units)] * 2
    extra = [Input((*shape, inputs)), *gates(units, inputs, seed=7), *gates(units, inputs, seed=8)]
    reads = (
        Input((*shape, inputs)), *direction(1), *direction(50), *states,
        *(extra if auxiliary else [None] * 9),
    )  # fmt: skip
    options = {
        "fusedActivationFunction": activation, "cellClip": clips[0], "projClip": clips[1],
        "timeMajor": time_major, "mergeOutputs": merged,
    }  # fmt: skip
    op, table = "BIDIRECTIONAL_SEQUENCE_LSTM", "BidirectionalSequenceLSTMOptions"
    return Case(name, op, 1, reads, table, options, outputs=2 - merged, **more)


BOTH: list[dict[str, Any]] = [
    *({"name": f"units_{n}", "units": n} for n in (1, 4, 7, 16)),
    {"name": "apart", "units": 7, "merged": False},
    {"name": "time_major", "time_major": True, "merged": True, "steps": 5},
    {"name": "time_major_apart", "time_major": True, "merged": False, "steps": 5, "units": 7},
    {"name": "one_batch", "units": 8, "batch": 1, "merged": True},
    {"name": "time_major_one_batch", "time_major": True, "batch": 1, "merged": True},
    {"name": "one_step", "steps": 1, "batch": 3},
    {"name": "many_steps", "units": 9, "inputs": 12, "steps": 40},
    {"name": "auxiliary", "auxiliary": True, "refused": True},
]

CASES = [
    *(rnn(**more) for more in BOTH),
    *(lstm(**more) for more in BOTH),
    rnn("relu", activation="RELU"),
    rnn("relu6", activation="RELU6", refused=True),
    rnn("other_units_backward", units=4, backward=7),
    rnn("other_units_backward_apart", units=9, backward=3, merged=False),
    rnn("time_major_in_8_bits", time_major=True, in_8_bits=True, refused=True),
    rnn("513_units", units=513, inputs=2, batch=1, steps=2, refused=True),
    lstm("merged", merged=True, refused=True),
    lstm("merged_everything", units=9, outputs=5, peephole=True, merged=True, time_major=True),
    lstm("coupled", coupled=True),
    lstm("peephole", peephole=True),
    lstm("projection", outputs=5, units=7),
    lstm("everything", units=7, outputs=5, peephole=True, merged=False, time_major=True),
    lstm("clips", outputs=6, clips=(0.2, 0.1)),
    lstm("saturated", units=5, scale=20.0),
    lstm("relu", activation="RELU", refused=True),
]
