"""Seeded ONNX graphs of integers of 8 and 16 bits, through operators that move elements: numbers
that were quantized in several ways, and plain ones, side by side. The CPU provider says what each
node makes while a graph is drawn, which is exact."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from conformance import onnx_host
from conformance.host import Array
from conformance.random.integers import Drawing, Made, Unfit

OPSETS = (13, 18)
KINDS: dict[str, int] = {
    "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16, "float32": TensorProto.FLOAT, "int64": TensorProto.INT64,
    "int32": TensorProto.INT32, "bool": TensorProto.BOOL,
}  # fmt: skip
STORED = ("uint8", "uint8", "int8", "uint16", "int16")
WIDE = 21  # the first opset that quantizes to 16 bits
STEPS = (0.05, 0.05, 0.1, 0.0317, 1.0, 2.0)
SHAPES = ((4,), (2, 3), (3, 8), (1, 4, 4), (2, 3, 5), (1, 4, 6, 4), (2, 2, 3, 5))


class Moves(Drawing):
    """A graph with one type of stored numbers and one opset."""

    kind: str = "uint8"
    opset: int = WIDE

    def fed(self, op: str, reads: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Adds a node, and returns the CPU provider's result. Raises Unfit if there is none."""
        made = [f"out_{k}" for k in range(outputs)]
        given = {name: self.values[name] for name in reads if name}
        node = helper.make_node(op, reads, made, **attributes)
        inputs = [info(name, value) for name, value in given.items()]
        results = [helper.make_empty_tensor_value_info(name) for name in made]
        graph = helper.make_graph([node], "one", inputs, results)
        try:
            (found,) = onnx_host.run_on_cpu(packed(graph, self.opset), [[*given.values()]])
        except Exception as error:  # the host's, of many types
            raise Unfit from error
        before = len(self.values)
        self.add(op, reads, *found, **attributes)
        return [*self.values][before:]

    def constant(self, data: Any, dtype: Any) -> str:
        name = self.const(data, dtype)
        self.values[name] = np.asarray(data, dtype)
        return name

    def stored(self) -> str:
        """Returns stored numbers. Raises Unfit if a random zero point does not fit."""
        found = self.pick(self.kind)
        if not self.values[found].ndim:
            raise Unfit
        return found

    def alike(self, name: str) -> str:
        """Returns a value with the shape and type of this one, a new constant, or a value that was
        just quantized."""
        given = self.values[name]
        found = [
            n for n, v in self.values.items() if v.dtype == given.dtype and v.shape == given.shape
        ]
        how = self.chance.random()
        if how < 0.3:
            return quantized(self, given.shape)
        if how < 0.5:
            limits = np.iinfo(given.dtype)
            data = self.numbers.integers(limits.min, limits.max, given.shape, endpoint=True)
            return self.constant(data, given.dtype)
        return self.chance.choice(found)


def info(name: str, value: Array) -> Any:
    return helper.make_tensor_value_info(name, KINDS[value.dtype.name], value.shape)


