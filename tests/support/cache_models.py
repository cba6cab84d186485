"""A decoder block with a cache of keys and values, as exporters write GPT-2: every extent is open,
masks and positions are computed from shapes, and the total length is the past plus the present."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.support.onnx_models import Array, Shape, node

HEADS, DEPTH, WORDS, POSITIONS = 2, 4, 19, 80
WIDTH = HEADS * DEPTH
PAST = ["past_key", "past_value"]
INDICES: dict[str, Any] = {
    "0": np.array(0), "1": np.array(1), "2": np.array(2), "[0]": np.array([0]),
    "[1]": np.array([1]), "[2]": np.array([2]), "[3]": np.array([3]), "[1,2]": np.array([1, 2]),
    "[-1]": np.array([-1]), "heads": np.array([HEADS]), "depth": np.array([DEPTH]),
    "width": np.array([WIDTH]), "-1e4": np.float32(-1e4), "one": np.float32(1),
    "half": np.float32(0.5), "three": np.float32(3), "cubed": np.float32(0.044715),
    "root": np.float32(DEPTH**0.5), "gelu": np.float32((2 / np.pi) ** 0.5),
}  # fmt: skip


def _extent(of: str, axis: str, name: str) -> list[Any]:
    """Returns one extent of a value, as a number and as a list of one."""
    return [
        node("Shape", [of], [f"{name}_shape"]),
        node("Gather", [f"{name}_shape", axis], [name], axis=0),
        node("Unsqueeze", [name, "[0]"], [f"[{name}]"]),
    ]


def _normalized(x: str, name: str) -> Any:
    return node("LayerNormalization", [x, f"{name}_g", f"{name}_b"], [name], axis=-1)


def _dense(x: str, name: str) -> list[Any]:
    return [
        node("MatMul", [x, f"{name}_w"], [f"{name}_x"]),
        node("Add", [f"{name}_x", f"{name}_a"], [name]),
    ]


def _head(x: str) -> list[Any]:
    """Returns [batch, length, width] as [batch, heads, length, depth]."""
    return [
        node("Reshape", [x, "split"], [f"{x}_s"]),
        node("Transpose", [f"{x}_s"], [f"{x}_h"], perm=[0, 2, 1, 3]),
    ]


def _embedding() -> Iterator[Any]:
    yield from _extent("ids", "0", "n")
    yield from _extent("ids", "1", "length")
    yield from _extent("past_key", "2", "past")
    yield node("Add", ["past", "length"], ["end"])
    yield node("Range", ["past", "end", "1"], ["places"])
    yield node("Gather", ["words", "ids"], ["tokens"])
    yield node("Gather", ["places_w", "places"], ["positions"])
    yield node("Add", ["tokens", "positions"], ["x"])


def _masks() -> Iterator[Any]:
    """Returns the visible past, and a large negative number for what the user masks."""
    yield from _extent("keys", "2", "total")
    yield node("Sub", ["total", "length"], ["before"])
    yield node("Unsqueeze", ["before", "[0]"], ["[before]"])
    yield node("Slice", ["triangle", "[before]", "[total]", "[2]"], ["rows"])
    yield node("Slice", ["rows", "[0]", "[total]", "[3]"], ["causal"])
    yield node("Unsqueeze", ["mask", "[1,2]"], ["mask_4"])
    yield node("Cast", ["mask_4"], ["mask_f"], to=1)
    yield node("Sub", ["one", "mask_f"], ["unseen"])
    yield node("Mul", ["unseen", "-1e4"], ["penalty"])


def _attention() -> Iterator[Any]:
    yield node("Concat", ["[n]", "[length]", "heads", "depth"], ["split"], axis=0)
    yield node("Concat", ["[n]", "[length]", "width"], ["joined"], axis=0)
    yield _normalized("x", "norm")
    yield from _dense("norm", "qkv")
    yield node("Split", ["qkv"], ["q", "k", "v"], axis=2)
    for name in "qkv":
        yield from _head(name)
    yield node("Concat", ["past_key", "k_h"], ["keys"], axis=2)
    yield node("Concat", ["past_value", "v_h"], ["values"], axis=2)
    yield from _masks()
    yield node("Transpose", ["keys"], ["keys_t"], perm=[0, 1, 3, 2])
    yield node("MatMul", ["q_h", "keys_t"], ["products"])
    yield node("Div", ["products", "root"], ["scores"])
    yield node("Where", ["causal", "scores", "-1e4"], ["allowed"])
    yield node("Add", ["allowed", "penalty"], ["masked"])
    yield node("Softmax", ["masked"], ["weights"], axis=-1)
    yield node("MatMul", ["weights", "values"], ["mixed"])
    yield node("Transpose", ["mixed"], ["mixed_t"], perm=[0, 2, 1, 3])
    yield node("Reshape", ["mixed_t", "joined"], ["merged"])
    yield from _dense("merged", "out")
    yield node("Add", ["x", "out"], ["y"])


def _perceptron() -> Iterator[Any]:
    yield _normalized("y", "norm_2")
    yield from _dense("norm_2", "up")
    yield node("Pow", ["up", "three"], ["up_3"])
    yield node("Mul", ["up_3", "cubed"], ["part"])
    yield node("Add", ["up", "part"], ["inner"])
    yield node("Mul", ["inner", "gelu"], ["scaled"])
    yield node("Tanh", ["scaled"], ["t"])
    yield node("Add", ["t", "one"], ["u"])
    yield node("Mul", ["up", "u"], ["v_2"])
    yield node("Mul", ["v_2", "half"], ["g"])
    yield from _dense("g", "down")
    yield node("Add", ["y", "down"], ["z"])
    yield node("MatMul", ["z", "words_t"], ["logits"])


def _weights() -> dict[str, Array]:
    chance = np.random.default_rng(12)

    def random(*shape: int) -> Array:
        return (chance.standard_normal(shape) * 0.3).astype(np.float32)

    found = {"words": random(WORDS, WIDTH), "places_w": random(POSITIONS, WIDTH)}
    found["words_t"] = found["words"].T.copy()
    sizes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH)}
    for name, (rows, columns) in (sizes | {"down": (4 * WIDTH, WIDTH)}).items():
        found |= {f"{name}_w": random(rows, columns), f"{name}_a": random(columns)}
    for name in ("norm", "norm_2"):
        found |= {f"{name}_g": 1 + random(WIDTH), f"{name}_b": random(WIDTH)}
    found["triangle"] = np.tril(np.ones((1, 1, POSITIONS, POSITIONS), bool))
    return found


def decoder(past: str | None, length: str | None, total: str | None, mask: str | None) -> bytes:
    """Returns the model; the arguments are the names of the extents of the past, of the input, of
    both, and of both in the mask. None: the model gives no name."""
    from onnx import TensorProto, helper, numpy_helper

    cache: Shape = ("batch", HEADS, past, DEPTH)
    kinds = {"ids": TensorProto.INT64, "mask": TensorProto.INT64}
    shapes: dict[str, Shape] = {"ids": ("batch", length), "mask": ("batch", mask)}
    shapes |= dict.fromkeys(PAST, cache)
    grown: Shape = ("batch", HEADS, total, DEPTH)
    results: dict[str, Shape] = {"logits": ("batch", length, WORDS), "keys": grown, "values": grown}

    def infos(given: dict[str, Shape]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in given.items()
        ]

    constants = [numpy_helper.from_array(v, k) for k, v in (_weights() | INDICES).items()]
    nodes = [*_embedding(), *_attention(), *_perceptron()]
    graph = helper.make_graph(nodes, "decoder", infos(shapes), infos(results), constants)
    imports = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


def feeds(batch: int, past: int, length: int) -> dict[str, Array]:
    """Returns values of the inputs; the first word of the first row is masked."""
    chance = np.random.default_rng(past)
    mask = np.ones((batch, past + length), np.int64)
    mask[0, 0] = 0
    cache = [chance.standard_normal((batch, HEADS, past, DEPTH)).astype(np.float32) for _ in PAST]
    ids = chance.integers(0, WORDS, (batch, length))
    return {"ids": ids, "mask": mask, **dict(zip(PAST, cache, strict=True))}
