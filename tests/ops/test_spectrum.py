"""Tests complex numbers: where they may occur, how large they may be, and the cost of their
transforms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.harness import device_of, run_graph
from tests.support.net import Net
from tflgpu_plugin import ops
from tflgpu_plugin.importer import partition, partition_rules, support
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.ops import spectrum
from tflgpu_plugin.options import Options

ENDS = [0.0, -0.0, 1.0, -1.0, 3e38, 2.0**60, 2.0**61, 2.0**-40, 2.0**-41, 2.0**-126, 1e-30]
ENDS += [np.inf, -np.inf, np.nan]


def chain(*results: str) -> Graph:
    """Returns a graph of the rfft of tensor 0 (node 0), a reshape of it (node 1), and the node that
    reads that."""
    b = Net()
    x, lengths = b.input((3, 1, 8)), b.constant(np.array([1, 8], np.int32), "i32")
    found = b.op("rfft", x, lengths)
    flat = b.op("reshape", found, None, shape=(3, 5))
    for tensor in (found, flat):
        b.retyped(tensor, "c64")
    made = [b.op(name, flat) for name in results]
    return b.graph(*made)


@pytest.mark.adapter
def test_sizes_of_any_numbers() -> None:
    """Magnitudes equal those of std::abs within 8 units in the last place."""
    numbers = np.random.default_rng(3).normal(size=500) * 10.0 ** np.arange(500) ** 0.5
    pairs = [np.concatenate([a.reshape(-1), v]) for a, v in
             zip(np.meshgrid(ENDS, ENDS), (numbers, numbers[::-1]), strict=True)]  # fmt: skip
    v, e = (a.astype(np.float32) for a in pairs)
    b = Net()
    x, y = b.input(v.shape), b.input(v.shape)
    z = b.op("hypot", x, y)
    got = run_graph(b.graph(z), {x: v, y: e})[z]
    with np.errstate(over="ignore"):
        wanted = np.hypot(v.astype(np.float64), e).astype(np.float32)
    np.testing.assert_allclose(got, wanted, rtol=8 * 2.0**-24)


@pytest.mark.adapter
def test_a_chain() -> None:
    graph = chain("complex_abs", "real", "imaginary")
    x = np.random.default_rng(1).normal(size=(3, 1, 8)).astype(np.float32)
    got = run_graph(graph, {0: x})
    wanted = np.fft.rfft(x[:, 0].astype(np.float64))
    for tensor, part in zip(graph.outputs, (abs(wanted), wanted.real, wanted.imag), strict=True):
        np.testing.assert_allclose(got[tensor], part, atol=2e-6)
    assert np.all(got[graph.outputs[2]][:, (0, 4)] == 0)  # as any transform of real numbers has it


def test_matrices_have_exact_zeros() -> None:
    made = spectrum.matrix(8, 1, 8, onesided=True).reshape(8, 5, 2)
    assert np.all(made[:, 0] == [1, 0]) and np.all(made[:, 4, 1] == 0)
    assert np.all(made[::2, 2, 1] == 0) and np.all(np.abs(made[1::2, 2, 1]) == 1)


def test_a_transform_costs_its_products() -> None:
    b = Net()
    x, lengths = b.input((3, 4, 8)), b.constant(np.array([4, 8], np.int32), "i32")
    b.op("rfft", x, lengths)
    graph = b.graph()
    row = ops.rows()["rfft"]
    assert row.work is not None
    # 12 rows of 8 x 10, and 15 columns of 8 x 8, with all 5 frequencies and both parts.
    assert row.work(graph, graph.nodes[0]) == 12 * 8 * 10 + 15 * 8 * 8
    row_only = b.constant(np.array([1, 8], np.int32), "i32")
    node = replace(graph.nodes[0], inputs=(x, row_only))
    assert row.work(graph, node) == 3 * 8 * 10


def placed(graph: Graph, groups: list[list[int]]) -> dict[int, str]:
    """Returns the reasons that keep nodes of these groups off the GPU."""
    options = Options(force=True)
    parted = partition_rules.Parted(graph, groups, partition.extract, options)
    return partition_rules.placed(parted)


@pytest.mark.parametrize(
    ("place", "lost"),
    [
        ([[0, 1, 2, 3]], set()),
        ([[0, 1, 2]], {1, 2}),  # a reader elsewhere
        ([[1, 2, 3]], {1}),  # the maker elsewhere
        ([[0, 1], [2, 3]], {1, 2, 3}),
        ([[0], [1, 2, 3]], {0, 1}),
        ([[3]], {3}),
    ],
)
def test_they_stay_in_one_partition(place: list[list[int]], lost: set[int]) -> None:
    graph = chain("complex_abs", "real")
    assert placed(graph, place) == dict.fromkeys(lost, partition_rules.PARTED)


def test_they_are_no_inputs_and_no_outputs() -> None:
    graph, whole = chain("complex_abs"), [[0, 1, 2]]
    assert not placed(graph, whole)
    shown = replace(graph, outputs=(*graph.outputs, graph.nodes[0].outputs[0]))
    assert set(placed(shown, whole)) == {0, 1}
    fed = replace(graph, nodes=graph.nodes[1:], inputs=(graph.nodes[0].outputs[0],))
    assert set(placed(fed, [[1, 2]])) == {1}


@pytest.mark.adapter
@pytest.mark.parametrize("op", ["transpose", "relu", "abs", "add"])
def test_other_operators_refuse_them(op: str) -> None:
    b = Net()
    x = b.input((3, 5), "c64")
    made = b.op(op, *((x, x) if op == "add" else (x,)), perm=(0, 1))
    graph = b.graph(b.retyped(made, "c64"))
    reason = support.support(graph, graph.nodes[0], device_of().target) or ""
    assert "holds complex64 values" in reason
