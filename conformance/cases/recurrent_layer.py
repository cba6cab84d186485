"""Layers that hosts spell out as loops: every cell, units and inputs around the width of a vector,
lists of all steps and of the last one, with and without biases, steps that leave a rest of the
sequence, and what does not fit. Tests of the TFLite frontend have the loops."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, seeded
from conformance.node_cases import NodeCase

CASES: list[Case] = []
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
OWN: dict[str, dict[str, Any]] = {
    "lstm": {"gates": "ifco"}, "gru": {"linear": True}, "rnn": {"activation": "tanh"},
}  # fmt: skip


def layer(name: str, cell: str, units: int, inputs: int = 5, batch: int = 2, steps: int = 4,
          every: bool = True, biased: bool = True, rest: int = 0, refused: bool = False,
          **more: Any) -> NodeCase:  # fmt: skip
    """Returns a node case; `rest` is the number of rows after the last step."""
    rows = GATES[cell] * units
    linear = (OWN[cell] | more).get("linear", False)
    reads = (
        Input((steps + rest, batch, inputs)),
        constant(seeded(rows, inputs, scale=0.4)),
        constant(seeded(rows, units, seed=1, scale=0.4)),
        constant(seeded(rows, seed=2, scale=0.4)) if biased else None,
        Input((batch, units)),
        Input((batch, units)) if cell == "lstm" else None,
        constant(seeded(units, seed=3, scale=0.4)) if linear and biased else None,
    )
    given = {"cell": cell, "every": every, "steps": steps, "batch": batch} | OWN[cell] | more
    return NodeCase(f"{cell}_{name}", "recurrent_layer", reads, given,
                    outputs=3 if cell == "lstm" else 2, terms=(inputs + units) * min(steps, 4),
                    refused=refused)  # fmt: skip


NODES = [
    *(layer(f"units_{n}", cell, n) for cell in GATES for n in (1, 4, 7)),
    *(layer("last", cell, 6, every=False) for cell in GATES),
    *(layer("bare", cell, 6, biased=False, batch=1) for cell in GATES),
    *(layer("rest", cell, 5, rest=3) for cell in GATES),
    layer("before", "gru", 6, linear=False),
    layer("before_bare", "gru", 5, linear=False, biased=False, every=False),
    layer("relu", "rnn", 6, activation="relu"),
    layer("one_step", "lstm", 6, steps=1),
    layer("many_steps", "lstm", 9, inputs=12, steps=40),
    layer("too_wide", "lstm", 513, inputs=2, batch=1, steps=1, refused=True),
    layer("too_long", "rnn", 1, inputs=1, batch=1, steps=65_536, refused=True),
    layer("too_short", "rnn", 5, rest=-1, refused=True),
]
