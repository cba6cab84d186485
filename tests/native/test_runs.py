"""Tests consecutive runs: mapped and staged buffers, commands encoded ahead, timestamps in
between."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.net import Net
from tflgpu_plugin import native
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Graph, Target, Tensor
from tflgpu_plugin.runtime import adapter, selftest
from tflgpu_plugin.runtime.device import create
from tflgpu_plugin.runtime.program import Instance, Program, create_buffer

pytestmark = pytest.mark.adapter
MAPPABLE = "mappable-primary-buffers"
SHAPE = (1, 5, 7, 3)


@pytest.fixture(params=["mapped", "staged"])
def instance(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Returns an instance of relu in two steps, on a new device that maps buffers or does not."""
    device = adapter.open_device(adapter.select(None))
    features = device.target.features - {MAPPABLE}
    if request.param == "mapped":
        if MAPPABLE not in device.target.features:
            pytest.skip("this adapter does not share its memory")
        features |= {MAPPABLE}
    handle = create(device.info, sorted(features))
    yield make(handle)
    gc.collect()


def make(handle: object) -> Instance:
    b = Net()
    x = b.input(SHAPE)
    y = b.op("relu", x)
    z = b.op("softmax", y, beta=1.0)
    return compiled(b.graph(y, z), handle)


def compiled(graph: Graph, handle: object) -> Instance:
    target = adapter.open_device(adapter.select(None)).target
    return Instance(Program(compiler.compile(graph, target), handle))


