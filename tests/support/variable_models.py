"""Small TFLite models whose state are variables (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE), set
at first by a CALL_ONCE; and seeded programs that read, assign and read again.

A read that the model gives no extents (it is loose) has the shape that the variable got in a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model, Shape
from tests.support.shape_models import enlarged, size_of
from tests.support.small_models import FEATURES, append_subgraph, binary, conv, on_cpu

SHAPE = (1, 6, 5, FEATURES)
OPEN = (-1, -1, -1, FEATURES)
ONE = (1, 1, 1, FEATURES)


class Stateful(Model):
    """A model with variables, seeded at first."""

    def __init__(self) -> None:
        super().__init__()
        self.multi_op("CALL_ONCE", [], "CallOnceOptions", {"initSubgraphIndex": 1}, shapes=[])
        self.stores: dict[int, tuple[str, Shape]] = {}
        self.branches: list[Model] = []  # further subgraphs, from number 2 on

    def store(self, name: str, shape: Shape) -> int:
        """Adds a variable; returns its handle. `shape` is its initial shape."""
        handle = _handle(self, name)
        self.stores[handle] = name, shape
        return handle

    def read(self, handle: int, name: str = "", loose: bool = False) -> int:
        """Adds a read of the variable, with its initial shape or an unknown one."""
        _, shape = self.stores[handle]
        return self.op("READ_VARIABLE", [handle], "ReadVariableOptions", {},
                       shape=() if loose else shape, name=name)  # fmt: skip

    def assign(self, handle: int, value: int) -> None:
        _assign(self, handle, value)

    def to_bytes(self) -> bytes:
        first = Model()
        for seed, (name, shape) in enumerate(self.stores.values()):
            _assign(first, _handle(first, name), first.constant(seeded(*shape, seed=seed)))
        packed = self.unpacked()
        for more in (first, *self.branches):
            append_subgraph(packed, more.unpacked())
        builder = import_module("flatbuffers").Builder(1 << 16)
        builder.Finish(packed.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _handle(model: Model, name: str) -> int:
    options = {"sharedName": name.encode()}
    return model.op("VAR_HANDLE", [], "VarHandleOptions", options, dtype="resource", name=name)


def _assign(model: Model, handle: int, value: int) -> None:
    model.multi_op("ASSIGN_VARIABLE", [handle, value], "AssignVariableOptions", {}, shapes=[])


def joined(model: Model, parts: list[int], shape: Shape, axis: int = 1, name: str = "") -> int:
    options = {"axis": axis}
    return model.op("CONCATENATION", parts, "ConcatenationOptions", options, shape=shape, name=name)


def last(model: Model, x: int, count: int, shape: Shape, name: str = "") -> int:
    """Adds the last `count` rows of x, or as many as there are; `shape` is the shape of the
    result."""
    bounds = [
        model.constant(np.array(b, np.int32)) for b in ((0, -count, 0, 0), (0,) * 4, (1,) * 4)
    ]
    masks = {"beginMask": 0b1101, "endMask": 0b1111}
    return model.op("STRIDED_SLICE", [x, *bounds], "StridedSliceOptions", masks, shape=shape,
                    name=name)  # fmt: skip


# ---- models --------------------------------------------------------------------------------------


def streaming() -> bytes:
    """Returns a model of two convolutions, each over the new input and the last rows of the
    previous ones."""
    model = Stateful()
    x = model.input("x", (1, 2, 5, FEATURES), signature=(1, -1, 5, FEATURES))
    handles = [model.store(name, (1, 4, 5, FEATURES)) for name in ("one", "two")]
    states = [model.read(handle) for handle in handles]
    for k, (handle, state) in enumerate(zip(handles, states, strict=True)):
        window = joined(model, [state, x], SHAPE, name=f"window {k}")
        model.assign(handle, last(model, window, 4, (1, 4, 5, FEATURES), f"kept {k}"))
        features = conv(model, window, SHAPE, f"features {k}", seed=2 * k + 1)
        x = last(model, features, 2, (1, 2, 5, FEATURES), f"out {k}")
    model.output(x)
    return model.to_bytes()


def again() -> bytes:
    """Returns a model that reads a variable, assigns it and reads it again, twice; the first value
    is used again at the end."""
    model = Stateful()
    x = model.input("x", SHAPE)
    handle = model.store("v", SHAPE)
    first = model.read(handle, "first")
    model.assign(handle, conv(model, x, SHAPE, "new"))
    second = model.read(handle, "second")
    mixed = binary(model, "ADD", conv(model, second, SHAPE, "mixed", seed=3), first, SHAPE, "sum")
    model.assign(handle, mixed)
    third = model.read(handle, "third")
    model.assign(handle, binary(model, "SUB", third, x, SHAPE, "less"))
    model.output(
        conv(model, first, SHAPE, "of first", seed=5),
        conv(model, third, SHAPE, "of third", seed=7),
        binary(model, "ADD", first, third, SHAPE, "of both"),
    )
    return model.to_bytes()


def picking(early: bool) -> bytes:
    """Returns a model that adds x to a variable and picks a row of the sum, which may not be there;
    the variable is assigned after that, or before it if `early`."""
    model = Stateful()
    x, row = model.input("x", SHAPE), model.input("row", (1,), dtype="i32")
    handle = model.store("v", SHAPE)
    total = binary(model, "ADD", model.read(handle), x, SHAPE, "total")
    if early:
        model.assign(handle, total)
    shape = (1, 1, *SHAPE[2:])
    picked = model.op("GATHER", [total, row], "GatherOptions", {"axis": 1}, shape=shape)
    if not early:
        model.assign(handle, total)
    model.output(conv(model, picked, shape, "features"))
    return model.to_bytes()


def growing() -> bytes:
    """Returns a model whose variable grows by two rows in each run; the node in the middle is for
    the CPU."""
    model = Stateful()
    x = model.input("x", (1, 2, 5, FEATURES))
    handle = model.store("v", (1, 4, 5, FEATURES))
    state = model.op("RELU", [model.read(handle, loose=True)], shape=(), name="relu")
    old = binary(model, "ADD", state, model.constant(seeded(*ONE)), ONE, "old")
    features = conv(model, old, ONE, "features")
    apart = on_cpu(model, features, features, ONE, "apart")
    again = conv(model, apart, ONE, "again", seed=3)
    model.output(enlarged(model, again, size_of(model, again), "large"))
    margins = model.constant(np.array([[0, 0], [0, 2], [0, 0], [0, 0]], np.int32))
    longer = model.op("PAD", [old, margins], shape=(1, 3, 1, FEATURES), name="longer")
    shape = (1, 3, 5, FEATURES)
    model.assign(handle, binary(model, "ADD", longer, last(model, x, 1, (1, 1, *shape[2:])), shape))
    return model.to_bytes()


def of_the_input() -> bytes:
    """Returns a model whose variable is x: it has the shape to which x was resized, also in the
    next run."""
    model = Stateful()
    x = model.input("x", SHAPE, signature=OPEN)
    handle = model.store("v", SHAPE)
    bias = model.constant(seeded(*ONE))
    before = binary(model, "ADD", model.read(handle, loose=True), bias, ONE, "before")
    model.assign(handle, x)
    now = binary(model, "SUB", model.read(handle, loose=True), bias, ONE, "now")
    after = conv(model, now, ONE, "features now", seed=3)
    large = enlarged(model, after, size_of(model, after), "large")
    model.output(conv(model, before, ONE, "features before"), large)
    return model.to_bytes()


def in_a_branch() -> bytes:
    """Returns a model in which one branch reads the variable and assigns it, between two reads; the
    other branch does not."""
    model = Stateful()
    x = model.input("x", SHAPE)
    handle = model.store("v", SHAPE)
    before = model.read(handle, "before")
    features = conv(model, before, SHAPE, "features")
    every = model.constant(np.array([0, 1, 2, 3], np.int32))
    mean = model.op("MEAN", [x, every], "ReducerOptions", {"keepDims": False})
    which = model.op("GREATER", [mean, model.constant(np.float32(0))], dtype="bool", name="which")
    options = {"thenSubgraphIndex": 2, "elseSubgraphIndex": 3}
    chosen = model.op("IF", [which, features], "IfOptions", options, shape=SHAPE, name="chosen")
    model.branches = [_branch(assigns) for assigns in (True, False)]
    after = conv(model, model.read(handle, "after"), SHAPE, "features after", seed=3)
    model.output(chosen, after, binary(model, "ADD", before, after, SHAPE, "both"))
    return model.to_bytes()


def _branch(assigns: bool) -> Model:
    branch = Model()
    x = branch.input("x", SHAPE)
    if assigns:
        handle = _handle(branch, "v")
        value = branch.op("READ_VARIABLE", [handle], "ReadVariableOptions", {}, shape=SHAPE)
        x = conv(branch, binary(branch, "SUB", value, x, SHAPE), SHAPE, "new", seed=5)
        _assign(branch, handle, branch.op("TANH", [x], shape=SHAPE, name="bounded"))
    branch.output(conv(branch, x, SHAPE, "result", seed=7))
    return branch


MODELS: dict[str, Callable[[], bytes]] = {
    "in a branch": in_a_branch,
    "streaming": streaming, "again": again, "growing": growing, "of the input": of_the_input,
}  # fmt: skip


# ---- programs ------------------------------------------------------------------------------------


class _Program:
    """Grows a model: values of this many rows by what it says, variables whose reads say so and
    loose ones, reads and assignments in random order."""

    def __init__(self, seed: int) -> None:
        self.choose, self.model = random.Random(seed), Stateful()
        rows = self.choose.randint(1, 3)
        x = self.model.input("x", self.shape(rows), signature=(1, -1, 2, FEATURES))
        self.rows = {x: rows}
        names = "abc"[: self.choose.randint(1, 3)]
        self.handles = [self.model.store(n, self.shape(self.choose.randint(1, 4))) for n in names]
        self.loose = {handle for handle in self.handles if self.choose.random() < 0.5}
        for handle in self.handles:
            self._read(handle)

    def shape(self, rows: int) -> Shape:
        return (1, rows, 2, FEATURES)

    def made(self, tensor: int, rows: int) -> None:
        self.rows[tensor] = rows

    def some(self) -> int:
        return self.choose.choice(list(self.rows)[-6:])

    def grow(self) -> None:
        steps = (self._read, self._assign, self._assign, self._conv, self._joined, self._last,
                 self._unary, self._parts, self._plus_mean)  # fmt: skip
        self.choose.choice(steps)()

    def _read(self, handle: int | None = None) -> None:
        handle = handle or self.choose.choice(self.handles)
        if handle not in self.loose:
            self.made(self.model.read(handle), self.model.stores[handle][1][1])
            return
        found = self.model.read(handle, loose=True)
        if self.choose.random() < 0.5:
            found = self.model.op(self.choose.choice(("ABS", "TANH")), [found], shape=())
        one = self._mean(self.some())
        self.made(binary(self.model, "ADD", found, one, self.shape(1)), 1)

    def _assign(self) -> None:
        handle, value = self.choose.choice(self.handles), self.some()
        rows, count = self.rows[value], self.choose.randint(1, 4)
        if handle not in self.loose:  # exactly as many rows as at first
            count = self.model.stores[handle][1][1]
            rows += count
            zeros = self.model.constant(np.zeros(self.shape(count), np.float32))
            value = joined(self.model, [zeros, value], self.shape(rows))
        rows = min(count, rows)
        value = last(self.model, value, count, self.shape(rows))
        self.model.assign(handle, self.model.op("TANH", [value], shape=self.shape(rows)))

    def _conv(self) -> None:
        x = self.some()
        seed = self.choose.randint(1, 99)
        self.made(conv(self.model, x, self.shape(self.rows[x]), seed=seed), self.rows[x])

    def _joined(self) -> None:
        a, b = self.some(), self.some()
        rows = self.rows[a] + self.rows[b]
        both = joined(self.model, [a, b], self.shape(rows))
        self.made(last(self.model, both, 4, self.shape(min(4, rows))), min(4, rows))

    def _last(self) -> None:
        x, count = self.some(), self.choose.randint(1, 3)
        rows = min(count, self.rows[x])
        self.made(last(self.model, x, count, self.shape(rows)), rows)

    def _unary(self) -> None:
        x, op = self.some(), self.choose.choice(("ABS", "TANH"))
        self.made(self.model.op(op, [x], shape=self.shape(self.rows[x])), self.rows[x])

    def _parts(self) -> None:
        x = self.some()
        sizes = self.model.constant(np.array([3, -1], np.int32))
        axis = self.model.constant(np.int32(-1))
        parts = self.model.multi_op(
            "SPLIT_V", [x, sizes, axis], "SplitVOptions", {"numSplits": 2},
            shapes=[(1, self.rows[x], 2, n) for n in (3, FEATURES - 3)],
        )  # fmt: skip
        turned = joined(self.model, parts[::-1], self.shape(self.rows[x]), axis=3)
        self.made(turned, self.rows[x])

    def _mean(self, x: int) -> int:
        axes = self.model.constant(np.array([1], np.int32))
        return self.model.op("MEAN", [x, axes], "ReducerOptions", {"keepDims": True},
                             shape=self.shape(1))  # fmt: skip

    def _plus_mean(self) -> None:
        x, y = self.some(), self.some()
        total = binary(self.model, "ADD", y, self._mean(x), self.shape(self.rows[y]))
        self.made(total, self.rows[y])


def program(seed: int, length: int = 30) -> bytes:
    """Returns a program of this many operators; its last four values are outputs."""
    made = _Program(seed)
    while len(made.model.operators) < length:
        made.grow()
    made.model.output(*[t for t in made.rows if t not in made.model.inputs][-4:])
    return made.model.to_bytes()
