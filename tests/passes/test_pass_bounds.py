"""Tests where passes stop: just too many parameters or operands, factors of 1, pads that a window
cannot have. No device is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.passes.test_functions import OFFSET, SCALE, folded
from tests.passes.test_passes import HW, MAP, after, listing, pad_and_conv
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import EpilogueOp, Graph
from tflgpu_plugin.passes.empty_results import drop_empty_results
from tflgpu_plugin.passes.fuse import epilogue, fold_batch_norm
from tflgpu_plugin.passes.fuse.epilogue import MAX_PARAMETERS, MAX_STEPS, fuse_epilogue
from tflgpu_plugin.passes.fuse.pad import fuse_pad
from tflgpu_plugin.passes.layout.compose_views import compose_views

ONES = np.ones(8, np.float32)
FEW = 8  # steps of one kernel: drivers take time by the square of their number


def steps(graph: Graph) -> list[str]:
    return [each.op for each in graph.nodes[0].epilogue]


# ---- steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "nodes"), [("elu", 1), ("selu", 2)])
def test_no_more_numbers_than_fit(last: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clip has two parameters, an ELU one, a SELU two."""
    monkeypatch.setattr(epilogue, "MAX_STEPS", MAX_PARAMETERS)
    b = ShapedNet()
    y = b.conv(b.input())
    for _ in range((MAX_PARAMETERS - 1) // 2):
        y = b.op("clip", y, low=0.0, high=1.0)
    y = b.op("tanh", b.op("elu", y))  # tanh has none
    if MAX_PARAMETERS % 2 == 0:
        made = after(fuse_epilogue, b.graph(y))
        assert len(made.nodes) == 1
        assert sum(len(each.parameters) for each in made.nodes[0].epilogue) == MAX_PARAMETERS - 1
    graph = after(fuse_epilogue, b.graph(b.op(last, y)))
    assert len(graph.nodes) == nodes


@pytest.mark.parametrize("count", [1, MAX_STEPS, MAX_STEPS + 1, 80, 400])
def test_a_chain_is_cut_into_kernels_of_some_steps(count: int) -> None:
    """Each kernel has its first node and a limited number of epilogue ops, so that all compile in
    about the same time."""
    b = ShapedNet()
    y = b.input()
    for _ in range(count):
        y = b.op("sin", y)
    made = after(fuse_epilogue, b.graph(y))
    lengths = [len(node.epilogue) for node in made.nodes]
    assert max(lengths) <= FEW
    assert len(lengths) == -(-count // (MAX_STEPS + 1))


def test_whole_numbers_take_no_steps() -> None:
    for which in (0, 1):  # what is made, and what becomes of it
        b = ShapedNet()
        made = b.op("add", b.input(), b.input())
        y = b.op("relu", made)
        changed = (made, y)[which]
        b.tensors[changed] = replace(b.tensors[changed], dtype="i32")
        assert len(after(fuse_epilogue, b.graph(y)).nodes) == 2


def test_a_third_operand_takes_no_step() -> None:
    b = ShapedNet()
    y = b.op("where", b.input(), b.input(), b.conv(b.input()))
    assert len(after(fuse_epilogue, b.graph(y)).nodes) == 2


# ---- factors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "wanted"), [(64, ["add"]), (63, ["add", "mul"])])
def test_weights_that_are_too_many_to_multiply_here(
    most: int, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_batch_norm, "MAX_SCALED", most)
    assert steps(folded(("mul", SCALE))) == wanted


@pytest.mark.parametrize(
    "value",
    [
        np.where(np.arange(8) == 3, 0, ONES).astype(np.float32),  # what is lost stays lost
        np.where(np.arange(8) == 3, np.inf, ONES).astype(np.float32),
        np.where(np.arange(8) == 3, np.nan, ONES).astype(np.float32),
    ],
    ids=["zero", "infinite", "nan"],
)
def test_factors_that_weights_cannot_have(value: Any) -> None:
    assert steps(folded(("mul", value))) == ["add", "mul"]
    if not np.isnan(value).any():
        assert steps(folded(("div", value))) == ["add", "div"]
    if not (value == 0).any():
        assert steps(folded(("add", value))) == ["add", "add"]


def test_the_leading_steps_only() -> None:
    """Only ops before a division by zero, an op of another kind, or a value per position are
    taken."""
    zero = np.zeros(8, np.float32)
    assert steps(folded(("mul", SCALE), ("div", zero), ("relu", None))) == ["add", "div", "relu"]
    limited = folded(("mul", SCALE), ("maximum", ONES), ("relu", None))
    assert steps(limited) == ["add", "maximum", "relu"]
    everywhere = np.ones(MAP, np.float32)
    assert steps(folded(("mul", SCALE), ("mul", everywhere))) == ["add", "mul"]


def test_offsets_join() -> None:
    assert steps(folded(("add", OFFSET))) == ["add"]
    graph = folded(("add", OFFSET), ("sub", SCALE))
    (node,) = graph.nodes
    found = graph.constant(node.epilogue[0].tensor)
    assert found is not None
    np.testing.assert_array_equal(found.reshape(-1), 1 + 3 - SCALE)
    assert steps(folded(("sub", ONES))) == []  # of the bias nothing is left


def test_one_offset_alone_is_no_gain() -> None:
    """The pass returns the same graph object, not an equal one."""
    for step in ((), (("relu", None),)):
        graph = folded(*step)  # type: ignore[arg-type]
        assert fold_batch_norm.fold_batch_norm(graph) is graph


# ---- pads ----------------------------------------------------------------------------------------


def changed(graph: Graph, **attributes: Any) -> Graph:
    """Returns the graph with other attributes of its pad."""
    pad, layer = graph.nodes
    return graph.with_nodes([replace(pad, attributes={**pad.attributes, **attributes}), layer])


@pytest.mark.parametrize(
    "graph",
    [
        pad_and_conv([[0, 0], [1, -1], [1, 1], [0, 0]]),
        pad_and_conv([[0, 0], [-1, 1], [1, 1], [0, 0]]),
        pad_and_conv([[0, 1], [1, 1], [1, 1], [0, 0]]),
        pad_and_conv([[0, 0], [1, 1], [1, 1], [1, 0]]),
        pad_and_conv(HW[:3]),
        pad_and_conv(HW, value=np.array([0, 1], np.float32)),
        pad_and_conv(HW, op="transpose_conv"),
        changed(pad_and_conv(HW), mode="reflect"),
    ],
    ids=["end", "begin", "batch", "channels", "rank", "values", "layer", "mode"],
)
def test_pads_that_a_window_cannot_have(graph: Graph) -> None:
    assert after(fuse_pad, graph) == graph


def test_pads_that_a_window_can_have() -> None:
    for graph in (
        pad_and_conv(HW, value=np.float32(0)),
        changed(pad_and_conv(HW), mode="constant"),
    ):
        assert len(after(fuse_pad, graph).nodes) == 1
    graph = pad_and_conv(HW)
    pad, layer = graph.nodes
    stepped = graph.with_nodes([replace(pad, epilogue=(EpilogueOp("relu"),)), layer])
    assert after(fuse_pad, stepped) == stepped


def test_a_pad_of_the_weights_stays() -> None:
    b = ShapedNet()
    widths = b.constant(np.array(HW, np.int32))
    weights = b.op("pad", b.input(), widths, shape=(8, 3, 3, 8))
    y = b.op("conv_2d", b.input(), weights, None, padding="valid", strides=(1, 1))
    graph = b.graph(y)
    assert after(fuse_pad, graph) == graph


def test_both_pads_of_a_chain_join() -> None:
    b = ShapedNet()
    inner = b.op("pad", b.input(), b.constant(np.array(HW, np.int32)), shape=(1, 7, 11, 8))
    outer = b.op("pad", inner, b.constant(np.array(HW, np.int32)), shape=(1, 10, 18, 8))
    graph = after(fuse_pad, b.graph(b.conv(outer, padding="valid")))
    assert [node.op for node in graph.nodes] == ["pad", "conv_2d"]
    assert graph.nodes[1].attributes["padding"] == (1, 2, 3, 4)


# ---- nothing -------------------------------------------------------------------------------------


def test_what_has_no_elements_goes() -> None:
    b = ShapedNet()
    x, none = b.input(), b.input((1, 0, 4, 8))
    b.op("relu", none, shape=(1, 0, 4, 8))
    y = b.op("concat", x, none, x, axis=1, shape=(1, 8, 4, 8))
    empty = b.op("relu", none, shape=(1, 0, 4, 8))
    found = drop_empty_results(b.graph(y, empty))
    assert listing(found) == [("concat", [])]
    assert found.nodes[0].inputs == (x, x)
    assert (found.inputs, found.outputs) == ((x, none), (y, empty))


def test_a_full_graph_is_left_as_it_is() -> None:
    b = ShapedNet()
    graph = b.graph(b.op("relu", b.input()))
    assert drop_empty_results(graph) is graph


def test_a_state_of_nothing_is_computed() -> None:
    """Nodes with at least one nonempty result are computed, too."""
    b = ShapedNet()
    x = b.input((0, 4))
    made = [b.tensor((0, 4)), b.tensor((0, 4))]
    b.op("relu", x, shape=(0, 4))
    node = replace(b.nodes[-1], op="lstm_basic", outputs=tuple(made))
    other = replace(b.nodes[-1], id=20, op="split", outputs=(b.tensor((0, 4)), b.tensor((1, 4))))
    graph = Graph(b.tensors, (node, other), tuple(b.inputs), tuple(made))
    assert [each.op for each in drop_empty_results(graph).nodes] == ["lstm_basic", "split"]


# ---- moves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "nodes"), [(False, 1), (True, 2)])
def test_a_move_that_something_else_of_its_reader_takes_stays(own: bool, nodes: int) -> None:
    """The op after two transposes adds another tensor, or the tensor between them."""
    b = ShapedNet()
    shape = (4, 4, 4, 4)
    between = b.op("transpose", b.input(shape), shape=shape, perm=(1, 0, 3, 2))
    other = b.input(shape)
    y = b.op("transpose", between, shape=shape, perm=(0, 2, 1, 3))
    step = EpilogueOp("add", between if own else other)
    b.nodes[-1] = replace(b.nodes[-1], epilogue=(step,))
    found = after(compose_views, b.graph(y))
    assert len(found.nodes) == nodes and found.nodes[-1].epilogue == (step,)
