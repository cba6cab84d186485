"""Small ONNX networks with seeded weights, of kinds that `benchmarks.networks` lacks: an encoder
with attention, and a network that keeps state along a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
OPSET = 17
TOKENS, WIDTH, HEADS, CLASSES = 48, 96, 4, 32


@dataclass
class _Builder:
    """Collects nodes and weights in the order in which they are added."""

    random: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)

    def add(self, op: str, *inputs: str | Array, **attributes: Any) -> str:
        """Adds a node over values and constants; returns the name of its first result."""
        from onnx import helper

        names = [name if isinstance(name, str) else self.constant(name) for name in inputs]
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [result], name=f"n_{result}", **attributes))
        return result

    def constant(self, values: Array) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def drawn(self, *shape: int) -> Array:
        """Returns random weights that roughly preserve the standard deviation of values; sums are
        over the second to last axis."""
        fan_in = shape[-2] if len(shape) > 1 else 400
        return np.asarray(self.random.normal(size=shape) / fan_in**0.5, np.float32)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.drawn(inputs, outputs)),
                        self.drawn(outputs))  # fmt: skip

    def normal(self, x: str) -> str:
        scale, shift = 1 + self.drawn(WIDTH), self.drawn(WIDTH)
        return self.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)

    def split(self, x: str) -> str:
        """Adds the split of [1, T, W] into [1, heads, T, W / heads]."""
        sizes = np.array([1, TOKENS, HEADS, WIDTH // HEADS], np.int64)
        return self.add("Transpose", self.add("Reshape", x, sizes), perm=[0, 2, 1, 3])

    def model(self, result: str, shape: tuple[int, ...]) -> bytes:
        from onnx import TensorProto, helper

        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, TOKENS, WIDTH))
        made = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "seeded", [given], [made], self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8)
                     .SerializeToString())  # fmt: skip


def attention() -> bytes:
    """Returns two layers of a transformer's encoder, with normalization first and a gated dense
    part."""
    build, x = _Builder(np.random.default_rng(7)), "x"
    for _ in range(2):
        seen = build.normal(x)
        q, k, v = (build.split(build.dense(seen, WIDTH, WIDTH)) for _ in range(3))
        scores = build.add("MatMul", q, build.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = build.add("Mul", scores, np.float32((WIDTH / HEADS) ** -0.5).reshape(1))
        mixed = build.add("MatMul", build.add("Softmax", scores, axis=-1), v)
        mixed = build.add("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = build.add("Reshape", mixed, np.array([1, TOKENS, WIDTH], np.int64))
        x = build.add("Add", x, build.dense(mixed, WIDTH, WIDTH))
        wide = build.dense(build.normal(x), WIDTH, 2 * WIDTH)
        gated = build.add("Mul", wide, build.add("Sigmoid", wide))
        x = build.add("Add", x, build.dense(gated, 2 * WIDTH, WIDTH))
    x = build.dense(build.normal(x), WIDTH, CLASSES)
    return build.model(x, (1, TOKENS, CLASSES))


def recurrent() -> bytes:
    """Returns an LSTM in both directions and a GRU over its states, then scores for each step."""
    build, half = _Builder(np.random.default_rng(8)), WIDTH // 2
    x = build.add("Transpose", "x", perm=[1, 0, 2])
    for op, gates, ways in (("LSTM", 4, 2), ("GRU", 3, 1)):
        size = half if ways == 2 else WIDTH
        weights = build.drawn(ways, gates * size, WIDTH), build.drawn(ways, gates * size, size)
        more = {"direction": "bidirectional" if ways == 2 else "forward", "hidden_size": size}
        made = build.add(op, x, *weights, build.drawn(ways, 2 * gates * size), **more)
        made = build.add("Transpose", made, perm=[0, 2, 1, 3])
        x = build.add("Reshape", made, np.array([TOKENS, 1, WIDTH], np.int64))
    x = build.dense(build.add("Transpose", x, perm=[1, 0, 2]), WIDTH, CLASSES)
    return build.model(x, (1, TOKENS, CLASSES))


def sequence(seed: int) -> Array:
    """Returns a seeded input of these networks; with an even seed it is not centred."""
    mean = 0.0 if seed % 2 else 0.6
    values = np.random.default_rng(seed).normal(mean, size=(1, TOKENS, WIDTH))
    return values.astype(np.float32)


NETWORKS: Mapping[str, Callable[[], bytes]] = {"attention": attention, "recurrent": recurrent}
