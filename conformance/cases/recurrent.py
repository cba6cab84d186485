"""Recurrent layers over sequences: units and outputs around the width of a vector, one step and
many, both orders of the axes, reversed, clipped, with every optional part, and sequences that end
early: constant lengths and those of a run, of none to all of the steps, and out of range."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, seeded
from conformance.node_cases import NodeCase

CASES: list[Case] = []
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
FUNCTIONS = ("gate_function", "content_function", "state_function")
ABSENT = {"lstm": 4, "gru": 1, "rnn": 0}  # optional parts before the lengths
WAYS: dict[str, dict[str, Any]] = {
    "forward": {}, "backward": {"reverse": True}, "batch_axis_first": {"time_axis": 1},
    "both_directions": {"directions": 2},
}  # fmt: skip


def layer(
    name: str,
    op: str,
    steps: int,
    batch: int,
    units: int,
    parts: tuple[Input | None, ...] = (),
    outputs: int = 0,
    scale: float = 0.4,
    refused: bool = False,
    told: bool = False,
    **attributes: Any,
) -> NodeCase:
    """Returns a node case; `parts` are the inputs after the states. `told`: the
    weights are inputs, not constants."""
    gates = len(attributes.get("gates", "ifco")) if op == "lstm" else GATES[op]
    wide = outputs or units
    lengths = (batch, steps) if attributes.get("time_axis") else (steps, batch)
    states = [Input((batch, wide)), *([Input((batch, units))] if op == "lstm" else [])]
    rows = attributes.get("directions", 1) * gates * units
    reads = (
        Input((*lengths, gates * units), low=-2.0, high=2.0),
        Input((rows, wide), low=-scale, high=scale)
        if told
        else constant(seeded(rows, wide, scale=scale)),
        *states,
        *parts,
    )
    return NodeCase(
        name, op, reads, attributes, outputs=3 if op == "lstm" else 2,
        terms=wide * min(steps, 4), refused=refused,
    )  # fmt: skip


def stored(name: str, units: int, bits: int = 4, **attributes: Any) -> NodeCase:
    """Returns an LSTM in the integers of hosts (see `ops.integer_lstm`): sums over the input,
    weights of int8, an output in steps of 1/128, and a cell state with `bits` integer bits."""
    random = np.random.default_rng(units)
    numbers = np.zeros((4 * units, 8))
    for column in (0, 4):
        numbers[:, column] = random.integers(1 << 15, 1 << 16, 4 * units)
        numbers[:, column + 1] = random.integers(0, 1 << 15, 4 * units)
        numbers[:, column + 2] = random.integers(-2, 2, 4 * units)
    numbers[:, 3], numbers[:, 7] = random.integers(-2, 2, 4 * units), 7
    unit = 2.0 ** (bits - 15)
    reads = (
        Input((3, 2, 4 * units), low=-30000.0, high=30000.0, step=1.0),
        constant(random.integers(-127, 128, (4 * units, units))),
        Input((2, units), step=2.0**-7),
        Input((2, units), low=-(2**14) * unit, high=2**14 * unit, step=unit),
        *[None] * 5,
        constant(numbers),
    )
    limit = attributes.pop("limit", 0.0)
    levels = (2.0**-7, -131.0, 124.0, -3.0, 2.0**15, 0.0, -22.0, unit, float(bits), limit)
    return NodeCase(name, "lstm", reads, {"stored": levels, **attributes}, outputs=3)


def functions(op: str, *names: str, **attributes: Any) -> NodeCase:
    """Returns a case with these functions of gates, new content and (of an LSTM) state."""
    given: dict[str, Any] = dict(zip(FUNCTIONS[: 3 if op == "lstm" else 2], names, strict=False))
    name = "_".join(("functions", *attributes, *given.values()))
    return layer(name, op, 3, 2, 6, **given, **attributes)


# Functions that take numbers, and some of these.
NUMBERED = {"elu": (0.7,), "leaky_relu": (0.2,), "thresholded_relu": (0.1,), "affine": (0.5, 0.1),
            "hard_sigmoid": (0.4, 0.3), "scaled_tanh": (0.6, 1.3)}  # fmt: skip


def every(op: str, **attributes: Any) -> list[NodeCase]:
    """Returns a case for each further function, which is that of all parts of the layer."""
    roles = {"gate": "gate_function", "content": "content_function", "state": "state_function"}
    roles = {"activation": "activation"} if op == "rnn" else roles
    names = list(roles)[: 2 if op == "gru" else 3]
    found = []
    for function in ("softplus", "softsign", *NUMBERED):
        given: dict[str, Any] = {roles[name]: function for name in names}
        if function in NUMBERED:
            given |= {f"{name}_numbers": NUMBERED[function] for name in names}
        name = "_".join(("every", *attributes, function))
        found.append(layer(name, op, 3, 2, 6, scale=0.2, **given, **attributes))
    return found


def peepholes(units: int) -> Input:
    return constant(seeded(3, units, scale=0.5))


def projection(units: int, outputs: int) -> tuple[Input, Input]:
    return constant(seeded(outputs, units, scale=0.4)), constant(seeded(outputs, scale=0.2))


def norm(units: int, gates: int = 4) -> Input:
    """Returns scales around 1, followed by biases."""
    scales, biases = seeded(gates * units, scale=0.4) + 1, seeded(gates * units, seed=2, scale=0.3)
    return constant(np.stack([scales, biases]))


def ended(name: str, op: str, lengths: Input, *parts: Input, **attributes: Any) -> NodeCase:
    """Returns a case of a layer with 5 units over sequences of 5 steps that have these lengths."""
    batch = lengths.shape[0] * attributes.get("directions", 1)
    absent = [None] * (ABSENT[op] - len(parts))
    return layer(f"lengths_{name}", op, 5, batch, 5, (*parts, *absent, lengths), **attributes)


OF_A_RUN, LENGTHS = Input((3,), "i32", low=0, high=6), constant((5, 0, 3, 1), "i32")
NODES = [
    *(layer(f"units_{n}", "lstm", 3, 2, n) for n in (1, 3, 4, 5, 17, 44)),
    layer("units_160", "lstm", 2, 1, 160, scale=0.1),
    layer("one_step", "lstm", 1, 3, 6),
    layer("many_steps", "lstm", 40, 1, 5),
    layer("batch_axis_first", "lstm", 5, 3, 6, time_axis=1),
    layer("reversed", "lstm", 5, 2, 6, reverse=True),
    layer("other_order", "lstm", 4, 2, 6, gates="iofc"),
    layer("coupled", "lstm", 4, 2, 6, gates="fco"),
    layer("coupled_peephole", "lstm", 4, 2, 6, (peepholes(6),), gates="fco"),
    layer("peephole", "lstm", 4, 2, 7, (peepholes(7),)),
    layer("projection", "lstm", 4, 2, 7, (None, *projection(7, 5)), outputs=5),
    layer("wider_projection", "lstm", 3, 2, 5, (None, *projection(5, 9)), outputs=9),
    layer("bare_projection", "lstm", 3, 2, 6, (None, projection(6, 4)[0]), outputs=4),
    layer("projection_clip", "lstm", 3, 2, 6, (None, *projection(6, 6)), projection_clip=0.1),
    layer("everything", "lstm", 4, 3, 7, (peepholes(7), *projection(7, 5)), outputs=5,
          cell_clip=0.5, projection_clip=0.3, time_axis=1, reverse=True),
    layer("cell_clip", "lstm", 4, 2, 6, cell_clip=0.25),
    layer("gate_clip", "lstm", 4, 2, 6, gate_clip=0.5),
    layer("gate_clip_peephole", "lstm", 4, 2, 6, (peepholes(6),), gate_clip=0.5),
    layer("saturated", "lstm", 4, 2, 6, scale=30.0),
    *(stored(f"stored_{n}", n) for n in (1, 4, 7, 18)),
    *(stored(f"stored_bits_{bits}", 6, bits) for bits in (0, 1, 6)),
    stored("stored_limit", 6, limit=5000.0),
    stored("stored_reversed", 6, reverse=True),
    *(layer(f"normalized_{n}", "lstm", 3, 2, n, (None, None, None, norm(n))) for n in (3, 4, 17)),
    layer("normalized_coupled", "lstm", 3, 2, 6, (None, None, None, norm(6, 3)), gates="fco"),
    layer("normalized_other_order", "lstm", 3, 2, 6, (peepholes(6), None, None, norm(6)),
          gates="iofc"),
    layer("normalized_everything", "lstm", 3, 2, 7, (peepholes(7), *projection(7, 5), norm(7)),
          outputs=5, cell_clip=0.5, projection_clip=0.3, time_axis=1),
    layer("normalized_wide", "lstm", 2, 1, 160, (None, None, None, norm(160)), scale=0.1),
    layer("too_wide", "lstm", 1, 1, 516, refused=True),
    *(layer(f"both_directions_{n}", "lstm", 4, batch, n, directions=2, time_axis=axis)
      for n, batch, axis in ((3, 4, 0), (6, 2, 1), (44, 2, 0))),
    layer("both_directions_peephole", "lstm", 2, 2, 4, (peepholes(4),), directions=2, refused=True),
    layer("both_directions", "gru", 4, 4, 5, directions=2),
    *(layer(f"both_directions_linear_{n}", "gru", 3, 2, n, (constant(seeded(2 * n)),), linear=True,
            directions=2) for n in (3, 4)),
    layer("both_directions", "rnn", 4, 6, 7, directions=2, activation="relu"),
    *(layer(f"units_{n}", "gru", 3, 2, n) for n in (1, 3, 4, 5, 17, 44)),
    *(layer(f"linear_units_{n}", "gru", 3, 2, n, (constant(seeded(n)),), linear=True)
      for n in (1, 4, 5, 17)),
    layer("linear_bare", "gru", 3, 2, 6, linear=True),
    layer("reversed", "gru", 5, 2, 6, reverse=True, time_axis=1),
    *(functions(op, *names, **more)
      for op, more in (("lstm", {}), ("gru", {}), ("gru", {"linear": True}))
      for names in (("relu", "tanh", "tanh"), ("tanh", "relu", "logistic"),
                    ("logistic", "logistic", "relu"))),
    *(case for op in GATES for case in every(op)),
    *every("gru", linear=True),
    layer("input_forget", "lstm", 4, 2, 6, coupled=True, gates="iofc"),
    layer("input_forget_peephole", "lstm", 4, 2, 6, (peepholes(6),), coupled=True),
    layer("an_unknown_function", "lstm", 4, 2, 6, state_function="gelu", refused=True),
    layer("missing_numbers", "gru", 4, 2, 6, content_function="elu", refused=True),
    *(layer(f"hard_gates_{name}", op, 3, 2, 6, gate_function="hard_sigmoid", scale=2.0,
            gate_numbers=(alpha, beta))
      for op in ("lstm", "gru")
      for name, alpha, beta in (("usual", 0.2, 0.5), ("other", 0.4, 0.3))),
    layer("gate_clip", "gru", 4, 2, 6, gate_clip=0.5),
    layer("linear_gate_clip", "gru", 4, 2, 6, gate_clip=0.5, linear=True),
    layer("units_256", "gru", 2, 1, 256, scale=0.1),
    *(layer(f"{name}_units_{n}", "rnn", 5, 2, n, activation=name)
      for name in ("tanh", "relu", "logistic") for n in (3, 8)),
    layer("reversed", "rnn", 5, 2, 6, reverse=True, time_axis=1),
    *(ended(f"{name}_{way}", op, lengths, **given) for op in GATES for way, given in WAYS.items()
      for name, lengths in (("of_a_run", OF_A_RUN), ("constant", LENGTHS))),
    *(ended(f"linear_{way}", "gru", LENGTHS, constant(seeded(5 * given.get("directions", 1))),
            linear=True, **given) for way, given in WAYS.items()),
    ended("out_of_range", "rnn", constant((-1, 6, 2), "i32")),
    layer("lengths_of_another_batch", "rnn", 5, 3, 5, (constant((1, 2), "i32"),), refused=True),
    layer("lengths_of_both_directions", "rnn", 5, 2, 5, (constant((1, 2), "i32"),), directions=2,
          refused=True),
    *(NodeCase(f"lengths_and_peepholes_{n}", "lstm",
               (Input((5, 4, 4 * n), low=-2.0, high=2.0), constant(seeded(4 * n, n, scale=0.4)),
                Input((8, n)), None, peepholes(n), None, None, None, LENGTHS),
               outputs=3, terms=4 * n) for n in (4, 7)),
    *(layer(f"lengths_and_{name}", "lstm", 2, 2, 4, (*parts, constant((1, 2), "i32")), refused=True)
      for name, parts in (("peepholes_of_two_states", (peepholes(4), None, None, None)),
                          ("projection", (None, *projection(4, 4), None)),
                          ("norm", (None, None, None, norm(4))))),
    NodeCase("joined_states_and_projection", "lstm",
             (Input((2, 2, 16)), constant(seeded(16, 4)), Input((4, 4)), None, None,
              *projection(4, 4)), outputs=3, refused=True),
    NodeCase("joined_states", "lstm",
             (Input((3, 2, 20), low=-2.0, high=2.0), constant(seeded(20, 5, scale=0.4)),
              Input((4, 5)), None), outputs=3, terms=15),
    *(layer(f"weights_of_a_run_{way}_{n}", op, 5, 4, n, told=True, **given)
      for op in GATES for way, given in WAYS.items() for n in (4, 5)),
    *(layer(f"weights_of_a_run_linear_{n}", "gru", 3, 4, n, (Input((2 * n,), low=-1.0),),
            linear=True, directions=2, told=True) for n in (4, 7)),
    layer("weights_of_a_run_peephole", "lstm", 4, 2, 7, (Input((3, 7), low=-0.5, high=0.5),),
          told=True),
    layer("weights_of_a_run_and_lengths", "lstm", 5, 3, 6, (None, None, None, None, OF_A_RUN),
          told=True),
    layer("peephole_of_a_run", "lstm", 4, 2, 6, (Input((3, 6), low=-0.5, high=0.5),)),
    layer("weights_of_a_run_and_projection", "lstm", 2, 2, 4, (None, *projection(4, 4)),
          told=True, refused=True),
    layer("sigmoid", "rnn", 5, 2, 6, activation="sigmoid", refused=True),
]  # fmt: skip
