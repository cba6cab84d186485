"""Storage geometry, verification and the packing of constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tflgpu_plugin.ir import EpilogueOp, Geometry, Graph, Node, Tensor, dump, geometry, verify
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.packing import pack_stored


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), Geometry(1, 1, 1, 1)),
        ((5,), Geometry(1, 2, 1, 5)),
        ((3, 9), Geometry(3, 3, 1, 9)),
        ((3, 7, 9), Geometry(3, 3, 7, 9)),
        ((2, 7, 5, 4), Geometry(2, 1, 35, 4)),
        ((2, 1, 3, 1, 5), Geometry(2, 2, 3, 5)),
        ((2, 1, 3, 1, 1, 5), Geometry(1, 8, 1, 30)),
    ],
)
def test_geometry(shape: tuple[int, ...], expected: Geometry) -> None:
    assert geometry(shape) == expected


def test_stored_constant_has_zero_pad_lanes() -> None:
    data = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5) + 1
    packed = pack_stored(data, geometry(data.shape))
    assert packed.shape == (2, 2, 3, 4)
    assert packed[1, 0, 2, 3] == data[1, 2, 3]
    assert packed[1, 1, 2, 0] == data[1, 2, 4]
    assert (packed[:, 1, :, 1:] == 0).all()


def small() -> Graph:
    tensors = {
        0: Tensor("x", (1, 4)),
        1: Tensor("a", (1, 4)),
        2: Tensor("b", (1, 4)),
        3: Tensor("c", (4,), data=np.ones(4)),
    }
    nodes = (Node(0, "relu", (0,), (1,)), Node(1, "add", (1, 3), (2,)))
    return Graph(tensors, nodes, (0,), (2,))


def test_verify_finds_what_is_wrong() -> None:
    graph = small()
    verify(graph)
    with pytest.raises(ValueError, match="before anything writes it"):
        verify(graph.with_nodes(graph.nodes[::-1]))
    with pytest.raises(ValueError, match="written by two nodes"):
        verify(graph.with_nodes([graph.nodes[0], replace(graph.nodes[1], outputs=(1,))]))
    with pytest.raises(ValueError, match="nothing writes it"):
        verify(graph.with_nodes(graph.nodes[:1]))


def test_dump_and_reads_name_fused_operands() -> None:
    graph = small()
    node = replace(graph.nodes[0], epilogue=(EpilogueOp("add", 3), EpilogueOp("relu")))
    assert node.reads == (0, 3)
    assert "| add %3 | relu" in dump(graph.with_nodes([node]))


@pytest.mark.parametrize(
    ("operand", "output", "expected"),
    [
        ((), (1, 4, 4, 3), "scalar"),
        ((1, 1), (1, 4, 4, 3), "scalar"),
        ((3,), (1, 4, 4, 3), "channel"),
        ((1, 1, 1, 3), (2, 4, 4, 3), "channel"),
        ((1, 4, 4, 3), (1, 4, 4, 3), "same"),
        ((4, 1, 3), (1, 4, 4, 3), None),
        ((3,), (2, 2, 2, 2, 3), "channel"),
        ((3,), (1, 2, 2, 2, 2, 3), None),
        ((2, 1, 1, 3), (2, 4, 4, 3), None),
    ],
)
def test_spread(operand: tuple[int, ...], output: tuple[int, ...], expected: str | None) -> None:
    graph = Graph({0: Tensor("a", operand), 1: Tensor("y", output)}, (), (), ())
    assert spread(graph, 0, 1) == expected
