"""TFLite models with loops: recurrent layers as the converter writes those of Keras 3, which are a
WHILE over the steps, and a loop around a layer of any size."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model, Shape
from tests.support.small_models import append_subgraph, binary

FIRST_BODY = 1  # number of the first graph after the model's own


def packed(main: Model, *others: Model) -> bytes:
    """The model with further graphs, from number 1 on."""
    whole = main._model()
    for other in others:
        append_subgraph(whole, other._model())
    builder = import_module("flatbuffers").Builder(1 << 16)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def counted(steps: int, shapes: list[Shape]) -> Model:
    """The condition of a loop: two counters below the number of steps, then what is carried."""
    cond = Model()
    counters = [cond.input(f"counter {k}", (), "i32") for k in range(2)]
    for k, shape in enumerate(shapes):
        cond.input(f"carried {k}", shape)
    end = cond.constant(np.array(steps, np.int32))
    below = [cond.op("LESS", [c, end], "LessOptions", {}, dtype="bool") for c in counters]
    cond.output(cond.op("LOGICAL_AND", below, "LogicalAndOptions", {}, dtype="bool"))
    return cond


def dense(model: Model, x: int, weights: Any, name: str = "") -> int:
    """A product with weights [outputs, inputs] and without a bias, of one row."""
    options = {"fusedActivationFunction": "NONE"}
    reads = [x, model.constant(weights), None]
    shape = (1, weights.shape[0])
    return model.op("FULLY_CONNECTED", reads, "FullyConnectedOptions", options, shape=shape,
                    name=name)  # fmt: skip


def shaped(model: Model, x: int, shape: Shape, dtype: str = "f32") -> int:
    wanted = model.constant(np.array(shape, np.int32))
    return model.op("RESHAPE", [x, wanted], "ReshapeOptions", {"newShape": []}, shape=shape,
                    dtype=dtype)  # fmt: skip


def joined(model: Model, values: list[int], shape: Shape, dtype: str = "f32") -> int:
    return model.op("CONCATENATION", values, "ConcatenationOptions", {"axis": 0}, shape=shape,
                    dtype=dtype)  # fmt: skip


def parts(model: Model, x: int, count: int, units: int) -> list[int]:
    axis = model.constant(np.array(1, np.int32))
    return model.multi_op("SPLIT", [axis, x], "SplitOptions", {"numSplits": count},
                          shapes=[(1, units)] * count)  # fmt: skip


class _Layer:
    """One recurrent layer: sizes, seeded weights, and the body of its loop."""

    def __init__(self, steps: int, features: int, units: int, every: bool) -> None:
        self.steps, self.features, self.units, self.every = steps, features, units, every
        self.sequence = (steps, 1, features)
        self.row = (1, 1, units)
        self.stack = (steps if every else 1, 1, units)

    def weights(self, gates: int, seed: int) -> tuple[Any, Any, Any]:
        rows = gates * self.units
        of_input = seeded(rows, self.features, seed=seed, scale=0.4)
        of_state = seeded(rows, self.units, seed=seed + 1, scale=0.4)
        return of_input, of_state, seeded(rows, seed=seed + 2)

    def body(self, states: int) -> tuple[Model, list[int], list[int]]:
        """A body with its inputs; the counters that it gives back; and the step's input."""
        body = Model()
        counters = [body.input(f"counter {k}", (), "i32") for k in range(2)]
        stack = body.input("stack", self.stack)
        held = [body.input(f"state {k}", (1, self.units)) for k in range(states)]
        sequence = body.input("sequence", self.sequence)
        one = body.constant(np.array(1, np.int32))
        options = {"fusedActivationFunction": "NONE"}
        more = [body.op("ADD", [c, one], "AddOptions", options, dtype="i32") for c in counters]
        picked = body.op("GATHER", [sequence, counters[1]], "GatherOptions", {"axis": 0},
                         shape=(1, self.features), name="picked")  # fmt: skip
        return body, more, [stack, *held, sequence, picked, counters[1]]

    def finish(self, body: Model, more: list[int], stack: int, h: int, kept: list[int]) -> None:
        """Mark the outputs; `h` goes into the stack, `kept` are the states and the sequence."""
        counter, row = 1, shaped(body, h, self.row)
        if self.every:
            ends = body.constant(np.array([-1, -1], np.int32))
            zeros = body.constant(np.array([0, 0], np.int32))
            count = joined(body, [shaped(body, counter, (1,), "i32"), ends], (3,), "i32")
            next_place = shaped(body, more[1], (1,), "i32")
            place = joined(body, [next_place, zeros], (3,), "i32")
            none, all_left = (body.constant(np.full(3, n, np.int32)) for n in (0, -1))
            before = body.op("SLICE", [stack, none, count], "SliceOptions", {}, shape=(1, 1, 1))
            body.tensors[before].signature = (-1, -1, -1)
            after = body.op("SLICE", [stack, place, all_left], "SliceOptions", {}, shape=self.row)
            body.tensors[after].signature = (-1, 1, self.units)
            row = joined(body, [before, row, after], self.stack)
        body.output(*more, row, *kept)


def lstm_body(layer: _Layer, seed: int = 1) -> Model:
    """Gates in the order input, forget, cell, output."""
    body, more, (stack, h, c, sequence, x, _) = layer.body(2)
    of_input, of_state, bias = layer.weights(4, seed)
    units, rows = layer.units, 4 * layer.units
    recurrent = shaped(body, dense(body, h, of_state), (rows,))
    both = binary(body, "ADD", dense(body, x, of_input), recurrent, (1, rows))
    z = binary(body, "ADD", both, body.constant(bias), (1, rows))
    i, f, g, o = parts(body, z, 4, units)
    one = (1, units)
    i, f, o = (body.op("LOGISTIC", [gate], shape=one) for gate in (i, f, o))
    forgotten = binary(body, "MUL", f, c, one)
    added = binary(body, "MUL", i, body.op("TANH", [g], shape=one), one)
    new_c = binary(body, "ADD", forgotten, added, one)
    new_h = binary(body, "MUL", o, body.op("TANH", [new_c], shape=one), one)
    layer.finish(body, more, stack, new_h, [new_h, new_c, sequence])
    return body