def picture(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def check(instance: Instance, seed: int) -> None:
    given = picture(seed)
    positive, soft = instance.run([given])
    expected = np.maximum(given, 0)
    assert np.array_equal(positive, expected)
    e = np.exp(expected.astype(np.float64))
    assert np.abs(soft - e / e.sum(-1, keepdims=True)).max() < 1e-6


def test_every_run_has_its_own_result(instance: Instance) -> None:
    for seed in range(6):
        check(instance, seed)
    counters = instance.counters()
    assert (counters.runs, counters.failures) == (6, 0)
    assert counters.uploaded_bytes == counters.downloaded_bytes / 2 == 6 * 5 * 7 * 3 * 4


def timed(instance: Instance, seed: int, ends_only: int) -> Array:
    """Returns the timestamps of a run: three of its ends, or one more than it has dispatches."""
    count = 3 if ends_only else len(instance.plan.dispatches) + 1
    made, options = np.zeros(count, np.uint64), native.ffi.new("tg_run_options *")
    options.timestamps = native.ffi.cast("uint64_t *", made.ctypes.data)
    options.ends_only = ends_only
    outputs = instance.run([picture(seed)], (), options)
    assert np.array_equal(outputs[0], np.maximum(picture(seed), 0))
    return made.astype(np.int64)


def test_other_kinds_of_runs_in_between(instance: Instance) -> None:
    for seed in range(4):
        check(instance, seed)
        instance.run([picture(9)], (), native.ffi.new("tg_run_options *", {"stop_after": 1}))
        check(instance, seed)
        for ends_only in (1, 0):
            timestamps = timed(instance, seed, ends_only)
            assert (np.diff(timestamps) >= 0).all() and timestamps[0] > 0
        assert timestamps[-1] - timestamps[0] < instance.counters().last_nanoseconds


def test_outputs_may_stay_on_the_device(instance: Instance) -> None:
    """Outputs stay on the device in runs before one that is read; each output is tried alone."""
    given = picture(7)
    inputs, states = instance.native_ports([given]), instance.native_ports([])
    for kept in ((0, 1), (0,), (1,), (0, 1)):
        check(instance, 1)
        held = [np.empty(SHAPE, np.float32) for _ in range(2)]
        ports = instance.native_ports(held)
        for k in kept:
            ports[k].host = native.ffi.NULL
        for _ in range(3):
            native.call(native.lib.tg_replay_run, instance.replay, inputs, ports, states,
                        native.ffi.NULL)  # fmt: skip
        for k in kept:
            place = native.ffi.cast("void *", held[k].ctypes.data)
            native.call(native.lib.tg_replay_read_output, instance.replay, k, place,
                        held[k].nbytes)  # fmt: skip
        check(instance, 3)  # not with commands that read what is staged no more
        for got, wanted in zip(held, instance.run([given]), strict=True):
            assert np.array_equal(got, wanted), kept
        check(instance, 2)


def test_inputs_come_from_the_host_and_from_the_device(instance: Instance) -> None:
    """Any input may come from either in any run: those of the host are adjacent in the staging
    buffer."""
    sizes = (5, 3, 33)
    b = Net()
    given = [b.input((1, size)) for size in sizes]
    results = [b.op("relu", x) for x in given]
    reader = compiled(b.graph(*results), instance.program.device)
    maker = compiled(b.graph(*results), instance.program.device)
    random = np.random.default_rng(5)
    for staying in ((), (), (), (1,), (), (0, 2), (1,), (), (0, 1, 2), (), ()):
        arrays = [random.standard_normal((1, size)).astype(np.float32) for size in sizes]
        made = maker.run(arrays)
        arrays = [made[k] if k in staying else -each for k, each in enumerate(arrays)]
        inputs, found = reader.native_ports(arrays), reader.new_outputs()
        for k in staying:
            inputs[k].host = native.ffi.NULL
            inputs[k].device = maker.buffers[maker.plan.outputs[k].buffer]
        native.call(native.lib.tg_replay_run, reader.replay, inputs, reader.native_ports(found),
                    reader.native_ports([]), native.ffi.NULL)  # fmt: skip
        for got, array in zip(found, arrays, strict=True):
            assert np.array_equal(got, np.maximum(array, 0)), staying


def test_states_go_from_run_to_run_or_are_set_between(instance: Instance) -> None:
    """There are as many states as outputs, with other sizes."""
    b = Net()
    first, second = (1, 4, 3, 2), (1, 1, 7, 5)
    x, y, sums, products = b.input(first), b.input(second), b.tensor(first), b.tensor(second)
    more = b.op("add", sums, x, activation="none")
    less = b.op("sub", products, y, activation="none")
    graph = b.graph(more, less, states=((sums, more), (products, less)))
    running = compiled(graph, instance.program.device)
    one, two = np.zeros(first, np.float32), np.zeros(second, np.float32)
    for step in range(8):
        if step == 5:
            one[:] = 3.0
        given = np.full(first, step, np.float32), np.full(second, 2.0, np.float32)
        wanted = one + given[0], two - given[1]
        for got, expected in zip(running.run(given, [one, two]), wanted, strict=True):
            assert np.array_equal(got, expected), step
        assert np.array_equal(one, wanted[0]) and np.array_equal(two, wanted[1]), step


def test_an_instance_may_go_at_any_time(instance: Instance) -> None:
    for runs in range(4):
        other = make(instance.program.device)
        for seed in range(runs):
            check(other, seed)
        del other
        gc.collect()
        check(instance, runs)


def test_two_threads(instance: Instance) -> None:
    found = list[BaseException]()

    def work(which: Instance, seed: int) -> None:
        try:
            for k in range(10):
                check(which, seed + k)
        except BaseException as error:
            found.append(error)

    other = make(instance.program.device)
    threads = [
        threading.Thread(target=work, args=(which, seed))
        for seed, which in enumerate((instance, other, instance))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not found


@pytest.mark.parametrize("count", [5, (1 << 17) - 1, (1 << 17) + 1029, 700_003])
def test_bytes_that_fill_no_word(instance: Instance, count: int) -> None:
    small = compiled(_bytes(count), instance.program.device)
    for seed in range(4):
        given = np.random.default_rng(seed).random((count,)) < 0.5
        (found,) = small.run([given])
        assert np.array_equal(found, given)


def _bytes(count: int) -> Graph:
    tensors = {0: Tensor("x", (count,), "bool"), 1: Tensor("y", (count,), "bool")}
    return Graph(tensors, (), (0,), (0,))


def test_a_mapped_buffer_is_refused_with_a_sentence(
    instance: Instance, request: pytest.FixtureRequest
) -> None:
    """The input that the last run left mapped is passed to another run: wgpu-native would abort.
    Where it is not mapped, the other run cannot copy it: it has no usage for that, unlike tensors
    that programs hold."""
    check(instance, 1)
    other = make(instance.program.device)
    given = instance.buffers[instance.plan.inputs[0].buffer]
    if request.node.name.endswith("[mapped]"):
        with pytest.raises(native.NativeError, match="another thread"):
            run_with(other, given, 0)
    else:
        with pytest.raises(native.NativeError, match="COPY_SRC"):
            run_with(other, given, 0)
    check(other, 2)
    check(instance, 3)


def test_a_buffer_that_cannot_be_copied_is_refused_with_a_sentence(instance: Instance) -> None:
    """A tensor that begins where none can be bound."""
    given = create_buffer(instance.program.device, 512, "pool")
    with pytest.raises(native.NativeError, match="COPY_SRC"):
        run_with(instance, given, 4)
    check(instance, 3)


def run_with(instance: Instance, buffer: Any, offset: int) -> list[Array]:
    """Returns the results of a run with an input on the device."""
    inputs = native.ffi.new("tg_port[]", 1)
    inputs[0].device, inputs[0].offset = buffer, offset
    inputs[0].bytes = instance.plan.inputs[0].bytes
    outputs = instance.new_outputs()
    native.call(native.lib.tg_replay_run, instance.replay, inputs, instance.native_ports(outputs),
                instance.native_ports([]), native.ffi.NULL)  # fmt: skip
    return outputs


@pytest.mark.parametrize("count", [1, 31, 32, 33])
def test_kernels_of_many_bindings(count: int) -> None:
    """Kernels with the largest number of bindings are warmed up; more are refused."""
    kinds = "w" * min(count, 28) + "u" * max(0, count - 28)
    spaces = {"w": ("storage, read_write", "array<u32>", "[0]"), "u": ("uniform", "vec4u", ".x")}
    lines, sums = list[str](), list[str]()
    for k, kind in enumerate(kinds):
        space, held, first = spaces[kind]
        lines.append(f"@group(0) @binding({k}) var<{space}> b{k}: {held};")
        sums.append(f"b{k}{first}")
    text = "\n".join(lines) + "\n@compute @workgroup_size(1) fn main() { b0[0] = %s; }"
    device = adapter.open_device(adapter.select(None))
    arguments = (text % " + ".join(sums)).encode(), kinds.encode()
    try:
        made = native.call(native.lib.tg_pipeline_create, device.handle, *arguments)
    except native.NativeError as error:
        if count <= 32 and "at most 32" not in str(error):
            pytest.skip(f"this adapter takes fewer: {error}")
        assert count > 32 and "at most 32 bindings" in str(error)
        return
    native.call(native.lib.tg_pipeline_warm_up, made)
    native.lib.tg_pipeline_release(made)
    assert count <= 32


def test_subgroups_are_measured_in_small_workgroups_as_well() -> None:
    device = adapter.open_device(adapter.select(None)).handle
    least, size = selftest.least_subgroup(device), selftest.subgroup_size(device)
    assert 0 <= least <= size and (least > 0) == (size > 0)


def test_a_driver_that_refuses_the_self_test_has_no_subgroups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = adapter.open_device(adapter.select(None)).handle
    monkeypatch.setattr(selftest, "WGSL", selftest.WGSL.replace("subgroupAdd", "subgroupNever"))
    assert selftest.subgroup_size(device) == selftest.least_subgroup(device) == 0


def test_float16_of_its_own_is_tried_out() -> None:
    device = adapter.open_device(adapter.select(None))
    assert selftest.native_half(device.handle) == ("shader-f16" in device.target.features)
    assert not device.target.native_half or not device.info.software


def test_words_of_64_bits_are_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    device = adapter.open_device(adapter.select(None))
    able = "shader-int64" in device.target.features
    assert selftest.pairs(device.handle) == able
    assert device.target.pairs == (able and device.info.software)
    for right, wrong in (("v.x >> 32u", "v.x >> 31u"), ("u64", "u65")):
        assert right in selftest.PAIRS
        monkeypatch.setattr(selftest, "PAIRS", selftest.PAIRS.replace(right, wrong))
        assert not selftest.pairs(device.handle)


def test_only_software_adapters_read_words_of_64_bits() -> None:
    """Tests that plan for a GPU on a software adapter run the kernels that GPUs get."""
    b = Net()
    graph = b.graph(b.op("neg", b.input((1, 8))))
    own = Target(software=True, pairs=True)
    for target, wide in ((own, True), (replace(own, software=False), False)):
        pipelines = compiler.compile(graph, target).pipelines
        assert any("u64" in pipeline.wgsl for pipeline in pipelines) == wide


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("vec4<f16>(wide[i])", "vec4<f16>(wide[i] * 1.0005)"),  # the other neighbour
        (
            "vec4<f16>(wide[i])",
            "vec4<f16>(select(vec4f(0.0), wide[i], abs(wide[i]) >= vec4f(0x1p-14)))",
        ),
        ("vec4<f16>(wide[i])", "vec4<f16>(clamp(wide[i], vec4f(-65504.0), vec4f(65504.0)))"),
        ("vec4f(h)", "select(vec4f(0.0), vec4f(h), abs(vec4f(h)) >= vec4f(0x1p-14))"),
        ("h * narrow[COUNT]", "h * narrow[COUNT] * 1.001h"),
        ("h * narrow[COUNT]", "h * narrow[COUNT] * select(1.0h, 0.0h, i == 4u)"),
        ("fma(h, h, h)", "h * h - h"),
        ("enable f16;", "enable f17;"),
    ],
)
def test_a_driver_that_is_wrong_in_float16_has_none(
    right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver rounds incorrectly, or mishandles infinities, numbers below 2^-14, or products."""
    device = adapter.open_device(adapter.select(None))
    if "shader-f16" not in device.target.features:
        pytest.skip("no shader-f16 here")
    assert right in selftest.HALF
    monkeypatch.setattr(selftest, "HALF", selftest.HALF.replace(right, wrong))
    assert not selftest.native_half(device.handle)
