"""TFLite models of a convolutional LSTM, as the converter writes those of Keras: a WHILE over the
steps, with two convolutions in its body."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model, Shape
from tests.support.loop_models import FIRST_BODY, packed
from tests.support.small_models import binary

NONE = {"fusedActivationFunction": "NONE"}
KERNEL = 3


@dataclass(frozen=True)
class ConvLoop:
    """The layer over `steps` pictures. `counted`: the number of steps is constant, else the user
    gives it. `written`: the body also keeps the picture of each step."""

    steps: int = 4
    size: int = 6
    channels: int = 2
    filters: int = 3
    counted: bool = True
    written: bool = True

    @property
    def state(self) -> Shape:
        return (1, self.size, self.size, self.filters)

    @property
    def carried(self) -> list[Shape]:
        """Returns the shapes of the kept pictures, h, c and the sequence."""
        kept = (self.steps, *self.state)
        return [kept, self.state, self.state, (self.steps, 1, *self.state[1:3], self.channels)]

    def model(self) -> bytes:
        """Returns the layer, and the mean of its last state over the channels."""
        main = Model()
        x = main.input("x", self.carried[-1])
        limit = main.constant(np.array(self.steps, np.int32))
        if not self.counted:
            limit = main.input("limit", (), "i32")
        zero = main.constant(np.array(0, np.int32))
        start = [main.constant(np.zeros(shape, np.float32)) for shape in self.carried[:3]]
        results = main.multi_op(
            "WHILE", [zero, limit, *start, x], "WhileOptions",
            {"condSubgraphIndex": FIRST_BODY, "bodySubgraphIndex": FIRST_BODY + 1},
            shapes=[(), (), *self.carried],
            dtypes=["i32", "i32", *["f32"] * len(self.carried)], name="loop",
        )  # fmt: skip
        axes = main.constant(np.array([3], np.int32))
        mean = main.op("MEAN", [results[3], axes], "ReducerOptions", {"keepDims": False},
                       shape=self.state[:3], name="mean")  # fmt: skip
        main.output(mean, results[2])
        return packed(main, self._condition(), self._body())

    def _given(self, graph: Model) -> list[int]:
        counters = [graph.input(name, (), "i32") for name in ("counter", "limit")]
        return counters + [graph.input(f"carried {k}", s) for k, s in enumerate(self.carried)]

    def _condition(self) -> Model:
        graph = Model()
        counter, limit, *_ = self._given(graph)
        graph.output(graph.op("LESS", [counter, limit], "LessOptions", {}, dtype="bool"))
        return graph

    def _body(self) -> Model:
        body = Model()
        counter, limit, kept, h, c, sequence = self._given(body)
        one = body.constant(np.array(1, np.int32))
        more = body.op("ADD", [counter, one], "AddOptions", NONE, dtype="i32")
        row = self.carried[-1][1:]
        x = body.op("GATHER", [sequence, counter], "GatherOptions", {"axis": 0}, shape=row)
        wide = (*self.state[:3], 4 * self.filters)
        sums = binary(body, "ADD", _conv(body, x, row[-1], wide, 1),
                      _conv(body, h, self.filters, wide, 5), wide)  # fmt: skip
        axis = body.constant(np.array(3, np.int32))
        i, f, g, o = body.multi_op("SPLIT", [axis, sums], "SplitOptions", {"numSplits": 4},
                                   shapes=[self.state] * 4)  # fmt: skip
        i, f, o = (body.op("LOGISTIC", [gate], shape=self.state) for gate in (i, f, o))
        g = body.op("TANH", [g], shape=self.state)
        new = [binary(body, "MUL", a, b, self.state) for a, b in ((f, c), (i, g))]
        new_c = binary(body, "ADD", *new, self.state)
        new_h = binary(body, "MUL", o, body.op("TANH", [new_c], shape=self.state), self.state)
        if self.written:
            kept = self._written(body, kept, new_h, counter)
        body.output(more, limit, kept, new_h, new_c, sequence)
        return body

    def _written(self, body: Model, kept: int, row: int, counter: int) -> int:
        axes = body.constant(np.array([0], np.int32))
        place = body.op("RESHAPE", [counter, body.constant(np.array([1], np.int32))],
                        "ReshapeOptions", {"newShape": []}, shape=(1,), dtype="i32")  # fmt: skip
        zeros = body.constant(np.zeros(len(self.state), np.int32))
        start = body.op("CONCATENATION", [place, zeros], "ConcatenationOptions", {"axis": 0},
                        shape=(len(self.state) + 1,), dtype="i32")  # fmt: skip
        whole = body.op("EXPAND_DIMS", [row, axes], "ExpandDimsOptions", {},
                        shape=(1, *self.state))  # fmt: skip
        return body.op("DYNAMIC_UPDATE_SLICE", [kept, whole, start], "DynamicUpdateSliceOptions",
                       {}, shape=self.carried[0])  # fmt: skip


def _conv(body: Model, x: int, channels: int, shape: Shape, seed: int) -> int:
    weights = body.constant(seeded(shape[-1], KERNEL, KERNEL, channels, seed=seed, scale=0.4))
    bias = body.constant(seeded(shape[-1], seed=seed + 1))
    options = {"padding": "SAME", "strideH": 1, "strideW": 1, **NONE}
    return body.op("CONV_2D", [x, weights, bias], "Conv2DOptions", options, shape=shape)
