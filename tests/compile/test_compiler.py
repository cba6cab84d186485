"""Tests plans as data: I/O, aliases, fused epilogue ops, folded dispatches, and refusals. No
adapter is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.net import Net
from tests.support.refused import refused
from tflgpu_plugin import kernels
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Node, Plan, Target

TARGET = Target(subgroup_size=8, software=True)


def conv(b: Net, x: int, channels: int, **more: object) -> int:
    c = b.shape(x)[3]
    weights = b.drawn(channels, 3, 3, c)
    bias = b.constant(np.ones(channels, np.float32))
    attributes = {
        "strides": (1, 1),
        "dilations": (1, 1),
        "padding": "same",
        "activation": "relu6",
        **more,
    }
    return b.op("conv_2d", x, weights, bias, **attributes)


def residual(side: int = 8) -> Graph:
    b = Net()
    x = b.input((1, side, side, 8))
    y = conv(b, x, 8, activation="none")
    z = b.op("add", y, x, activation="relu")
    return b.graph(z)


def check_sides(plan: Plan) -> None:
    """Asserts that no dispatch reads and writes the same buffer, and that every uniform slot is
    aligned."""
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
    b = Net()
    y = b.input((1, 16, 16, 64))
    for _ in range(4):
        y = conv(b, y, 64)
    plan = compiler.compile(b.graph(y), TARGET)
    check_sides(plan)
    labels = [pipeline.label for pipeline in plan.pipelines]
    sides = ["winograd_input", "conv", "winograd_output", "winograd_output"]  # with a bias at last
    assert labels == ["pack", *sides, "unpack"]
    assert plan.bytes_of("pool") < plan.tensor_bytes


def test_a_reshape_that_moves_nothing_costs_nothing() -> None:
    b = Net()
    x = b.input((1, 4, 4, 8))
    y = b.op("relu", x)
    z = b.op("reshape", y, shape=(1, 16, 8))
    plan = compiler.compile(b.graph(z), TARGET)
    assert [d.label for d in plan.dispatches] == ["pack", "unary", "unpack"]


def test_equal_graphs_have_equal_plans_and_weights() -> None:
    def identities() -> list[bytes]:
        return [weight.identity for weight in compiler.compile(graph, TARGET).weights]

    graph = residual()
    first = identities()
    assert compiler.compile(graph, TARGET) == compiler.compile(residual(), TARGET)
    assert identities() == first
    weights = graph.tensors[1].data
    assert weights is not None
    weights[0, 0, 0, 0] = 2
    assert identities() != first


def test_dispatches_over_the_limit_are_folded() -> None:
    assert compiler.folded_groups((10, 3, 2), 65_535) == (0, (10, 3, 2))
    width, groups = compiler.folded_groups((100_000, 3, 1), 65_535)
    assert width == groups[0] <= 65_535 and groups[0] * groups[1] >= 300_000


def test_a_folded_dispatch_has_no_more_groups_than_it_must() -> None:
    random = np.random.default_rng(1)
    for _ in range(500):
        limit = int(random.integers(200, 400))
        x, y, z = (int(random.integers(1, most)) for most in (9 * limit, 6, 3))
        width, (across, down, deep) = compiler.folded_groups((x, y, z), limit)
        if max(x, y, z) <= limit:
            assert (width, across, down, deep) == (0, x, y, z)
            continue
        assert (width, deep) == (across, 1) and max(across, down) <= limit
        assert x * y * z <= across * down < x * y * z + down


def test_a_tensor_over_the_binding_limit_is_refused_with_numbers() -> None:
    with refused("device.limit"):
        compiler.compile(residual(), Target(max_binding_bytes=1024))


def test_what_an_op_became_is_refused_in_the_name_of_its_node() -> None:
    """A gather becomes other ops, and the table from which it takes columns is too large."""
    b = Net()
    rows, places = b.constant(np.ones((40, 16), np.float32)), b.input((5,), "i32")
    y = b.op("gather", rows, places, axis=1)
    z = b.op("relu", y)
    with refused("device.limit") as caught:
        compiler.compile(b.graph(z), Target(max_binding_bytes=1024))
    assert 0 in caught.value.nodes and 1 not in caught.value.nodes


def test_a_defect_in_a_lowering_becomes_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    graph = residual()
    broken = graph.with_nodes(
        [Node(0, "conv_2d", (0,), graph.nodes[0].outputs, {}), graph.nodes[1]]
    )
    monkeypatch.setattr(compiler.pipeline, "run", lambda graph, target: graph)
    with refused("defect"):
        compiler.compile(broken, TARGET)


# ---- what lies where -----------------------------------------------------------------------------


def chain(*sizes: int, limit: int = 1 << 20, software: bool = False) -> Plan:
    """Returns the plan of sin(sin(x) + c0) + c1 ..., where constant k has `vectors[k]` vec4 and x
    as many as the largest."""
    b = Net()
    most = max(sizes)
    x = b.input((1, most, 1, 4))
    y = x
    for k, size in enumerate(sizes):
        shape = (1, most, 1, 4) if size == most else (1, 1, 1, 4)
        data = np.full(shape, k + 1, np.float32)
        y = b.op("sin", y)
        y = b.op("add", y, b.constant(data), activation="none")
    target = Target(max_binding_bytes=limit, software=software)
    return compiler.compile(b.graph(y), target)


@pytest.mark.parametrize(
    ("software", "limit", "buffers", "places"),
    [
        (True, 1 << 20, [656], [(0, 0), (0, 320), (0, 336)]),
        (True, 656, [656], [(0, 0), (0, 320), (0, 336)]),
        (True, 655, [336, 320], [(0, 0), (0, 320), (1, 0)]),
        (True, 336, [336, 320], [(0, 0), (0, 320), (1, 0)]),
        (True, 335, [320, 16, 320], [(0, 0), (1, 0), (2, 0)]),
        (True, 320, [320, 16, 320], [(0, 0), (1, 0), (2, 0)]),
        # GPUs may read eight vec4 together, of 128 bytes.
        (False, 832, [832], [(0, 0), (0, 384), (0, 512)]),
        (False, 831, [400, 320], [(0, 0), (0, 384), (1, 0)]),
        (False, 399, [320, 16, 320], [(0, 0), (1, 0), (2, 0)]),
    ],
)
def test_constants_lie_one_after_another_up_to_the_binding_limit(
    software: bool, limit: int, buffers: list[int], places: list[tuple[int, int]]
) -> None:
    plan = chain(20, 1, 20, limit=limit, software=software)
    numbers = [k for k, buffer in enumerate(plan.buffers) if buffer.role == "weights"]
    assert [plan.buffers[k].bytes for k in numbers] == buffers
    weights = sorted(plan.weights, key=lambda weight: float(weight.image().view("f4")[0]))
    assert [(numbers.index(w.buffer), w.offset) for w in weights] == places
    assert [w.bytes for w in weights] == [320, 16, 320]


def test_uniform_blocks_are_those_of_the_launches_in_order() -> None:
    plan = chain(20, 1, 20)
    count = len(plan.dispatches)
    assert [d.uniform_offset for d in plan.dispatches] == [256 * k for k in range(count)]
    (uniforms,) = (buffer for buffer in plan.buffers if buffer.role == "uniforms")
    assert len(plan.uniforms) == uniforms.bytes == 256 * count


def test_ports_have_buffers_of_their_own_also_where_nothing_reads_them() -> None:
    b = Net()
    x, unread = b.input((1, 3, 1, 5)), b.input((7,), "bool")
    before = b.tensor((1, 2))
    y = b.op("sin", x)
    after = b.op("sin", before)
    graph = b.graph(y, states=((before, after),))
    plan = compiler.compile(graph, TARGET)
    ports = [*plan.inputs, *plan.outputs, *plan.states]
    assert [(p.tensor, p.bytes) for p in ports] == [(x, 60), (unread, 7), (y, 60), (before, 8)]
    held = [plan.buffers[p.buffer] for p in ports]
    roles = [(buffer.role, buffer.bytes) for buffer in held]
    assert roles == [("input", 64), ("input", 16), ("output", 64), ("state", 16)]
    assert len({p.buffer for p in ports}) == 4
    assert plan.tensor_bytes == sum(b.bytes for b in plan.buffers if b.role == "pool") == 0 or (
        plan.least_bytes <= plan.bytes_of("pool") <= plan.tensor_bytes
    )


def test_what_is_read_before_it_is_written_is_refused() -> None:
    b = Net()
    x = b.input((1, 5, 1, 8))
    y = b.op("softmax", x, beta=1.0)
    z = b.op("softmax", y, beta=1.0)
    graph = b.graph(z)
    low = compiler.lower(graph, TARGET)
    low.launches = [launch for launch in low.launches if y not in launch.writes]
    with pytest.raises(ValueError, match="of node 1 reads a tensor before it is written"):
        compiler.Assembly(graph, graph, low).plan()


@pytest.mark.parametrize(
    ("groups", "limit", "found"),
    [
        ((5, 5, 5), 5, (0, (5, 5, 5))), ((6, 1, 1), 5, (3, (3, 2, 1))),
        ((1, 6, 2), 5, (4, (4, 3, 1))), ((1, 1, 6), 5, (3, (3, 2, 1))),
        ((25, 1, 1), 5, (5, (5, 5, 1))),
    ],
)  # fmt: skip
def test_folded_dispatches(
    groups: tuple[int, int, int], limit: int, found: tuple[int, tuple[int, int, int]]
) -> None:
    assert compiler.folded_groups(groups, limit) == found


GPU = Target(vendor="amd")


def test_pools_of_gpus_begin_with_zeros_that_kernels_read_as_padding() -> None:
    """Kernels select an address for padding, which is an area without tensors."""
    plan = compiler.compile(residual(), GPU)
    pools = [buffer for buffer in plan.buffers if buffer.role == "pool"]
    assert pools and all(pool.zeros == 256 < pool.bytes for pool in pools)
    (text,) = (p.wgsl for p in plan.pipelines if "fn padded_x(" in p.wgsl)
    assert "select(0u, p.off_x + i, inside)" in text and "select(vec4f(" not in _of(text, "padded")
    for dispatch in plan.dispatches:
        names = [n for n in plan.pipelines[dispatch.pipeline].wgsl.split() if "_data:" in n]
        for name, number in zip(names, dispatch.buffers[1:], strict=True):
            if plan.buffers[number].role == "pool":
                offset = _word(plan, dispatch.uniform_offset, dispatch.pipeline, name[:-6])
                assert offset >= 16
    plain = compiler.compile(residual(), TARGET)
    assert not any(buffer.zeros for buffer in plain.buffers)
    (text,) = (p.wgsl for p in plain.pipelines if "fn padded_x(" in p.wgsl)
    assert "select(vec4f(" in _of(text, "padded")


def test_a_pool_up_to_the_binding_limit_has_no_zeros() -> None:
    """Kernels select values instead of addresses, and a tensor as large as the limit can be
    used."""
    size = 16 * 16 * 8 * 4
    for limit, zeros in ((size + 256, 256), (size + 255, 0)):
        plan = compiler.compile(residual(16), replace(GPU, max_binding_bytes=limit))
        assert {buffer.zeros for buffer in plan.buffers if buffer.role == "pool"} == {zeros}
    assert any("select(vec4f(" in _of(p.wgsl, "padded") for p in plan.pipelines)


def _of(text: str, accessor: str) -> str:
    """Returns the name of the accessor of x if the kernel has it, else ""."""
    return "".join(line for line in text.splitlines() if line.startswith(f"fn {accessor}_x("))


def _word(plan: Plan, block: int, pipeline: int, operand: str) -> int:
    """Returns the operand's offset, which is at this place in the uniform block."""
    fields = plan.pipelines[pipeline].wgsl.split("struct Params { ")[1].split(" }")[0]
    place = [field.split(":")[0] for field in fields.split(", ")].index(f"off_{operand}")
    return int.from_bytes(plan.uniforms[block + 4 * place : block + 4 * place + 4], "little")


def test_a_negative_integer_is_a_word_in_twos_complement() -> None:
    """Newer numpy refuses to make an unsigned number of it."""
    block = kernels.parameter_words({"a": -5, "b": np.int32(-5), "c": 7, "d": -1.5})
    assert np.frombuffer(block, "<i4")[:3].tolist() == [-5, -5, 7]
    assert np.frombuffer(block, "<f4")[3] == -1.5 and len(block) == kernels.UNIFORM_BYTES
