"""Seeded ONNX graphs of integers of 32 and 64 bits, bools that they are compared to, and floats
that they are cast to. numpy computes the values while a graph is made, so that none exceeds int32:
beyond it, the results of hosts are undefined (int32), or our run fails (other types)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conformance.host import Array

OPSET = 18
INT32 = np.iinfo(np.int32)
MAX_ELEMENTS = 4000
KINDS: dict[np.dtype[Any], int] = {
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.uint32): TensorProto.UINT32,
    np.dtype(np.uint64): TensorProto.UINT64,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.float32): TensorProto.FLOAT,
}


SIGNED, UNSIGNED = ("int32", "int64"), ("uint32", "uint64")


class Unfit(Exception):
    """An error for a random graph that has no answer, or one that is too large."""


@dataclass
class Made:
    """A model, its inputs, and the values that its outputs must have."""

    content: bytes
    feeds: list[Array]
    expected: list[Array]
    foreign: tuple[str, ...]


@dataclass
class Drawing:
    """A graph under construction: names of values, and the values that they have for the inputs."""

    chance: random.Random
    numbers: np.random.Generator
    values: dict[str, Array] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def const(self, data: Any, dtype: Any) -> str:
        name = self.name("c")
        self.held.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def pick(self, *kinds: str) -> str:
        """Returns a value of one of these types, usually a late one."""
        found = [n for n, v in self.values.items() if v.dtype.name in kinds]
        if not found:
            raise Unfit
        return self.chance.choice(found[-4:] if self.chance.random() < 0.7 else found)

    def whole(self, *more: str) -> str:
        return self.pick(*SIGNED, *more)

    def like(self, name: str) -> str:
        """Returns a value to combine with this one: of its type, in a shape that broadcasts; or a
        new constant."""
        given = self.values[name]
        found = [n for n, v in self.values.items() if v.dtype == given.dtype and _fits(v, given)]
        if len(found) > 1 and self.chance.random() < 0.6:
            return self.chance.choice(found)
        shape = given.shape[self.chance.randint(0, given.ndim) :]
        shape = tuple(self.chance.choice((1, extent)) for extent in shape)
        data = self.numbers.integers(1, self.chance.choice((3, 1000, 2**30)), shape)
        data = data * self.numbers.choice((-1, 1), shape)
        data = np.abs(data) if given.dtype.kind == "u" else data
        name = self.const(data, given.dtype)
        self.values[name] = data.astype(given.dtype)
        return name

    def add(self, op: str, reads: Sequence[str], *results: Any, **attributes: Any) -> None:
        """Adds a node with these results. Raises Unfit if one is empty or too large."""
        found = [np.asarray(result) for result in results]
        for value in found:
            large = value.size and value.dtype.kind in "iuf" and np.abs(value.astype(float)).max()
            if value.size > MAX_ELEMENTS or value.ndim > 5 or not value.size or large > INT32.max:
                raise Unfit
        names = [self.name(op.lower()) for _ in found]
        names = [f"{name}_{k}" for k, name in enumerate(names)]
        self.nodes.append(helper.make_node(op, list(reads), names, name=names[0], **attributes))
        self.values |= dict(zip(names, found, strict=True))

    def draw(self, makers: Sequence[Callable[[Any], object]], wanted: int) -> None:
        """Adds nodes by random makers until there are `wanted`. What a maker has added before it
        raises Unfit is removed."""
        while len(self.nodes) < wanted:
            nodes, held, values = len(self.nodes), len(self.held), dict(self.values)
            try:
                self.chance.choice(makers)(self)
            except Unfit:
                del self.nodes[nodes:], self.held[held:]
                self.values = values

    def read(self) -> set[str]:
        """Returns the values that nodes read."""
        return {name for node in self.nodes for name in node.input}

    def outputs(self) -> list[str]:
        """Returns the results that no node reads, and a few others at random."""
        read, made = self.read(), [name for node in self.nodes for name in node.output]
        return [name for name in made if name not in read or self.chance.random() < 0.15]


def _fits(value: Array, other: Array) -> bool:
    try:
        return np.broadcast_shapes(value.shape, other.shape) == other.shape
    except ValueError:
        return False


# ---- operators -----------------------------------------------------------------------------------

ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip
RELATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}  # fmt: skip
BITS: dict[str, Callable[[Array, Array], Array]] = {
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}  # fmt: skip
LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceMean": lambda x, **w: np.trunc(np.asarray(np.mean(x, **w), np.float64)),
    "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
}  # fmt: skip


def _wide(data: Array) -> Array:
    return data.astype(np.int64) if data.dtype.kind in "iu" else data


def arithmetic(d: Drawing) -> None:
    a = d.whole(*UNSIGNED)
    b, op = d.like(a), d.chance.choice([*ARITHMETIC, *BITS])
    x, y = _wide(d.values[a]), _wide(d.values[b])
    result = (ARITHMETIC | BITS)[op](x, y)
    if np.abs(result.astype(float)).max(initial=0) > INT32.max:
        raise Unfit
    if d.values[a].dtype.kind == "u" and result.min(initial=0) < 0:
        raise Unfit
    d.add(op, (a, b), result.astype(d.values[a].dtype))


def quotient(d: Drawing) -> None:
    a = d.whole(*UNSIGNED)
    held = d.values[a]
    data = d.numbers.integers(1, d.chance.choice((4, 5000)), held.shape[-1:] or (1,))
    data = data * d.numbers.choice((-1, 1), data.shape)
    data = np.abs(data) if held.dtype.kind == "u" else data
    b, x, y = d.const(data, held.dtype), _wide(held), data
    op = d.chance.choice(("Div", "Mod", "fmod"))
    if op == "Div":
        d.add("Div", (a, b), ((x - np.fmod(x, y)) // y).astype(held.dtype))
        return
    result = np.fmod(x, y) if op == "fmod" else np.mod(x, y)
    d.add("Mod", (a, b), result.astype(held.dtype), fmod=int(op == "fmod"))


def power(d: Drawing) -> None:
    a = d.whole()
    x = _wide(d.values[a])
    exponents = d.numbers.integers(0, d.chance.choice((2, 4, 12)), x.shape[-1:] or (1,))
    result = x.astype(object) ** exponents
    if max(map(abs, result.ravel())) > INT32.max:
        raise Unfit
    kind = d.chance.choice((np.int32, np.int64))
    d.add("Pow", (a, d.const(exponents, kind)), result.astype(d.values[a].dtype))


def unary(d: Drawing) -> None:
    a = d.whole(*UNSIGNED)
    x = d.values[a]
    signed = ("Neg", "Abs", "Relu", "BitwiseNot") if x.dtype.kind == "i" else ()
    op = d.chance.choice(("Sign", "Clip", *signed))
    if op == "Clip":
        least = -(2**25) if signed else 0
        low, high = sorted(int(n) for n in d.numbers.integers(least, 2**25, 2))
        reads = (a, d.const(low, x.dtype), d.const(high, x.dtype))
        d.add("Clip", reads, np.clip(x, low, high).astype(x.dtype))
        return
    if op == "Relu" and x.dtype != np.int32:
        raise Unfit
    found: dict[str, Callable[[Array], Array]] = {
        "Neg": np.negative, "Abs": np.abs, "Sign": np.sign, "Relu": lambda n: np.maximum(n, 0),
        "BitwiseNot": np.invert,
    }  # fmt: skip
    d.add(op, (a,), found[op](x).astype(x.dtype))


def relation(d: Drawing) -> None:
    a = d.whole(*UNSIGNED)
    b, op = d.like(a), d.chance.choice([*RELATIONS])
    d.add(op, (a, b), RELATIONS[op](d.values[a], d.values[b]))


def logic(d: Drawing) -> None:
    a = d.pick("bool")
    op = d.chance.choice(("Not", *LOGIC))
    if op == "Not":
        d.add(op, (a,), ~d.values[a])
        return
    found = [n for n, v in d.values.items() if v.dtype == bool and _fits(v, d.values[a])]
    b = d.chance.choice(found)
    d.add(op, (a, b), LOGIC[op](d.values[a], d.values[b]))


def where(d: Drawing) -> None:
    a = d.whole("uint32")  # the CPU provider has no kernel of uint64
    found = [n for n, v in d.values.items() if v.dtype == bool and _fits(v, d.values[a])]
    if not found:
        raise Unfit
    c, b = d.chance.choice(found), d.like(a)
    first, second = (a, b) if d.chance.random() < 0.5 else (b, a)
    d.add("Where", (c, first, second), np.where(d.values[c], d.values[first], d.values[second]))


def cast(d: Drawing) -> None:
    a = d.whole(*UNSIGNED, "bool", "float32")
    kind = d.chance.choice([k for k in KINDS if k != d.values[a].dtype])
    x = d.values[a]
    if x.dtype == np.float32 and kind.kind in "iu" and np.abs(x).max(initial=0) > 2.0**31 - 256:
        raise Unfit
    if kind.kind == "u" and x.dtype.kind in "if" and x.min(initial=0) < 0:
        raise Unfit
    d.add("Cast", (a,), x.astype(kind), to=KINDS[kind])


def reduction(d: Drawing) -> None:
    a, op = d.whole(), d.chance.choice([*REDUCTIONS])
    x = d.values[a]
    if not x.ndim:
        raise Unfit
    axes = tuple(sorted(d.chance.sample(range(x.ndim), d.chance.randint(1, x.ndim))))
    keep = d.chance.random() < 0.5
    result = REDUCTIONS[op](x.astype(object), axis=axes, keepdims=keep)
    if max(map(abs, np.asarray(result, object).ravel())) > INT32.max:
        raise Unfit
    made = np.asarray(result, object).astype(x.dtype)
    d.add(op, (a, d.const(axes, np.int64)), made, keepdims=int(keep))


def running(d: Drawing) -> None:
    a = d.whole()
    x = d.values[a]
    if not x.ndim:
        raise Unfit
    axis = d.chance.randrange(x.ndim)
    result = np.cumsum(_wide(x), axis=axis)
    if np.abs(result.astype(float)).max(initial=0) > INT32.max:
        raise Unfit
    d.add("CumSum", (a, d.const(axis, np.int64)), result.astype(x.dtype))


def best(d: Drawing) -> None:
    a = d.pick("int32", "float32")
    x = d.values[a]
    if not x.ndim:
        raise Unfit
    axis, op = d.chance.randrange(x.ndim), d.chance.choice(("ArgMax", "ArgMin"))
    found = {"ArgMax": np.argmax, "ArgMin": np.argmin}[op](x, axis=axis, keepdims=True)
    d.add(op, (a,), found.astype(np.int64), axis=axis)


def taken(d: Drawing) -> None:
    """Adds a Gather with indices that are not constant."""
    a, i = d.whole(*UNSIGNED, "float32", "bool"), d.whole()
    x, places = d.values[a], d.values[i]
    if not x.ndim or places.ndim + x.ndim > 5:
        raise Unfit
    axis = d.chance.randrange(x.ndim)
    extent = x.shape[axis]
    d.add("Mod", (i, d.const(extent, places.dtype)), np.mod(places, extent).astype(places.dtype))
    inside = list(d.values)[-1]
    d.add("Gather", (a, inside), np.take(x, d.values[inside], axis=axis), axis=axis)


def enlarged(d: Drawing) -> None:
    """Adds a nearest-neighbour enlargement of the last axis."""
    a = d.pick("int32")
    x, factor = d.values[a], d.chance.choice((2, 3))
    if not 2 <= x.ndim <= 4:
        raise Unfit
    scales = d.const([*[1] * (x.ndim - 1), factor], np.float32)
    rule: Any = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    d.add("Resize", (a, "", scales), np.repeat(x, factor, -1), mode="nearest", **rule)


def moved(d: Drawing) -> None:
    a = d.whole(*UNSIGNED, "bool")
    x = d.values[a]
    op = d.chance.choice(("Transpose", "Reshape", "Slice", "Pad", "Tile", "Concat", "Unsqueeze"))
    if not x.ndim:
        raise Unfit
    if op == "Transpose":
        perm = d.chance.sample(range(x.ndim), x.ndim)
        d.add(op, (a,), x.transpose(perm), perm=perm)
    elif op == "Reshape":
        shape = (-1,) if d.chance.random() < 0.5 else (*x.shape[1:], x.shape[0])
        d.add(op, (a, d.const(shape, np.int64)), x.reshape(shape))
    elif op == "Slice":
        axis = d.chance.randrange(x.ndim)
        step = d.chance.choice((1, 1, 2, -1))
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(None, None, step)
        ends = (0, 2**31 - 1) if step > 0 else (-1, -(2**31))
        reads = (a, *(d.const([n], np.int64) for n in (*ends, axis, step)))
        d.add(op, reads, x[tuple(cut)])
    elif op == "Pad":
        if x.dtype == bool:
            raise Unfit
        sides = d.numbers.integers(0, 3, (2, x.ndim))
        value = int(d.numbers.integers(0 if x.dtype.kind == "u" else -(2**30), 2**30))
        reads = (a, d.const(sides.reshape(-1), np.int64), d.const(value, x.dtype))
        d.add(op, reads, np.pad(x, sides.T, constant_values=value))
    elif op == "Tile":
        repeats = [d.chance.choice((1, 1, 2, 3)) for _ in x.shape]
        d.add(op, (a, d.const(repeats, np.int64)), np.tile(x, repeats))
    elif op == "Unsqueeze":
        axis = d.chance.randint(0, x.ndim)
        d.add(op, (a, d.const([axis], np.int64)), np.expand_dims(x, axis))
    else:
        found = [n for n, v in d.values.items() if v.dtype == x.dtype and v.shape == x.shape]
        axis = d.chance.randrange(x.ndim)
        parts = [a, *(d.chance.choice(found) for _ in range(d.chance.randint(1, 2)))]
        d.add(op, parts, np.concatenate([d.values[p] for p in parts], axis), axis=axis)


DRAWS = (arithmetic, arithmetic, quotient, power, unary, relation, logic, where, cast, cast,
         reduction, running, best, taken, enlarged, moved, moved)  # fmt: skip


def build(seed: int) -> Made:
    """Returns a graph for this seed; every fourth one leaves some nodes to the CPU."""
    d = Drawing(random.Random(seed), np.random.default_rng(seed))
    for k in range(d.chance.choice((1, 2))):
        shape = tuple(d.chance.choice((1, 2, 3, 4, 5, 8, 9)) for _ in range(d.chance.randint(1, 4)))
        low, high = d.chance.choice(((-5, 6), (-3000, 3000), (-(2**31), 2**31)))
        kind = d.chance.choice((*SIGNED, *UNSIGNED))
        low = 0 if kind in UNSIGNED else low
        d.values[f"x{k}"] = d.numbers.integers(low, high, shape).astype(kind)
    inputs = [*d.values]
    wanted = d.chance.choice((2, 4, 8, 14))
    d.draw(DRAWS, wanted)
    read, outputs = d.read(), d.outputs()
    names = [node.name for node in d.nodes]
    foreign = d.chance.sample(names, max(1, len(names) // 4)) if seed % 4 == 0 else []

    def info(name: str) -> Any:
        value = d.values[name]
        return helper.make_tensor_value_info(name, KINDS[value.dtype], value.shape)

    held = [h for h in d.held if h.name in read]
    fed = [name for name in inputs if name in read]
    graph = helper.make_graph(d.nodes, "whole", [*map(info, fed)], [*map(info, outputs)], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    feeds, expected = ([d.values[name] for name in names] for names in (fed, outputs))
    return Made(model.SerializeToString(), feeds, expected, tuple(foreign))
