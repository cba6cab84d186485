"""Single ONNX operators with random attributes and shapes: windows outside of the image, strides
larger than the kernel, every coordinate rule, ranks 0 to 6. `FOUND` lists cases that were wrong
once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conformance.host import Array

OPSET = 19
Held = tuple[Array | None, ...]


@dataclass(frozen=True)
class Single:
    """One node: the shape of its first input, constants for others (None: absent), attributes."""

    op: str
    shape: tuple[int, ...]
    held: Held = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = OPSET

    def to_bytes(self) -> bytes:
        """Returns the model."""
        held = {f"c{k}": a for k, a in enumerate(self.held) if a is not None}
        reads = [f"c{k}" if a is not None else "" for k, a in enumerate(self.held)]
        node = helper.make_node(self.op, ["x", *reads], ["y"], **self.attributes)
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()]
        graph = helper.make_graph([node], "single", [given], [made], constants)
        opset = [helper.make_opsetid("", self.opset)]
        return bytes(
            helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
        )

    def __str__(self) -> str:
        held = [
            None if a is None else a.tolist() if a.size < 9 else list(a.shape) for a in self.held
        ]
        return f"{self.op} of {list(self.shape)} with {held} and {self.attributes}"


class Chance:
    """A seeded source of random numbers."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.of, self.up_to = self.random.choice, self.random.randint

    def extents(self, rank: int, most: int) -> list[int]:
        return [self.up_to(1, most) for _ in range(rank)]

    def floats(self, *shape: int) -> Array:
        return self.numbers.uniform(-1, 1, shape).astype(np.float32)

    def maybe(self) -> bool:
        return self.random.random() < 0.5


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


def _padded(c: Chance, rank: int, most: int) -> dict[str, Any]:
    if c.random.random() < 0.7:
        return {"pads": [c.up_to(0, most) for _ in range(2 * rank)]}
    return {"auto_pad": c.of(("SAME_UPPER", "SAME_LOWER", "VALID"))}


