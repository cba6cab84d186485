"""Blocks of current networks as the compiler's graphs: a layer of BERT-base and of ViT-B/16, a
token after 511 of a layer of Llama 3 8B, and of Llama 3.2 1B with weights of 4 bits, a level of a
detector, an LSTM. All rows of weights are the same row, which keeps magnitudes and takes no
memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Shape, Tensor


class _Block:
    """A graph that is built from one input."""

    def __init__(self, shape: Shape) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs = [self._tensor(shape)]

    def _tensor(self, shape: Shape, data: Any = None, kind: str = "f32") -> int:
        number = len(self.tensors)
        self.tensors[number] = Tensor(f"t{number}", shape, kind, data)
        return number

    def given(self, *shape: int) -> int:
        """Adds an input to the block."""
        self.inputs.append(self._tensor(shape))
        return self.inputs[-1]

    def weights(self, *shape: int) -> int:
        row = np.random.default_rng(0).standard_normal(shape[-1], np.float32)
        return self.constant(row / np.float32(shape[-1] ** 0.5), *shape)

    def constant(self, value: Any, *shape: int) -> int:
        return self._tensor(shape, np.broadcast_to(np.float32(value), shape))

    def node(self, op: str, shapes: list[Shape], *inputs: int | None, **attributes: Any) -> int:
        """Adds a node and returns its first result."""
        outputs = tuple(self._tensor(shape) for shape in shapes)
        number = len(self.nodes)
        self.nodes.append(Node(number, op, inputs, outputs, attributes, f"n{number}", op))
        return outputs[0]

    def same(self, op: str, x: int, *inputs: int | None, **attributes: Any) -> int:
        """Adds a node whose result has the shape of its first input."""
        return self.node(op, [self.tensors[x].shape], x, *inputs, **attributes)

    def dense(self, x: int, outputs: int, bias: bool = True) -> int:
        *rows, inputs = self.tensors[x].shape
        given = x, self.weights(outputs, inputs), self.constant(0.0, outputs) if bias else None
        shape = (*rows, outputs)
        plain = {"keep_num_dims": True, "activation": "none"}
        return self.node("fully_connected", [shape], *given, **plain)

    def in_blocks(self, x: int, outputs: int, bits: int = 4, block: int = 32) -> int:
        """Adds a dense layer whose weights are stored in blocks of this many bits."""
        *rows, inputs = self.tensors[x].shape
        words = (outputs, inputs // block, block * bits // 32)
        row = np.random.default_rng(0).integers(-(2**31), 2**31, words[1:], np.int32)
        weights = self._tensor(words, np.broadcast_to(row, words), "i32")
        scales = self.constant(0.01, *words[:2])
        shape = (*rows, outputs)
        return self.node("matmul_blocks", [shape], x, weights, scales, bits=bits, block=block)

    def conv(self, x: int, outputs: int, kernel: int = 1, then: str = "") -> int:
        batch, high, wide, inputs = self.tensors[x].shape
        weights = self.weights(outputs, kernel, kernel, inputs)
        given = x, weights, self.constant(0.0, outputs)
        plain = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", "activation": "none"}
        y = self.node("conv_2d", [(batch, high, wide, outputs)], *given, **plain)
        return self.same(then, y) if then else y

    def add(self, x: int, y: int) -> int:
        return self.same("add", x, y, activation="none")

    def graph(self, *outputs: int) -> Graph:
        return Graph(self.tensors, tuple(self.nodes), tuple(self.inputs), outputs)


def encoder_layer(tokens: int, width: int, heads: int, first: bool) -> Graph:
    """Returns a layer of a transformer's encoder, with GELU; normalized `first`, or after each
    sum."""
    b = _Block((1, tokens, width))
    (x,) = b.inputs

    def norm(value: int) -> int:
        scale, shift = b.constant(1.0, width), b.constant(0.0, width)
        return b.same("layer_normalization", value, scale, shift, axis=-1, epsilon=1e-5)

    y = norm(x) if first else x
    parts = [b.dense(y, width) for _ in range(3)]
    y = b.same("attention", parts[0], *parts[1:], scale=(width / heads) ** -0.5, heads=heads)
    x = b.add(b.dense(y, width), x)
    y = x = x if first else norm(x)
    y = b.same("gelu", b.dense(norm(y) if first else y, 4 * width), approximate=False)
    x = b.add(b.dense(y, width), x)
    return b.graph(x if first else norm(x))


def decoded_token(
    width: int, heads: int, kv_heads: int, inner: int, keys: int, in_blocks: bool = False
) -> Graph:
    """Returns one token of a Llama layer: RMS norm, rotary positions, grouped queries over `keys`
    of a cache, gated units; without the update of the cache. `in_blocks`: weights of 4 bits."""
    b = _Block((1, 1, width))
    (x,) = b.inputs
    depth = width // heads
    cos, sin = b.given(1, 1, 1, depth), b.given(1, 1, 1, depth)
    k, v = b.given(1, kv_heads, keys, depth), b.given(1, kv_heads, keys, depth)

    def dense(value: int, outputs: int) -> int:
        return b.in_blocks(value, outputs) if in_blocks else b.dense(value, outputs, False)

    def norm(value: int) -> int:
        made = b.same("standardize", value, epsilon=1e-5, centred=False)
        return b.same("mul", made, b.weights(width), activation="none")

    y = norm(x)
    q = b.same("rotary", dense(y, width), cos, sin, heads=heads)
    new = b.same("rotary", dense(y, kv_heads * depth), cos, sin, heads=kv_heads)
    made = dense(y, kv_heads * depth)
    grouped = {"heads": heads, "kv_heads": kv_heads, "scale": depth**-0.5}
    y = b.same("attention", q, k, v, **grouped)
    x = b.add(dense(y, width), x)
    y = norm(x)
    gate = dense(y, inner)
    gate = b.same("mul", gate, b.same("logistic", gate), activation="none")
    y = b.same("mul", gate, dense(y, inner), activation="none")
    return b.graph(b.add(dense(y, width), x), new, made)


def attention(
    tokens: int, depth: int, past: int = 0, sharing: int = 1, masked: bool = False
) -> Graph:
    """Returns attention of 8 heads of this depth, `sharing` of which have the same keys, over
    `past` keys of a cache and those of the tokens."""
    heads, keys = 8, past + tokens
    b = _Block((1, heads, tokens, depth))
    k, v = (b.given(1, heads // sharing, keys, depth) for _ in range(2))
    mask = [b.given(1, 1, tokens, keys)] if masked else []
    causal = {"causal": True, "past": past} if past else {}
    given = {"heads": heads, "kv_heads": heads // sharing, "scale": depth**-0.5}
    return b.graph(b.same("attention", b.inputs[0], k, v, *mask, **given, **causal))


def attentions() -> Iterator[Graph]:
    """Yields attention of the sizes that models have: with and without masks, shared keys and
    caches."""
    for tokens, depth in product((128, 512, 2048), (32, 64, 80, 128, 256)):
        yield attention(tokens, depth)
        yield attention(tokens, depth, masked=True)
        yield attention(tokens, depth, sharing=4)
        yield attention(tokens, depth, past=tokens)
        yield attention(1, depth, past=tokens, sharing=4)


def lstm_layer(steps: int, inputs: int, units: int) -> Graph:
    """Returns one direction of an LSTM layer."""
    b = _Block((steps, 1, inputs))
    z = b.dense(b.inputs[0], 4 * units)
    states = b.given(1, units), b.given(1, units)
    shapes: list[Shape] = [(steps, 1, units), (1, units), (1, units)]
    y = b.node("lstm", shapes, z, b.weights(4 * units, units), *states, gates="ifco")
    return b.graph(y)


def detector_level(side: int, width: int) -> Graph:
    """Returns a level of a detector: a block of two branches, as in YOLO, and three predictions."""
    b = _Block((1, side, side, width))
    main, beside = (b.conv(b.inputs[0], width // 4, then="swish") for _ in range(2))
    main = b.conv(b.conv(main, width // 4, then="swish"), width // 4, 3, "swish")
    joined = b.node("concat", [(1, side, side, width // 2)], main, beside, axis=3)
    y = b.conv(joined, width // 2, then="swish")
    return b.graph(*(b.conv(y, outputs) for outputs in (6, 12, 30)))


BLOCKS: dict[str, Callable[[], Graph]] = {
    "bert_base_layer_128": lambda: encoder_layer(128, 768, 12, False),
    "vit_b16_layer_197": lambda: encoder_layer(197, 768, 12, True),
    "llama_8b_token_512": lambda: decoded_token(4096, 32, 8, 14_336, 512),
    "llama_1b_token_512_4_bits": lambda: decoded_token(2048, 32, 8, 8192, 512, True),
    "detector_level_26": lambda: detector_level(26, 256),
    "lstm_100_256": lambda: lstm_layer(100, 256, 256),
}
