"""LSTM of the basic kind: depths around the width of a vector, batches, and gates that saturate,
over several runs."""

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
    """A case with seeded weights; the previous activation and state are variables of the
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
]
