"""Seeded ONNX graphs whose inputs are integers that decide shapes and are computed with, too, with
values at the limits of both widths among the usual ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conformance.host import Array

OPSET = 18
X = np.random.default_rng(1).uniform(-1, 1, (4, 6)).astype(np.float32)
KINDS: Mapping[str, np.dtype[Any]] = {
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "f32": np.dtype(np.float32),
}  # fmt: skip
TYPES = {"i32": TensorProto.INT32, "i64": TensorProto.INT64, "f32": TensorProto.FLOAT,
         "bool": TensorProto.BOOL}  # fmt: skip
SMALL = (0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -7)
NARROW = tuple(sign * (2**31 - k) for sign in (1, -1) for k in (1, 2, 3))
WIDE = (2**31, 2**31 + 1, -(2**31), -(2**31) - 1, 2**32, 2**32 + 3, 2**33 - 1, 2**40, -(2**40),
        2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)  # fmt: skip
RUNS = 10


@dataclass
class Drawing:
    """A graph under construction. `whole` are its one-element integers by name, with their types;
    `grows`: a number of a few billions would make a tensor too large for the host; `bounded`: a sum
    must not wrap around in int64."""

    chance: random.Random
    inputs: dict[str, str] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    grows: bool = False
    bounded: bool = False
    count: int = 0

    def const(self, data: Any, kind: str) -> str:
        self.count += 1
        name = f"c_{self.count}"
        array = np.asarray(data, KINDS[kind])
        self.held.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *reads: str, **attributes: Any) -> str:
        self.count += 1
        name = f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, list(reads), [name], name=name, **attributes))
        return name

    def give(self, name: str, kind: str = "f32") -> None:
        self.outputs.append((name, kind))

    def number(self, *kinds: str) -> str:
        """Returns an integer of one of these types: an input, or one that the graph computes."""
        given = [name for name, kind in self.inputs.items() if kind in kinds]
        if given and self.chance.random() < 0.5:
            return self.chance.choice(given)
        found = self.chance.choice([*self.whole])
        for _ in range(self.chance.choice((0, 0, 0, 1, 2))):
            found = self.chance.choice(STEPS)(self, found)
        if self.whole[found] in kinds:
            return found
        return self.kept(self.add("Cast", found, to=TYPES[kinds[0]]), kinds[0])

    def kept(self, name: str, kind: str) -> str:
        self.whole[name] = kind
        return name

    def few(self) -> int:
        return self.chance.choice(SMALL)

    def long(self) -> str:
        return self.number("i64")


# ---- integers from integers ----------------------------------------------------------------------


def with_constant(d: Drawing, name: str) -> str:
    kind, op = d.whole[name], d.chance.choice(("Add", "Sub", "Mul", "Min", "Max", "Div", "Mod"))
    number = d.chance.choice(SMALL[1:8]) if op in ("Div", "Mod") else d.few()
    if op in ("Min", "Max") and d.chance.random() < 0.3:
        number = d.chance.choice((2**31 - 1, 2**31 - 2, -(2**31)))
    reads = [name, d.const([number], kind)]
    if op in ("Add", "Sub", "Mul", "Min", "Max") and d.chance.random() < 0.5:
        reads.reverse()
    return d.kept(d.add(op, *reads), kind)


def alone(d: Drawing, name: str) -> str:
    return d.kept(d.add(d.chance.choice(("Neg", "Abs", "Identity")), name), d.whole[name])


def of_two(d: Drawing, name: str) -> str:
    kind = d.whole[name]
    other = d.chance.choice([one for one, held in d.whole.items() if held == kind])
    return d.kept(d.add(d.chance.choice(("Add", "Sub", "Min", "Max")), name, other), kind)


def converted(d: Drawing, name: str) -> str:
    kind = d.chance.choice(("i32", "i64"))
    return d.kept(d.add("Cast", name, to=TYPES[kind]), kind)


def chosen(d: Drawing, name: str) -> str:
    kind = d.whole[name]
    less = d.add("Less", name, d.const([d.few()], kind))
    reads = [name, d.const([d.few()], kind)]
    d.chance.shuffle(reads)
    return d.kept(d.add("Where", less, *reads), kind)


STEPS: Sequence[Callable[[Drawing, str], str]] = (with_constant, with_constant, alone, of_two,
                                                   converted, chosen)  # fmt: skip

# ---- what they decide ----------------------------------------------------------------------------


def _bound(d: Drawing, kind: str, *numbers: int) -> str:
    if d.chance.random() < 0.5:
        return d.const([d.chance.choice(numbers)], kind)
    return d.number(kind)


def cut(d: Drawing, x: str) -> str:
    kind = d.chance.choice(("i32", "i64"))
    reads = [_bound(d, kind, 0, 1, -1), _bound(d, kind, 3, -1, 9), d.const([d.few() % 2], kind)]
    if d.chance.random() < 0.5:
        reads.append(_bound(d, kind, 1, 2, -1))
    return d.add("Slice", x, *reads)


def cut_both(d: Drawing, x: str) -> str:
    kind = d.chance.choice(("i32", "i64"))
    ends = d.add("Concat", d.number(kind), _bound(d, kind, 3, 5), axis=0)
    return d.add("Slice", x, d.const([0, 0], kind), ends)


def shaped(d: Drawing, x: str) -> str:
    return d.add("Reshape", x, d.add("Concat", d.long(), d.const([-1], "i64"), axis=0),
                 allowzero=0)  # fmt: skip


def reduced(d: Drawing, x: str) -> str:
    op = d.chance.choice(("ReduceSum", "ReduceMax", "ReduceMean"))
    return d.add(op, x, d.long(), keepdims=d.chance.choice((0, 1)))


def longer(d: Drawing, x: str) -> str:
    return d.add("Unsqueeze", x, d.long())


def largest(d: Drawing, x: str) -> str:
    d.count += 1
    names = [f"values_{d.count}", f"indices_{d.count}"]
    d.nodes.append(helper.make_node("TopK", [x, d.long()], names, name=names[0]))
    d.give(names[1], "i64")
    return names[0]


def summed(d: Drawing, x: str) -> str:
    return d.add("CumSum", x, d.number("i32", "i64"))


def tiled(d: Drawing, x: str) -> str:
    d.grows = True
    return d.add("Tile", x, d.add("Concat", d.const([1], "i64"), d.long(), axis=0))


def padded(d: Drawing, x: str) -> str:
    d.grows = True
    pads = [d.const([0], "i64"), d.long(), d.const([0], "i64"), _bound(d, "i64", 0, 1)]
    return d.add("Pad", x, d.add("Concat", *pads, axis=0))


def spread(d: Drawing, x: str) -> str:
    d.grows = True
    return d.add("Expand", x, d.add("Concat", d.long(), d.const([1, 1], "i64"), axis=0))


def split(d: Drawing, x: str) -> str:
    first = d.long()
    rest = d.add("Sub", d.const([6], "i64"), first)
    d.count += 1
    names = [f"left_{d.count}", f"right_{d.count}"]
    parts = d.add("Concat", first, rest, axis=0)
    d.nodes.append(helper.make_node("Split", [x, parts], names, axis=1, name=names[0]))
    d.give(names[1])
    return names[0]


def counted(d: Drawing, x: str) -> str:
    """A Range that picks rows; its length has a limit, where a run gives any numbers."""
    kind = d.chance.choice(("i32", "i64"))
    first = d.number(kind)
    last = d.add("Add", first, d.const([d.chance.choice((0, 1, 3))], kind))
    ends = [d.add("Squeeze", name) for name in (first, last)]
    made = d.add("Range", *ends, d.const(1, kind))
    d.bounded = True
    d.give(d.add("Add", made, made), kind)
    return x


def diagonal(d: Drawing, x: str) -> str:
    return d.add("Trilu", x, d.add("Squeeze", d.long()), upper=d.chance.choice((0, 1)))


DECIDERS: Sequence[Callable[[Drawing, str], str]] = (
    cut, cut, cut, cut, cut, cut, cut_both, shaped, reduced, longer, largest, summed, tiled, padded,
    spread, split, counted, diagonal,
)  # fmt: skip

# ---- where they are data -------------------------------------------------------------------------


def multiplied(d: Drawing, x: str) -> str:
    return d.add("Mul", x, d.add("Cast", d.number("i32", "i64"), to=TYPES["f32"]))


def turned(d: Drawing, x: str) -> str:
    kind = d.chance.choice(("i32", "i64"))
    limit = d.const(d.chance.choice((3, 2**31 - 2, 2**31 - 1)), kind)
    op = d.chance.choice(("Less", "Greater", "Equal"))
    return d.add("Where", d.add(op, d.number(kind), limit), x, d.add("Neg", x))


WITHIN: Sequence[Callable[[Drawing, str], str]] = (multiplied, multiplied, turned)


def scaled(d: Drawing) -> None:
    d.give(multiplied(d, d.const([0.5, 2, -1], "f32")))


def compared(d: Drawing) -> None:
    kind = d.chance.choice(("i32", "i64"))
    op = d.chance.choice(("Less", "Greater", "Equal"))
    limit = d.const([3, 2**31 - 2, -2, 2**31 - 1], kind)
    d.give(d.add("Cast", d.add(op, d.number(kind), limit), to=TYPES["f32"]))


def returned(d: Drawing) -> None:
    kind = d.chance.choice(("i32", "i64"))
    d.give(d.add("Add", d.number(kind), d.const([0, 1, -1], kind)), kind)


def picked(d: Drawing) -> None:
    data = d.const(np.arange(12).reshape(6, 2), "f32")
    index = d.add("Mod", d.number("i64"), d.const([6], "i64"))
    d.give(d.add("Gather", data, index))


def filled(d: Drawing) -> None:
    kind = d.chance.choice(("i32", "i64"))
    pads = d.const([1, 2], "i64")
    value = d.add("Squeeze", d.number(kind))
    d.give(d.add("Pad", d.const([5, 6], kind), pads, value), kind)


USES: Sequence[Callable[[Drawing], None]] = (scaled, scaled, compared, returned, picked, filled)


# ---- the model -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A model, and what its inputs are in runs one after the other."""

    content: bytes
    feeds: Sequence[Mapping[str, Array]]


