"""Tests which node may be merged into which: a value that is read twice, or elsewhere, stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.passes.test_passes import HW
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import EpilogueOp, Graph, Node
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.fuse.epilogue import fuse_epilogue
from tflgpu_plugin.passes.fuse.pad import fuse_pad
from tflgpu_plugin.passes.rewriter import Rewriter


def only_reader(graph: Graph, node: Node) -> Node | None:
    return DefUse(Rewriter(graph)).reader(node.outputs[0])


def test_the_one_reader() -> None:
    b = ShapedNet()
    made = b.op("relu", b.input())
    graph = b.graph(b.op("neg", made))
    assert only_reader(graph, graph.nodes[0]) == graph.nodes[1]
    assert only_reader(graph, graph.nodes[1]) is None  # an output of the graph


def test_a_reader_that_reads_twice_is_none() -> None:
    b = ShapedNet()
    made = b.op("relu", b.input())
    graph = b.graph(b.op("mul", made, made, activation="none"))
    assert only_reader(graph, graph.nodes[0]) is None
    assert [node.op for node in fuse_epilogue(graph).nodes] == ["relu", "mul"]


def test_an_operand_of_a_fused_step_counts() -> None:
    b = ShapedNet()
    made = b.op("relu", b.input())
    graph = b.graph(b.op("neg", made))
    first, second = graph.nodes
    twice = graph.with_nodes([first, replace(second, epilogue=(EpilogueOp("mul", made),))])
    assert only_reader(twice, first) is None
    other = replace(second, inputs=(graph.inputs[0],), epilogue=(EpilogueOp("mul", made),))
    assert only_reader(graph.with_nodes([first, other]), first) == other


def test_two_readers_are_not_one() -> None:
    b = ShapedNet()
    made = b.op("relu", b.input())
    graph = b.graph(b.op("neg", made), b.op("abs", made))
    assert only_reader(graph, graph.nodes[0]) is None


def test_a_pad_whose_result_is_also_added_stays() -> None:
    b = ShapedNet()
    padded = b.op("pad", b.input(), b.constant(np.array(HW, np.int32)), shape=(1, 7, 11, 8))
    weights = b.constant(np.zeros((8, 1, 1, 8), np.float32))
    y = b.op("conv_2d", padded, weights, None, shape=(1, 7, 11, 8), padding="valid",
             strides=(1, 1))  # fmt: skip
    graph = b.graph(y)
    pad, conv = graph.nodes
    assert [node.op for node in fuse_pad(graph).nodes] == ["conv_2d"]
    with_sum = graph.with_nodes([pad, replace(conv, epilogue=(EpilogueOp("add", padded),))])
    assert fuse_pad(with_sum) == with_sum
