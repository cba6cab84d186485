"""Tests operators of diffusion models for which onnxruntime has no CPU kernels: results equal those
of equivalent ONNX operators on the CPU; and the conditions of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_meanings import Nodes, built, check, values
from tests.support.onnx_models import cpu, places, session
from tests.support.onnx_nodes import MS, Node

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

X = (2, 5, 6, 8)
FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]


def normalized(x: str, y: str, groups: int, activation: int, epsilon: float) -> list[Any]:
    """Returns the group normalization of an image with its channels last."""
    more = {"num_groups": groups, "epsilon": epsilon}
    first, u, s, v = (f"{y}_{name}" for name in ("first", "u", "s", "v"))
    made = [("Transpose", [x], [first], {"perm": FIRST}),
            ("GroupNormalization", [first, "gamma", "beta"], [u], more)]  # fmt: skip
    if activation:
        made += [("Sigmoid", [u], [s], {}), ("Mul", [u, s], [v], {})]
    return [*made, ("Transpose", [v if activation else u], [y], {"perm": LAST})]


SCALES = {"gamma": values(8) + 1, "beta": values(8, 1)[:, 0]}


@pytest.mark.adapter
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm(groups: int, activation: int) -> None:
    more = {"groups": groups, "activation": activation, "epsilon": 0.1}
    means = normalized("x", "y", groups, activation, 0.1)
    one = ("GroupNorm", ["x", "gamma", "beta"], ["y"], more)
    check([one], means, {"x": 3 * values(*X)}, SCALES)


@pytest.mark.adapter
def test_group_norm_of_odd_groups_and_its_usual_epsilon() -> None:
    held = {"gamma": values(9) + 1, "beta": values(9, 1)[:, 0]}
    one = ("GroupNorm", ["x", "gamma", "beta"], ["y"], {"groups": 3, "activation": 0})
    feeds = {"x": values(2, 3, 5, 9) / 100}
    check([one], normalized("x", "y", 3, 0, 1e-5), feeds, held)


@pytest.mark.adapter
def test_group_norm_of_channels_first() -> None:
    more = {"groups": 4, "activation": 1, "channels_last": 0}
    one = ("GroupNorm", ["x", "gamma", "beta"], ["y"], more)
    means = [("Transpose", ["x"], ["t"], {"perm": LAST}), *normalized("t", "z", 4, 1, 1e-5),
             ("Transpose", ["z"], ["y"], {"perm": FIRST})]  # fmt: skip
    check([one], means, {"x": values(2, 8, 5, 6)}, SCALES)


@pytest.mark.adapter
@pytest.mark.parametrize("skip", [X, (2, 1, 1, 8), (2, 8)])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_group_norm(skip: tuple[int, ...], bias: bool) -> None:
    feeds, held = (
        {"x": values(*X), "skip": values(*skip)},
        {**SCALES, "wide": np.array([2, 1, 1, 8])},
    )
    held |= {"bias": values(8, 2)[:, 0]} if bias else {}
    reads = ["x", "gamma", "beta", "skip", *(["bias"] if bias else [])]
    means = [("Reshape", ["skip", "wide"], ["w"], {}), ("Add", ["x", "w"], ["a"], {})]
    if skip == X:
        means = [("Add", ["x", "skip"], ["a"], {})]
    means += [("Add", ["a", "bias"], ["t"], {}) if bias else ("Identity", ["a"], ["t"], {})]
    more = {"groups": 2, "activation": 1}
    kept = {name: x for name, x in held.items() if x.dtype == np.float32}
    one = ("SkipGroupNorm", reads, ["y", "t"], more)
    wanted = cpu(built([*means, *normalized("t", "y", 2, 1, 1e-5)], feeds, held, ["y", "t"]))
    ours = session(built([one], feeds, kept, ["y", "t"]))
    assert set(places(ours).values()) == {"gpu"}
    for got, right in zip(ours.run(None, feeds), wanted.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-5 * np.abs(right).max())


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((4, 3, 2, 8), {}),
    "padded": ((4, 3, 3, 8), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "dilated": ((4, 2, 3, 8), {"dilations": [2, 1], "pads": [0, 0, 1, 2]}),
    "groups": ((6, 3, 3, 4), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((8, 3, 3, 1), {"group": 8, "pads": [1, 1, 1, 1]}),
}


@pytest.mark.adapter
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_nhwc_conv(name: str) -> None:
    shape, more = CONVOLUTIONS[name]
    held = {"w": values(*shape), "bias": values(shape[0])}
    means: Nodes = [
        ("Transpose", ["x"], ["first"], {"perm": FIRST}),
        ("Transpose", ["w"], ["filters"], {"perm": FIRST}),
        ("Conv", ["first", "filters", "bias"], ["z"], more),
        ("Transpose", ["z"], ["y"], {"perm": LAST}),
    ]
    check([("NhwcConv", ["x", "w", "bias"], ["y"], more)], means, {"x": values(*X)}, held)


@pytest.mark.adapter
def test_bias_add_and_split_gelu() -> None:
    feeds, held = {"x": values(2, 7, 12), "skip": values(2, 7, 12)}, {"b": values(12)}
    means: Nodes = [("Add", ["x", "b"], ["t"], {}), ("Add", ["t", "skip"], ["y"], {})]
    check([("BiasAdd", ["x", "b", "skip"], ["y"], {})], means, feeds, held)
    split: Nodes = [
        ("Add", ["x", "b"], ["t"], {}),
        ("Split", ["t"], ["left", "right"], {"axis": -1, "num_outputs": 2}),
        ("Gelu", ["right"], ["g"], {}), ("Mul", ["left", "g"], ["y"], {}),
    ]  # fmt: skip
    check([("BiasSplitGelu", ["x", "b"], ["y"], {})], split, {"x": feeds["x"]}, held)


@pytest.mark.adapter
def test_a_block_of_a_diffusion_model() -> None:
    """In a block as the optimizer writes it, no transpose of an image is left."""
    import tflgpu_plugin

    held = {**SCALES, "w1": values(8, 3, 3, 8) / 8, "w2": values(8, 3, 3, 8) / 9, "b": values(8)}
    same = {"pads": [1, 1, 1, 1]}
    nodes: Nodes = [
        ("GroupNorm", ["x", "gamma", "beta"], ["n"], {"groups": 2, "activation": 1}),
        ("NhwcConv", ["n", "w1", "b"], ["c"], same),
        ("SkipGroupNorm", ["c", "gamma", "beta", "x"], ["m", "t"], {"groups": 2, "activation": 1}),
        ("NhwcConv", ["m", "w2", "b"], ["d"], same), ("Add", ["d", "t"], ["y"], {}),
    ]  # fmt: skip

    def convolved(x: str, w: str, y: str) -> list[Any]:
        return [("Transpose", [x], [f"{y}1"], {"perm": FIRST}),
                ("Transpose", [w], [f"{y}2"], {"perm": FIRST}),
                ("Conv", [f"{y}1", f"{y}2", "b"], [f"{y}3"], same),
                ("Transpose", [f"{y}3"], [y], {"perm": LAST})]  # fmt: skip

    means: Nodes = [
        *normalized("x", "n", 2, 1, 1e-5), *convolved("n", "w1", "c"),
        ("Add", ["c", "x"], ["t"], {}),
        *normalized("t", "m", 2, 1, 1e-5), *convolved("m", "w2", "d"),
        ("Add", ["d", "t"], ["y"], {}),
    ]  # fmt: skip
    feeds = {"x": values(*X)}
    check(nodes, means, feeds, held)
    ours = session(built(nodes, feeds, held, ["y"]))
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.dispatches <= 8


BOUNDS: list[tuple[Node, str]] = [
    (Node(f"{MS}:GroupNorm", X, (8,), (8,), groups=4, activation=0), ""),
    (Node(f"{MS}:GroupNorm", X, (8,), (8,), groups=3, activation=0), "shape.mismatch"),
    (Node(f"{MS}:GroupNorm", X, (8,), (8,), groups=0, activation=0), "shape.mismatch"),
    (Node(f"{MS}:GroupNorm", X, (8,), (8,), groups=-4, activation=0), "shape.mismatch"),
    (Node(f"{MS}:GroupNorm", (2, 5, 8), (8,), (8,), groups=4, activation=0), "shape.mismatch"),
    (Node(f"{MS}:GroupNorm", X, (5,), (5,), groups=5, activation=0, channels_last=0), ""),
    (Node(f"{MS}:GroupNorm", X, (8,), (8,), groups=4, activation=2), "activation.unsupported"),
    (Node(f"{MS}:SkipGroupNorm", X, (8,), (8,), (2, 8), groups=4, activation=1), ""),
    (Node(f"{MS}:SkipGroupNorm", X, (8,), (8,), (1, 8), groups=4, activation=1),
     "shape.unsupported"),
    (Node(f"{MS}:SkipGroupNorm", X, (5,), (5,), X, groups=5, activation=1, channels_last=0),
     "shape.unsupported"),
    (Node(f"{MS}:NhwcConv", X, values(4, 3, 3, 8)), ""),
    (Node(f"{MS}:NhwcConv", (2, 5, 8), values(4, 3, 8)), "rank.unsupported"),
    (Node(f"{MS}:NhwcConv", X, values(4, 3, 3, 8), values(4), group=2), "shape.mismatch"),
    (Node(f"{MS}:BiasSplitGelu", (2, 3, 4), (4,)), ""),
    (Node(f"{MS}:BiasSplitGelu", (2, 3, 5), (5,)), "shape.unsupported"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "wanted"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(one: Node, wanted: str) -> None:
    assert one.code == wanted, one.reason
