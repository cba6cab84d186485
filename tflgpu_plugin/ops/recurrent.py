"""Recurrent layers over a sequence, all steps in one launch: `lstm`, `gru`, `rnn`.

z is the input's contribution to all gates, biases included, computed by a fully connected layer
over all steps: [T, B, G * D], or [B, T, G * D] with `time_axis` 1, of T steps and D units.

`lstm(z, r[G*D, P], h0[B, P], c0[B, D], peephole[3, D]|None, projection[P, D]|None, projection
bias[P]|None, norm[2, G*D]|None, lengths|None, numbers[G*D, 8]|None)` -> y (z's shape with P
channels), last hidden [B, P] and cell state [B, D]; without a projection P = D. `gates` is the
order of the blocks of z and r: input, forget, cell, output ("ifco"; "fco": the input gate is 1 -
forget gate). With `coupled` the forget gate is 1 - input gate, and its blocks are not used.
Peepholes are those of the input, forget and output gate. With `norm` (scale and bias), gate inputs,
peepholes included, are first normalized over the units to mean 0 and variance 1, and z has no
biases. c = f * c + i * tanh(cell), h = o * tanh(c). `cell_clip` and `projection_clip` limit c and
the projected h, `gate_clip` the gate inputs (0: no limit). With `stored` and `numbers`, as
`integer_lstm` makes them, z and r hold integers, and gates and c are computed in 16 bits as in
hosts. `gate_function` (default: logistic), `content_function` of the cell gate and `state_function`
of c (tanh) are any of `gate_functions`.

`gru(z, r[3*D, D], h0[B, D], bias[D]|None, lengths|None)` -> y, last h. Blocks update, reset, new
content; h = (1 - update) * tanh(new) + update * h. `linear`: reset * (r h + bias) instead of r
(reset * h). The functions of gates and new content are attributes, too.

`rnn(z, r[D, D], h0[B, D], lengths|None)` -> y, last h: h = activation(z + r h).

With `directions` 2 (without peepholes, projection and norm) the second half of the batch runs
backward, with the second half of r and of the bias.

`packed`: r is [directions, P / 4, rows, 4], as `recurrent_weights` packs an r that is known only in
a run.

`lengths` (int32, one per sequence: as many as the batch has in one direction) end sequences before
T; they are clamped to 0 and T. Steps backward begin at a sequence's own end, the last states are
those after its own steps, y is 0 past its end, and all results of a sequence of length 0 are 0.
They exclude projection and norm. An LSTM that has them and peepholes takes both states in one
buffer, since a kernel has 8: h0 [2 * B, D] with the cell states behind the hidden ones, no c0.

Formulas: operators LSTM, GRU and RNN of ONNX opset 22; reference/lstm_eval of TensorFlow Lite."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops import gate_functions
from tflgpu_plugin.ops.lowering import Access, Constant, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.recurrent_weights import decompose, in_slices, pack_extra, pack_rows
from tflgpu_plugin.ops.table import Op

THREADS, TEAM = 128, 32  # of a workgroup, and of a normalization in it
OWN = 8  # rows per thread on software drivers; half of them with further operands (slow compiles)
# One workgroup cannot hide memory latency: a thread loads this many weights ahead (subgroups of up
# to 32 lanes, and of more).
GPU_THREADS, GPU_AHEAD, WIDE_AHEAD = 256, 32, 8
MAX_UNITS, MAX_STEPS = 512, 65_535  # units: as many as fit into 16 KiB of workgroup memory
R, H0, C0, PEEPHOLE, PROJECTION, PROJECTION_BIAS, NORM = 1, 2, 3, 4, 5, 6, 7
GRU_BIAS = 3
LENGTHS = {"lstm": 8, "gru": 4, "rnn": 3}
NUMBERS = 9
# Names of the items of `stored`, as `ops.integer_lstm.stored` makes them.
STORED = (
    *("hidden_scale", "hidden_least", "hidden_most", "hidden_offset", "factor_high", "factor_low"),
    *("factor_shift", "state_scale", "state_bits", "state_most"),
)


def gate_count(node: Node) -> int:
    """Returns the number of blocks in z and r."""
    if node.op == "lstm":
        return len(node.attributes.get("gates", "ifco"))
    return 3 if node.op == "gru" else 1


def _directions(node: Node) -> int:
    return int(node.attributes.get("directions", 1))


def _given(node: Node, position: int) -> int | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _lengths(node: Node) -> int | None:
    return _given(node, LENGTHS[node.op])


def _joined(node: Node) -> bool:
    """Whether an LSTM gets both of its states in one operand."""
    return node.op == "lstm" and node.inputs[C0] is None


def _overfull(node: Node) -> bool:
    """Whether an LSTM has lengths, or both states in one operand, together with parts that exclude
    these."""
    if node.op != "lstm" or (_lengths(node) is None and not _joined(node)):
        return False
    parts = (PROJECTION, NORM) if _joined(node) else (PEEPHOLE, PROJECTION, NORM)
    return any(_given(node, position) is not None for position in parts)


def _extra(node: Node) -> bool:
    """Whether an LSTM has peepholes, a projection or a normalization."""
    extra = (PEEPHOLE, PROJECTION, NORM) if node.op == "lstm" else ()
    return any(_given(node, position) is not None for position in extra)


def _coupled(node: Node) -> str:
    """Returns the gate of an LSTM that is 1 minus another: "i" or "f", "" if there is none."""
    if "i" not in node.attributes.get("gates", "ifco"):
        return "i"
    return "f" if node.attributes.get("coupled") else ""


def _stores(graph: Graph, node: Node, rows: int) -> bool:
    """Whether an LSTM has neither `stored` nor `numbers`, or both, the latter as a constant."""
    numbers = graph.constant(_given(node, NUMBERS))
    shape = None if numbers is None else numbers.shape
    return shape == ((rows, 8) if "stored" in node.attributes else None)


def _extents(graph: Graph, node: Node) -> tuple[int, int, int, int]:
    """Returns steps, batch, units and outputs per step."""
    z = graph.shape(node.operand(0))
    axis = node.attributes.get("time_axis", 0)
    units, packed = z[2] // gate_count(node), node.attributes.get("packed")
    outputs = units if packed else graph.shape(node.operand(R))[1]
    return z[axis], z[1 - axis], units, outputs


def too_large(name: str, steps: int, units: int) -> Refusal | None:
    """Refuses layers, also those that decompose into one of these, with too many units or steps."""
    if units > MAX_UNITS:
        said = f"{name} with {units:,} units is not supported; up to {MAX_UNITS} are."
        return Refusal("shape.too_large", said)
    if steps > MAX_STEPS:
        said = f"{name} over {steps:,} steps is not supported; up to {MAX_STEPS:,} are."
        return Refusal("shape.too_large", said)
    return None


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires shapes that fit, states that fit into workgroup memory, and constant weights with a
    projection or normalization."""
    name = node.op.upper()
    beside = (PROJECTION, PROJECTION_BIAS, NORM) if node.op == "lstm" else ()
    if any(_given(node, position) is not None for position in beside):
        for tensor in (_given(node, position) for position in (R, PEEPHOLE, *beside)):
            if tensor is not None and graph.constant(tensor) is None:
                said = f"The weights of {name} with a projection or normalization must be constant."
                return Refusal("constant.required", said)
    if reason := gate_functions.refuse(node):
        return reason
    z = graph.shape(node.operand(0))
    if len(z) != 3 or 0 in z:
        return Refusal("rank.unsupported", f"{name} needs a sequence of rank 3 that is not empty.")
    steps, batch, units, outputs = _extents(graph, node)
    if reason := too_large(name, steps, max(units, outputs)):
        return reason
    directions = _directions(node)
    if directions > 1 and _extra(node):
        said = f"{name} of both directions takes no peepholes, projection or normalization."
        return Refusal("attribute.unsupported", said)
    if _overfull(node):
        said = f"{name} with lengths takes no projection or normalization, and peepholes only if it"
        return Refusal("input.unsupported", f"{said} has both states in one operand.")
    rows = gate_count(node) * units
    if node.op == "lstm" and not _stores(graph, node, rows):
        said = "An LSTM in 16 bits needs constant numbers, 8 for each row of its weights."
        return Refusal("constant.required", said)
    wanted: list[Shape] = [(directions * rows, outputs), (batch, outputs)]
    if node.attributes.get("packed"):
        wanted[0] = (directions, -(-units // 4), rows, 4)
    given = [graph.shape(node.operand(position)) for position in (R, H0)]
    if _joined(node):
        wanted[1] = (2 * batch, units)
    elif node.op == "lstm":
        wanted.append((batch, units))
        given.append(graph.shape(node.operand(C0)))
    if (lengths := _lengths(node)) is not None:
        wanted.append((batch // directions,))
        given.append(graph.shape(lengths))
    projected = node.op == "lstm" and _given(node, PROJECTION) is not None
    if given != wanted or (outputs != units and not projected):
        said = f"The weights, states or lengths of {name} have shapes that do not fit its input."
        return Refusal("shape.mismatch", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of all steps, the last hidden state and, for an LSTM, the last cell
    state."""
    _, batch, units, outputs = _extents(graph, node)
    z = graph.shape(node.operand(0))
    every: list[Shape] = [(*z[:2], outputs), (batch, outputs), (batch, units)]
    return every[: 3 if node.op == "lstm" else 2]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with a workgroup per batch row."""
    steps, batch, units, outputs = _extents(low.graph, node)
    gates = gate_count(node)
    rows, depth, slices = gates * units, -(-outputs // 4), -(-units // 4)
    linear, axis = bool(node.attributes.get("linear")), node.attributes.get("time_axis", 0)
    parameters: dict[str, object] = {
        "steps": steps,
        "reverse": int(bool(node.attributes.get("reverse"))),
        "units": units,
        "unit_slices": slices,
        "depth": depth,
        "rows": rows,
        "straight": 2 * units if node.op == "gru" else rows,
        **({"backward": batch // 2} if _directions(node) > 1 else {}),
        "gate_clip": _limit(node, "gate_clip"),
        **_strides("z", low.graph.shape(node.operand()), axis),
        **_strides("y", low.graph.shape(node.outputs[0]), axis),
    }
    variant: dict[str, object] = {
        "cell": node.op,
        "gates": gates,
        "slices": MAX_UNITS // 4,
        "linear": linear,
        **dict.fromkeys(("peephole", "projection", "joined", "stored", "normalized"), False),
        "threads": THREADS if low.target.software else GPU_THREADS,
        "ahead": loaded_ahead(low.target, depth),
        "both": _directions(node) > 1,
        "own": _own(node) if low.target.software else 1,
        "lengths": _lengths(node) is not None,
    }
    numbers, functions = gate_functions.written(node)
    parameters, variant = parameters | numbers, variant | functions
    low.loops(node, steps * _rounds(node, units, outputs))
    reads: dict[str, Source | Access] = {
        "z": Access(low.stored(node.operand(0)), 1),
        "r": _weights(low, node, rows * depth),
        "h0": low.stored(node.operand(H0)),
    }
    if (lengths := _lengths(node)) is not None:
        reads["lengths"] = Access(low.stored(lengths), 1)
    writes: dict[str, Source | Access] = {"y": node.outputs[0], "h": node.outputs[1]}
    if node.op == "lstm":
        if not _joined(node):
            reads["c0"] = low.stored(node.operand(C0))
        writes["c"] = node.outputs[2]
        _lstm(low, node, reads, parameters, variant)
    elif linear:
        reads["bias"] = Access(_gru_bias(low, node, _directions(node) * units), 1)
    low.dispatch(
        Kernel("recurrent", parameters, variant),
        node,
        reads,
        writes,
        (batch, 1, 1),
        stores=Stores(fused=False),
    )


def _weights(low: Lowering, node: Node, vectors: int) -> Source:
    """Returns the recurrent weights of all directions, `vectors` vec4 for each."""
    count = _directions(node)
    if node.attributes.get("packed"):
        return low.stored(node.operand(R))
    return low.constant(
        node.operand(R),
        "recurrent",
        count,
        vectors=count * vectors,
        pack=lambda data: np.stack([pack_rows(r) for r in np.split(data, count)]),
        half=True,
    )


def loaded_ahead(target: Target, depth: int) -> int:
    """Returns how many weights of a row are loaded together: the number with the fewest waits for
    memory, given that the remainder is loaded one by one."""
    if target.software:
        return 1
    most = min(GPU_AHEAD if target.workgroup(32) == 32 else WIDE_AHEAD, depth)
    return min(range(most, 0, -1), key=lambda n: depth // n + depth % n)


def _own(node: Node) -> int:
    """Returns how many rows a thread computes at once on software drivers."""
    return OWN // 2 if node.op == "gru" or _extra(node) else OWN


def _rounds(node: Node, units: int, outputs: int) -> int:
    """Returns the number of loop iterations of one thread in a step, summed over all loops."""
    gates, depth, slices = gate_count(node), -(-outputs // 4), -(-units // 4)
    passes, short = -(-gates * units // THREADS), -(-max(slices, depth) // THREADS) + 1
    if node.op == "gru":
        passes, short = passes + 2, short + 1
    found = 2 + passes * (depth + 2) + 3 * short
    if _given(node, PROJECTION) is not None:
        found += (-(-outputs // THREADS) + 1) * (slices + 2) + 2 * short
    if _given(node, NORM) is not None:
        found += gates * (3 * (-(-units // TEAM) + 1) + 3 * (TEAM + 1))
    return found


def _lstm(
    low: Lowering,
    node: Node,
    reads: dict[str, Source | Access],
    parameters: dict[str, object],
    variant: dict[str, object],
) -> None:
    """Adds what only an LSTM has: the order of its gates, peepholes, a projection."""
    _, batch, units, outputs = _extents(low.graph, node)
    order = node.attributes.get("gates", "ifco")
    slices, depth = -(-units // 4), -(-outputs // 4)
    parameters |= {
        "forget": order.index("f"),
        "cell": order.index("c"),
        "leave": order.index("o"),
        "cells": batch * slices,
        "cell_clip": _limit(node, "cell_clip"),
    }
    names = [_given(node, position) for position in (PEEPHOLE, PROJECTION, PROJECTION_BIAS, NORM)]
    peephole, projection, bias, norm = (low.graph.constant(tensor) for tensor in names)
    told = _given(node, PEEPHOLE) if peephole is None else None
    variant |= {
        "coupled": _coupled(node),
        "joined": _joined(node),
        "stored": "stored" in node.attributes,
        "peephole": peephole is not None or told is not None,
        "projection": projection is not None,
        "normalized": norm is not None,
    }
    if "stored" in node.attributes:
        parameters |= dict(zip(STORED, map(float, node.attributes["stored"]), strict=True))
        reads["numbers"] = low.constant(
            node.operand(NUMBERS), "rows", vectors=2 * len(order) * units, pack=np.ascontiguousarray
        )
    vectors = 3 * slices
    if projection is not None:
        parameters |= {
            "projection_at": vectors,
            "bias_at": vectors + slices * outputs,
            "outputs": outputs,
            "projection_clip": _limit(node, "projection_clip"),
        }
        vectors += slices * outputs + depth
    if norm is not None:
        parameters |= {"norm_at": vectors, "norm_bias_at": vectors + len(order) * slices}
        parameters["team"] = TEAM
        vectors += 2 * len(order) * slices
    if told is not None:
        reads["extra"] = low.stored(told)
    first = next((tensor for tensor in (peephole, projection, norm) if tensor is not None), None)
    if first is not None:
        reads["extra"] = Constant(
            ("recurrent extra", *map(low.digest, names)),
            vectors,
            lambda: pack_extra(peephole, projection, bias, norm, units, outputs),
            first,
        )


def _gru_bias(low: Lowering, node: Node, units: int) -> Source:
    """Returns the bias that the reset gate multiplies in the new content of a GRU, or zeros."""
    bias, vectors = _given(node, GRU_BIAS), -(-units // 4)
    if bias is None:
        return Constant(
            ("recurrent zeros",), vectors, lambda: np.zeros(4 * vectors, np.float32), np.zeros(0)
        )
    if low.graph.constant(bias) is None:
        return low.stored(bias)
    return low.constant(
        bias, "recurrent bias", vectors=vectors, pack=lambda data: in_slices(data, 0)
    )


def _limit(node: Node, name: str) -> float:
    return float(node.attributes.get(name) or inf)


def _strides(name: str, shape: Shape, axis: int) -> dict[str, object]:
    """Returns the strides in vec4 of a sequence with its steps along this axis."""
    strides = vector_strides(shape)
    near = {"step": strides[axis], "batch": strides[1 - axis], "slice": strides[2]}
    return {f"{name}_{key}": value for key, value in near.items()}


def _work(graph: Graph, node: Node) -> int:
    steps, batch, _, _ = _extents(graph, node)
    return int(steps * batch * prod(graph.shape(node.operand(R))) // _directions(node))


_ALL = "directions gate_clip packed reverse time_axis"
ATTRIBUTES = {
    "lstm": f"{_ALL} {gate_functions.attributes('lstm')} coupled gates=ifco|iofc|fco stored[10]",
    "gru": f"{_ALL} {gate_functions.attributes('gru')} linear",
    "rnn": f"{_ALL} {gate_functions.attributes('rnn')}",
}
OPS = tuple(
    Op(name, refuse, shapes, lower, "accumulate", types=("f32", "i32"), work=_work, kind="product",
       accumulates=False, operands=taken, decompose=decompose)
    for name, taken in (("lstm", "xxx???????"), ("gru", "xxx??"), ("rnn", "xxx?"))
)  # fmt: skip
