"""Tests each pass by small graphs before and after it; no adapter is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.net import MAP, ShapedNet
from tests.support.refused import refused
from tflgpu_plugin.ir import EpilogueOp, Graph, Node, Tensor, verify
from tflgpu_plugin.passes import pipeline as passes
from tflgpu_plugin.passes.canonical import canonical
from tflgpu_plugin.passes.fuse.epilogue import fuse_epilogue
from tflgpu_plugin.passes.fuse.pad import fuse_pad
from tflgpu_plugin.passes.quant.unify_activations import unify_activations
from tflgpu_plugin.registry import Registry

ONES = {"strides": (1, 1), "dilations": (1, 1)}


def after(rewrite: Any, graph: Graph) -> Graph:
    """Returns the rewritten graph, and asserts that it is well formed and has every host node
    exactly once."""
    before = [source for node in graph.nodes for source in (node.sources or (node.id,))]
    rewritten: Graph = rewrite(graph)
    verify(rewritten)
    kept = [source for node in rewritten.nodes for source in (node.sources or (node.id,))]
    assert sorted(kept) == sorted(before)
    assert rewritten.outputs == graph.outputs
    return rewritten


def listing(graph: Graph) -> list[tuple[str, list[EpilogueOp]]]:
    return [(node.op, list(node.epilogue)) for node in graph.nodes]


def test_bias_and_activation_become_epilogue_ops_in_that_order() -> None:
    b = ShapedNet()
    bias = b.constant(np.ones(8, np.float32))
    weights = b.constant(np.zeros((8, 1, 1, 8), np.float32))
    y = b.op("conv_2d", b.input(), weights, bias, padding="same", activation="relu6")
    (node,) = after(canonical, b.graph(y)).nodes
    assert node.epilogue == (EpilogueOp("add", bias), EpilogueOp("relu6"))
    assert node.inputs[2] is None and node.attributes["activation"] == "none"


def test_the_output_shape_of_a_transposed_convolution_stays() -> None:
    b = ShapedNet()
    weights, bias = (
        b.constant(np.zeros((8, 1, 1, 8), np.float32)),
        b.constant(np.ones(8, np.float32)),
    )
    size = b.constant(np.array(MAP, np.int32))
    y = b.op("transpose_conv", b.input(), weights, bias, size, padding="same", activation="none")
    (node,) = after(canonical, b.graph(y)).nodes
    assert node.inputs[2:] == (None, size) and node.epilogue == (EpilogueOp("add", bias),)


def test_an_op_without_an_epilogue_keeps_its_activation() -> None:
    b = ShapedNet()
    x = b.input()
    y = b.op("concat", x, x, shape=(1, 4, 4, 16), axis=3, activation="relu")
    (node,) = after(canonical, b.graph(y)).nodes
    assert node.attributes["activation"] == "relu" and not node.epilogue


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "mean", "average_pool_2d", "matmul"])
def test_an_activation_joins_what_adds_up(op: str) -> None:
    b = ShapedNet()
    inputs = {"matmul": [b.input(), b.input()], "average_pool_2d": [b.input()]}.get(
        op, [b.input(), b.constant(np.array([3], np.int32))]
    )
    y = b.op("relu", b.op(op, *inputs))
    (node,) = after(fuse_epilogue, b.graph(y)).nodes
    assert node.op == op and node.epilogue == (EpilogueOp("relu"),)


def pad_and_conv(
    paddings: Sequence[Sequence[int]],
    padding: Any = "valid",
    value: Any = None,
    op: str = "conv_2d",
) -> Graph:
    b = ShapedNet()
    given = [b.input(), b.constant(np.array(paddings, np.int32))]
    given += [] if value is None else [b.constant(value)]
    padded = b.op("pad", *given, shape=(1, 6, 6, 8))
    weights = b.constant(np.zeros((8, 3, 3, 8), np.float32))
    return b.graph(b.op(op, padded, weights, None, padding=padding, strides=(1, 1)))


HW = [[0, 0], [1, 2], [3, 4], [0, 0]]


@pytest.mark.parametrize(
    ("padding", "expected"), [("valid", (1, 2, 3, 4)), ((1, 0, 0, 1), (2, 2, 3, 5))]
)
@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d"])
def test_pad_joins_the_convolution(padding: Any, expected: Any, op: str) -> None:
    graph = pad_and_conv(HW, padding, op=op)
    (node,) = after(fuse_pad, graph).nodes
    assert node.attributes["padding"] == expected
    assert node.inputs[0] == graph.inputs[0] and node.sources == (10, 11)


@pytest.mark.parametrize(
    "graph",
    [
        pad_and_conv([[0, 0], [1, 1], [1, 1], [0, 1]]),
        pad_and_conv([[1, 0], [1, 1], [1, 1], [0, 0]]),
        pad_and_conv(HW, "same"),
        pad_and_conv(HW, value=np.float32(1)),
        replace(pad_and_conv(HW), outputs=(2, 4)),
    ],
    ids=["channels", "batch", "same", "value", "pad is an output"],
)
def test_pad_stays(graph: Graph) -> None:
    assert after(fuse_pad, graph) == graph


def test_a_pad_with_two_readers_stays() -> None:
    b = ShapedNet()
    padded = b.op("pad", b.input(), b.constant(np.array(HW, np.int32)), shape=(1, 6, 6, 8))
    graph = b.graph(b.conv(padded, padding="valid"), b.conv(padded, padding="valid"))
    assert after(fuse_pad, graph) == graph


def test_a_chain_collapses() -> None:
    b = ShapedNet()
    scale, alpha = b.constant(np.ones(8, np.float32)), b.constant(np.ones((1, 1, 8), np.float32))
    y = b.op("prelu", b.op("mul", b.conv(b.input()), scale), alpha)
    graph = after(fuse_epilogue, b.graph(b.op("tanh", y)))
    assert listing(graph) == [
        ("conv_2d", [EpilogueOp("mul", scale), EpilogueOp("prelu", alpha), EpilogueOp("tanh")])
    ]
    assert graph.nodes[0].sources == (10, 11, 12, 13) and graph.nodes[0].id == 10


def test_residual_add_goes_to_the_later_producer() -> None:
    b = ShapedNet()
    first = b.conv(b.input())
    second = b.conv(first)
    graph = after(fuse_epilogue, b.graph(b.op("relu", b.op("add", first, second))))
    assert listing(graph) == [
        ("conv_2d", []),
        ("conv_2d", [EpilogueOp("add", first), EpilogueOp("relu")]),
    ]


def test_a_producer_moves_to_where_its_operand_is_there() -> None:
    b = ShapedNet()
    x = b.input()
    first = b.conv(x)
    other = b.op("softmax", x, beta=1.0)
    kept = b.op("logistic", other)
    graph = after(fuse_epilogue, b.graph(b.op("sub", other, first), kept))
    assert listing(graph)[-1] == ("conv_2d", [EpilogueOp("reverse_sub", other)])


def test_both_operands_could_take_it() -> None:
    b = ShapedNet()
    x = b.input()
    first, second = b.conv(x), b.conv(x)
    graph = after(fuse_epilogue, b.graph(b.op("mul", first, second)))
    assert listing(graph) == [("conv_2d", []), ("conv_2d", [EpilogueOp("mul", first)])]


def test_the_steps_of_the_merged_node_follow() -> None:
    b = ShapedNet()
    x = b.input()
    y = b.op("add", b.conv(x), x, activation="relu6")
    graph = after(lambda g: fuse_epilogue(canonical(g)), b.graph(y))
    assert listing(graph) == [("conv_2d", [EpilogueOp("add", x), EpilogueOp("relu6")])]


def unfused(kind: str) -> Graph:
    b = ShapedNet()
    x = b.input()
    made = b.conv(x)
    if kind == "twice the same":
        return b.graph(b.op("add", made, made))
    if kind == "output":
        return b.graph(b.op("relu", made), made)
    if kind == "two readers":
        return b.graph(b.op("relu", made), b.op("tanh", made))
    if kind == "grows":
        return b.graph(b.op("add", made, b.input((3, 4, 4, 8)), shape=(3, 4, 4, 8)))
    if kind == "spread":
        return b.graph(b.op("add", made, b.input((1, 4, 1, 8))))
    if kind == "prelu of something else":
        return b.graph(b.op("prelu", x, made))
    moved = b.op("reshape", x, shape=(4, 4, 8))
    return b.graph(b.op("relu", moved, shape=(4, 4, 8)), made)


@pytest.mark.parametrize(
    "kind",
    [
        "twice the same",
        "output",
        "two readers",
        "grows",
        "spread",
        "prelu of something else",
        "reshape",
    ],
)
def test_not_fused(kind: str) -> None:
    graph = unfused(kind)
    assert after(fuse_epilogue, graph) == graph


def test_no_more_operands_than_fit() -> None:
    b = ShapedNet()
    y = b.conv(b.input())
    for _ in range(4):
        y = b.op("add", y, b.input())
    graph = after(fuse_epilogue, b.graph(y))
    assert [len(node.epilogue) for node in graph.nodes] == [3, 0]


def test_a_state_is_written_by_its_own_node() -> None:
    b = ShapedNet()
    before = b.tensor(MAP)
    made = b.conv(b.input())
    y = b.op("relu", made)
    graph = b.graph(y, states=((before, made),))
    assert after(fuse_epilogue, graph) == graph


def test_run_prints_node_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TFLGPU_DEBUG", "2")
    b = ShapedNet()
    passes.run(b.graph(b.op("relu", b.conv(b.input()))))
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == len(passes.PASSES)
    merged = "2 nodes (1 conv_2d, 1 relu) -> 1 nodes (1 conv_2d)"
    assert any(merged in line for line in printed)


def test_limits_share_a_step_where_there_are_several() -> None:
    epilogue = {
        0: (EpilogueOp("add", 5), EpilogueOp("relu")),
        1: (EpilogueOp("add", 5),),
        2: (EpilogueOp("add", 5), EpilogueOp("add", 6), EpilogueOp("relu")),
    }
    tensors = {k: Tensor(f"t{k}", (1, 2, 2, 4)) for k in range(5)}
    tensors[5] = Tensor("bias", (4,), data=np.ones(4, np.float32))
    tensors[6] = Tensor("more", (4,), data=np.ones(4, np.float32))
    nodes = [Node(k, "conv_2d", (k, None, None), (k + 1,), epilogue=p) for k, p in epilogue.items()]
    found = unify_activations(Graph(tensors, tuple(nodes), (0,), (3,)))
    limited = [node.epilogue[1] for node in found.nodes[:2]]
    assert limited == [
        EpilogueOp("clip", None, (0.0, np.inf)),
        EpilogueOp("clip", None, (-np.inf, np.inf)),
    ]
    assert found.nodes[2].epilogue == epilogue[2]
    alone = unify_activations(Graph(tensors, (nodes[0],), (0,), (1,)))
    assert alone.nodes[0].epilogue == epilogue[0]


def test_a_defect_in_an_optional_pass_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(graph: Graph) -> Graph:
        raise IndexError("no such axis")

    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    monkeypatch.setattr(passes, "PASSES", (broken, canonical))
    monkeypatch.setattr(passes, "LEFT_OUT", (broken,))
    b = ShapedNet()
    graph = b.graph(b.op("relu", b.input()))
    assert [node.op for node in passes.run(graph).nodes] == ["relu"]
    assert "The pass broken failed inside this plugin" in capsys.readouterr().err
    monkeypatch.setenv("TFLGPU_DEBUG", "1")
    with pytest.raises(IndexError):
        passes.run(graph)


def test_nodes_that_their_op_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that makes one is left out; where it is needed, the host nodes behind it stay on the
    CPU."""

    def wrong(graph: Graph) -> Graph:
        (node,) = graph.nodes
        made = replace(node, id=1, attributes={"activation": "gelu"}, sources=(0,))
        return graph.with_nodes([made])

    monkeypatch.setattr(passes, "PASSES", (wrong,))
    monkeypatch.setattr(passes, "watchers", Registry())
    b = ShapedNet()
    graph = b.graph(b.op("add", b.input(), b.input(), activation="none"))
    with refused("activation.unsupported") as caught:
        passes.run(graph)
    assert 0 in caught.value.nodes
    monkeypatch.setattr(passes, "LEFT_OUT", (wrong,))
    assert passes.run(graph) is graph
