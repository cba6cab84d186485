"""Small TFLite models with shape arithmetic: sizes that are computed from shapes, and seeded
programs over the results of SHAPE."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.models.tflite import Model
from conformance.models.tflite_file import schema
from tests.support.small_models import FEATURES, conv, on_cpu

SHAPE = (1, 6, 5, 3)
OPEN = (-1, -1, -1, 3)
ANY = (1, 1, 1, FEATURES)  # what converters write where they do not know


# ---- models that resize --------------------------------------------------------------------------


def size_of(model: Model, x: int, factor: int | None = None, name: str = "") -> int:
    """Adds height and width of x, each times two (or times a tensor); their names begin with
    `name`."""
    out = {"outType": schema().TensorType.INT32}
    shape = model.op(
        "SHAPE", [x], "ShapeOptions", out, shape=(4,), dtype="i32", name=f"{name}shape"
    )
    bounds = [model.constant(np.array([value], np.int32)) for value in (1, 3, 1)]
    hw = model.op(
        "STRIDED_SLICE", [shape, *bounds], "StridedSliceOptions", {}, shape=(2,), dtype="i32",
        name=f"{name}hw",
    )  # fmt: skip
    by = model.constant(np.array([2, 2], np.int32)) if factor is None else factor
    twice = model.op(
        "MUL", [hw, by], "MulOptions", {}, shape=(2,), dtype="i32", name=f"{name}twice"
    )
    # Hosts work this one out in a run only.
    limit = model.constant(np.array([999, 999], np.int32))
    return model.op("MINIMUM", [twice, limit], shape=(2,), dtype="i32", name=f"{name}size")


def enlarged(model: Model, x: int, size: int, name: str = "large") -> int:
    options = {"alignCorners": False, "halfPixelCenters": False}
    return model.op(
        "RESIZE_NEAREST_NEIGHBOR", [x, size], "ResizeNearestNeighborOptions", options, shape=ANY,
        name=name,
    )  # fmt: skip


def in_the_middle(last: int = 2, between: bool = False, dynamic: bool = False) -> bytes:
    """Returns a model of a convolution, a resize to twice its size, a node for the CPU (`between`),
    a convolution (`last` 1), a resize to another size and a convolution (`last` 2). With `dynamic`,
    it ends with nodes whose shapes are known only in a run."""
    model = Model()
    x = model.input("x", SHAPE, signature=OPEN)
    features = conv(model, x, SHAPE, "features")
    large = enlarged(model, features, size_of(model, features))
    if between:
        large = on_cpu(model, large, large, ANY, "between")
    if last:
        large = conv(model, large, ANY, "last", seed=3)
    if last > 1:
        large = enlarged(model, large, size_of(model, x, name="x "), "down")
        large = conv(model, large, ANY, "again", seed=5)
    model.output(large)
    if dynamic:
        places = positives(model, x)
        kind = {"inDataType": "INT64", "outDataType": "FLOAT32"}
        real = model.op("CAST", [places], "CastOptions", kind, shape=(1, 4), name="real")
        model.output(on_cpu(model, real, real, (1, 4), "sum"))
    return model.to_bytes()


def positives(model: Model, x: int) -> int:
    """Returns a model of the positions at which x is positive, whose number depends on the run."""
    zero = model.constant(np.float32(0))
    which = model.op("GREATER", [x, zero], shape=SHAPE, dtype="bool", name="which")
    return model.op("WHERE", [which], shape=(1, 4), dtype="i64", name="where")


def of_another_input() -> bytes:
    """Returns a model of y, resized to twice the size of x, between convolutions."""
    model = Model()
    x = model.input("x", SHAPE, signature=OPEN)
    y = model.input("y", SHAPE, signature=OPEN)
    features = conv(model, y, SHAPE, "features")
    large = enlarged(model, features, size_of(model, x))
    model.output(conv(model, large, ANY, "last", seed=3))
    return model.to_bytes()


def of_another_partition() -> bytes:
    """Returns a model with a partition that depends on x only through its size."""
    model = Model()
    x = model.input("x", SHAPE, signature=OPEN)
    features = conv(model, x, SHAPE, "features")
    size = size_of(model, features)
    mean = model.op(
        "MEAN", [features, model.constant(np.array([1, 2], np.int32))], "ReducerOptions",
        {"keepDims": True}, shape=ANY, name="mean",
    )  # fmt: skip
    apart = on_cpu(model, mean, mean, ANY, "sum")
    large = enlarged(model, apart, size)
    model.output(conv(model, large, ANY, "last", seed=3))
    return model.to_bytes()


def flattened() -> bytes:
    """Returns a model that flattens x to [batch, everything else] by SHAPE, SLICE, PACK and
    RESHAPE, and back."""
    model = Model()
    x = model.input("x", SHAPE, signature=OPEN)
    features = conv(model, x, SHAPE, "features")
    out = {"outType": schema().TensorType.INT32}
    shape = model.op("SHAPE", [features], "ShapeOptions", out, shape=(4,), dtype="i32")
    begin, count = (model.constant(np.array([value], np.int32)) for value in (0, 1))
    batch = model.op("SLICE", [shape, begin, count], shape=(1,), dtype="i32")
    rest = model.constant(np.array([-1], np.int32))
    wanted = model.op(
        "CONCATENATION", [batch, rest], "ConcatenationOptions", {"axis": 0}, shape=(2,), dtype="i32"
    )
    flat = model.op("RESHAPE", [features, wanted], "ReshapeOptions", {}, shape=(1, 1), name="flat")
    back = model.op("RESHAPE", [flat, shape], "ReshapeOptions", {}, shape=ANY, name="back")
    model.output(conv(model, back, ANY, "last", seed=3))
    return model.to_bytes()


def in_64_bits() -> bytes:
    """Returns a model with a size that is int64 until it is used."""
    model = Model()
    x = model.input("x", SHAPE, signature=OPEN)
    features = conv(model, x, SHAPE, "features")
    wide = {"outType": schema().TensorType.INT64}
    shape = model.op("SHAPE", [features], "ShapeOptions", wide, shape=(4,), dtype="i64")
    places = model.constant(np.array([1, 2], np.int32))
    hw = model.op("GATHER", [shape, places], "GatherOptions", {}, shape=(2,), dtype="i64")
    one = model.constant(np.array(1, np.int64))
    more = model.op("ADD", [hw, one], "AddOptions", {}, shape=(2,), dtype="i64")
    kind = {"inDataType": "INT64", "outDataType": "INT32"}
    size = model.op("CAST", [more], "CastOptions", kind, shape=(2,), dtype="i32")
    model.output(conv(model, enlarged(model, features, size), ANY, "last", seed=3))
    return model.to_bytes()


RESIZED: dict[str, Callable[[], bytes]] = {
    "in the middle": in_the_middle,
    "at the end": lambda: in_the_middle(last=0),
    "before the CPU": lambda: in_the_middle(last=0, between=True),
    "around the CPU": lambda: in_the_middle(between=True),
    "beside a dynamic end": lambda: in_the_middle(dynamic=True),
    "once beside a dynamic end": lambda: in_the_middle(last=1, dynamic=True),
    "last beside a dynamic end": lambda: in_the_middle(last=0, dynamic=True),
    "of another input": of_another_input,
    "of another partition": of_another_partition,
    "flattened": flattened,
    "in 64 bits": in_64_bits,
}
DYNAMIC = {"where", "real", "sum"}
LEFT = {
    "before the CPU": {"between"},
    # The size of x is worked out in the first partition, and read in the second.
    "around the CPU": {"between", "x shape", "x hw", "x twice", "x size"},
    "beside a dynamic end": DYNAMIC,
    "once beside a dynamic end": DYNAMIC,
    "last beside a dynamic end": DYNAMIC,
    "of another partition": {"shape", "hw", "twice", "size", "sum"},
}


# ---- sizes that are known only in a run ----------------------------------------------------------


def fed(how: str) -> bytes:
    """Returns a model with sizes that depend on a fed value, entirely or together with a shape."""
    model = Model()
    x = model.input("x", SHAPE)
    factor = model.input("factor", (2,), "i32")
    features = conv(model, x, SHAPE, "features")
    if how == "fed":
        size = factor
    elif how == "times":
        size = size_of(model, features, factor)
    else:  # the largest value of x, as an integer
        axes = model.constant(np.array([0, 1, 2, 3], np.int32))
        largest = model.op("REDUCE_MAX", [x, axes], "ReducerOptions", {}, shape=())
        kind = {"inDataType": "FLOAT32", "outDataType": "INT32"}
        whole = model.op("CAST", [largest], "CastOptions", kind, shape=(), dtype="i32")
        size = size_of(model, features, whole)
    model.output(conv(model, enlarged(model, features, size), ANY, "last", seed=3))
    return model.to_bytes()


FED: dict[str, Callable[[], bytes]] = {
    how: lambda how=how: fed(how)  # type: ignore[misc]
    for how in ("fed", "times", "computed")
}


def shared() -> bytes:
    """Returns a model whose size is also an output."""
    model = Model()
    x = model.input("x", SHAPE)
    features = conv(model, x, SHAPE, "features")
    size = size_of(model, features)
    model.output(enlarged(model, features, size), size)
    return model.to_bytes()


# ---- programs ------------------------------------------------------------------------------------

OPERATORS = {
    "SHAPE", "RANK", "STRIDED_SLICE", "SLICE", "GATHER", "PACK", "UNPACK", "SPLIT", "CONCATENATION",
    "ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "NEG", "EQUAL",
    "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "SELECT_V2", "CAST", "RANGE",
    "FILL", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "REDUCE_PROD", "SUM", "REDUCE_MAX", "REDUCE_MIN",
    "FLOOR", "CEIL",
}  # fmt: skip


class _Program:
    """Grows a model whose tensors are vectors of 4 integers, by operators in random order."""

    def __init__(self, seed: int) -> None:
        self.choose, self.model = random.Random(seed), Model()
        extents = [self.choose.randint(1, 9) for _ in range(4)]
        x = self.model.input("x", extents)
        self.vectors = [self.shape(x)]
        rank = self.model.op("RANK", [x], "RankOptions", {}, dtype="i32")
        self.vectors.append(self.op("ADD", [self.vectors[0], rank], "AddOptions", {}))

    def shape(self, x: int) -> int:
        out = {"outType": schema().TensorType.INT32}
        return self.op("SHAPE", [x], "ShapeOptions", out)

    def op(
        self, op: str, inputs: list[int], kind: str | None = None,
        options: dict[str, Any] | None = None, dtype: str = "i32", shape: tuple[int, ...] = (4,),
    ) -> int:  # fmt: skip
        return self.model.op(op, inputs, kind, options, shape=shape, dtype=dtype)

    def const(self, *values: int) -> int:
        return self.model.constant(np.array(values, np.int32))

    def scalar(self, value: int) -> int:
        return self.model.constant(np.int32(value))

    def some(self) -> int:
        return self.choose.choice(self.vectors[-5:])

    def grow(self, name: str) -> None:
        self.vectors.append(getattr(self, f"_{name}")())

    def _binary(self) -> int:
        op = self.choose.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"))
        table = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
        return self.op(op, [self.some(), self.some()], table.get(op), {})

    def _divided(self) -> int:
        op = self.choose.choice(("DIV", "FLOOR_DIV", "FLOOR_MOD"))
        divisor = self.const(*[self.choose.choice((-3, -2, 2, 3, 5)) for _ in range(4)])
        return self.op(op, [self.some(), divisor], "DivOptions" if op == "DIV" else None, {})

    def _negative(self) -> int:
        return self.op("NEG", [self.some()])

    def _compared(self) -> int:
        names = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
        a, b = self.some(), self.some()
        which = self.op(self.choose.choice(names), [a, b], dtype="bool")
        return self.op("SELECT_V2", [which, self.some(), self.some()])

    def _cast(self) -> int:
        to = {"inDataType": "INT32", "outDataType": "FLOAT32"}
        real = self.op("CAST", [self.some()], "CastOptions", to, "f32")
        half = self.model.constant(np.float32(self.choose.choice((0.5, 1.5, 0.3, -0.7))))
        scaled = self.op("MUL", [real, half], "MulOptions", {}, "f32")
        rounded = self.op(self.choose.choice(("FLOOR", "CEIL")), [scaled], dtype="f32")
        back = {"inDataType": "FLOAT32", "outDataType": "INT32"}
        return self.op("CAST", [self.choose.choice((scaled, rounded))], "CastOptions", back)

    def _strided(self) -> int:
        bounds = [self.const(-1), self.const(-9), self.const(-1)]
        return self.op("STRIDED_SLICE", [self.some(), *bounds], "StridedSliceOptions", {})

    def _sliced(self) -> int:
        a, b = self.some(), self.some()
        cut = self.choose.randint(1, 3)
        first = self.op("SLICE", [a, self.const(0), self.const(cut)], shape=(cut,))
        rest = self.op("SLICE", [b, self.const(cut), self.const(-1)], shape=(4 - cut,))
        return self.op("CONCATENATION", [rest, first], "ConcatenationOptions", {"axis": 0})

    def _gathered(self) -> int:
        places = self.const(*[self.choose.randint(0, 3) for _ in range(4)])
        return self.op("GATHER", [self.some(), places], "GatherOptions", {})

    def _unpacked(self) -> int:
        parts = self.model.multi_op(
            "UNPACK", [self.some()], "UnpackOptions", {"num": 4, "axis": 0},
            shapes=[()] * 4, dtypes=["i32"] * 4,
        )  # fmt: skip
        self.choose.shuffle(parts)
        return self.op("PACK", parts, "PackOptions", {"valuesCount": 4, "axis": 0})

    def _split(self) -> int:
        halves = self.model.multi_op(
            "SPLIT", [self.scalar(0), self.some()], "SplitOptions", {"numSplits": 2},
            shapes=[(2,)] * 2, dtypes=["i32"] * 2,
        )  # fmt: skip
        return self.op("CONCATENATION", halves[::-1], "ConcatenationOptions", {"axis": 0})

    def _reduced(self) -> int:
        op = self.choose.choice(("REDUCE_PROD", "SUM", "REDUCE_MAX", "REDUCE_MIN"))
        keep = {"keepDims": self.choose.random() < 0.5}
        small = self.op("FLOOR_MOD", [self.some(), self.const(7, 7, 7, 7)])
        one = self.op(op, [small, self.const(0)], "ReducerOptions", keep, shape=())
        return self.op("ADD", [self.some(), one], "AddOptions", {})

    def _shaped(self) -> int:
        square = self.op("RESHAPE", [self.some(), self.const(2, -1)], "ReshapeOptions", {}, "i32",
                         (2, 2))  # fmt: skip
        wide = self.op("EXPAND_DIMS", [square, self.scalar(0)], shape=(1, 2, 2))
        narrow = self.op("SQUEEZE", [wide], "SqueezeOptions", {"squeezeDims": [0]}, shape=(2, 2))
        return self.op("RESHAPE", [narrow, self.const(4)], "ReshapeOptions", {})

    def _filled(self) -> int:
        first = self.op("SLICE", [self.some(), self.const(0), self.const(1)], shape=(1,))
        alone = self.op("RESHAPE", [first, self.model.constant(np.zeros(0, np.int32))],
                        "ReshapeOptions", {}, shape=())  # fmt: skip
        four = self.op("FILL", [self.const(4), alone])
        end = self.op("ADD", [alone, self.scalar(4)], "AddOptions", {}, shape=())
        run = self.op("RANGE", [alone, end, self.scalar(1)], shape=(4,))
        return self.op("SUB", [run, four], "SubOptions", {})


_STEPS = tuple(name[1:] for name in vars(_Program) if name[0] == "_" and name[1] != "_")


def program(seed: int) -> bytes:
    """Returns a model of ten steps, all of whose results are outputs, so that hosts keep them."""
    made = _Program(seed)
    for _ in range(10):
        made.grow(made.choose.choice(_STEPS))
    made.model.output(*(k for k, tensor in enumerate(made.model.tensors) if tensor.computed))
    return made.model.to_bytes()