def packed(graph: Any, opset: int) -> bytes:
    imports = [helper.make_opsetid("", opset)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def quantized(d: Moves, shape: tuple[int, ...]) -> str:
    """Returns quantized floats that are close to levels and far from the midpoints between them."""
    limits, step = np.iinfo(d.kind), d.chance.choice(STEPS)
    zero = d.chance.choice((0, 10, limits.max // 2 + 1))
    levels = d.numbers.integers(limits.min, limits.max, shape, endpoint=True) - float(zero)
    values = step * (levels + d.numbers.uniform(-0.4, 0.4, shape))
    x = d.constant(values, np.float32)
    if d.chance.random() < 0.8:  # else a constant that is quantized
        x = d.fed("Add", [x, "f"])[0]
    parameters = [d.constant(step, np.float32), d.constant(zero, d.kind)]
    return d.fed("QuantizeLinear", [x, *parameters])[0]


def quantize(d: Moves) -> None:
    quantized(d, d.chance.choice(SHAPES))


def dequantize(d: Moves) -> None:
    zero = d.chance.choice((0, 10, 100))
    step = d.constant(d.chance.choice(STEPS), np.float32)
    d.fed("DequantizeLinear", [d.stored(), step, d.constant(zero, d.kind)])


def cast(d: Moves) -> None:
    wanted = d.chance.choice(("float32", "int32", *STORED))
    d.fed("Cast", [d.stored()], to=KINDS[wanted])


def joined(d: Moves) -> None:
    a = d.stored()
    parts = [a, *(d.alike(a) for _ in range(d.chance.choice((1, 1, 2, 4))))]
    d.chance.shuffle(parts)
    d.fed("Concat", parts, axis=d.chance.randrange(d.values[a].ndim))


def chosen(d: Moves) -> None:
    a = d.stored()
    op = d.chance.choice(("Max", "Min", "Where", "Where"))
    reads = [a, d.alike(a)]
    if op == "Where":
        shape = d.values[a].shape
        reads.insert(0, d.constant(d.numbers.integers(0, 2, shape), np.bool_))
    d.fed(op, reads)


def split(d: Moves) -> None:
    a = d.stored()
    axis = d.chance.randrange(d.values[a].ndim)
    extent = d.values[a].shape[axis]
    first = d.chance.randint(1, max(extent - 1, 1))
    d.fed("Split", [a, d.constant([first, extent - first], np.int64)], 2, axis=axis)


def scattered(d: Moves) -> None:
    """Adds a scatter of the elements of one value into another."""
    a = d.stored()
    x = d.values[a]
    b = d.alike(a)
    if d.chance.random() < 0.5:
        order = np.argsort(d.numbers.random(x.shape), axis=0)
        d.fed("ScatterElements", [a, d.constant(order, np.int64), b], axis=0)
    else:
        d.fed("ScatterND", [a, d.constant(np.arange(x.shape[0])[:, None], np.int64), b])


def taken(d: Moves) -> None:
    a = d.stored()
    x = d.values[a]
    axis = d.chance.randrange(x.ndim)
    op = d.chance.choice(("Gather", "GatherElements", "GatherND"))
    if op == "GatherND":
        places = d.numbers.integers(0, x.shape[0], (3, 1))
        d.fed(op, [a, d.constant(places, np.int64)])
        return
    shape = x.shape if op == "GatherElements" else (d.chance.randint(1, 4),)
    places = d.numbers.integers(0, x.shape[axis], shape)
    d.fed(op, [a, d.constant(places, np.int64)], axis=axis)


def shaped(d: Moves) -> None:
    a = d.stored()
    x = d.values[a]
    op = d.chance.choice(
        ("Transpose", "Reshape", "Unsqueeze", "Flatten", "Expand", "Tile", "Slice", "Identity")
    )
    more: dict[str, Any] = {}
    reads = [a]
    if op == "Transpose":
        more = {"perm": d.chance.sample(range(x.ndim), x.ndim)}
    elif op == "Flatten":
        more = {"axis": d.chance.randrange(x.ndim)}
    elif op == "Slice":
        axis, step = d.chance.randrange(x.ndim), d.chance.choice((1, 2, -1))
        ends = (0, 2**31 - 1) if step > 0 else (-1, -(2**31))
        reads += [d.constant([n], np.int64) for n in (*ends, axis, step)]
    elif op != "Identity":
        sizes = {
            "Reshape": (*x.shape[1:], x.shape[0]), "Unsqueeze": (d.chance.randint(0, x.ndim),),
            "Expand": (2, *x.shape), "Tile": [d.chance.choice((1, 1, 2, 3)) for _ in x.shape],
        }  # fmt: skip
        reads.append(d.constant(sizes[op], np.int64))
    d.fed(op, reads, **more)


def imaged(d: Moves) -> None:
    """Adds operators of images."""
    a = d.stored()
    x = d.values[a]
    if x.ndim != 4:
        raise Unfit
    op = d.chance.choice(("MaxPool", "DepthToSpace", "SpaceToDepth", "Resize", "Pad", "Reverse"))
    if op == "MaxPool":
        d.fed(op, [a], kernel_shape=(2, 2), strides=d.chance.choice(((1, 1), (2, 2))))
    elif op in ("DepthToSpace", "SpaceToDepth"):
        d.fed(op, [a], blocksize=2)
    elif op == "Resize":
        how: dict[str, Any] = {
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        scales = d.constant([1, 1, 2, 2], np.float32)
        d.fed(op, [a, "", scales], mode="nearest", **how)
    elif op == "Pad":
        sides = d.numbers.integers(0, 3, 2 * x.ndim)
        value = d.constant(d.numbers.integers(0, 127), d.kind)
        d.fed(op, [a, d.constant(sides, np.int64), value])
    else:
        lengths = d.numbers.integers(1, x.shape[1], x.shape[0], endpoint=True)
        reads = [a, d.constant(lengths, np.int64)]
        d.fed("ReverseSequence", reads, batch_axis=0, time_axis=1)


DRAWS = (quantize, quantize, dequantize, cast, joined, joined, joined, joined, chosen, chosen,
         split, scattered, taken, shaped, shaped, imaged, imaged)  # fmt: skip


def build(seed: int) -> Made:
    """Returns a graph for this seed; its outputs are the values that nothing else reads."""
    d = Moves(random.Random(seed), np.random.default_rng(seed))
    d.kind = d.chance.choice(STORED)
    d.opset = WIDE if d.kind.endswith("16") else d.chance.choice(OPSETS)
    limits = np.iinfo(d.kind)
    for k in range(2):
        data = d.numbers.integers(limits.min, limits.max, d.chance.choice(SHAPES), endpoint=True)
        d.values[f"x{k}"] = data.astype(d.kind)
    d.values["f"] = np.zeros(1, np.float32)
    inputs, wanted = [*d.values], d.chance.choice((2, 4, 8, 12))
    d.draw(DRAWS, wanted)
    read, outputs = d.read(), d.outputs()
    held = [h for h in d.held if h.name in read]
    fed = [name for name in inputs if name in read]
    graph = helper.make_graph(
        d.nodes, "moved", [info(n, d.values[n]) for n in fed],
        [info(n, d.values[n]) for n in outputs], held,
    )  # fmt: skip
    feeds, expected = ([d.values[name] for name in names] for names in (fed, outputs))
    return Made(packed(graph, d.opset), feeds, expected, ())
