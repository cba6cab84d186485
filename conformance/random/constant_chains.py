"""Random models whose weights are computed from constants by several nodes, and a division of these
nodes between the plugin and the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.host import Array, Feed
from conformance.models import sparse
from conformance.models.tflite import Model
from tflgpu_plugin.ir import Quantization

CONV = {"padding": "SAME", "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
QUANTIZATION = Quantization((0.0137,), (3,))  # no tie of what is fed falls between two of its steps
MAX_STEPS = 5
ADD = ("AddOptions", {"fusedActivationFunction": "NONE"})
MUL = ("MulOptions", {"fusedActivationFunction": "NONE"})


@dataclass
class Chain:
    """A tensor of the model that follows from constants."""

    tensor: int
    shape: tuple[int, ...]
    dtype: str


@dataclass
class Builder:
    """Adds seeded nodes to a model."""

    random: np.random.Generator
    model: Model = field(default_factory=Model)

    def choose(self, *of: Any) -> Any:
        return of[int(self.random.integers(len(of)))]

    def small(self, *values: int) -> int:
        return self.model.constant(np.array(values, np.int32))

    def op(
        self, chain: Chain, op: str, shape: tuple[int, ...], *more: int,
        options: tuple[str | None, dict[str, Any]] = (None, {}), dtype: str | None = None,
        version: int = 1,
    ) -> Chain:  # fmt: skip
        """Adds a node that reads the chain and these tensors."""
        kind = dtype or chain.dtype
        made = self.model.op(
            op, [chain.tensor, *more], *options, shape=shape, dtype=kind, version=version
        )
        if kind == "i8":
            self.model.tensors[made].quantization = QUANTIZATION
        return Chain(made, shape, kind)

    # ---- where chains begin ----------------------------------------------------------------------

    def begin(self, shape: tuple[int, ...]) -> Chain:
        """Adds a constant of some type, dense or not."""
        kind = self.choose("f32", "f16", "f16", "i8", "i32")
        values = self.random.uniform(-1, 1, shape)
        if kind in ("i8", "i32"):
            data: Array = np.round(values * 100).astype("int8" if kind == "i8" else "int32")
        else:
            data = values.astype("float16" if kind == "f16" else "float32")
        if kind == "i32" or self.random.random() < 0.5:
            made = self.model.constant(data)
            if kind == "i8":
                self.model.tensors[made].quantization = QUANTIZATION
            return Chain(made, shape, kind)
        data = (data * (self.random.random(shape) < 0.4)).astype(data.dtype)
        order = [int(k) for k in self.random.permutation(len(shape))]
        csr = [k for k in range(len(shape)) if self.random.random() < 0.5]
        blocks = {len(shape) - 1: 2} if shape[-1] % 2 == 0 and self.random.random() < 0.3 else {}
        made = self.model.sparse(data, sparse.encode(data, order, blocks, csr))
        if kind == "i8":
            self.model.tensors[made].quantization = QUANTIZATION
        options = ("DensifyOptions", dict[str, Any]())
        return self.op(Chain(made, shape, kind), "DENSIFY", shape, options=options)

    # ---- steps that keep the shape ---------------------------------------------------------------

    def real(self, chain: Chain) -> Chain:
        """Returns the values as float32."""
        if chain.dtype == "f32":
            return chain
        if chain.dtype == "i32":
            options = ("CastOptions", {"inDataType": "INT32", "outDataType": "FLOAT32"})
            made = self.op(chain, "CAST", chain.shape, options=options, dtype="f32")
            scale = self.model.constant(np.float32(0.01))
            return self.op(made, "MUL", chain.shape, scale, options=MUL)
        version = 3 if chain.dtype == "f16" else 2
        return self.op(chain, "DEQUANTIZE", chain.shape, dtype="f32", version=version)

    def quantized(self, chain: Chain) -> Chain:
        made = self.op(self.real(chain), "QUANTIZE", chain.shape, dtype="i8")
        return self.real(made)

    def turned(self, chain: Chain) -> Chain:
        """Adds a transpose, and its inverse in another form."""
        if chain.dtype == "f16":
            chain = self.real(chain)
        order = [int(k) for k in self.random.permutation(len(chain.shape))]
        shape = tuple(chain.shape[k] for k in order)
        made = self.op(chain, "TRANSPOSE", shape, self.small(*order), version=2)
        back = np.argsort(order)
        return self.op(made, "TRANSPOSE", chain.shape, self.small(*back), version=2)

    def folded(self, chain: Chain) -> Chain:
        if chain.dtype == "f16":
            chain = self.real(chain)
        flat = (int(np.prod(chain.shape)),)
        made = self.op(chain, "RESHAPE", flat, self.small(*flat))
        return self.op(made, "RESHAPE", chain.shape, self.small(*chain.shape))

    def packed(self, chain: Chain) -> Chain:
        """Adds two chains joined, one of them twice."""
        first, second = self.real(chain), self.real(self.begin(chain.shape))
        both = (2, *chain.shape)
        pack = ("PackOptions", {"valuesCount": 2, "axis": 0})
        made = self.op(first, "PACK", both, second.tensor, options=pack)
        at = int(self.random.integers(2))
        begin = self.small(at, *[0] * len(chain.shape))
        size = self.small(1, *chain.shape)
        part = self.op(made, "SLICE", (1, *chain.shape), begin, size)
        squeeze = ("SqueezeOptions", {"squeezeDims": [0]})
        return self.op(part, "SQUEEZE", chain.shape, options=squeeze)

    def summed(self, chain: Chain) -> Chain:
        other = self.real(self.begin(chain.shape))
        return self.op(self.real(chain), "ADD", chain.shape, other.tensor, options=ADD)

    def computed(self, chain: Chain) -> Chain:
        """Adds the result of a node that may or may not be folded."""
        return self.op(self.real(chain), self.choose("EXP", "ABS", "NEG", "TANH"), chain.shape)

    def chain(self, shape: tuple[int, ...]) -> int:
        """Adds weights of this shape, in float32."""
        made = self.begin(shape)
        steps: list[Callable[[Chain], Chain]] = [
            self.real, self.quantized, self.turned, self.folded, self.packed, self.summed,
            self.computed,
        ]  # fmt: skip
        for _ in range(int(self.random.integers(MAX_STEPS))):
            made = self.choose(*steps)(made)
        return self.real(made).tensor

    # ---- who reads them --------------------------------------------------------------------------

    def layer(self, x: int, shape: tuple[int, ...]) -> int:
        """Adds a node of weights and of values that are given at run time."""
        channels = shape[-1]
        kind = self.choose("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "MUL", "PRELU", "MAXIMUM")
        if kind == "CONV_2D":
            kernel = int(self.choose(1, 3))
            reads = [x, self.chain((channels, kernel, kernel, channels)), self.chain((channels,))]
            return self.model.op(kind, reads, "Conv2DOptions", CONV, shape=shape)
        if kind == "DEPTHWISE_CONV_2D":
            options = {**CONV, "depthMultiplier": 1}
            reads = [x, self.chain((1, 3, 3, channels)), self.chain((channels,))]
            return self.model.op(kind, reads, "DepthwiseConv2DOptions", options, shape=shape)
        if kind == "PRELU":
            return self.model.op(kind, [x, self.chain((1, 1, channels))], shape=shape)
        name, given = {"ADD": ADD, "MUL": MUL}.get(kind, (None, {}))
        spread = self.choose((channels,), (1, 1, 1, channels), shape)
        return self.model.op(kind, [x, self.chain(spread)], name, given, shape=shape)


def build(seed: int) -> tuple[Model, list[Feed], list[int]]:
    """Returns a model, inputs for two runs, and the nodes that are left to the host."""
    b = Builder(np.random.default_rng(seed))
    shape = (1, int(b.random.integers(2, 6)), 4, int(b.choose(4, 6, 8)))
    x = y = b.model.input("x", shape)
    for _ in range(int(b.random.integers(1, 4))):
        y = b.layer(y, shape)
    if b.random.random() < 0.5:  # read by two
        shared = b.chain(shape)
        y = b.model.op("ADD", [y, shared], *ADD, shape=shape)
        b.model.output(b.model.op("MUL", [x, shared], *MUL, shape=shape))
    y = b.model.op("FULLY_CONNECTED", [y, b.chain((5, shape[-1])), None],
                   "FullyConnectedOptions", {"keepNumDims": True}, shape=(*shape[:3], 5),
                   version=5)  # fmt: skip
    b.model.output(y)
    count = len(b.model.operators)
    share = float(b.choose(0.0, 0.1, 0.3, 0.6))
    left = [k for k in range(count) if b.random.random() < share]
    feeds: list[Feed] = [[b.random.uniform(-1, 1, shape).astype("float32")] for _ in range(2)]
    return b.model, feeds, left
