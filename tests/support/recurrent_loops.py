"""TFLite models with recurrent layers as the converter writes those of Keras 3: a WHILE over the
steps, its body made of small nodes; and loops that look like one and are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model, Shape
from tests.support.loop_models import FIRST_BODY, packed
from tests.support.small_models import binary

NONE = {"fusedActivationFunction": "NONE"}
STATES = {"lstm": 2, "gru": 1, "gru_before": 1, "rnn": 1}
GATES = {"lstm": 4, "gru": 3, "gru_before": 3, "rnn": 1}


@dataclass(frozen=True)
class Loop:
    """One layer. `every`: a list of all steps, by slices or, with `whole`, by an update in place;
    else of the last. `order` are the blocks of an LSTM. `fed`: the states come from the user.
    The rest is what no layer has: see the tests."""

    cell: str
    steps: int = 6
    batch: int = 1
    features: int = 5
    units: int = 7
    every: bool = False
    whole: bool = False
    seed: int = 1
    biased: bool = True
    half: bool = False
    order: str = "ifco"
    activation: str = "TANH"
    fed: bool = False
    turned: bool = False  # the states are carried in the other order
    crossed: bool = False  # each state becomes the other
    start: int = 0
    count: int = 1  # what a step adds to the counters
    limit: int | None = None
    wrong: str = ""
    read: tuple[int, ...] = ()  # further outputs of the model, of those of the loop
    scattered: bool = False  # the body's inputs are not in the order of its tensors

    def __str__(self) -> str:
        """Returns what is unusual about the loop."""
        more = (f for f in fields(self) if f.name != "cell" and getattr(self, f.name) != f.default)
        return " ".join([self.cell, *(f"{f.name} {getattr(self, f.name)}" for f in more)])

    @property
    def one(self) -> Shape:
        return (self.batch, self.units)

    @property
    def carried(self) -> list[Shape]:
        """Returns the list, the states and the sequence."""
        stack = (self.steps if self.every else 1, *self.one)
        return [stack, *[self.one] * STATES[self.cell], (self.steps, self.batch, self.features)]

    def model(self) -> bytes:
        """Returns the loop, and a dense layer over its last state."""
        main, states = Model(), STATES[self.cell]
        x = main.input("x", self.carried[-1])
        begin = main.constant(np.array(self.start, np.int32))
        start = [main.constant(seeded(*self.carried[0], seed=9))]
        for k in range(states):
            data = seeded(*self.one, seed=self.seed + 40 + k)
            start.append(main.input(f"h{k}", self.one) if self.fed else main.constant(data))
        results = main.multi_op(
            "WHILE", [begin, begin, *start, x], "WhileOptions",
            {"condSubgraphIndex": FIRST_BODY, "bodySubgraphIndex": FIRST_BODY + 1},
            shapes=[(), (), *self.carried],
            dtypes=["i32", "i32", *["f32"] * len(self.carried)], name="loop",
        )  # fmt: skip
        last = results[3 if not self.turned else 2 + states]
        weights = main.constant(seeded(3, self.units))
        dense = main.op("FULLY_CONNECTED", [last, weights, None], "FullyConnectedOptions", NONE,
                        shape=(self.batch, 3), name="dense")  # fmt: skip
        main.output(dense, results[2], *(results[k] for k in self.read))
        return packed(main, self._condition(), self._body())

    def _condition(self) -> Model:
        cond = Model()
        counters = [cond.input(f"counter {k}", (), "i32") for k in range(2)]
        for k, shape in enumerate(self.carried):
            cond.input(f"carried {k}", shape)
        limit = self.steps if self.limit is None else self.limit
        end = cond.constant(np.array(limit, np.int32))
        name, options = ("LESS", "LessOptions")
        if self.wrong == "one more":
            name, options, limit = "LESS_EQUAL", "LessEqualOptions", limit - 2
            end = cond.constant(np.array(limit, np.int32))
        if self.wrong == "other way":  # counters that are below the limit end it
            name, options = ("GREATER", "GreaterOptions")
            counters, end = [end] * 2, counters[0]
        below = [cond.op(name, [c, end], options, {}, dtype="bool") for c in counters]
        cond.output(cond.op("LOGICAL_AND", below, "LogicalAndOptions", {}, dtype="bool"))
        return cond

    def _body(self) -> Model:
        body = Model()
        given = [("i", (), "i32"), ("j", (), "i32"), *((f"v{k}", shape, "f32")
                 for k, shape in enumerate(self.carried))]  # fmt: skip
        made = [body.input(*one) for one in (reversed(given) if self.scattered else given)]
        if self.scattered:
            made.reverse()
            body.inputs.reverse()
        *counters, stack = made[:3]
        held, sequence = made[3:-1], made[-1]
        step = body.constant(np.array(self.count, np.int32))
        more = [body.op("ADD", [c, step], "AddOptions", NONE, dtype="i32") for c in counters]
        place = more[1] if self.wrong == "next row" else counters[1]
        x = body.op("GATHER", [sequence, place], "GatherOptions", {"axis": 0},
                    shape=(self.batch, self.features), name="row")  # fmt: skip
        states = held[::-1] if self.turned else held
        new = _Step(self, body, x).made(*states)
        if self.wrong == "extra":
            new[-1] = body.op("TANH", [new[-1]], shape=self.one, name="extra")
        if self.wrong == "unused":
            body.op("EXP", [new[-1]], shape=self.one, name="unused")
        row = new[0] if self.wrong != "earlier" else states[0]
        after = new[::-1] if self.turned != self.crossed else new
        listed = self._listed(body, stack, row, counters[1], more[1])
        again = binary(body, "ADD", sequence, sequence, self.carried[-1]) if (
            self.wrong == "sequence") else sequence  # fmt: skip
        body.output(*more, listed, *after, again)
        return body

    def _listed(self, body: Model, stack: int, h: int, counter: int, after: int) -> int:
        """Returns the list with a row put in."""

        def ints(*values: int) -> int:
            return body.constant(np.array(values, np.int32))

        def shaped(x: int, shape: Shape, dtype: str = "f32") -> int:
            return body.op("RESHAPE", [x, ints(*shape)], "ReshapeOptions", {"newShape": []},
                           shape=shape, dtype=dtype)  # fmt: skip

        def joined(values: list[int], shape: Shape, dtype: str = "f32") -> int:
            return body.op("CONCATENATION", values, "ConcatenationOptions", {"axis": 0},
                           shape=shape, dtype=dtype)  # fmt: skip

        def sliced(begin: int, size: int, signature: Shape) -> int:
            made = body.op("SLICE", [stack, begin, size], "SliceOptions", {}, shape=(1, *self.one))
            body.tensors[made].signature = signature
            return made

        row = shaped(h, (1, *self.one))
        if not self.every:
            return row
        if self.wrong == "place":
            counter, after = after, counter
        here = joined([shaped(counter, (1,), "i32"), ints(0, 0)], (3,), "i32")
        if self.whole:
            return body.op("DYNAMIC_UPDATE_SLICE", [stack, row, here], "DynamicUpdateSliceOptions",
                           {}, shape=self.carried[0])  # fmt: skip
        count = joined([shaped(counter, (1,), "i32"), ints(-1, -1)], (3,), "i32")
        rest = joined([shaped(after, (1,), "i32"), ints(0, 0)], (3,), "i32")
        parts = [sliced(ints(0, 0, 0), count, (-1, -1, -1)), row,
                 sliced(rest, ints(-1, -1, -1), (-1, *self.one))]  # fmt: skip
        return joined(parts, self.carried[0])


@dataclass
class _Step:
    """A step of a loop's body, applied to a row of the sequence."""

    loop: Loop
    body: Model
    x: int

    def made(self, *states: int) -> list[int]:
        kinds: dict[str, Callable[..., list[int]]]
        kinds = {"lstm": self._lstm, "gru": self._gru, "gru_before": self._before, "rnn": self._rnn}
        return kinds[self.loop.cell](*states)

    def _dense(self, x: int, inputs: int, rows: int, seed: int, bias: bool = False) -> int:
        data, seed = seeded(rows, inputs, seed=self.loop.seed + seed, scale=0.6), seed + 1
        weights = self.body.constant(data.astype(np.float16) if self.loop.half else data)
        if self.loop.half:
            weights = self.body.op("DEQUANTIZE", [weights], "DequantizeOptions", shape=data.shape)
        reads = [x, weights, self._bias(rows, seed) if bias else None]
        return self.body.op("FULLY_CONNECTED", reads, "FullyConnectedOptions", NONE,
                            shape=(self.loop.batch, rows))  # fmt: skip

    def _bias(self, rows: int, seed: int) -> int:
        return self.body.constant(seeded(rows, seed=self.loop.seed + seed))

    def _of(self, op: str, x: int) -> int:
        return self.body.op(op, [x], shape=self.loop.one)

    def _two(self, op: str, a: int, b: int, width: int = 1) -> int:
        shape = (self.loop.batch, width * self.loop.units)
        return binary(self.body, op, a, b, shape)

    def _parts(self, x: int, count: int) -> list[int]:
        axis = self.body.constant(np.array(-1, np.int32))
        return self.body.multi_op("SPLIT", [axis, x], "SplitOptions", {"numSplits": count},
                                  shapes=[self.loop.one] * count)  # fmt: skip

    def _cuts(self, x: int, count: int) -> list[int]:
        """Adds the same by strided slices."""
        found, units = [], self.loop.units
        for k in range(count):
            ends = [self.body.constant(np.array([0, n * units], np.int32)) for n in (k, k + 1)]
            steps = self.body.constant(np.array([1, 1], np.int32))
            options = {"beginMask": 1, "endMask": 1}
            found.append(self.body.op("STRIDED_SLICE", [x, *ends, steps], "StridedSliceOptions",
                                      options, shape=self.loop.one))  # fmt: skip
        return found

    def _inputs(self, h: int) -> tuple[int, int]:
        """Returns the inputs of the row and those of the state, in all blocks."""
        rows = GATES[self.loop.cell] * self.loop.units
        return (self._dense(self.x, self.loop.features, rows, 0),
                self._dense(h, self.loop.units, rows, 10))  # fmt: skip

    def _lstm(self, h: int, c: int) -> list[int]:
        of_x, of_h = self._inputs(h)
        z = self._two("ADD", of_x, of_h, 4)
        if self.loop.biased:
            z = self._two("ADD", z, self._bias(4 * self.loop.units, 20), 4)
        part = dict(zip(self.loop.order, self._parts(z, 4), strict=True))
        i, f, o = (self._of("LOGISTIC", part[name]) for name in "ifo")
        g = self._of(self.loop.activation, part["c"])
        new_c = self._two("ADD", self._two("MUL", f, c), self._two("MUL", i, g))
        return [self._two("MUL", o, self._of(self.loop.activation, new_c)), new_c]

    def _rest(self, update: int) -> int:
        one = self.body.constant(np.float32(2 if self.loop.wrong == "two" else 1))
        return self._two("SUB", one, update)

    def _new(self, update: int, h: int, n: int) -> list[int]:
        old = self._two("MUL", update, h)
        return [self._two("ADD", old, self._two("MUL", self._rest(update), self._of("TANH", n)))]

    def _gru(self, h: int) -> list[int]:
        rows = 3 * self.loop.units
        of_h = self._cuts(self._dense(h, self.loop.units, rows, 10, self.loop.biased), 3)
        z = self._dense(self.x, self.loop.features, rows, 0)
        if self.loop.biased:
            z = self._two("ADD", z, self._bias(rows, 20), 3)
        of_x = self._parts(z, 3)
        update, reset = (self._of("LOGISTIC", self._two("ADD", of_x[k], of_h[k])) for k in (0, 1))
        return self._new(update, h, self._two("ADD", of_x[2], self._two("MUL", reset, of_h[2])))

    def _before(self, h: int) -> list[int]:
        units = self.loop.units
        of_h = self._cuts(self._dense(h, units, 2 * units, 10), 2)
        of_x = self._parts(
            self._dense(self.x, self.loop.features, 3 * units, 0, self.loop.biased), 3
        )
        update, reset = (self._of("LOGISTIC", self._two("ADD", of_x[k], of_h[k])) for k in (0, 1))
        own = self._dense(self._two("MUL", reset, h), units, units, 30)
        return self._new(update, h, self._two("ADD", of_x[2], own))

    def _rnn(self, h: int) -> list[int]:
        of_x, of_h = self._inputs(h)
        if self.loop.activation != "RELU":
            return [self._of(self.loop.activation, self._two("ADD", of_x, of_h))]
        options = {"fusedActivationFunction": "RELU"}
        return [self.body.op("ADD", [of_x, of_h], "AddOptions", options, shape=self.loop.one)]
