"""Tests templates: tables for native code, buffer sizes, and released constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.net import Net
from tflgpu_plugin.compile import compiler, memory
from tflgpu_plugin.compile.memory import Life
from tflgpu_plugin.compile.template import Template, Values, template
from tflgpu_plugin.ir import Graph, Plan, Symbols, Target, Tensor
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.ir.plan import FORMULAS, GUARDS, WORDS
from tflgpu_plugin.ir.symbolic import integers

TARGET = Target(software=True, vendor="software", subgroup_size=8)
PLACES = [(1, 0), (2, 1)]
COMPUTED = {
    "plus": lambda a, b: a + b, "times": lambda a, b: a * b,
    "quotient": lambda a, b: a // b, "remainder": lambda a, b: a % b,
    "rounded_up": lambda a, b: -(-a // b),
}  # fmt: skip
HOLDS = {
    "zero": lambda n: n == 0, "not_zero": lambda n: n != 0, "not_negative": lambda n: n >= 0,
}  # fmt: skip
KINDS = {"u32": np.uint32, "i32": np.int32, "f32": np.float32}


def layers(height: int, width: int) -> Graph:
    """Returns a graph of a convolution, the mean of its result, and both joined, for an image of
    this size."""
    net = Net()
    x = net.input((1, height, width, 6))
    y = net.op("conv_2d", x, net.constant(np.ones((8, 3, 3, 6), np.float32)), None,
                strides=(2, 1), padding=(1, 1, 1, 1))  # fmt: skip
    z = net.op("mean", y, net.ints(1, 2), keep_dims=True)
    return net.graph(net.op("softmax", y, beta=1.0), net.op("add", y, z))


def traced(height: int, width: int) -> Template:
    trace = Trace()
    return template(layers(trace.symbol(0, height), trace.symbol(1, width)), TARGET, trace)


def registers(symbols: Symbols, values: list[int]) -> list[int]:
    found = [*values, *symbols.constants.tolist()]
    for op, a, b in symbols.formulas.tolist():
        found.append(COMPUTED[FORMULAS[op]](found[a], found[b]))
    return found


def follows(plan: Plan, values: list[int]) -> tuple[bytes, list[tuple[int, ...]], list[int]]:
    """Returns the uniforms, workgroups and port sizes that the tables give for these values of the
    symbols."""
    symbols = plan.symbols
    assert symbols is not None
    found, uniforms = registers(symbols, values), bytearray(plan.uniforms)
    for at, register, kind in symbols.words.tolist():
        uniforms[at : at + 4] = np.array(found[register], KINDS[WORDS[kind]]).tobytes()
    groups = [list(made.groups) for made in plan.dispatches]
    for dispatch, axis, register, _ in symbols.groups.tolist():
        groups[dispatch][axis] = found[register]
    sizes = [port.bytes for port in (*plan.inputs, *plan.outputs)]
    for port, register in symbols.sizes.tolist():
        sizes[port] = found[register]
    return bytes(uniforms), [tuple(each) for each in groups], sizes


def allowed(plan: Plan, values: list[int]) -> bool:
    assert plan.symbols is not None
    found = registers(plan.symbols, values)
    return all(HOLDS[GUARDS[kind]](found[register]) for kind, register in plan.symbols.guards)


def test_tables_give_what_the_template_settles() -> None:
    made = traced(20, 30)
    plan = made.settled({0: 20, 1: 30}, [{0: 40, 1: 50}], PLACES)
    for height, width in ((20, 30), (21, 31), (22, 29), (40, 50), (7, 50)):
        values = {0: height, 1: width}
        assert made.fits(values) == allowed(plan, [height, width])
        if not made.fits(values):
            continue
        other = made.settled(values, [{0: 40, 1: 50}], PLACES)
        ports = [port.bytes for port in (*other.inputs, *other.outputs)]
        groups = [each.groups for each in other.dispatches]
        assert follows(plan, [height, width]) == (other.uniforms, groups, ports)
        assert other.buffers == plan.buffers
    small = made.settled({0: 20, 1: 30}, [{0: 20, 1: 30}], PLACES)
    assert made.fits({0: 21, 1: 31}) and allowed(plan, [21, 31])
    assert not allowed(small, [21, 31])  # there is no room
    assert not made.fits({0: 20, 1: 1 << 30})


def test_extents_of_outputs_have_their_places() -> None:
    plan = traced(20, 30).settled({0: 20, 1: 30}, [{0: 40, 1: 50}], PLACES)
    assert plan.symbols is not None
    found = registers(plan.symbols, [24, 44])
    shapes = [number for port in plan.outputs for number in (len(port.shape), *port.shape)]
    for position, register in plan.symbols.extents.tolist():
        shapes[position] = found[register]
    assert shapes == [4, 1, 12, 44, 8] * 2


def test_extents_that_a_run_counts_have_none() -> None:
    made = traced(20, 30)
    counted, count = made.plan.outputs
    made.plan = replace(made.plan, outputs=(replace(counted, counted=(1, 1)), count))
    symbols = made.settled({0: 20, 1: 30}, [{0: 40, 1: 50}], PLACES).symbols
    assert symbols is not None and symbols.extents[:, 0].tolist() == [3]


def test_room_for_larger_shapes_is_in_the_buffers() -> None:
    made = traced(20, 30)
    small = made.settled({0: 20, 1: 30}, [{0: 20, 1: 30}], PLACES)
    large = made.settled({0: 20, 1: 30}, [{0: 60, 1: 30}], PLACES)
    less = made.settled({0: 20, 1: 30}, [{0: 2, 1: 2}], PLACES)
    sizes = [[b.bytes for b in plan.buffers if b.role != "weights"] for plan in (small, large)]
    assert small.buffers == less.buffers and small.inputs == large.inputs
    assert all(a <= b for a, b in zip(*sizes, strict=True)) and sizes[0] != sizes[1]
    assert all(b.bytes % 16 == 0 for b in large.buffers)
    assert small.buffers == compiler.compile(layers(20, 30), TARGET).buffers


def test_a_template_without_constants_settles_what_it_settled_before() -> None:
    made = traced(20, 30)
    before = made.settled({0: 20, 1: 30}, [{0: 20, 1: 30}], PLACES)
    made.forget_constants()
    after = made.settled({0: 20, 1: 30}, [{0: 20, 1: 30}], PLACES)
    weights = [[weight.identity for weight in plan.weights] for plan in (before, after)]
    assert weights[0] == weights[1] and after.structure == before.structure
    assert all(weight.data is None for weight in after.weights)
    with pytest.raises(ValueError, match="no longer"):
        after.weights[0].image()


def test_symbolic_constants_follow_the_shape() -> None:
    trace = Trace()
    a = trace.symbol(0, 12)
    net = Net()
    x = net.input((a, 8))
    tensor = net.constant(np.array([1, 2, 3, 4, 5, 6, 7, 8], np.int32))
    graph = net.graph(net.op("add", net.op("cast", x, made=Tensor("", (), "i32")), tensor))
    tensors = dict(graph.tensors)
    number = next(t for t, held in tensors.items() if held.data is not None)
    tensors[number] = replace(tensors[number], data=integers([a + k for k in range(8)]))
    made = template(replace(graph, tensors=tensors), TARGET, trace)
    plan = made.settled({0: 12}, [{0: 20}], [(1, 0)])
    listed = np.frombuffer(plan.uniforms, np.int32)[64 * len(plan.dispatches) :]
    assert listed[:8].tolist() == [*range(12, 20)]
    uniforms, _, _ = follows(plan, [15])
    listed = np.frombuffer(uniforms, np.int32)[64 * len(plan.dispatches) :]
    assert listed[:8].tolist() == [*range(15, 23)]
    assert len(plan.uniforms) == plan.buffers[0].bytes and not plan.weights


def test_offsets_within_chosen_pools() -> None:
    alive = {1: Life(10, 0, 1), 2: Life(20, 1, 2), 3: Life(5, 2, 3), 4: Life(7, 0, 3)}
    offsets, sizes = memory.offsets_in_pools(alive, {1: 0, 2: 0, 3: 0, 4: 1})
    assert offsets == {2: 0, 1: 20, 3: 20, 4: 0} and sizes == [30, 7]
    assert memory.offsets_in_pools({}, {}) == ({}, [])


def test_values_of_other_things_than_symbols() -> None:
    trace = Trace()
    a = trace.symbol(0, 12)
    values = Values(trace, {0: 15})
    assert values.of(a * 2) == 30 and values.of(7) == 7 and values.of(a % 4) == 3
    assert values.of(-(-a // 4)) == 4 and values.of(a // 4) == 3
