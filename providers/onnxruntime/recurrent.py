"""Builders for LSTM, GRU and RNN. The products with the input of all steps are one fully connected
layer per direction; the recurrence over the steps is one op per direction."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Condition, ImpossibleShapeRefusal, Shape, ShapeRefusal, needs
from tflgpu_plugin.providers import Builder

from .activations import activated, of_directions
from .attention import as_integers, gathered
from .operand_shapes import exactly
from .rearranging import joined, part

W, R, B, LENGTHS, HIDDEN, CELL, PEEPHOLE = 1, 2, 3, 4, 5, 6, 7
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
PEEPHOLES = [0, 2, 1]  # input, output and forget gate reordered to input, forget, output

# Returns (inputs of the op between the hidden state and the lengths, further attributes) for a
# direction, or for both (None).
More = Callable[[Builder, int | None], tuple[tuple[int | None, ...], dict[str, Any]]]


def lstm(e: Builder) -> list[int]:
    """Builds LSTM: Y, Y_h and Y_c. W, R and B hold the input, output, forget and cell gates."""

    def more(e: Builder, d: int | None) -> tuple[tuple[int | None, ...], dict[str, Any]]:
        peephole = None
        if e.has(PEEPHOLE):
            peephole = _peepholes(e, d or 0)
        given = {"gates": "iofc", "coupled": bool(e.integer("input_forget"))}
        return (_state(e, CELL, d), peephole, None, None, None), given

    return _layers(e, more)


def gru(e: Builder) -> list[int]:
    """Builds GRU: Y and Y_h. W, R and B hold the update, reset and hidden gates."""

    def more(e: Builder, d: int | None) -> tuple[tuple[int | None, ...], dict[str, Any]]:
        bias = None
        if _linear(e) and e.has(B):
            bias = _content(e, d)
        return (bias,), {"linear": _linear(e)}

    return _layers(e, more)


def _peepholes(e: Builder, d: int) -> int:
    """Returns the peepholes of direction `d` in the order of the op, [3, units]."""
    held = e.x(PEEPHOLE)
    if e.constant(held) is not None:
        return e.derived(held, "peephole", d, make=lambda p: p[d].reshape(3, -1)[PEEPHOLES])
    rows = e.reshape(part(e, held, d, d + 1, 0), (3, -1))
    return e.add("gather", rows, e.index(PEEPHOLES), axis=0)


def _content(e: Builder, d: int | None) -> int:
    """Returns the recurrent bias of a GRU's new content, of direction `d` or of both (None)."""
    held, units = e.x(B), e.shape(e.x(R))[-1]
    if e.constant(held) is not None:
        return e.derived(held, "content", d, make=lambda b: np.ravel(b[_rows(d), -units:]))
    own = held if d is None else part(e, held, d, d + 1, 0)
    return e.reshape(part(e, own, 5 * units, 6 * units), (-1,))


def rnn(e: Builder) -> list[int]:
    """Builds RNN: Y and Y_h."""
    return _layers(e, lambda e, d: ((), {}))


def _linear(e: Builder) -> bool:
    return bool(e.integer("linear_before_reset"))


def _direction(e: Builder) -> str:
    return e.text("direction", "forward")


def _functions(e: Builder) -> list[dict[str, Any]]:
    return of_directions(e, len(DIRECTIONS[_direction(e)]))


def _time_axis(e: Builder) -> int:
    return 1 if e.integer("layout") else 0


def _steps(e: Builder) -> int:
    return e.shape()[_time_axis(e)]


def _rows(d: int | None) -> slice:
    return slice(None) if d is None else slice(d, d + 1)


def _part(e: Builder, position: int, d: int | None) -> int:
    """Returns the weights at input `position` of direction `d`, those of both (None) stacked."""
    held = e.x(position)
    if e.constant(held) is not None:
        return e.derived(held, "direction", d, make=lambda data: np.concatenate(data[_rows(d)]))
    own = held if d is None else part(e, held, d, d + 1, 0)
    return e.reshape(own, (-1, e.shape(held)[-1]))


