"""Checks every pass by evaluating graphs before and after it: every op has a meaning, defects of
passes are detected and named, and a sample of all graphs is unchanged. `python -m
conformance.evaluation` checks all graphs (docs/passes.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import Any

import numpy as np
import pytest

from conformance.evaluation import feeds, graphs, nodes, passes, sources, totals
from conformance.evaluation.steps import STEPS
from conformance.references.truth import REFERENCES
from tests.support.evaluate import evaluate
from tests.support.hand_graphs import GRAPHS
from tests.support.net import Net
from tflgpu_plugin import kernels, ops
from tflgpu_plugin.ir import EpilogueOp, Graph, Node, Quantization, Tensor
from tflgpu_plugin.passes import pipeline
from tflgpu_plugin.passes.fuse.epilogue import fuse_epilogue
from tflgpu_plugin.passes.fuse.fold_batch_norm import fold_batch_norm
from tflgpu_plugin.passes.layout.transposes import reduce_transposes
from tflgpu_plugin.passes.quant.fake_quantization import fake_quantize

# Each sample takes about ten seconds on one core; other commits take others.
SAMPLED = {"cases": 40, "random": 12}


# ---- meanings ------------------------------------------------------------------------------------


def test_every_op_has_a_meaning() -> None:
    """Every op has its own meaning or, with a reason, that of its decomposition."""
    known = nodes.known_ops()
    assert not [op for op, how in known.items() if not how]
    by_parts = {op for op, how in known.items() if how == "decomposition"}
    assert by_parts == set(nodes.BY_DECOMPOSITION)
    assert all(ops.rows()[op].decompose for op in by_parts)


# Attributes that no graph has when a pass is evaluated, and why.
LOWERED = {"directions": "set when a bidirectional layer is lowered"}
# Attributes that a decorator of the meanings takes.
DECORATED = {"packed": "`both_ways` puts recurrent weights in the order of the host"}


@pytest.mark.parametrize("op", sorted(op for op, how in nodes.known_ops().items() if how))
def test_every_meaning_takes_every_attribute(op: str) -> None:
    """An attribute that a meaning does not take would leave every graph with it unevaluated."""
    assert not nodes.untaken(op) - {*LOWERED, *DECORATED}


def test_an_attribute_without_a_meaning_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "IDLE", nodes.IDLE - {"one_way"})
    assert nodes.untaken("expand") == {"one_way"}


def test_every_fused_step_has_a_meaning() -> None:
    assert not [op for op in kernels.EPILOGUE_OPS if op not in STEPS and op not in REFERENCES]


def test_values_are_not_centred() -> None:
    """The mean is at least half the spread, for floats and quantized values."""
    held = Quantization((0.1,), (3,))
    for tensor in (Tensor("x", (1000,)), Tensor("q", (1000,), "i8", quantization=held)):
        value = feeds.of_tensor(tensor, [1])
        assert value.mean() >= value.std() / 2 > 0
    assert (feeds.of_tensor(Tensor("x", (1000,)), [1]) < 0).any()


# ---- graphs by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPHS)
def test_no_pass_changes_the_answer_of_a_graph_by_hand(name: str) -> None:
    checked = passes.check(GRAPHS[name]())
    assert (checked.skipped, checked.findings) == ("", [])


def test_graphs_by_hand_are_for_all_passes() -> None:
    """Each graph is changed by at least one pass."""
    applied = {each for build in GRAPHS.values() for each in passes.check(build()).applied}
    assert {rewrite.__name__ for rewrite in pipeline.PASSES} <= applied


# ---- defects -------------------------------------------------------------------------------------

Change = Callable[[Graph], Graph]


def _each(change: Callable[[Graph, Node], Node]) -> Change:
    return lambda graph: graph.with_nodes([change(graph, node) for node in graph.nodes])


def _without_centre(graph: Graph, node: Node) -> Node:
    return replace(node, inputs=node.inputs[:2]) if node.op == "reduce_mean_square" else node


def _other_axes(graph: Graph, node: Node) -> Node:
    perm = node.attributes.get("perm")
    swapped = None if perm is None else (*perm[:1], *perm[2:], perm[1])
    fits = swapped and [graph.shape(node.operand())[k] for k in swapped] == list(
        graph.shape(node.outputs[0])
    )
    return replace(node, attributes={**node.attributes, "perm": swapped}) if fits else node


def _without_bias(graph: Graph, node: Node) -> Node:
    return replace(node, epilogue=tuple(each for each in node.epilogue if each.op != "add"))


def _other_numbers(graph: Graph, node: Node) -> Node:
    steps = [replace(each, parameters=tuple(1.5 * n for n in each.parameters))
             for each in node.epilogue]  # fmt: skip
    return replace(node, epilogue=tuple(steps))


def _in_another_order(graph: Graph, node: Node) -> Node:
    return replace(node, epilogue=node.epilogue[::-1])


def _one_rescaled(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)
    for t, held in tensors.items():
        if held.name.endswith("requantization") and held.data is not None:
            data = held.data.copy()
            data[0] += 4096.0  # of the bias
            tensors[t] = replace(held, data=data)
    return replace(graph, tensors=tensors)


def _turned_constants(graph: Graph) -> Graph:
    """Returns the graph with height and width of its square constants exchanged, which keeps their
    shapes."""
    tensors = dict(graph.tensors)
    for t, held in tensors.items():
        if held.data is not None and held.data.ndim == 4 and len({*held.shape[1:3]}) == 1:
            tensors[t] = replace(held, data=held.data.swapaxes(1, 2))
    return replace(graph, tensors=tensors)


DEFECTS: dict[str, tuple[str, Callable[[Graph], Graph], Change]] = {
    "a reduction without its centre": (
        "normalized image", reduce_transposes, _each(_without_centre),
    ),
    "a constant that lies the other way": ("added picture", reduce_transposes, _turned_constants),
    "offsets that are lost": ("scaled layer", fold_batch_norm, _each(_without_bias)),
    "numbers of a step": ("leaky layer", fuse_epilogue, _each(_other_numbers)),
    "steps in another order": ("two steps", fuse_epilogue, _each(_in_another_order)),
    "a bias of integers": ("quantized layer", fake_quantize, _one_rescaled),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_a_pass_is_named(name: str) -> None:
    graph, rewrite, change = DEFECTS[name]

    @wraps(rewrite)
    def wrong(given: Graph) -> Graph:
        return change(rewrite(given))

    listed = [wrong if each is rewrite else each for each in pipeline.PASSES]
    checked = passes.check(GRAPHS[graph](), listed)
    assert checked.skipped == "" and checked.findings
    assert checked.findings[0].rewrite == rewrite.__name__


def test_a_large_graph_is_checked_at_its_ends_and_then_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes, "LARGE", 0)
    assert not passes.check(GRAPHS["scaled layer"]()).findings
    _, rewrite, change = DEFECTS["offsets that are lost"]
    wrong = wraps(rewrite)(lambda graph: change(rewrite(graph)))
    listed = [wrong if each is rewrite else each for each in pipeline.PASSES]
    (found,) = passes.check(GRAPHS["scaled layer"](), listed).findings
    assert found.rewrite == "fold_batch_norm"


def test_what_cannot_be_evaluated_is_told() -> None:
    graph = Graph(
        {0: Tensor("x", (2,)), 1: Tensor("y", (2,))}, (Node(0, "relu", (0,), (1,)),), (0,), (1,)
    )
    with pytest.raises(ValueError, match="relu makes"):
        graphs.evaluate(graph, {0: np.zeros(3)})
    step = graph.with_nodes([replace(graph.nodes[0], epilogue=(EpilogueOp("add", None, (2.0,)),))])
    assert graphs.evaluate(step, {0: np.array([-1.0, 3.0])})[1].tolist() == [2.0, 5.0]


# ---- samples -------------------------------------------------------------------------------------


def _checked(found: Iterator[sources.Source], count: int, every: int = 1) -> None:
    wrong: list[Any] = []
    for source in islice(found, 0, count * every, every):
        for graph in source.graphs():
            checked = passes.check(graph)
            wrong += [f"{source.name}: {each}" for each in checked.findings]
            wrong += [f"{source.name}: {checked.skipped}"] if checked.skipped else []
    assert not wrong, "\n".join(wrong)


def test_a_sample_of_cases() -> None:
    _checked(sources.cases(), SAMPLED["cases"], 113)


@pytest.mark.adapter
def test_a_sample_of_random_graphs() -> None:
    seeds = range(2000, 2000 + SAMPLED["random"])
    _checked(sources.random_onnx(seeds), SAMPLED["random"])
    _checked(sources.random_tflite(seeds), SAMPLED["random"])


@pytest.mark.parametrize("what", ["attributes", "op"])
def test_what_cannot_be_evaluated_after_a_pass_is_a_finding(what: str) -> None:
    """The pass is named, even if another one ran before it."""

    def kept(graph: Graph) -> Graph:
        return replace(graph, nodes=tuple(replace(node) for node in graph.nodes))

    def broken(graph: Graph) -> Graph:
        other: Any = {"attributes": {"unknown": 1}} if what == "attributes" else {"op": "unknown"}
        first, *others = graph.nodes
        return replace(graph, nodes=(replace(first, **other), *others))

    n = Net()
    graph = n.graph(n.op("relu", n.op("softmax", n.input((5, 4)), beta=1.0)))
    checked = passes.check(graph, (kept, broken))
    assert checked.skipped == ""
    assert [found.rewrite for found in checked.findings][-1] == "broken"


def test_casts_take_stored_numbers() -> None:
    """1.0 is stored as 5, which stands for 1.5 in the result."""
    held, made = Quantization((0.5,), (3,)), Quantization((0.25,), (-1,))
    tensors = {0: Tensor("x", (1,), "i8", quantization=held),
               1: Tensor("y", (1,), "i8", quantization=made)}  # fmt: skip
    graph = Graph(tensors, (Node(0, "cast", (0,), (1,)),), (0,), (1,))
    assert evaluate(graph, {0: np.array([1.0])})[1] == [1.5]


@pytest.mark.adapter
def test_parts_have_every_graph_once() -> None:
    """Processes share the graphs by number."""
    whole = totals.of_part(("random",), 1, 1, 0)
    joined = totals.Result()
    for part in range(3):
        joined.join(totals.of_part(("random",), 1, 3, part))
    assert joined == whole and whole.graphs >= 4
