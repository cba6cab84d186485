"""Bodies and conditions of loops in the terms of the op contract, for tests that need no host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance.cases import seeded
from tests.support.net import Net
from tflgpu_plugin import ir
from tflgpu_plugin.importer import loop_layer
from tflgpu_plugin.ir import Array, Shape, Tensor

STEPS, BATCH, INPUTS, UNITS = 6, 2, 5, 3


class Graph(Net):
    """The nodes of a body: results have no shapes yet, and the names of the host's operators are
    there."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[int] = []

    def many(self, op: str, *inputs: int | None, count: int = 1, **attributes: Any) -> list[int]:
        results = [self.tensor() for _ in range(count)]
        self.node(op, inputs, results, **attributes)
        self.nodes[-1] = replace(self.nodes[-1], host_op=op.upper())
        return results

    def op(self, op: str, *inputs: int | None, **attributes: Any) -> int:  # type: ignore[override]
        return self.many(op, *inputs, **attributes)[0]

    def dense(self, x: int, weights: Any, bias: Any = None, **attributes: Any) -> int:
        return self.op("fully_connected", x, self.constant(weights),
                       None if bias is None else self.constant(bias), **attributes)  # fmt: skip

    def split(self, x: int, count: int) -> list[int]:
        return self.many("split", x, self.ints(-1), count=count)

    def body(self) -> ir.Graph:
        inputs, outputs = tuple(self.inputs), tuple(self.outputs)
        return ir.Graph(self.tensors, tuple(self.nodes), inputs, outputs)


def weights(blocks: int, inputs: int = INPUTS, seed: int = 1) -> Array:
    return seeded(blocks * UNITS, inputs, seed=seed)


def blocks(data: Array, order: str, wanted: str) -> Array:
    """Adds a reordering of blocks of rows."""
    parts = dict(zip(order, np.split(data, len(order)), strict=True))
    return np.concatenate([parts[name] for name in wanted])


class Loop:
    """A loop over a counter, a list of all steps or of the last one, states, and a sequence. Tests
    change what they are about: a body is read when it is asked what layer it is."""

    def __init__(self, states: int = 1, every: bool = True, batch: int = BATCH) -> None:
        self.graph, self.condition = Graph(), Graph()
        self.one = (batch, UNITS)
        self.shapes: list[Shape] = [
            (), (STEPS if every else 1, *self.one), *[self.one] * states, (STEPS, batch, INPUTS),
        ]  # fmt: skip
        kinds = ["i32", *["f32"] * (len(self.shapes) - 1)]
        for graph in (self.graph, self.condition):
            for shape, kind in zip(self.shapes, kinds, strict=True):
                graph.input(shape, kind)
        self.given = [Tensor(f"v{k}", shape, kind) for k, (shape, kind) in
                      enumerate(zip(self.shapes, kinds, strict=True))]  # fmt: skip
        self.given[0] = Tensor("v0", (), "i32", np.array(0, np.int32))
        self.counter, self.stack, *self.states, self.sequence = self.graph.inputs
        self.row = self.graph.op("gather", self.sequence, self.counter, axis=0)
        self.more = self.graph.op("add", self.counter, self.graph.ints(1))
        end = self.condition.op("less", self.condition.inputs[0], self.condition.ints(STEPS))
        self.condition.outputs = [end]
        self.every = every

    def listed(self, h: int) -> int:
        """Adds nodes that insert a row into the list, or returns the row."""
        g = self.graph
        row = g.op("reshape", h, None, shape=(1, *self.one))
        if not self.every:
            return row
        here = g.op("reshape", self.counter, None, shape=(1,))
        after = g.op("reshape", self.more, None, shape=(1,))
        count = g.op("concat", here, g.ints(-1, -1), axis=0)
        rest = g.op("concat", after, g.ints(0, 0), axis=0)
        low = g.op("slice", self.stack, g.ints(0, 0, 0), count)
        high = g.op("slice", self.stack, rest, g.ints(-1, -1, -1))
        return g.op("concat", low, row, high, axis=0)

    def finish(self, *states: int) -> Loop:
        """Ends the body with the counter, the list, these states and the sequence as results."""
        self.graph.outputs = [self.more, self.listed(states[0]), *states, self.sequence]
        return self

    def layer(self) -> loop_layer.Layer:
        return loop_layer.layer(self.given, self.condition.body(), self.graph.body())


def rnn(every: bool = True, batch: int = BATCH, activation: str = "tanh", **more: Any) -> Loop:
    loop = Loop(every=every, batch=batch)
    g = loop.graph
    of_x = g.dense(loop.row, weights(1), more.get("bias"))
    of_h = g.dense(loop.states[0], weights(1, UNITS, 2))
    return loop.finish(g.op(activation, g.op("add", of_x, of_h)))


def lstm(order: str = "ifco", every: bool = True) -> Loop:
    """Adds the gates of an LSTM with biases."""
    loop = Loop(2, every)
    g, (h, c) = loop.graph, loop.states
    z = g.op("add", g.dense(loop.row, weights(4)), g.dense(h, weights(4, UNITS, 2)))
    z = g.op("add", z, g.constant(seeded(4 * UNITS, seed=3)))
    part = dict(zip(order, g.split(z, 4), strict=True))
    i, f, o = (g.op("logistic", part[name]) for name in "ifo")
    new_c = g.op("add", g.op("mul", f, c), g.op("mul", i, g.op("tanh", part["c"])))
    return loop.finish(g.op("mul", o, g.op("tanh", new_c)), new_c)


def gru(linear: bool = True, biased: bool = True) -> Loop:
    loop = Loop()
    g, (h,) = loop.graph, loop.states
    bias = seeded(3 * UNITS, seed=3) if biased else None
    of_x = g.split(g.dense(loop.row, weights(3), bias), 3)
    if linear:
        own = seeded(3 * UNITS, seed=4) if biased else None
        of_h = g.split(g.dense(h, weights(3, UNITS, 2), own), 3)
    else:
        of_h = g.split(g.dense(h, weights(2, UNITS, 2)), 2)
    update, reset = (g.op("logistic", g.op("add", of_x[k], of_h[k])) for k in (0, 1))
    if linear:
        turned = g.op("mul", reset, of_h[2])
    else:
        turned = g.dense(g.op("mul", reset, h), weights(1, UNITS, 5))
    new = g.op("tanh", g.op("add", of_x[2], turned))
    rest = g.op("sub", g.constant(np.float32(1)), update)
    return loop.finish(g.op("add", g.op("mul", update, h), g.op("mul", rest, new)))
