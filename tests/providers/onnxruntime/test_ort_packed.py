"""Tests attention over packed tokens, for which onnxruntime has no CPU kernels: results equal those
of equivalent ONNX operators on the CPU; and the conditions of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_meanings import Nodes, check, values
from tests.support.onnx_models import Array
from tests.support.onnx_nodes import MS, Node

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

BATCH, LENGTH, HEADS = 2, 5, 3
TOKENS = BATCH * LENGTH
PLACES = {
    "offsets": np.arange(TOKENS, dtype=np.int32).reshape(BATCH, LENGTH),
    "ends": np.arange(0, TOKENS + 1, LENGTH, dtype=np.int32),
}
ATTENTION, MULTI_HEAD = "PackedAttention", "PackedMultiHeadAttention"


def attended(scale: float, bias: bool = False) -> Nodes:
    """Returns softmax(scale * q k' + bias) v of each head and sequence of [tokens, width]."""
    made: list[tuple[str, list[str], list[str], Mapping[str, Any]]] = []
    for name in "qkv":
        made += [
            ("Reshape", [name, "split"], [f"{name}_split"], {}),
            ("Transpose", [f"{name}_split"], [f"{name}_heads"], {"perm": [0, 2, 1, 3]}),
        ]
    return [
        *made, ("Transpose", ["k_heads"], ["turned"], {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["q_heads", "turned"], ["raw"], {}),
        ("Constant", [], ["scale"], {"value_float": scale}), ("Mul", ["raw", "scale"], ["s"], {}),
        ("Add", ["s", "score_bias"], ["t"], {}) if bias else ("Identity", ["s"], ["t"], {}),
        ("Softmax", ["t"], ["shares"], {"axis": -1}),
        ("MatMul", ["shares", "v_heads"], ["seen"], {}),
        ("Transpose", ["seen"], ["joined"], {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["joined", "flat"], ["y"], {}),
    ]  # fmt: skip


SHAPES = {"split": np.array([BATCH, LENGTH, HEADS, -1]), "flat": np.array([TOKENS, -1])}


@pytest.mark.adapter
@pytest.mark.parametrize("wide", [12, 18])
@pytest.mark.parametrize("more", ["", "bias", "score_bias", "one_score_bias", "scale"])
def test_separate_queries_keys_and_values(wide: int, more: str) -> None:
    feeds: dict[str, Array] = {
        "x": values(TOKENS, 12, 1)[..., 0], "key": values(TOKENS, 12),
        "value": values(TOKENS, wide), **PLACES,
    }  # fmt: skip
    if "score" in more:
        feeds["score_bias"] = values(*(1, 1) if "one" in more else (BATCH, HEADS), LENGTH, LENGTH)
    given = {"scale": 0.3} if more == "scale" else {}
    reads = ["x", "key", "value", "bias" * (more == "bias"), "offsets", "ends",
             *["score_bias"] * ("score" in more)]  # fmt: skip
    held = {"bias": values(24 + wide), "sizes": np.array([12, 12, wide])}
    parts = ["b_q", "b_k", "b_v"]
    means: Nodes = [
        ("Split", ["bias", "sizes"], parts, {"axis": 0}),
        *(("Add", [x, part], [y], {}) if more == "bias" else ("Identity", [x], [y], {})
          for x, part, y in zip(("x", "key", "value"), parts, "qkv", strict=True)),
        *attended(given.get("scale", 0.5), "score" in more),
    ]  # fmt: skip
    one = (MULTI_HEAD, reads, ["y"], {"num_heads": HEADS, **given})
    check([one], means, feeds, {**held, **SHAPES})


@pytest.mark.adapter
@pytest.mark.parametrize("bias", [False, True])
def test_queries_keys_and_values_in_one_tensor(bias: bool) -> None:
    feeds, held = {"x": values(TOKENS, HEADS, 3, 4), **PLACES}, {"bias": values(36)}
    one = (MULTI_HEAD, ["x", "", "", "bias" * bias, "offsets", "ends"], ["y"],
           {"num_heads": HEADS})  # fmt: skip
    parts = [f"of_{name}" for name in "qkv"]
    means: Nodes = [
        ("Split", ["x"], parts, {"axis": 2, "num_outputs": 3}),
        *(("Reshape", [part, "flat"], [f"{part}_flat"], {}) for part in parts),
        ("Split", ["bias"], ["b_q", "b_k", "b_v"], {"axis": 0, "num_outputs": 3}),
        *(("Add", [f"of_{name}_flat", f"b_{name}"], [name], {}) if bias
          else ("Identity", [f"of_{name}_flat"], [name], {}) for name in "qkv"),
        *attended(0.5),
    ]  # fmt: skip
    check([one], means, feeds, {**held, **SHAPES})


@pytest.mark.adapter
@pytest.mark.parametrize("sizes", [None, (12, 12, 18)])
@pytest.mark.parametrize("scored", [False, True])
def test_tokens_with_their_weights(sizes: tuple[int, ...] | None, scored: bool) -> None:
    widths = sizes or (12, 12, 12)
    feeds: dict[str, Array] = {"x": values(TOKENS, 7), **PLACES}
    if scored:
        feeds["score_bias"] = values(1, HEADS, LENGTH, LENGTH)
    held = {"w": values(7, sum(widths)) / 3, "bias": values(sum(widths)), "sizes": np.array(widths)}
    more = {"qkv_hidden_sizes": list(sizes)} if sizes else {}
    reads = ["x", "w", "bias", "offsets", "ends", *["score_bias"] * scored]
    means: Nodes = [
        ("Gemm", ["x", "w", "bias"], ["made"], {}),
        ("Split", ["made", "sizes"], ["q", "k", "v"], {"axis": 1}), *attended(0.5, scored),
    ]  # fmt: skip
    one = (ATTENTION, reads, ["y"], {"num_heads": HEADS, **more})
    check([one], means, feeds, {**held, **SHAPES})


def one(*inputs: Any, tokens: tuple[int, ...] = (2, 5), **more: Any) -> Node:
    """Returns a PackedMultiHeadAttention node of queries and of those of keys, values and bias that
    are given."""
    given = (*inputs, None, None, None)[:4]
    return Node(f"{MS}:{MULTI_HEAD}", *given, ("i32", tokens), ("i32", (3,)),
                **{"num_heads": 3, **more})  # fmt: skip


def own(x: Any, w: Any, bias: Any, tokens: tuple[int, ...] = (2, 5), **more: Any) -> Node:
    return Node(f"{MS}:{ATTENTION}", x, w, bias, ("i32", tokens), ("i32", (3,)),
                **{"num_heads": 3, **more})  # fmt: skip


FORMS, DENSE = "shape.mismatch", "shape.unsupported"
SAME = ((10, 12),) * 3
BOUNDS: list[tuple[Node, str]] = [
    (one(*SAME), ""),
    (one(*SAME, num_heads=0), FORMS),
    (one(*SAME, num_heads=5), FORMS),
    (one((10, 12), (10, 12), (10, 14)), FORMS),
    (one((10, 12), (9, 12), (10, 12)), FORMS),
    (one((10, 12), (10, 12)), FORMS),
    (one((2, 5, 12), (2, 5, 12), (2, 5, 12)), FORMS),
    (one((10, 36)), FORMS),
    (one((10, 3, 3, 4)), ""),
    (one((10, 3, 3, 4), num_heads=2), FORMS),
    (one((10, 3, 2, 4)), FORMS),
    (one((10, 3, 3, 4), (10, 12), (10, 12)), FORMS),
    (one(*SAME, (36,)), ""),
    (one(*SAME, (25,)), "shape.mismatch"),
    (one(*SAME, (12,)), "shape.mismatch"),
    (one(*SAME, tokens=(2, 6)), DENSE),
    (one(*SAME, tokens=(10,)), DENSE),
    (own((10, 7), (7, 36), (36,)), ""),
    (own((10, 7), (7, 42), (42,), qkv_hidden_sizes=[12, 12, 18]), ""),
    (own((10, 7), (7, 42), (42,), qkv_hidden_sizes=[12, 12, 12]), FORMS),
    (own((10, 7), (7, 36), (36,), qkv_hidden_sizes=[18, 18]), FORMS),
    (own((10, 7), (7, 40), (40,)), FORMS),
    (own((10, 7), (7, 36), (1,)), "shape.mismatch"),
    (own((2, 5, 7), (7, 36), (36,)), "shape.mismatch"),
    (own((10, 7), (7, 36), (36,), (2, 6)), DENSE),
]


@pytest.mark.parametrize(("node", "wanted"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(node: Node, wanted: str) -> None:
    assert node.code == wanted, node.reason