def conv(c: Chance) -> Single:
    rank, groups = c.of((1, 2, 2, 3)), c.of((1, 1, 1, 2, 4))
    inputs, outputs = groups * c.of((1, 2, 3, 4, 8)), groups * c.of((1, 2, 3, 8))
    weights = c.floats(outputs, inputs // groups, *c.extents(rank, 4))
    steps = {"strides": c.extents(rank, 4), "dilations": [c.of((1, 1, 2, 3)) for _ in range(rank)]}
    shape = (c.of((1, 2)), inputs, *c.extents(rank, 8))
    how = {"group": groups, **steps, **_padded(c, rank, 3)}
    return Single("Conv", shape, (weights, c.floats(outputs)), how)


def transposed_conv(c: Chance) -> Single:
    rank, groups = c.of((1, 2)), c.of((1, 1, 2, 3))
    inputs, outputs = groups * c.of((1, 2, 4)), c.of((1, 2, 3, 5))
    held = (c.floats(inputs, outputs, *c.extents(rank, 4)), c.floats(outputs * groups))
    strides = c.extents(rank, 4)
    how: dict[str, Any] = {"group": groups, "strides": strides, **_padded(c, rank, 2)}
    how["dilations"] = [c.of((1, 1, 2)) for _ in range(rank)]
    if c.maybe():
        how["output_padding"] = [c.random.randrange(s) for s in strides]
    shape = (c.of((1, 2)), inputs, *c.extents(rank, 5))
    return Single("ConvTranspose", shape, held[: c.of((1, 2))], how)


def pool(c: Chance) -> Single:
    rank, op = c.of((1, 2, 2, 3)), c.of(("MaxPool", "AveragePool", "LpPool"))
    how: dict[str, Any] = {"kernel_shape": c.extents(rank, 4), "strides": c.extents(rank, 4)}
    how |= {"ceil_mode": c.of((0, 1)), **_padded(c, rank, 2)}
    how |= {"dilations": [c.of((1, 2)) for _ in range(rank)]} if c.maybe() else {}
    how |= {"count_include_pad": c.of((0, 1))} if op == "AveragePool" else {}
    return Single(op, (c.of((1, 2)), c.of((1, 3, 4, 5)), *c.extents(rank, 7)), (), how)


RULES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def resize(c: Chance) -> Single:
    rank, mode = c.of((1, 2, 2, 3)), c.of(("nearest", "linear", "cubic"))
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": c.of(RULES)}
    how |= {"nearest_mode": c.of(NEAREST)} if mode == "nearest" else {}
    how |= {"exclude_outside": c.of((0, 1))} if mode == "cubic" else {}
    shape = (c.of((1, 2)), c.of((1, 3, 4)), *c.extents(rank, 9))
    if c.maybe():
        return Single("Resize", shape, (None, None, _ints(*shape[:2], *c.extents(rank, 12))), how)
    scales = [1, 1, *(c.of((0.3, 0.5, 0.7, 1, 1.5, 2, 2.3, 3)) for _ in range(rank))]
    return Single("Resize", shape, (None, np.array(scales, np.float32)), how)


def slices(c: Chance) -> Single:
    rank = c.up_to(1, 5)
    axes = c.random.sample(range(rank), c.up_to(1, rank))
    bounds = [_ints(*(c.up_to(-9, 9) for _ in axes)) for _ in range(2)]
    steps = _ints(*(c.of((1, 1, 2, 3, -1, -2, -3)) for _ in axes))
    return Single("Slice", tuple(c.extents(rank, 7)), (*bounds, _ints(*axes), steps))


def pad(c: Chance) -> Single:
    rank, mode = c.up_to(1, 5), c.of(("constant", "reflect", "edge", "wrap"))
    least = -2 if c.random.random() < 0.2 else 0
    amounts = _ints(*(c.up_to(least, 3) for _ in range(2 * rank)))
    value = (np.float32(0.25).reshape(()),) if mode == "constant" else ()
    return Single("Pad", tuple(c.extents(rank, 6)), (amounts, *value), {"mode": mode})


def reduce(c: Chance) -> Single:
    rank = c.up_to(1, 5)
    axes = _ints(*c.random.sample(range(-rank, 0), c.up_to(1, rank)))
    op = c.of(("Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"))
    return Single(f"Reduce{op}", tuple(c.extents(rank, 6)), (axes,), {"keepdims": c.of((0, 1))}, 18)


def gemm(c: Chance) -> Single:
    rows, inner, columns = c.extents(3, 9)
    turned = {"transA": c.of((0, 1)), "transB": c.of((0, 1))}
    factors = {"alpha": c.of((1.0, 0.5)), "beta": c.of((1.0, 2.0, 0.0))}
    bias = c.of(((columns,), (1, columns), (rows, columns), (rows, 1), (1,), (), (1, 1)))
    weights = (columns, inner) if turned["transB"] else (inner, columns)
    shape = (inner, rows) if turned["transA"] else (rows, inner)
    return Single("Gemm", shape, (c.floats(*weights), c.floats(*bias)), {**turned, **factors})


def matmul(c: Chance) -> Single:
    k = c.up_to(1, 9)
    right = c.of(((k,), (k, 5), (2, k, 3), (3, 1, k, 2), (1, k, 4), (2, 1, k, 1)))
    left = c.of(((), (4,), (2, 4), (3, 2, 4), (3, 1, 1), (2, 3, 1, 5)))
    return Single("MatMul", (*left, k), (c.floats(*right),))


def normalization(c: Chance) -> Single:
    rank = c.up_to(3, 5)
    shape = tuple(c.extents(rank, 6))
    axis = c.random.randrange(-rank, rank)
    op = c.of(("LayerNormalization", "InstanceNormalization", "Softmax", "LogSoftmax"))
    if op == "LayerNormalization":
        size = shape[axis:]
        held: Held = (c.floats(*size), c.floats(*size))
        return Single(op, shape, held, {"axis": axis, "epsilon": 0.1})
    if op == "InstanceNormalization":
        return Single(op, shape, (c.floats(shape[1]), c.floats(shape[1])), {"epsilon": 0.1})
    return Single(op, shape, (), {"axis": axis}, c.of((11, 13, 18)))


def gather(c: Chance) -> Single:
    rank = c.up_to(1, 4)
    shape, axis = tuple(c.extents(rank, 6)), c.random.randrange(-rank, rank)
    count = c.of(((), (1,), (3,), (2, 2)))
    places = c.numbers.integers(-shape[axis], shape[axis], count)
    return Single("Gather", shape, (np.asarray(places),), {"axis": axis})


def binary(c: Chance) -> Single:
    shape = c.extents(c.up_to(0, 6), 4)
    other = [n if c.maybe() else 1 for n in shape][c.up_to(0, len(shape)) :]
    if c.maybe():
        shape = [n if c.maybe() else 1 for n in shape]
    op = c.of(("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Mean"))
    return Single(op, tuple(shape), (np.abs(c.floats(*other)) + np.float32(0.5),))


def repetition(c: Chance) -> Single:
    shape = c.extents(c.up_to(1, 5), 4)
    if c.maybe():
        return Single("Tile", tuple(shape), (_ints(*(c.of((1, 1, 2, 3)) for _ in shape)),))
    wider = [n if n > 1 else c.of((1, 3)) for n in shape]
    return Single("Expand", tuple(shape), (_ints(*c.of(((), (2,), (2, 1))), *wider),))


def blocks(c: Chance) -> Single:
    batch, channels, size = c.of((1, 2)), c.of((1, 2, 3)), c.of((2, 3))
    if c.maybe():
        shape = (batch, channels * size * size, *c.extents(2, 4))
        return Single("DepthToSpace", shape, (), {"blocksize": size, "mode": c.of(("DCR", "CRD"))})
    spatial = [size * n for n in c.extents(2, 3)]
    return Single("SpaceToDepth", (batch, channels, *spatial), (), {"blocksize": size})


def transpose(c: Chance) -> Single:
    rank = c.up_to(1, 6)
    order = c.random.sample(range(rank), rank)
    return Single("Transpose", tuple(c.extents(rank, 4)), (), {"perm": order})


GROUPS: tuple[Callable[[Chance], Single], ...] = (
    conv, transposed_conv, pool, resize, slices, pad, reduce, gemm, matmul, normalization, gather,
    binary, repetition, blocks, transpose,
)  # fmt: skip

_ONES = np.linspace(-1, 1, 30, dtype=np.float32)
_SYMMETRIC = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel_symmetric",
              "nearest_mode": "floor"}  # fmt: skip
FOUND = (
    # The only place of the window lies in the padding: the image was multiplied all the same.
    Single("Conv", (2, 6, 1, 1), (_ONES.reshape(5, 6, 1, 1), _ONES[:5]),
           {"pads": [1, 0, 0, 0], "strides": [3, 3]}),
    # onnxruntime works out this rule in float64, and 0.9999999 is floored.
    Single("Resize", (1, 1, 9), (None, None, _ints(1, 1, 3)), _SYMMETRIC),
    # A negative auto_pad moves the window in onnxruntime.
    Single("Conv", (2, 4, 8), (_ONES[:12].reshape(6, 2, 1), _ONES[:6]),
           {"group": 2, "strides": [4], "auto_pad": "SAME_UPPER"}),
)  # fmt: skip
