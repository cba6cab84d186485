"""Extents that are 1 in some runs and larger, or 0, in others: every kind of broadcasting and of
movement agrees with the CPU provider, whatever the order of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, Shape, compare, cpu, model, node, session
from tflgpu_plugin import engine
from tflgpu_plugin.compile import launches
from tflgpu_plugin.compile.template import Template
from tflgpu_plugin.ir import Graph, heuristics
from tflgpu_plugin.ir.extent import Trace

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

CHANCE = np.random.default_rng(11)
# Values of the extents n, m, k and l in runs one after the other.
ORDERS: Mapping[str, Sequence[tuple[int, int, int, int]]] = {
    "from 1": [(1, 1, 1, 1), (1, 3, 1, 3), (4, 3, 4, 3), (2, 3, 1, 3), (1, 3, 2, 3), (3, 1, 3, 1),
               (1, 1, 1, 1), (5, 2, 5, 1)],
    "to 1": [(4, 3, 4, 3), (1, 3, 1, 3), (3, 1, 3, 1), (1, 5, 3, 5), (4, 5, 1, 5), (1, 1, 1, 1),
             (6, 4, 6, 4), (2, 1, 2, 6)],
    "from 0": [(0, 3, 0, 3), (1, 3, 1, 3), (3, 3, 3, 3), (3, 0, 3, 0), (1, 2, 1, 2), (7, 1, 7, 1)],
}  # fmt: skip
Made = tuple[Sequence[Any], Mapping[str, Shape], Mapping[str, Array]]


def some(*shape: int) -> Array:
    return CHANCE.uniform(-1, 1, shape).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def two(op: str, x: Shape, z: Shape, **attributes: Any) -> Made:
    return [node(op, ["x", "z"], ["y"], **attributes)], {"x": x, "z": z}, {}


def one(op: str, x: Shape, *constants: Array, **attributes: Any) -> Made:
    names = [f"c{k}" for k in range(len(constants))]
    made = node(op, ["x", *names], ["y"], **attributes)
    return [made], {"x": x}, dict(zip(names, constants, strict=True))


def where() -> Made:
    nodes = [node("Greater", ["x", "z"], ["c"]), node("Where", ["c", "x", "z"], ["y"])]
    return nodes, {"x": ["n", "m"], "z": ["k", 1]}, {}


def expanded() -> Made:
    nodes = [node("Shape", ["z"], ["s"]), node("Expand", ["x", "s"], ["y"])]
    return nodes, {"x": ["n", 1, 4], "z": ["k", "l", 4]}, {}


def positions() -> Made:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["count"], axis=0),
        node("Range", ["zero", "count", "step"], ["r"]),
        node("Cast", ["r"], ["f"], to=1),
        node("Unsqueeze", ["f", "last"], ["u"]),
        node("Add", ["x", "u"], ["y"]),
    ]
    constants = {"first": np.int64(0), "zero": np.int64(0), "step": np.int64(1), "last": whole(1)}
    return nodes, {"x": ["n", "m"]}, constants


def attended() -> Made:
    """Returns attention of two heads, with a mask of one row per batch."""
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            node("Reshape", [f"{name}0", "heads"], [f"{name}1"]),
            node("Transpose", [f"{name}1"], [f"{name}2"],
                 perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]  # fmt: skip
    nodes += [
        node("MatMul", ["q2", "k2"], ["s0"]),
        node("Unsqueeze", ["z", "middle"], ["mask"]),
        node("Add", ["s0", "mask"], ["s1"]),
        node("Softmax", ["s1"], ["s2"]),
        node("MatMul", ["s2", "v2"], ["a0"]),
        node("Transpose", ["a0"], ["a1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["a1", "joined"], ["y"]),
    ]
    constants = {f"w{name}": some(8, 8) for name in "qkv"}
    constants |= {"heads": whole(0, 0, 2, 4), "joined": whole(0, 0, 8), "middle": whole(1, 2)}
    return nodes, {"x": ["n", "m", 8], "z": ["k", "l"]}, constants


def network() -> Made:
    """Returns convolutions with a residual and squeeze-and-excite, and a dense layer of 5 rows."""
    nodes = [
        node("Conv", ["x", "w1"], ["a0"], pads=[1, 1, 1, 1]),
        node("Relu", ["a0"], ["a"]),
        node("Conv", ["a", "w2"], ["b"], group=8, pads=[1, 1, 1, 1]),
        node("Conv", ["b", "w3"], ["c"]),
        node("Add", ["a", "c"], ["d"]),
        node("GlobalAveragePool", ["d"], ["e"]),
        node("Conv", ["e", "w3"], ["f"]),
        node("Sigmoid", ["f"], ["g"]),
        node("Mul", ["d", "g"], ["h"]),
        node("MaxPool", ["h"], ["i"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        node("GlobalAveragePool", ["i"], ["j"]),
        node("Flatten", ["j"], ["l0"]),
        node("Gemm", ["l0", "w4"], ["l1"], transB=1),
        node("Softmax", ["l1"], ["y"]),
    ]
    constants = {"w1": some(8, 3, 3, 3), "w2": some(8, 1, 3, 3), "w3": some(8, 8, 1, 1),
                 "w4": some(5, 8)}  # fmt: skip
    return nodes, {"x": ["n", 3, "m", "l"]}, constants


def heads() -> Made:
    """Returns two convolutions of one tensor whose results are joined as rows, as in detectors."""
    nodes = [node("Relu", ["x"], ["a"])]
    for name in "bc":
        nodes += [
            node("Conv", ["a", f"w{name}"], [f"{name}0"]),
            node("Transpose", [f"{name}0"], [f"{name}1"], perm=[0, 2, 3, 1]),
            node("Reshape", [f"{name}1", "rows"], [f"{name}2"]),
        ]
    nodes.append(node("Concat", ["b2", "c2"], ["y"], axis=1))
    constants = {"wb": some(8, 4, 1, 1), "wc": some(4, 4, 1, 1), "rows": whole(0, -1, 4)}
    return nodes, {"x": ["n", 4, "m", "l"]}, constants


NORMAL = tuple(np.abs(some(4)) + 0.5 for _ in range(4))
CASES: Mapping[str, Made] = {
    "add": two("Add", ["n", "m", 4], ["k", "l", 4]),
    "add of one name": two("Mul", ["n", "m"], ["n", "m"]),
    "add of a column": two("Sub", ["n", "m"], ["n", 1]),
    "add of a row": two("Add", ["n", "m", 6], ["m", 6]),
    "add of other ranks": two("Max", ["n", "m"], ["k", "l", "m", 3]),
    "add of a constant": one("Add", ["n", "m", 4], some(3, 1, 4)),
    "where": where(),
    "expand": expanded(),
    "range": positions(),
    "matmul": two("MatMul", ["n", "m", 4], ["k", 4, 5]),
    "matmul of heads": two("MatMul", ["n", 2, "m", 4], ["k", 2, 4, "l"]),
    "matmul of a matrix": one("MatMul", ["n", "m", 8], some(8, 5)),
    "gemm": one("Gemm", ["n", 8], some(8, 6), some(6)),
    "gemm and rows": one("Gemm", ["n", 8], some(8, 6), some(1, 6)),
    "concat of batches": two("Concat", ["n", "m"], ["k", "m"], axis=0),
    "concat of columns": two("Concat", ["n", "m", 3], ["n", "l", 3], axis=1),
    "concat of channels": two("Concat", ["n", "m"], ["n", "l"], axis=-1),
    "reshape": one("Reshape", ["n", "m", 6], whole(0, -1, 3)),
    "reshape to rows": one("Reshape", ["n", "m", 6], whole(-1, 6)),
    "reshape to more axes": one("Reshape", ["n", "m", 6], whole(0, 0, 2, 3)),
    "reshape to one row": one("Reshape", ["n", "m", 6], whole(1, -1, 6)),
    "flatten": one("Flatten", ["n", "m", 5], axis=2),
    "squeeze": one("Squeeze", ["n", 1, "m", 1], whole(1, 3)),
    "unsqueeze": one("Unsqueeze", ["n", "m"], whole(0, 2)),
    "gather of batches": one("Gather", ["n", "m"], whole(0, -1, 0), axis=0),
    "gather of columns": one("Gather", ["n", "m", 3], whole(-1), axis=1),
    "softmax": one("Softmax", ["n", "m"], axis=-1),
    "softmax of the middle": one("Softmax", ["n", "m", 5], axis=1),
    "softmax over batches": one("Softmax", ["n", 6], axis=0),
    "batch normalization": one("BatchNormalization", ["n", 4, "m", "l"], *NORMAL),
    "instance normalization": one("InstanceNormalization", ["n", 4, "m", 3], *NORMAL[:2]),
    "layer normalization": one("LayerNormalization", ["n", "m", 4], *NORMAL[:2]),
    "attention": attended(),
    "network": network(),
    "heads of a detector": heads(),
    "mean over batches": one("ReduceMean", ["n", "m", 4], axes=[0], keepdims=0),
    "mean of rows": one("ReduceMean", ["n", "m", 4], axes=[0, 2]),
    "maximum": one("ReduceMax", ["n", "m", 4], axes=[1], keepdims=0),
    "transpose": one("Transpose", ["n", "m", 5], perm=[1, 0, 2]),
    "transpose to channels": one("Transpose", ["n", 4, "m", "l"], perm=[3, 1, 2, 0]),
    "slice": one("Slice", ["n", "m"], whole(-1), whole(9), whole(0)),
    "slice backward": one("Slice", ["n", "m"], whole(-1), whole(-99), whole(0), whole(-1)),
    "pad": one("Pad", ["n", "m"], whole(1, 0, 0, 2)),
    "tile": one("Tile", ["n", "m"], whole(2, 3)),
    "cumulative sum": one("CumSum", ["n", "m"], np.array(0)),
    "largest of batches": one("ArgMax", ["n", "m"], axis=0),
    "largest of rows": one("ArgMax", ["n", "m", 3], axis=1, keepdims=0),
    "convolution": one("Conv", ["n", 3, "m", "l"], some(6, 3, 3, 3), pads=[1, 1, 1, 1]),
    "transposed convolution": one("ConvTranspose", ["n", 4, "m", "l"], some(4, 6, 2, 2)),
    "depth to space": one("DepthToSpace", ["n", 8, "m", "l"], blocksize=2),
    "resize": one("Resize", ["n", 3, "m", "l"], np.zeros(0, np.float32),
                  np.array([1, 1, 2, 2], np.float32), mode="linear"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_node_may_have_other_launches_for_one(case: str, monkeypatch: Any) -> None:
    """Nodes are lowered twice even where one of the results would do for both."""
    made: list[int] = []
    usual = engine.Partition.template

    def counted(self: engine.Partition, graph: Graph, trace: Trace) -> Template:
        found = usual(self, graph, trace)
        made.append(sum(each.optional for each in found.plan.dispatches))
        return found

    monkeypatch.setattr(engine.Partition, "template", counted)
    monkeypatch.setattr(launches, "are_same", lambda *_: False)
    monkeypatch.setattr(
        heuristics, "ComparedWithOne", partial(heuristics.ComparedWithOne, differs=True)
    )
    check(case, "from 1")
    print(f"{case}: {made}")
    if case in ("network", "convolution", "matmul of a matrix"):
        assert any(made)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES)
def test_extents_of_one_and_others(case: str, order: str) -> None:
    check(case, order)


def check(case: str, order: str) -> None:
    """A session agrees with the CPU provider in all runs of an order, also on what is refused."""
    nodes, inputs, constants = CASES[case]
    kind = np.int64 if nodes[-1].op_type == "ArgMax" else np.float32
    data = model(nodes, inputs, {"y": None}, constants, kinds={"y": kind})
    ours, theirs = session(data), cpu(data)
    for numbers in ORDERS[order]:
        extents: Mapping[object, int] = dict(zip("nmkl", numbers, strict=True))
        feeds = {name: some(*(n if isinstance(n, int) else extents[n] for n in shape))
                 for name, shape in inputs.items()}  # fmt: skip
        try:
            theirs.run(None, feeds)
        except Exception:  # these shapes do not fit together
            with pytest.raises(Exception, match=r"."):
                ours.run(None, feeds)
            continue
        compare(ours, theirs, feeds)
