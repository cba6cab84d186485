"""Plans as data: borders, aliases, fused steps, folded grids, and refusals. No adapter."""

from __future__ import annotations

import numpy as np
import pytest

from tflgpu_plugin import kernels
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import BuildError, Unsupported
from tflgpu_plugin.frontend.subgraph import Subgraph
from tflgpu_plugin.ir.graph import Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.plan import Plan
from tflgpu_plugin.ir.target import Target

TARGET = Target(subgroup_size=8, software=True)


class Builder:
    """A few lines to write graphs in tests; every method returns a tensor id."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.nodes: list[Node] = []

    def tensor(self, shape: Shape, data: object = None, dtype: str = "f32") -> int:
        self.tensors[len(self.tensors)] = Tensor(f"t{len(self.tensors)}", shape, dtype, data)  # type: ignore[arg-type]
        return len(self.tensors) - 1

    def node(
        self, op: str, inputs: tuple[int | None, ...], result: Shape, **attributes: object
    ) -> int:
        output = self.tensor(result)
        self.nodes.append(Node(len(self.nodes), op, inputs, (output,), attributes))
        return output

    def graph(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
        return Graph(self.tensors, tuple(self.nodes), inputs, outputs)


def conv(b: Builder, x: int, channels: int, **more: object) -> int:
    n, h, w, c = b.tensors[x].shape
    weights = b.tensor((channels, 3, 3, c), np.ones((channels, 3, 3, c), np.float32))
    bias = b.tensor((channels,), np.ones(channels, np.float32))
    attributes = {
        "strides": (1, 1),
        "dilations": (1, 1),
        "padding": "same",
        "activation": "relu6",
        **more,
    }
    return b.node("conv_2d", (x, weights, bias), (n, h, w, channels), **attributes)


def residual() -> Graph:
    b = Builder()
    x = b.tensor((1, 8, 8, 8))
    y = conv(b, x, 8, activation="none")
    z = b.node("add", (y, x), (1, 8, 8, 8), activation="relu")
    return b.graph((x,), (z,))


def check_sides(plan: Plan) -> None:
    """No buffer is read and written in one dispatch; every uniform slot is aligned."""
    for dispatch in plan.dispatches:
        kinds = plan.pipelines[dispatch.pipeline].kinds
        assert len(kinds) == len(dispatch.buffers)
        read = {b for kind, b in zip(kinds, dispatch.buffers, strict=True) if kind == "r"}
        written = {b for kind, b in zip(kinds, dispatch.buffers, strict=True) if kind == "w"}
        assert not read & written, dispatch
        assert dispatch.uniform_offset % kernels.UNIFORM_BYTES == 0
        assert max(dispatch.groups) <= TARGET.max_groups


def test_bias_residual_and_activation_are_one_dispatch() -> None:
    plan = compiler.compile(residual(), TARGET)
    check_sides(plan)
    assert [d.label for d in plan.dispatches] == ["pack", "conv", "unpack"]
    assert plan.dispatches[1].nodes == (0, 1)
    assert [p.bytes for p in plan.inputs + plan.outputs] == [8 * 8 * 8 * 4] * 2


def test_equal_layers_share_a_pipeline() -> None:
    b = Builder()
    x = y = b.tensor((1, 16, 16, 64))
    for _ in range(4):
        y = conv(b, y, 64)
    plan = compiler.compile(b.graph((x,), (y,)), TARGET)
    check_sides(plan)
    labels = [pipeline.label for pipeline in plan.pipelines]
    sides = ["winograd_input", "conv", "winograd_output", "winograd_output"]  # with a bias at last
    assert labels == ["pack", *sides, "unpack"]
    assert plan.bytes_of("pool") < plan.tensor_bytes


def test_a_reshape_that_moves_nothing_costs_nothing() -> None:
    b = Builder()
    x = b.tensor((1, 4, 4, 8))
    y = b.node("relu", (x,), (1, 4, 4, 8))
    z = b.node("reshape", (y,), (1, 16, 8), shape=(1, 16, 8))
    plan = compiler.compile(b.graph((x,), (z,)), TARGET)
    assert [d.label for d in plan.dispatches] == ["pack", "unary", "unpack"]


def test_equal_plans_have_equal_fingerprints_and_constants_count() -> None:
    first, second = (compiler.compile(residual(), TARGET).fingerprint() for _ in range(2))
    assert first is not None and first == second
    graph = residual()
    weights = graph.tensors[1].data
    assert weights is not None
    weights[0, 0, 0, 0] = 2
    assert compiler.compile(graph, TARGET).fingerprint() != first


def test_grids_over_the_limit_are_folded() -> None:
    assert compiler._fold((10, 3, 2), 65_535) == (0, (10, 3, 2))
    width, groups = compiler._fold((100_000, 3, 1), 65_535)
    assert width == groups[0] <= 65_535 and groups[0] * groups[1] >= 300_000


def test_a_folded_grid_has_no_more_groups_than_it_must() -> None:
    random = np.random.default_rng(1)
    for _ in range(500):
        limit = int(random.integers(200, 400))
        x, y, z = (int(random.integers(1, most)) for most in (9 * limit, 6, 3))
        width, (across, down, deep) = compiler._fold((x, y, z), limit)
        if max(x, y, z) <= limit:
            assert (width, across, down, deep) == (0, x, y, z)
            continue
        assert (width, deep) == (across, 1) and max(across, down) <= limit
        assert x * y * z <= across * down < x * y * z + down


def test_a_tensor_over_the_binding_limit_is_refused_with_numbers() -> None:
    with pytest.raises(Unsupported, match=r"over this adapter's binding limit of 1,024"):
        compiler.compile(residual(), Target(max_binding_bytes=1024))


def test_what_an_op_became_is_refused_in_the_name_of_its_node() -> None:
    """A gather becomes other ops, and the table whose columns it takes is too large."""
    b = Builder()
    rows, places = b.tensor((40, 16), np.ones((40, 16), np.float32)), b.tensor((5,))
    y = b.node("gather", (rows, places), (40, 5), axis=1)
    z = b.node("relu", (y,), (40, 5))
    with pytest.raises(Unsupported, match="constant of 2,560 bytes") as refused:
        compiler.compile(b.graph((places,), (z,)), Target(max_binding_bytes=1024))
    assert 0 in refused.value.nodes and 1 not in refused.value.nodes


def test_a_defect_in_a_lowering_becomes_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    graph = residual()
    broken = graph.with_nodes(
        [Node(0, "conv_2d", (0,), graph.nodes[0].outputs, {}), graph.nodes[1]]
    )
    monkeypatch.setattr(compiler.pipeline, "run", lambda graph: graph)
    with pytest.raises(Unsupported, match="failed inside this plugin"):
        compiler.compile(broken, TARGET)


def test_other_shapes_are_worked_out_anew() -> None:
    graph = Subgraph(residual()).reshaped([(3, 5, 7, 8)])
    assert graph.shape(graph.outputs[0]) == (3, 5, 7, 8)
    with pytest.raises(BuildError, match="cannot take these input shapes"):
        b = Builder()
        x = b.tensor((1, 4))
        y = b.node("reshape", (x,), (2, 2), shape=(2, 2))
        Subgraph(b.graph((x,), (y,))).reshaped([(1, 5)])