def _entering(e: Builder, d: int) -> int:
    """Returns the input's part of the gates of direction `d` for all steps, with the biases."""
    weights, bias, (*steps, inputs) = _part(e, W, d), _bias(e, d), e.shape()
    if e.known(weights) and (bias is None or e.known(bias)):
        return e.add("fully_connected", e.x(), weights, bias, keep_num_dims=True)
    rows = e.reshape(e.x(), (prod(steps), inputs))
    z = e.plus(e.add("matmul", rows, weights, transpose_b=True), bias)
    return e.reshape(z, (*steps, e.shape(weights)[0]))


def _state(e: Builder, position: int, d: int | None) -> int:
    """Returns the initial state at input `position`: [batch, units] of direction `d`, [2 * batch,
    units] of both (None); zeros if absent."""
    x, units, axis = e.shape(), e.shape(e.x(R))[-1], _time_axis(e)
    shape = (x[1 - axis] * (2 if d is None else 1), units)
    if not e.has(position):
        return e.const(np.zeros(shape, np.float32))
    if d is None:
        return e.reshape(e.x(position), shape)
    state = e.x(position)
    if e.shape(state)[axis] > 1:
        state = part(e, state, d, d + 1, axis)
    return e.reshape(state, shape)


def _bias(e: Builder, d: int) -> int | None:
    """Returns the sum of input and recurrent biases. With linear_before_reset, the recurrent bias
    of the hidden gate is left out: the op adds it before the reset gate."""
    linear = _linear(e)

    def added(b: Array) -> Array:
        entering, recurrent = np.split(b[d], 2)
        if linear:
            recurrent = np.where(np.arange(len(recurrent)) < len(b[d]) // 3, recurrent, 0)
        return np.asarray(entering + recurrent)

    if not e.has(B):
        return None
    if e.constant(e.x(B)) is not None:
        return e.derived(e.x(B), "biases", linear, d, make=added)
    both = e.reshape(part(e, e.x(B), d, d + 1, 0), (2, -1))
    entering, recurrent = (e.reshape(part(e, both, k, k + 1, 0), (-1,)) for k in range(2))
    if linear:
        units = e.shape(recurrent)[0] // 3
        kept = part(e, recurrent, 0, 2 * units)
        recurrent = joined(e, [kept, e.const(np.zeros(units, np.float32))])
    return e.add("add", entering, recurrent)


def _ends(e: Builder) -> bool:
    """Whether a sequence may end before the last step."""
    if not e.has(LENGTHS):
        return False
    lengths = e.constant(e.x(LENGTHS))
    return lengths is None or bool(np.any(lengths != _steps(e)))


def _lengths(e: Builder) -> int | None:
    """Returns the lengths of the sequences, None if no sequence ends early. As in onnxruntime, the
    run fails for a length that is negative or over the number of steps."""
    if not _ends(e):
        return None
    return gathered(e, as_integers(e, e.x(LENGTHS)), _steps(e) + 1)


def _together(e: Builder) -> bool:
    """Whether both directions can be one op over a batch of twice the size."""
    if _direction(e) != "bidirectional" or _time_axis(e) or e.has(PEEPHOLE):
        return False
    forward, backward = _functions(e)
    return forward == backward


def _both(e: Builder, more: More) -> list[int]:
    parts = [_entering(e, d) for d in range(2)]
    inputs, attributes = more(e, None)
    lengths = _lengths(e)
    y, *states = e.add_many(
        e.row.op, e.add("concat", *parts, axis=1), _part(e, R, None), _state(e, HIDDEN, None),
        *inputs, lengths, **attributes, **_functions(e)[0], directions=2,
        gate_clip=e.number("clip", 0.0),
    )  # fmt: skip
    shape = (2, e.shape()[1], e.shape(y)[-1])
    return [e.reshape(y, (e.shape()[0], *shape)), *(e.reshape(state, shape) for state in states)]


def _layers(e: Builder, more: More) -> list[int]:
    """Builds the layer: one op per direction, whose results are stacked on a new axis, or one op
    for both directions if `_together` holds."""
    if not _steps(e):
        return _no_steps(e)
    if _together(e):
        return _both(e, more)
    found, late, lengths, functions = [], _time_axis(e), _lengths(e), _functions(e)
    for d, reverse in enumerate(DIRECTIONS[_direction(e)]):
        z = _entering(e, d)
        inputs, attributes = more(e, d)
        state = _state(e, HIDDEN, d)
        if lengths is not None and e.has(PEEPHOLE):
            state, inputs = e.add("concat", state, inputs[0], axis=0), (None, *inputs[1:])
        made = e.add_many(
            e.row.op, z, _part(e, R, d), state, *inputs, lengths, **attributes, **functions[d],
            time_axis=late, reverse=reverse, gate_clip=e.number("clip", 0.0),
        )  # fmt: skip
        found.append(made)
    y, *states = ([*each] for each in zip(*found, strict=True))
    return [_side_by_side(e, y, late + 1), *(_side_by_side(e, each, late) for each in states)]


def _no_steps(e: Builder) -> list[int]:
    """Returns the results for sequences of length 0: an empty Y and zero states, as onnxruntime's
    RNN does."""
    late, state = _time_axis(e), _states(e)
    zeros = e.const(np.zeros(state, np.float32))
    y = e.reshape(e.x(), (*state[:late], 0, *state[late:]))
    return [y, *[zeros] * (len(e.host.outputs) - 1)]


def _states(e: Builder) -> Shape:
    """Returns the shape of a state: directions, batch, units; with layout 1 the batch first."""
    late, (directions, *_, last) = _time_axis(e), e.shape(e.x(R))
    batch, units = e.shape()[1 - late], e.integer("hidden_size") or last
    return (batch, directions, units) if late else (directions, batch, units)


def _side_by_side(e: Builder, parts: list[int], axis: int) -> int:
    shape = list(e.shape(parts[0]))
    return joined(e, [e.reshape(t, [*shape[:axis], 1, *shape[axis:]]) for t in parts], axis)


# ---- conditions ----------------------------------------------------------------------------------


def _within(e: Builder) -> bool:
    """Whether the sequence lengths are from 0 to the number of steps; True if they are absent or
    known only in a run."""
    lengths = e.constant(e.x(LENGTHS)) if e.has(LENGTHS) else None
    return lengths is None or bool(np.all((lengths >= 0) & (lengths <= _steps(e))))


_CELL = (
    needs("rank.unsupported", "An input of rank 3.", lambda e: e.rank() == 3),
    exactly("States with one value per direction, batch and unit.", _states, HIDDEN, CELL),
    needs(
        "attribute.invalid",
        "A direction of forward, reverse or bidirectional.",
        lambda e: _direction(e) in DIRECTIONS,
    ),
    exactly(
        "One length per sequence (sequence_lens).",
        lambda e: (e.shape()[1 - _time_axis(e)],),
        LENGTHS,
    ),
    needs(
        "constant.invalid",
        "Sequence lengths from 0 to the number of steps.",
        _within,
        kind=ImpossibleShapeRefusal,
    ),
    needs(
        "shape.empty",
        "At least one step if the sequence lengths are known only in a run.",
        lambda e: _steps(e) > 0 or not _ends(e),
        kind=ShapeRefusal,
    ),
    activated(DIRECTIONS),
    needs(
        "attribute.unsupported",
        "A clip above 0 (clip).",
        lambda e: e.host.attributes.get("clip") is None or e.number("clip", 0.0) > 0,
    ),
)


def _fitting(gates: int, turned: bool = False) -> Condition:
    """Returns the condition that weights are [directions, gates * units, values], with `turned`
    [directions, values, gates * units], and biases and peepholes match them."""

    def fit(e: Builder) -> bool:
        given, steps = (e.shape(e.x(k)) for k in (W, R))
        if len(given) != 3 or len(steps) != 3:
            return False
        if turned:
            given, steps = ((d, last, values) for d, values, last in (given, steps))
        many, units = len(DIRECTIONS[_direction(e)]), steps[-1]
        wanted = {B: (many, 2 * gates * units), PEEPHOLE: (many, 3 * units)}
        fits = all(e.shape(e.x(k)) == shape for k, shape in wanted.items() if e.has(k))
        return fits and given[:2] == steps[:2] == (many, gates * units)

    return needs("shape.mismatch", "Weights and biases of matching shapes.", fit)


LSTM = (*_CELL, _fitting(4))
DYNAMIC_LSTM = (
    *_CELL,
    _fitting(4, turned=True),
    needs(
        "quantization.unsupported",
        "Scales and zero points per direction, or per direction and gate.",
        lambda e: all(
            e.shape(e.x(k)) in (e.shape(e.x(R))[:1], e.shape(e.x(R))[::2]) for k in range(8, 12)
        ),
    ),
)
GRU = (*_CELL, _fitting(3))
RNN = (*_CELL, _fitting(1))
