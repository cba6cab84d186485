"""Recurrent ops in numpy, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from conformance.references import integer_lstm
from conformance.references.rounding import rounded
from tflgpu_plugin.ir import Array

Layer = Callable[..., tuple[Array, ...]]


def logistic(v: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-v)))


# Functions of a value and their numbers, if any.
ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "relu": lambda v: np.maximum(v, 0),
    "logistic": logistic,
    "softplus": lambda v: np.logaddexp(v, 0),
    "softsign": lambda v: v / (1 + np.abs(v)),
    "elu": lambda v, a: np.where(v < 0, a * np.expm1(np.minimum(v, 0)), v),
    "leaky_relu": lambda v, a: np.where(v < 0, a * v, v),
    "thresholded_relu": lambda v, a: np.where(v > a, v, 0),
    "affine": lambda v, a, b: a * v + b,
    "hard_sigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
    "scaled_tanh": lambda v, a, b: a * np.tanh(b * v),
}


FUSED: dict[str, Any] = {
    "none": lambda v: v, "relu": lambda v: np.maximum(v, 0), "relu6": lambda v: np.clip(v, 0, 6),
    "relu_n1_to_1": lambda v: np.clip(v, -1, 1), "tanh": np.tanh,
}  # fmt: skip


def _function(name: str, numbers: Sequence[float]) -> Any:
    return lambda v: ACTIVATIONS[name](v, *numbers)


def _cut(v: Array, limit: float) -> Array:
    return np.clip(v, -limit, limit) if limit else v


def _steps(z: Array, time_axis: int, reverse: bool) -> tuple[Array, range]:
    """Returns z with time as the first axis, and the order of its steps."""
    moved = np.moveaxis(z, time_axis, 0)
    return moved, range(len(moved) - 1, -1, -1) if reverse else range(len(moved))


def _whole(results: dict[int, Array], time_axis: int) -> Array:
    return np.moveaxis(np.stack([results[t] for t in sorted(results)]), 0, time_axis)


def _normal(v: Array) -> Array:
    """Normalizes over the units to mean 0 and variance 1, dividing as hosts do."""
    away = v - v.mean(axis=1, keepdims=True)
    return np.asarray(away / np.sqrt((away**2).mean(axis=1, keepdims=True) + 1e-8))


def each_length(position: int, states: int) -> Callable[[Layer], Layer]:
    """Computes a layer whose operand at `position` holds lengths: each sequence separately up to
    its own end, followed by zeros. `states` is the number of states."""

    def decorated(op: Layer) -> Layer:
        @wraps(op)
        def layer(z: Array, r: Array, *rest: Any, time_axis: int = 0, **given: Any) -> Any:
            rest, lengths = rest[: position - 2], [*rest[position - 2 :]]
            if len(lengths) > 1:  # numbers of an LSTM, behind its lengths
                given["numbers"] = lengths.pop()
            if states == 2 and len(rest) > 1 and rest[1] is None:  # both states in one operand
                rest = (*np.split(rest[0], 2), *rest[2:])
            if not lengths or lengths[0] is None:
                return op(z, r, *rest, time_axis=time_axis, **given)
            rows = []
            for b, row in enumerate(np.moveaxis(z, 1 - time_axis, 0)):
                count = min(max(int(lengths[0][b]), 0), len(row))
                own = [v[b : b + 1] for v in rest[:states]]
                y, *last = np.zeros((0, *own[0].shape)), *map(np.zeros_like, own)
                if count:
                    y, *last = op(row[:count, None], r, *own, *rest[states:], **given)
                rows.append((np.pad(y, ((0, len(row) - count), (0, 0), (0, 0))), *last))
            y, *last = (np.concatenate(parts, -2) for parts in zip(*rows, strict=True))
            return np.moveaxis(y, 0, time_axis), *last

        return layer

    return decorated


def _half(v: Array | None, k: int, axis: int = 0) -> Array | None:
    """Returns half of an operand, or None; both halves of a batch have the same lengths."""
    return v if v is None or v.dtype.kind == "i" else np.split(v, 2, axis)[k]


def both_ways(op: Layer) -> Layer:
    """Computes an op with `directions`: each half of the batch with its half of the weights (and of
    the bias of a GRU), the second half reversed; and with `packed` recurrent weights."""

    @wraps(op)
    def directed(z: Array, r: Array, h: Array, *rest: Any, directions: int = 1,
                 packed: bool = False, **given: Any) -> tuple[Array, ...]:  # fmt: skip
        if packed:  # [directions, input slice, row, lane]
            rows = r.shape[0] * r.shape[2]
            r = r.transpose(0, 2, 1, 3).reshape(rows, -1)[:, : h.shape[-1]]
        if directions == 1:
            return op(z, r, h, *rest, **given)
        axis = 1 - given.get("time_axis", 0)
        made = [op(_half(z, k, axis), *(_half(v, k) for v in (r, h, *rest)), **given,
                   reverse=k == 1) for k in range(2)]  # fmt: skip
        places = (axis, *[0] * len(made[0][1:]))
        pairs = zip(zip(*made, strict=True), places, strict=True)
        return tuple(np.concatenate(parts, place) for parts, place in pairs)

    return directed


@both_ways
@each_length(8, 2)
def lstm(z: Array, r: Array, h: Array, c: Array, peephole: Array | None = None,
         projection: Array | None = None, bias: Array | None = None, norm: Array | None = None,
         gates: str = "ifco",
         time_axis: int = 0, reverse: bool = False, cell_clip: float = 0.0,
         projection_clip: float = 0.0, gate_clip: float = 0.0,
         numbers: Array | None = None, stored: tuple[float, ...] = (),
         gate_function: str = "logistic", content_function: str = "tanh",
         state_function: str = "tanh", gate_numbers: Sequence[float] = (),
         content_numbers: Sequence[float] = (), state_numbers: Sequence[float] = (),
         coupled: bool = False) -> tuple[Array, ...]:  # fmt: skip
    gated = _function(gate_function, gate_numbers)
    content = _function(content_function, content_numbers)
    leaving = _function(state_function, state_numbers)
    if numbers is not None:
        return _integers(z, r, h, c, numbers, stored, time_axis, reverse)

    def function(which: Any, v: Array, gate: str) -> Array:
        v = _cut(v, gate_clip)
        if norm is not None:
            scale, start = (np.split(part, len(gates))[gates.index(gate)] for part in norm)
            v = _normal(v) * scale + start
        return np.asarray(which(v))

    moved, order = _steps(z, time_axis, reverse)
    holes = np.zeros((3, c.shape[1])) if peephole is None else peephole
    results: dict[int, Array] = {}
    for t in order:
        parts = np.split(moved[t] + h @ r.T, len(gates), axis=1)
        part = dict(zip(gates, parts, strict=True))
        forget = function(gated, part["f"] + holes[1] * c, "f")
        enter = 1 - forget
        if "i" in part:
            enter = function(gated, part["i"] + holes[0] * c, "i")
        if coupled:
            forget = 1 - enter
        new = enter * function(content, part["c"], "c")
        c = _cut(rounded(forget * c) + rounded(new), cell_clip)
        h = function(gated, part["o"] + holes[2] * c, "o") * leaving(c)
        if projection is not None:
            h = _cut(h @ projection.T + (0 if bias is None else bias), projection_clip)
        results[t] = h
    return _whole(results, time_axis), h, c


def _integers(z: Array, r: Array, h: Array, c: Array, numbers: Array, stored: tuple[float, ...],
              time_axis: int, reverse: bool) -> tuple[Array, ...]:  # fmt: skip
    scale, unit = stored[0], stored[7]
    moved, order = _steps(z, time_axis, reverse)
    h, c = (np.rint(v / step).astype(np.int64) for v, step in ((h, scale), (c, unit)))
    results: dict[int, Array] = {}
    for t in order:
        h, c = integer_lstm.step(moved[t], r, h, c, numbers, stored)
        results[t] = h * scale
    return _whole(results, time_axis), h * scale, c * unit


@both_ways
@each_length(4, 1)
def gru(z: Array, r: Array, h: Array, bias: Array | None = None, linear: bool = False,
        time_axis: int = 0, reverse: bool = False, gate_clip: float = 0.0,
        gate_function: str = "logistic", content_function: str = "tanh",
        gate_numbers: Sequence[float] = (),
        content_numbers: Sequence[float] = ()) -> tuple[Array, ...]:  # fmt: skip
    gated = _function(gate_function, gate_numbers)
    content = _function(content_function, content_numbers)
    moved, order = _steps(z, time_axis, reverse)
    units, results = h.shape[1], dict[int, Array]()
    for t in order:
        straight = _cut(moved[t][:, : 2 * units] + h @ r[: 2 * units].T, gate_clip)
        update, reset = gated(straight[:, :units]), gated(straight[:, units:])
        own = r[2 * units :].T
        if linear:
            new = moved[t][:, 2 * units :] + reset * (h @ own + (0 if bias is None else bias))
        else:
            new = moved[t][:, 2 * units :] + (reset * h) @ own
        h = rounded((1 - update) * content(_cut(new, gate_clip))) + rounded(update * h)
        results[t] = h
    return _whole(results, time_axis), h


@both_ways
@each_length(3, 1)
def rnn(z: Array, r: Array, h: Array, activation: str = "tanh", time_axis: int = 0,
        reverse: bool = False, gate_clip: float = 0.0,
        activation_numbers: Sequence[float] = ()) -> tuple[Array, ...]:  # fmt: skip
    moved, order = _steps(z, time_axis, reverse)
    results: dict[int, Array] = {}
    for t in order:
        h = ACTIVATIONS[activation](_cut(moved[t] + h @ r.T, gate_clip), *activation_numbers)
        results[t] = h
    return _whole(results, time_axis), h


def rnn_basic(x: Array, weights: Array, r: Array, bias: Array, h: Array, activation: str = "tanh",
              time_axis: int = 0, reverse: bool = False) -> tuple[Array, ...]:  # fmt: skip
    z = rounded(x @ weights.T + bias, x.shape[-1])
    if x.ndim == 3:
        return rnn(z, r, h, activation=activation, time_axis=time_axis, reverse=reverse)
    _, last = rnn(z[None], r, h, activation=activation)
    return last, last


def recurrent_layer(x: Array, weights: Array, r: Array, bias: Array | None, h: Array,
                    c: Array | None, content: Array | None, cell: str, every: bool, steps: int,
                    batch: int, **given: Any) -> tuple[Array, ...]:  # fmt: skip
    z = rounded(x[:steps] @ weights.T + (0 if bias is None else bias), x.shape[-1])
    more: dict[str, Any] = {"lstm": {"c": c}, "gru": {"bias": content}, "rnn": {}}[cell]
    kinds: dict[str, Any] = {"lstm": lstm, "gru": gru, "rnn": rnn}
    y, *states = kinds[cell](z, r, h, **more, **given)
    return (y if every else states[0][None], *states)


def _lstm_layer(x: Array, given: Any, h: Array, c: Array, reverse: bool, time_axis: int,
                cell_clip: float, proj_clip: float) -> tuple[Array, ...]:  # fmt: skip
    """Computes an LSTM of one direction; `given` holds its 17 inputs, None for absent ones."""
    w, r, bias = (
        np.concatenate([p for p in given[k : k + 4] if p is not None]) for k in (0, 4, 11)
    )
    holes = None
    if given[9] is not None:
        holes = np.stack([given[9] * 0 if given[8] is None else given[8], *given[9:11]])
    z = rounded(x @ w.T + bias, x.shape[-1])
    gates = "fco" if given[0] is None else "ifco"
    return lstm(z, r, h, c, holes, given[15], given[16], gates=gates, time_axis=time_axis,
                reverse=reverse, cell_clip=cell_clip, projection_clip=proj_clip)  # fmt: skip


def _both_ways(forward: tuple[Array, ...], backward: tuple[Array, ...], merged: bool) -> Any:
    y = [forward[0], backward[0]]
    return (*([np.concatenate(y, 2)] if merged else y), *forward[1:], *backward[1:])


def bidirectional_lstm(x: Array, *given: Any, merged: bool, time_axis: int, cell_clip: float,
                       proj_clip: float, activation: str) -> tuple[Array, ...]:  # fmt: skip
    each = (time_axis, cell_clip, proj_clip)
    forward = _lstm_layer(x, given[:17], given[34], given[35], False, *each)
    backward = _lstm_layer(x, given[17:34], given[36], given[37], True, *each)
    return tuple(_both_ways(forward, backward, merged))


def bidirectional_rnn(x: Array, *given: Any, merged: bool, time_axis: int,
                      activation: str) -> tuple[Array, ...]:  # fmt: skip
    (w, r, bias, h), (w_back, r_back, bias_back, h_back) = given[:4], given[4:8]
    forward = rnn_basic(x, w, r, bias, h, activation, time_axis)
    backward = rnn_basic(x, w_back, r_back, bias_back, h_back, activation, time_axis, True)
    return tuple(_both_ways(forward, backward, merged))


def svdf(x: Array, features: Array, times: Array, bias: Array | None, memory: Array,
         rank: int = 1, activation: str = "none") -> tuple[Array, ...]:  # fmt: skip
    count, length = times.shape
    new = rounded(x @ features.T, x.shape[1])
    kept = np.concatenate([memory.reshape(-1, count, length)[:, :, 1:], new[:, :, None]], axis=2)
    sums = rounded((kept * times).reshape(len(x), -1, rank * length).sum(axis=2), rank * length)
    y = sums if bias is None else sums + bias
    return FUSED[activation](y), kept.reshape(len(x), -1)


REFERENCES: dict[str, Any] = {"lstm": lstm, "gru": gru, "rnn": rnn, "rnn_basic": rnn_basic,
    "recurrent_layer": recurrent_layer,
                              "svdf": svdf, "bidirectional_lstm": bidirectional_lstm,
                              "bidirectional_rnn": bidirectional_rnn}  # fmt: skip