def _feeds(d: Drawing) -> list[dict[str, Array]]:
    feeds = []
    for _ in range(RUNS):
        feed: dict[str, Array] = {"x": X}
        for name, kind in d.inputs.items():
            bits = 31 if kind == "i32" else 62 if d.bounded else 64
            far = [n for n in (WIDE[5:] if d.grows else NARROW + WIDE) if abs(n) < 1 << bits]
            usual = [n for n in SMALL if n < 5 or not d.grows]
            pool = far if far and d.chance.random() < 0.4 else usual
            feed[name] = np.array([d.chance.choice(pool)], KINDS[kind])
        feeds.append(feed)
    return feeds


def made(seed: int) -> Made:
    """Returns the model of this seed."""
    d = Drawing(random.Random(seed))
    for name in ("a", "b")[: d.chance.choice((1, 1, 2))]:
        d.inputs[name] = d.whole[name] = d.chance.choice(("i64", "i64", "i32"))
    x = "x"
    for _ in range(d.chance.choice((1, 1, 2))):
        x = d.chance.choice(DECIDERS)(d, x)
        x = d.add(d.chance.choice(("Tanh", "Relu")), x)
        if d.chance.random() < 0.6:
            x = d.chance.choice(WITHIN)(d, x)
    d.give(x)
    for _ in range(d.chance.choice((0, 1, 1, 2))):
        d.chance.choice(USES)(d)
    inputs = [helper.make_tensor_value_info("x", TYPES["f32"], X.shape)]
    inputs += [helper.make_tensor_value_info(n, TYPES[kind], [1]) for n, kind in d.inputs.items()]
    outputs = [helper.make_tensor_value_info(name, TYPES[kind], None) for name, kind in d.outputs]
    graph = helper.make_graph(d.nodes, "random", inputs, outputs, d.held)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    return Made(bytes(model.SerializeToString()), _feeds(d))
