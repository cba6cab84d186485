"""Tests pairs of launches that become one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.harness import device_of, run_graph
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Target, Tensor
from tflgpu_plugin.kernels.horizontal_fusion import fused
from tflgpu_plugin.runtime.program import Instance, Program

PLAIN = Target(name="plain")
ROWS, WIDTH = 7, 8
WHOLE = Tensor("", (), "i32")


def picks(graph: Graph, target: Target = PLAIN) -> int:
    """Returns the number of launches that pick rows."""
    labels = [made.label for made in compiler.compile(graph, target).dispatches]
    return labels.count("pick")


def two(n: Net, indices: int, width: int = WIDTH) -> tuple[int, int]:
    """Adds the rows of two tables at the same indices."""
    tables = n.drawn(ROWS, WIDTH), n.drawn(ROWS, width)
    one, other = (n.op("gather", table, indices, axis=0) for table in tables)
    return n.op("exp", one), n.op("exp", other)


@pytest.mark.adapter
def test_launches_that_differ_in_their_operands_are_one() -> None:
    n = Net()
    indices = n.input((3,), "i32")
    outputs = two(n, indices)
    assert picks(n.graph(*outputs)) == 1
    tables = [n.tensors[node.operand()].data for node in n.nodes if node.op == "gather"]
    given = np.array([4, 0, 6], np.int32)
    found = run_graph(n.graph(*outputs), {indices: given})
    for output, table in zip(outputs, tables, strict=True):
        assert table is not None
        np.testing.assert_allclose(found[output], np.exp(table[given]), rtol=1e-5)


@pytest.mark.adapter
def test_parts_of_large_tables_are_joined() -> None:
    """The kernel has parameters that are called as functions are."""
    n, device = Net(), device_of()
    indices = n.input((3,), "i32")
    plan = compiler.compile(
        n.graph(*two(n, indices)), replace(device.target, max_binding_bytes=4 * 5 * WIDTH)
    )
    assert [made.label for made in plan.dispatches].count("pick") == 2
    tables = [n.tensors[node.operand()].data for node in n.nodes if node.op == "gather"]
    given = np.array([4, 0, 6], np.int32)
    found = Instance(Program(plan, device.handle, device.pipelines)).run([given], [])
    for result, table in zip(found, tables, strict=True):
        assert table is not None
        np.testing.assert_allclose(result, np.exp(table[given]), rtol=1e-5)


@pytest.mark.adapter
def test_padding_with_zeros_of_either_sign_stays_apart() -> None:
    n = Net()
    x, margins = n.input((1, 2, 3)), n.constant(np.array([[0, 0], [1, 1], [0, 0]], np.int32))
    outputs = [n.op("pad", x, margins, n.number(value)) for value in (0.0, -0.0)]
    given = np.ones((1, 2, 3), np.float32)
    found = run_graph(n.graph(*outputs), {x: given})
    assert [np.signbit(found[t]).sum() for t in outputs] == [0, 6]


@pytest.mark.adapter
def test_a_launch_that_reads_the_result_of_another_stays_alone() -> None:
    n = Net()
    tables = np.array([[3, 0, 2, 1], [2, 3, 1, 0]], np.int32)
    indices = n.input((4,), "i32")
    first = n.op("gather", n.constant(tables[0]), indices, made=WHOLE, axis=0)
    second = n.op("gather", n.constant(tables[1]), first, made=WHOLE, axis=0)
    assert picks(n.graph(second)) == 2
    given = np.array([1, 1, 3, 0], np.int32)
    found = run_graph(n.graph(second), {indices: given})[second]
    np.testing.assert_array_equal(found, tables[1][tables[0][given]])


def test_launches_of_other_shapes_and_launches_far_apart_stay_alone() -> None:
    n = Net()
    assert picks(n.graph(*two(n, n.input((3,), "i32"), 2 * WIDTH))) == 2
    n = Net()
    indices = n.input((3,), "i32")
    first, second = n.drawn(ROWS, WIDTH), n.drawn(ROWS, WIDTH)
    one = n.op("gather", first, indices, axis=0)
    for _ in range(12):
        one = n.op("softmax", one, beta=1.0)
    assert (
        picks(n.graph(one, n.op("softmax", n.op("gather", second, indices, axis=0), beta=1.0))) == 2
    )


def test_no_more_buffers_than_an_adapter_binds() -> None:
    n = Net()
    graph = n.graph(*two(n, n.input((3,), "i32")))
    assert [picks(graph, replace(PLAIN, max_storage_buffers=most)) for most in (5, 6)] == [2, 1]


def test_kernels_with_many_accesses_stay_alone() -> None:
    """Each lane of a vec4 has an index of its own."""
    n = Net()
    indices = n.input((3,), "i32")
    graph = n.graph(*(n.op("exp", n.op("gather", n.drawn(ROWS), indices, axis=0)) for _ in "ab"))
    assert picks(graph) == 2


def test_long_launches_stay_alone() -> None:
    n = Net()
    assert picks(n.graph(*two(n, n.input((1 << 16,), "i32")))) == 2


def test_the_second_part_has_names_of_its_own() -> None:
    body = """var<workgroup> held: array<f32, 4>;
fn twice(v: f32) -> f32 { return 2.0 * v; }
@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  held[lid] = twice(load_x(lid) + load_both(lid)) + f32(p.off_x + p.count);
  put_y(lid, held[lid]);
}
"""
    made = fused(body, (("x", "x_2"), ("y", "y_2")))
    assert (
        "held_2[lid] = twice_2(load_x_2(lid) + load_both(lid)) + f32(p.off_x_2 + p.count);" in made
    )
    assert (
        "fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {"
        in made
    )
    assert "first(wid, lid); first_2(wid, lid);" in made
    assert made.count("@compute") == 1
