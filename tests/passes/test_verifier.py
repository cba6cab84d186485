"""Tests the verifier between passes, and that ids are never reused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.importer import partition
from tflgpu_plugin.ir import Graph, Node, Quantization, Tensor
from tflgpu_plugin.passes import pipeline
from tflgpu_plugin.passes.empty_results import drop_empty_results
from tflgpu_plugin.passes.quant.dequantize import forgotten, widen
from tflgpu_plugin.passes.rewriter import Rewriter
from tflgpu_plugin.passes.verifier import BrokenGraph, check
from tflgpu_plugin.registry import Registry

SHAPE = (1, 4, 4, 8)


def chain() -> Graph:
    """Returns a graph of two steps; the tensor between them has the highest id, and so does the
    second node."""
    tensors = {
        0: Tensor("x", SHAPE), 1: Tensor("y", SHAPE), 7: Tensor("between", SHAPE),
        2: Tensor("c", (8,), data=np.ones(8, np.float32)),
    }  # fmt: skip
    nodes = (Node(4, "add", (0, 2), (7,)), Node(9, "relu", (7,), (1,)))
    return Graph(tensors, nodes, (0,), (1,))


def without(graph: Graph, tensor: int, nodes: tuple[Node, ...]) -> Graph:
    kept = {t: held for t, held in graph.tensors.items() if t != tensor}
    return replace(graph, tensors=kept, nodes=nodes)


def shorter(graph: Graph) -> Graph:
    """Returns the graph with the first node only, whose result is the output."""
    return without(graph, 7, (replace(graph.nodes[0], outputs=(1,)),))


def edited(graph: Graph) -> Graph:
    """Returns the graph from an editor that has removed what it had added."""
    e = Rewriter(graph)
    e.constant(np.zeros(3, np.float32))
    e.node("relu", (0,), (e.tensor(SHAPE, like=0),), e.nodes)
    return e.finish()


STEPS: dict[str, Callable[[Graph], Graph]] = {
    "fewer nodes": shorter,
    "an editor": edited,
    "trim": drop_empty_results,
    "widen": widen,
    "forgotten": lambda graph: forgotten(widen(graph)),
    "a partition": lambda graph: partition.extract(graph, {4}),
    "all passes": pipeline.run,
}


@pytest.mark.parametrize("name", STEPS)
def test_ids_are_never_given_again(name: str) -> None:
    """This holds for any graph derived from a graph, and for graphs derived from that."""
    given = chain()
    assert given.next_ids() == (8, 10)
    for step in (STEPS[name], shorter, STEPS[name]):
        try:
            made = step(given)
        except (KeyError, IndexError):  # what is left of the graph has not what the step changes
            continue
        assert made.next_ids() >= given.next_ids()
        e = Rewriter(made)
        tensor = e.tensor(SHAPE, like=0)
        assert tensor >= 8 and tensor not in given.tensors
        assert e.node("relu", (0,), (tensor,), made.nodes or given.nodes).id >= 10
        given = made


def test_an_empty_graph_gives_the_first_ids() -> None:
    assert Graph({}, (), (), ()).next_ids() == (0, 0)


def test_a_scratch_graph_gives_no_ids() -> None:
    with pytest.raises(ValueError, match="cannot give new ids"):
        Graph.over(chain().tensors).next_ids()


def test_what_an_editor_took_out_is_not_given_again() -> None:
    before = chain()
    after = edited(before)
    assert after.next_ids() == (10, 11)


def changed(graph: Graph, tensor: int, **facts: Any) -> Graph:
    """Returns the graph with one tensor changed."""
    return replace(
        graph, tensors={**graph.tensors, tensor: replace(graph.tensors[tensor], **facts)}
    )


WRONG: dict[str, tuple[str, Callable[[Graph], Graph]]] = {
    "another shape": (
        "was .* now",
        lambda g: changed(g, 7, shape=(1, 4, 8, 4)),
    ),
    "a shape that its node does not make": (
        "makes",
        lambda g: g.with_nodes([g.nodes[0], replace(g.nodes[1], inputs=(2,))]),
    ),
    "an operand that nothing makes": (
        "before anything writes it",
        lambda g: g.with_nodes(g.nodes[1:]),
    ),
    "a tensor that two make": (
        "written by two",
        lambda g: g.with_nodes([*g.nodes, replace(g.nodes[1], id=20)]),
    ),
    "one id for two nodes": (
        "two nodes have the id",
        lambda g: g.with_nodes([g.nodes[0], replace(g.nodes[1], id=4)]),
    ),
    "other outputs": ("outputs", lambda g: replace(g, outputs=(7,))),
    "an output of another type": (
        "port 1",
        lambda g: changed(g, 1, dtype="f16"),
    ),
    "an input of another quantization": (
        "port 0",
        lambda g: changed(g, 0, quantization=Quantization((1.0,), (0,))),
    ),
    "an input that is written": (
        "written by two",
        lambda g: g.with_nodes([replace(g.nodes[0], outputs=(0,)), *g.nodes[1:]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_graph_is_found(name: str) -> None:
    graph = chain()
    sentence, change = WRONG[name]
    check("same", graph, graph)
    with pytest.raises(BrokenGraph, match=f"The pass change has made .*{sentence}"):
        check("change", graph, change(graph))


def test_the_id_of_what_was_removed_is_found() -> None:
    """Reusing the id of a removed tensor or node is detected."""
    before = shorter(chain())
    again = replace(before, tensors={**before.tensors, 7: Tensor("other", (3,))})
    with pytest.raises(BrokenGraph, match=r"tensor 7 \(other\) has the id of one that was removed"):
        check("change", before, again)
    late = before.with_nodes([replace(before.nodes[0], id=9)])
    with pytest.raises(BrokenGraph, match=r"node 9 \(add\) has the id of one that was removed"):
        check("change", before, late)


# ---- constants of quantized operands -------------------------------------------------------------

HELD = Quantization((0.5, 0.25), (1, 2), axis=0)


def weighed() -> Graph:
    """Returns the graph of an image plus a constant that has a scale for each row."""
    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    tensors = {
        0: Tensor("x", (2, 6)), 1: Tensor("y", (2, 6)),
        2: Tensor("c", (2, 6), data=data, quantization=HELD),
    }  # fmt: skip
    return Graph(tensors, (Node(4, "add", (0, 2), (1,)),), (0,), (1,))


def test_a_moved_constant_keeps_its_quantization() -> None:
    """The axis of its scales moves with the data; the move is refused if it would separate elements
    with one scale."""
    e = Rewriter(weighed())
    made = e.moved(2, np.transpose)
    assert made is not None
    assert e.tensors[made].quantization == replace(HELD, axis=1)
    assert e.moved(2, lambda each: each.reshape(3, 4)) is None
    reversed_rows = e.moved(2, lambda each: each[::-1])
    assert reversed_rows is not None
    assert e.tensors[reversed_rows].quantization == Quantization((0.25, 0.5), (2, 1), axis=0)


@pytest.mark.parametrize("moved", [False, True])
def test_a_constant_that_loses_its_quantization_is_found(moved: bool) -> None:
    """The constant is changed in place, or replaced by one with the same elements in another
    order."""
    before = weighed()
    lost = replace(before.tensors[2], quantization=None)
    after = replace(before, tensors={**before.tensors, 2: lost})
    if moved:
        other = replace(lost, data=np.flip(np.asarray(lost.data)))
        node = replace(before.nodes[0], inputs=(0, 3))
        after = replace(before, tensors={**before.tensors, 3: other}, nodes=(node,))
    with pytest.raises(BrokenGraph, match=r"constant \d \(c\) has lost its quantization"):
        check("change", before, after)


def test_a_node_that_its_op_refuses() -> None:
    """The kernel would leave the activation out."""

    def fused(graph: Graph) -> Graph:
        add, relu = graph.nodes
        return graph.with_nodes([replace(add, id=10, attributes={"activation": "tanh"}), relu])

    with pytest.raises(BrokenGraph, match=r"node 10 \(add\) is refused: The fused activation tanh"):
        check("fuse", chain(), fused(chain()))


def test_empty_tensors_need_no_maker() -> None:
    none = Tensor("none", (0, 8))
    graph = Graph({0: none, 1: none}, (Node(0, "relu", (0,), (1,)),), (0,), (1,))
    trimmed = drop_empty_results(graph)
    check("trim", graph, trimmed)
    assert not trimmed.nodes and trimmed.outputs == (1,)


@pytest.mark.parametrize("debug", [False, True])
def test_passes_are_verified_under_debug(debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph) -> Graph:
        return replace(graph, outputs=(7,))

    monkeypatch.setattr(pipeline, "PASSES", (broken,))
    monkeypatch.setattr(pipeline, "watchers", Registry())
    monkeypatch.setenv("TFLGPU_DEBUG", "1" if debug else "")
    if not debug:
        assert pipeline.run(chain()).outputs == (7,)
        return
    with pytest.raises(BrokenGraph, match="The pass broken has made"):
        pipeline.run(chain())


def test_tests_verify_every_pass() -> None:
    """The verifier runs after every pass in this process, whoever runs it."""
    assert check in pipeline.watchers.values()
