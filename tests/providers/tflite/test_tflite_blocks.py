"""Blocks of networks in the form of today's converter: each is one partition, in both hosts and
beside their default kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance import host as hosts
from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, same
from tflgpu_plugin import report

HOSTS = hosts.installed()
pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", HOSTS)]
WIDTH, HEADS, LENGTH = 16, 2, 6


class Block:
    """A model under construction, whose tensors get their shapes from the host."""

    def __init__(self) -> None:
        self.model = Model()

    def op(self, op: str, *reads: int, table: str = "", version: int = 1, **options: Any) -> int:
        made = self.model.op(op, reads, table or None, options, version=version)
        self.model.outputs = [made]
        self.model.infer_shapes()
        return made

    def const(self, values: Any, dtype: str = "f32") -> int:
        return self.model.constant(values, dtype=dtype)

    def add(self, a: int, b: int) -> int:
        return self.op("ADD", a, b, table="AddOptions")

    def mul(self, a: int, b: int) -> int:
        return self.op("MUL", a, b, table="MulOptions")

    def normalized(self, x: int) -> int:
        """Returns nodes for LayerNormalization as Keras writes it."""
        axes, keep = self.const((-1,), "i32"), {"keepDims": True}
        mean = self.op("MEAN", x, axes, table="ReducerOptions", **keep)
        squares = self.op("SQUARED_DIFFERENCE", x, mean, table="SquaredDifferenceOptions")
        variance = self.op("MEAN", squares, axes, table="ReducerOptions", **keep)
        factor = self.op("RSQRT", self.add(variance, self.const(1e-3)))
        factor = self.mul(factor, self.const(seeded(WIDTH) + 1.5))
        shift = self.op("SUB", self.const(seeded(WIDTH, seed=2)), self.mul(mean, factor),
                        table="SubOptions")  # fmt: skip
        return self.add(self.mul(x, factor), shift)

    def dense(self, x: int, outputs: int) -> int:
        weights = self.const(seeded(outputs, self.model.tensors[x].shape[-1], scale=0.4))
        return self.op("FULLY_CONNECTED", x, weights, self.const(seeded(outputs)), version=5,
                       table="FullyConnectedOptions", keepNumDims=True)  # fmt: skip

    def heads(self, x: int) -> int:
        shape = self.const((1, LENGTH, HEADS, WIDTH // HEADS), "i32")
        split = self.op("RESHAPE", x, shape, table="ReshapeOptions")
        return self.op("TRANSPOSE", split, self.const((0, 2, 1, 3), "i32"))

    def finish(self, y: int) -> bytes:
        self.model.outputs = [y]
        return self.model.to_bytes()


def transformer() -> bytes:
    """Returns a transformer block: attention and two dense layers around GELU, each after a
    normalization and with a residual."""
    b = Block()
    x = b.model.input("x", (1, LENGTH, WIDTH))
    y = b.normalized(x)
    q, k, v = (b.heads(b.dense(y, WIDTH)) for _ in range(3))
    scores = b.op("BATCH_MATMUL", q, k, table="BatchMatMulOptions", adjY=True)
    mixed = b.op("BATCH_MATMUL", b.op("SOFTMAX", b.mul(scores, b.const(0.35)), beta=1.0,
                 table="SoftmaxOptions"), v, table="BatchMatMulOptions")  # fmt: skip
    joined = b.op("TRANSPOSE", mixed, b.const((0, 2, 1, 3), "i32"))
    flat = b.op("RESHAPE", joined, b.const((1, LENGTH, WIDTH), "i32"), table="ReshapeOptions")
    x = b.add(x, b.dense(flat, WIDTH))
    wide = b.op("GELU", b.dense(b.normalized(x), 3 * WIDTH), table="GeluOptions", approximate=True)
    x = b.add(x, b.dense(wide, WIDTH))
    return b.finish(b.op("LOG_SOFTMAX", x, table="LogSoftmaxOptions"))


def convnext() -> bytes:
    """Returns a ConvNeXt block: depthwise convolution, normalization, two dense layers around GELU,
    scale and residual."""
    b = Block()
    x = b.model.input("x", (1, 6, 5, WIDTH))
    options = {"padding": "SAME", "strideH": 1, "strideW": 1, "depthMultiplier": 1}
    y = b.op("DEPTHWISE_CONV_2D", x, b.const(seeded(1, 7, 7, WIDTH, scale=0.2)),
             b.const(seeded(WIDTH)), table="DepthwiseConv2DOptions", **options)  # fmt: skip
    wide = b.op("GELU", b.dense(b.normalized(y), 4 * WIDTH), table="GeluOptions")
    y = b.mul(b.dense(wide, WIDTH), b.const(seeded(WIDTH)))
    return b.finish(b.add(x, y))


def spectrum() -> bytes:
    """Returns the logarithmic spectrum of an audio model, scaled to 0 to 1: squares, sums, a
    selection, its least and largest value, and concatenated parts."""
    b = Block()
    x = b.model.input("x", (1, 20, 9))
    squares = b.op("SUM", b.op("SQUARE", x), b.const((-1,), "i32"), table="ReducerOptions",
                   keepDims=True)  # fmt: skip
    power = b.op("LOG", b.add(squares, b.const(1e-3)))
    for op, reads in (("REDUCE_MIN", "SUB"), ("REDUCE_MAX", "DIV")):
        end = b.op(op, power, b.const((1, 2), "i32"), table="ReducerOptions", keepDims=True)
        power = b.op(reads, power, end, table=f"{reads.title()}Options")
    loud = b.op("GREATER", power, b.const(0.5))
    b.model.tensors[loud].dtype = "bool"
    power = b.op("SELECT_V2", loud, power, b.op("NEG", power), table="SelectV2Options")
    wide = b.op("TILE", b.op("EXPAND_DIMS", power, b.const(3, "i32")), b.const((1, 1, 3, 2), "i32"))
    cut = b.op("SLICE", wide, b.const((0, 2, 0, 0), "i32"), b.const((-1, 15, -1, 1), "i32"))
    return b.finish(b.op("POW", b.op("ABS", cut), b.const(1.5)))


@pytest.mark.parametrize("kernels", ["reference", "default"])
@pytest.mark.parametrize("build", [transformer, convnext, spectrum], ids=lambda b: b.__name__)
def test_a_block_is_one_partition(host: str, build: Callable[[], bytes], kernels: str) -> None:
    model = build()
    told, reference = hosts.oracle(model, host)
    assert told == host
    interpreter, made = gpu(model, host, reference if kernels == "reference" else kernels)
    same(interpreter, model, host, kernels=reference)
    (partition,) = report(made).partitions
    assert partition.runs == 1 and {node.where for node in report(made).nodes} == {"gpu"}
