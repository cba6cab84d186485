"""Recurrent layers of TFLite: one step and sequences, both orders of the axes, the activations,
units and inputs around the width of a vector."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, seeded


def layer(name: str, units: int, inputs: int = 5, batch: int = 2, steps: int = 0,
          time_major: bool = False, activation: str = "TANH", **more: Any) -> Case:  # fmt: skip
    """Returns a case: a sequence if it has `steps`, else one step."""
    shape = (steps, batch) if time_major else (batch, steps)
    reads = (
        Input((*(shape if steps else (batch,)), inputs)),
        constant(seeded(units, inputs, scale=0.4)),
        constant(seeded(units, units, seed=1, scale=0.4)),
        constant(seeded(units, seed=2, scale=0.4)),
        Input((batch, units), variable=True),
    )
    options: dict[str, Any] = {"fusedActivationFunction": activation}
    if not steps:
        return Case(name, "RNN", 1, reads, "RNNOptions", options, **more)
    options["timeMajor"] = time_major
    table = "SequenceRNNOptions"
    return Case(name, "UNIDIRECTIONAL_SEQUENCE_RNN", 1, reads, table, options, **more)


CASES = [
    *(layer(f"units_{n}", n) for n in (1, 4, 7, 16)),
    layer("relu", 6, activation="RELU"),
    layer("one_input", 5, inputs=1, batch=1),
    layer("no_activation", 5, activation="NONE", refused=True),
    layer("relu6", 5, activation="RELU6", refused=True),
    *(layer(f"sequence_units_{n}", n, steps=6) for n in (1, 4, 7, 16)),
    layer("sequence_time_major", 6, steps=5, time_major=True),
    layer("sequence_time_major_one_batch", 6, batch=1, steps=5, time_major=True),
    layer("sequence_relu", 6, steps=4, activation="RELU"),
    layer("sequence_one_step", 6, steps=1),
    layer("sequence_many_steps", 9, inputs=12, batch=3, steps=40),
    layer("sequence_513_units", 513, inputs=2, batch=1, steps=2, refused=True),
]
