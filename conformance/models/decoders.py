"""Small decoders with past and present, written node by node as torch's older exporter writes them.

`gpt` has the structure of an exported GPT-2: learned positions that begin where the past ends, a
mask made of `attention_mask` and of ranges, and before each dense layer the arithmetic that finds
its shapes again, about 107 nodes a layer. `grouped` is a decoder of onnxruntime's
GroupQueryAttention, as the builder of onnxruntime-genai writes it, with a cache of fixed length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F32, I64, BOOL, I32 = 1, 7, 9, 6  # as ONNX counts types of elements
BLOCK = 32  # weights with a scale
LAST = np.iinfo(np.int64).max
PARTS = ("key", "value")
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Size:
    """The extents of a decoder. `positions` bounds the length of its texts."""

    layers: int = 2
    width: int = 16
    heads: int = 2
    words: int = 31
    positions: int = 256

    @property
    def head(self) -> int:
        """Returns the width of a head."""
        return self.width // self.heads


def pasts(layers: int) -> list[str]:
    """Returns the names of the inputs with the cache, by layer keys and values."""
    return [f"past_key_values.{layer}.{part}" for layer in range(layers) for part in PARTS]


def presents(layers: int) -> list[str]:
    """Returns the names of the outputs with the cache."""
    return [f"present.{layer}.{part}" for layer in range(layers) for part in PARTS]


@dataclass
class Writer:
    """Writes a model node by node; results are identified by name."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def op(self, op: str, *inputs: Any, out: str | tuple[str, ...] = "", **attributes: Any) -> Any:
        """Adds a node of named results and constants; returns the names of its results."""
        from onnx import helper

        made = out or f"{op}_{len(self.nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        outputs = [made] if isinstance(made, str) else [*made]
        self.nodes.append(helper.make_node(op, names, outputs, **attributes))
        return made

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        array = np.asarray(value)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int) -> Array:
        return self.random.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    def extent(self, x: str, axis: int) -> str:
        """Adds the nodes that torch writes for `x.size(axis)`."""
        return str(self.op("Gather", self.op("Shape", x), np.int64(axis), axis=0))

    def joined(self, *extents: Any) -> str:
        """Adds the nodes that make a shape of extents that are numbers or results."""
        parts = [np.array([e]) if isinstance(e, int) else self.op("Unsqueeze", e, np.array([0]))
                 for e in extents]  # fmt: skip
        return str(self.op("Concat", *parts, axis=0))

    def model(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], opset: int = 17
    ) -> bytes:
        """Returns the model, whose inputs and outputs are given as (type, shape)."""
        from onnx import helper

        def values(given: Mapping[str, Any]) -> list[Any]:
            return [helper.make_tensor_value_info(n, *of) for n, of in given.items()]

        graph = helper.make_graph(
            self.nodes, "decoder", values(inputs), values(outputs), self.constants
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(made.SerializeToString())


def gpt(size: Size) -> bytes:
    """Returns a model of input_ids [batch, tokens], attention_mask [batch, past + tokens] and, for
    each layer, past keys and values; it has logits and the present ones."""
    w = Writer()
    table = w.weights(size.words, size.width) * np.float32(size.words**0.5)
    ids = w.op("Reshape", "input_ids", w.joined(-1, w.extent("input_ids", 1)))
    words = w.op("Gather", table, ids)
    past, tokens = w.extent(pasts(1)[0], 2), w.extent(words, 1)
    steps = w.op("Range", np.int64(0), w.op("Cast", tokens, to=I64), np.int64(1))
    places = w.op("Unsqueeze", w.op("Add", steps, past), np.array([0]))
    x = w.op("Add", words, w.op("Gather", w.weights(size.positions, size.width), places))
    seen = _seen(w, words, past, tokens)
    for layer in range(size.layers):
        x = _layer(w, size, x, seen, layer)
    x = _normalized(w, size, x)
    w.op("MatMul", x, np.ascontiguousarray(table.T), out="logits")
    return _decoder(w, size, size.heads)


def _decoder(w: Writer, size: Size, heads: int, total: str = "total", opset: int = 17) -> bytes:
    """Returns the model, whose cache has this many heads; `total` names the length of the mask."""
    inputs: dict[str, Any] = {
        "input_ids": (I64, ("batch", "tokens")), "attention_mask": (I64, ("batch", total)),
    }  # fmt: skip
    outputs: dict[str, Any] = {"logits": (F32, ("batch", "tokens", size.words))}
    for past, present in zip(pasts(size.layers), presents(size.layers), strict=True):
        inputs[past] = F32, ("batch", heads, "past", size.head)
        outputs[present] = F32, ("batch", heads, "present", size.head)
    return w.model(inputs, outputs, opset)


def _seen(w: Writer, words: str, past: str, tokens: str) -> str:
    """Adds the nodes that compute which positions each token attends to, [batch, 1, tokens, past +
    tokens]."""
    total, batch = w.op("Add", past, tokens), w.extent(words, 0)
    mask = w.op("Cast", w.op("Reshape", "attention_mask", w.joined(batch, -1)), to=BOOL)

    def counted(extent: str, *axes: int) -> str:
        made = w.op("Range", np.int64(0), w.op("Cast", extent, to=I64), np.int64(1))
        if axes == (0, 1, 3):
            made = w.op("Add", made, w.op("Cast", past, to=I64))
        for axis in axes:
            made = w.op("Unsqueeze", made, np.array([axis]))
        return str(made)

    rows, queries, keys = counted(batch, 1, 2, 3), counted(tokens, 0, 1, 3), counted(total, 0, 1, 2)
    causal = w.op("Cast", w.op("LessOrEqual", keys, queries), to=BOOL)
    stride = w.op("Gather", w.op("Shape", mask), np.array([1]), axis=0)
    flat = w.op("Reshape", w.op("Flatten", mask, axis=2), np.array([-1]))
    at = w.op("Add", keys, w.op("Mul", rows, stride))
    picked = w.op("Gather", flat, at, axis=0)
    picked = w.op("Reshape", w.op("Reshape", picked, np.array([-1])), w.op("Shape", at))
    both = w.op("And", causal, w.op("Cast", picked, to=BOOL))
    wanted = w.op("Reshape", w.joined(batch, -1, tokens, total), np.array([-1]))
    ones = w.op("Expand", np.array([1]), w.op("Shape", wanted))
    open_ = w.op("Equal", wanted, w.op("Mul", ones, np.int64(-1)))
    return str(w.op("Expand", both, w.op("Where", open_, ones, wanted)))


def _layer(w: Writer, size: Size, x: str, seen: str, layer: int) -> str:
    packed = _dense(w, _normalized(w, size, x), size.width, 3 * size.width)
    parts = tuple(f"{part}_{layer}" for part in "qkv")
    w.op("Split", packed, np.array([size.width] * 3), out=parts, axis=2)
    queries, keys, values = (_heads(w, size, part) for part in parts)
    past, present = (names(layer + 1)[-2:] for names in (pasts, presents))
    w.op("Concat", past[0], keys, axis=-2, out=present[0])
    w.op("Concat", past[1], values, axis=-2, out=present[1])
    turned, scale = w.op("Transpose", present[0], perm=[0, 1, 3, 2]), np.float32(size.head**-0.25)
    scores = w.op("MatMul", w.op("Mul", queries, scale), w.op("Mul", turned, scale))
    bias = w.op("Where", seen, np.zeros(1, np.float32), np.full(1, -np.inf, np.float32))
    y = w.op("Softmax", w.op("Add", scores, bias), axis=-1)
    y = w.op("Where", w.op("IsNaN", y), np.zeros(1, np.float32), y)  # a token that sees nothing
    y = w.op("MatMul", y, present[1])
    whole = w.joined(w.extent(y, 0), -1, w.extent(queries, 2), w.extent(present[1], 3))
    y = w.op("Transpose", w.op("Reshape", y, whole), perm=[0, 2, 1, 3])
    y = w.op("Reshape", y, w.joined(w.extent(y, 0), w.extent(y, 1), -1))
    x = w.op("Add", _dense(w, y, size.width, size.width), x)
    y = _gelu(w, _dense(w, _normalized(w, size, x), size.width, 4 * size.width))
    return str(w.op("Add", x, _dense(w, y, 4 * size.width, size.width)))


def _heads(w: Writer, size: Size, x: str) -> str:
    shape = w.joined(w.extent(x, 0), w.extent(x, 1), -1, size.head)
    return str(w.op("Transpose", w.op("Reshape", x, shape), perm=[0, 2, 1, 3]))


def _dense(w: Writer, x: str, width: int, made: int) -> str:
    """Adds a dense layer of transformers, as torch's older exporter writes it."""
    batch, tokens, shape = w.extent(x, 0), w.extent(x, 1), w.op("Shape", x)
    last = w.op("Slice", shape, np.array([-1]), np.array([LAST]), np.array([0]))
    flat = w.op("Reshape", x, w.joined(-1, w.op("Squeeze", last, np.array([0]))))
    y = w.op("Gemm", flat, w.weights(width, made), w.weights(made))
    return str(w.op("Reshape", y, w.joined(batch, tokens, made)))


def _normalized(w: Writer, size: Size, x: str) -> str:
    scale, shift = w.random.uniform(0.5, 1.5, size.width), w.random.normal(size=size.width)
    constants = scale.astype(np.float32), (shift / 4).astype(np.float32)
    return str(w.op("LayerNormalization", x, *constants, axis=-1, epsilon=1e-5))


def _gelu(w: Writer, x: str) -> str:
    cube = w.op("Mul", w.op("Pow", x, np.float32(3)), np.float32(0.044715))
    inner = w.op("Tanh", w.op("Mul", w.op("Add", x, cube), np.float32(0.7978846)))
    half, one = w.op("Mul", x, np.float32(0.5)), w.op("Add", inner, np.float32(1))
    return str(w.op("Mul", half, one))


def grouped(size: Size, bits: int = 32, apart: bool = False) -> bytes:
    """Returns a model with the inputs and outputs of `gpt`; its cache has half the heads and may be
    longer than the tokens in it. Its weights have 32 bits, or 4 in blocks of 32. Queries, keys and
    values are one product, or three that are `apart`."""
    w = Writer()
    product = _product if bits == 32 else _product_4
    table = w.weights(size.words, size.width) * np.float32(size.words**0.5)
    x = w.op("Gather", table, "input_ids")
    counts = w.op("ReduceSum", "attention_mask", np.array([1]), keepdims=0)
    ends = w.op("Cast", w.op("Sub", counts, np.array([1])), to=I32)
    total = w.op("Cast", w.extent("attention_mask", 1), to=I32)
    rotation = _rotation(size)
    for layer in range(size.layers):
        y, few = _root_mean(w, size, x), size.heads // 2 * size.head
        widths = (size.heads * size.head, few, few)
        made = [product(w, y, size.width, n) for n in (widths if apart else (sum(widths),))]
        inner = f"attention_{layer}", *presents(layer + 1)[-2:]
        cache = pasts(layer + 1)[-2:]
        given = made if apart else (*made, "", "")
        w.op("GroupQueryAttention", *given, *cache, ends, total, *rotation, out=inner,
             domain=MICROSOFT, num_heads=size.heads, kv_num_heads=size.heads // 2,
             do_rotary=1)  # fmt: skip
        x = w.op("Add", x, product(w, inner[0], size.width, size.width))
        y = _root_mean(w, size, x)
        gate, up = (product(w, y, size.width, 2 * size.width) for _ in range(2))
        y = w.op("Mul", w.op("Mul", gate, w.op("Sigmoid", gate)), up)
        x = w.op("Add", x, product(w, y, 2 * size.width, size.width))
    product(w, _root_mean(w, size, x), size.width, size.words, out="logits")
    return _decoder(w, size, size.heads // 2)


def attended(size: Size) -> bytes:
    """Returns a model with the inputs and outputs of `gpt` whose cache is that of Attention (ONNX
    23)."""
    w = Writer()
    x = w.op("Gather", w.weights(size.words, size.width), "input_ids")
    mask = w.op("Unsqueeze", w.op("Cast", "attention_mask", to=BOOL), np.array([1, 2]))
    shape = w.joined(1, 1, w.extent("input_ids", 1), 1)  # onnxruntime wants a row for each token
    mask = w.op("Expand", mask, shape)
    for layer in range(size.layers):
        y = _normalized(w, size, x)
        packed = [_product(w, y, size.width, size.width) for _ in range(3)]
        seen, made = f"attention_{layer}", presents(layer + 1)[-2:]
        w.op("Attention", *packed, mask, *pasts(layer + 1)[-2:], out=(seen, *made), is_causal=1,
             q_num_heads=size.heads, kv_num_heads=size.heads)  # fmt: skip
        x = w.op("Add", x, _product(w, seen, size.width, size.width))
    _product(w, _normalized(w, size, x), size.width, size.words, out="logits")
    return _decoder(w, size, size.heads, total="past + tokens", opset=24)


def scattered(size: Size) -> bytes:
    """Returns a model with the inputs and outputs of `gpt`; its cache, which may be longer than the
    tokens in it, is written by TensorScatter (ONNX 24)."""
    w = Writer()
    x = w.op("Gather", w.weights(size.words, size.width), "input_ids")
    ends = w.op("ReduceSum", "attention_mask", np.array([1]), keepdims=0)
    starts = w.op("Sub", ends, w.extent("input_ids", 1))
    for layer in range(size.layers):
        y = _normalized(w, size, x)
        queries, *new = (_split(w, size, _product(w, y, size.width, size.width)) for _ in range(3))
        cache = [
            w.op("TensorScatter", past, part, starts, out=present, axis=2)
            for past, part, present in zip(
                pasts(layer + 1)[-2:], new, presents(layer + 1)[-2:], strict=True
            )
        ]
        y = w.op("Attention", queries, *cache, "", "", "", ends, is_causal=1)
        y = w.op("Transpose", y, perm=[0, 2, 1, 3])
        y = w.op("Reshape", y, np.array([0, 0, size.width]))
        x = w.op("Add", x, _product(w, y, size.width, size.width))
    _product(w, _normalized(w, size, x), size.width, size.words, out="logits")
    return _decoder(w, size, size.heads, opset=24)


def _split(w: Writer, size: Size, x: str) -> str:
    split = w.op("Reshape", x, np.array([0, 0, size.heads, size.head]))
    return str(w.op("Transpose", split, perm=[0, 2, 1, 3]))


def _product(w: Writer, x: str, given: int, made: int, out: str = "") -> str:
    return str(w.op("MatMul", x, w.weights(given, made), out=out))


def _product_4(w: Writer, x: str, given: int, made: int, out: str = "") -> str:
    packed = w.random.integers(0, 256, (made, given // BLOCK, BLOCK // 2), np.uint8)
    scales = w.random.uniform(0.1, 0.3, made * given // BLOCK) * given**-0.5
    return str(w.op("MatMulNBits", x, packed, scales.astype(np.float32), out=out, bits=4,
                    domain=MICROSOFT, K=given, N=made, block_size=BLOCK))  # fmt: skip


def merged(size: Size) -> bytes:
    """Returns `gpt` twice in the branches of a node, as optimum merges a decoder for the first step
    and one for the others: `use_cache_branch` selects."""
    import onnx
    from onnx import helper

    model = onnx.load_from_string(gpt(size))
    branches = {"then_branch": _branch(model.graph, "a"), "else_branch": _branch(model.graph, "b")}
    outputs = [output.name for output in model.graph.output]
    node = helper.make_node("If", ["use_cache_branch"], outputs, **branches)
    del model.graph.node[:]
    model.graph.node.append(node)
    model.graph.input.append(helper.make_tensor_value_info("use_cache_branch", BOOL, (1,)))
    return bytes(model.SerializeToString())


def _branch(graph: Any, prefix: str) -> Any:
    """Returns a copy of the graph whose results are named so; it reads inputs and constants of the
    graph around it."""
    from onnx import helper

    names = {name: f"{prefix}/{name}" for node in graph.node for name in node.output}
    nodes = []
    for node in graph.node:
        copy = type(node).FromString(node.SerializeToString())
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names[name] for name in node.output]
        nodes.append(copy)
    outputs = [helper.make_tensor_value_info(names[o.name], F32, None) for o in graph.output]
    return helper.make_graph(nodes, prefix, [], outputs)


def _rotation(size: Size) -> tuple[Array, Array]:
    """Returns the cosines and sines of every position."""
    steps = 1e4 ** (-np.arange(size.head // 2) / (size.head // 2))
    angles = np.arange(size.positions)[:, None] * steps
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _root_mean(w: Writer, size: Size, x: str) -> str:
    scale = w.random.uniform(0.5, 1.5, size.width).astype(np.float32)
    return str(w.op("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-6))


def empty(size: Size, batch: int, length: int = 0, heads: int = 0) -> list[Array]:
    """Returns a cache of zeros of this length, of the heads of `gpt` if no other number is
    given."""
    shape = batch, heads or size.heads, length, size.head
    return [np.zeros(shape, np.float32)] * (2 * size.layers)


def fed(ids: Array, mask: Array, cache: Sequence[Array]) -> dict[str, Array]:
    """Returns the inputs of a decoder for these tokens, which follow those of the cache."""
    named = dict(zip(pasts(len(cache) // 2), cache, strict=True))
    return {"input_ids": ids, "attention_mask": mask, **named}


def genai_settings(size: Size) -> dict[str, Any]:
    """Returns the content of genai_config.json beside `model.onnx`, which is `grouped`."""
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask",
              "past_key_names": "past_key_values.%d.key",
              "past_value_names": "past_key_values.%d.value"}  # fmt: skip
    outputs = {"logits": "logits", "present_key_names": "present.%d.key",
               "present_value_names": "present.%d.value"}  # fmt: skip
    decoder = {
        "filename": "model.onnx", "head_size": size.head, "hidden_size": size.width,
        "num_attention_heads": size.heads, "num_key_value_heads": size.heads // 2,
        "num_hidden_layers": size.layers, "inputs": inputs, "outputs": outputs,
        "session_options": {"log_severity_level": 3, "provider_options": []},
    }  # fmt: skip
    model = {
        "type": "llama", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
        "context_length": size.positions, "vocab_size": size.words, "decoder": decoder,
    }  # fmt: skip
    search = {"max_length": size.positions, "past_present_share_buffer": True}
    return {"model": model, "search": search}