def gru_body(layer: _Layer, seed: int = 1) -> Model:
    """Gates in the order update, reset, new; the reset gate after the product (reset_after)."""
    body, more, (stack, h, sequence, x, _) = layer.body(1)
    of_input, of_state, _ = layer.weights(3, seed)
    units, one = layer.units, (1, layer.units)
    recurrent = dense(body, h, of_state)
    slices = []
    for k, masks in enumerate((3, 1, 1)):
        begin, end = (body.constant(np.array([0, n * units], np.int32)) for n in (k, k + 1))
        step = body.constant(np.array([1, 1], np.int32))
        options = {"beginMask": masks, "endMask": 3 if k == 2 else 1}
        slices.append(body.op("STRIDED_SLICE", [recurrent, begin, end, step],
                              "StridedSliceOptions", options, shape=one))  # fmt: skip
    z, r, n = parts(body, dense(body, x, of_input), 3, units)
    z = body.op("LOGISTIC", [binary(body, "ADD", z, slices[0], one)], shape=one)
    r = body.op("LOGISTIC", [binary(body, "ADD", r, slices[1], one)], shape=one)
    reset = binary(body, "MUL", r, slices[2], one)
    n = body.op("TANH", [binary(body, "ADD", n, reset, one)], shape=one)
    old = binary(body, "MUL", z, h, one)
    rest = binary(body, "SUB", body.constant(np.float32(1)), z, one)
    new_h = binary(body, "ADD", old, binary(body, "MUL", rest, n, one), one)
    layer.finish(body, more, stack, new_h, [new_h, sequence])
    return body


def recurrent(kind: str, steps: int = 6, features: int = 5, units: int = 7,
              every: bool = False) -> bytes:  # fmt: skip
    """A recurrent layer ("lstm" or "gru") and a dense one after it."""
    layer = _Layer(steps, features, units, every)
    states = 2 if kind == "lstm" else 1
    body = (lstm_body if kind == "lstm" else gru_body)(layer)
    carried = [layer.stack, *[(1, units)] * states, layer.sequence]
    main = Model()
    x = main.input("x", (1, steps, features))
    turned = shaped(main, x, layer.sequence)
    zero = main.constant(np.array(0, np.int32))
    start = [main.constant(np.zeros(shape, np.float32)) for shape in carried[:-1]]
    results = main.multi_op(
        "WHILE", [zero, zero, *start, turned], "WhileOptions",
        {"condSubgraphIndex": FIRST_BODY, "bodySubgraphIndex": FIRST_BODY + 1},
        shapes=[(), (), *carried], dtypes=["i32", "i32", *["f32"] * len(carried)], name="loop",
    )  # fmt: skip
    main.output(dense(main, shaped(main, results[3], (1, units)), seeded(3, units), "dense"))
    if every:
        main.output(results[2])
    return packed(main, counted(steps, carried), body)


def _layer(units: int, counter: bool) -> Model:
    """A graph that makes tanh(dense(x)), and counts if there is a counter."""
    graph, shape = Model(), (1, units)
    if counter:
        _count(graph)
    x = graph.input("x", shape)
    layer = dense(graph, x, seeded(units, units, scale=1 / units), "layer")
    graph.output(graph.op("TANH", [layer], shape=shape, name="tanh"))
    return graph


def _count(graph: Model) -> None:
    one = graph.constant(np.array(1, np.int32))
    reads, options = [graph.input("counter", (), "i32"), one], {"fusedActivationFunction": "NONE"}
    graph.output(graph.op("ADD", reads, "AddOptions", options, dtype="i32"))


def _either(graph: Model, x: int, units: int, number: int) -> int:
    """An IF, both of whose branches are this graph."""
    named = {"thenSubgraphIndex": number, "elseSubgraphIndex": number}
    reads = [graph.constant(np.array(True)), x]
    return graph.op("IF", reads, "IfOptions", named, shape=(1, units))


def branching(units: int) -> bytes:
    """y = tanh(dense(x)) in an IF."""
    main = Model()
    main.output(_either(main, main.input("x", (1, units)), units, FIRST_BODY))
    return packed(main, _layer(units, False))


def around(units: int, branch: bool = False) -> bytes:
    """y = tanh(dense(x)), twice over, in a WHILE; with `branch`, in an IF in its body."""
    shape, inner = (1, units), _layer(units, False)
    body = Model() if branch else _layer(units, True)
    if branch:
        _count(body)
        body.output(_either(body, body.input("x", shape), units, FIRST_BODY + 2))
    cond = Model()
    below = [cond.input("counter", (), "i32"), cond.constant(np.array(2, np.int32))]
    cond.input("x", shape)
    cond.output(cond.op("LESS", below, "LessOptions", {}, dtype="bool"))
    main = Model()
    named = {"condSubgraphIndex": FIRST_BODY, "bodySubgraphIndex": FIRST_BODY + 1}
    reads = [main.constant(np.array(0, np.int32)), main.input("x", shape)]
    results = main.multi_op("WHILE", reads, "WhileOptions", named, shapes=[(), shape],
                            dtypes=["i32", "f32"])  # fmt: skip
    main.output(results[1])
    return packed(main, cond, body, *([inner] if branch else []))
