"""Tensors on the device at the ports of a run: kernels access them where they are, if they may."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.native.test_runs import compiled, instance
from tests.support.net import Net
from tflgpu_plugin import native
from tflgpu_plugin.ir import Array
from tflgpu_plugin.runtime.program import (
    COPY_DST,
    COPY_SRC,
    STORAGE,
    UNIFORM,
    Instance,
    write_buffer,
)

__all__ = ["instance"]
pytestmark = pytest.mark.adapter
SHAPE = (1, 3, 36)  # whole vectors
COUNT, BYTES = 108, 432
TENSOR = STORAGE | COPY_SRC | COPY_DST


def two_results(handle: Any) -> Instance:
    """Returns an instance of x + y and twice that; tensors do not fill their last vec4."""
    b = Net()
    x, y = b.input(SHAPE), b.input(SHAPE)
    total = b.op("add", x, y, activation="none")
    return compiled(b.graph(total, b.op("add", total, total, activation="none")), handle)


def drawn(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


@dataclass
class Bench:
    """A replay, one that copies a buffer to the host, and the buffers of the test."""

    instance: Instance
    reader: Instance = field(init=False)

    def __post_init__(self) -> None:
        b = Net()
        x = b.input(SHAPE)
        self.reader = compiled(b.graph(b.op("neg", x)), self.instance.program.device)

    def buffer(
        self, values: Array | None = None, offset: int = 0, more: int = 0, usage: int = TENSOR
    ) -> Any:
        """Returns a device buffer with these values at an offset, and some bytes behind them."""
        made = native.call(native.lib.tg_buffer_create, self.instance.program.device,
                           offset + BYTES + more, usage, native.lib.TG_TENSOR)  # fmt: skip
        held = native.ffi.gc(made, native.lib.tg_buffer_release)
        if values is not None:
            write_buffer(held, offset, np.ascontiguousarray(values))
        return held

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
        """Runs with ports that are arrays, or (buffer, offset); returns the bytes copied between
        tensors and the replay's buffers."""
        before = self.instance.counters().copied_bytes
        run(self.instance, inputs, outputs)
        return int(self.instance.counters().copied_bytes - before)

    def read(self, buffer: Any, offset: int = 0) -> Array:
        found = np.empty(SHAPE, np.float32)
        run(self.reader, [(buffer, offset)], [found])
        return -found


def run(instance: Instance, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    given, made = (native.ffi.new("tg_port[]", len(ports)) for ports in (inputs, outputs))
    for ports, values in ((given, inputs), (made, outputs)):
        for port, value in zip(ports, values, strict=True):
            port.bytes = BYTES
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, tuple):
                    port.device, port.offset = one
                else:
                    port.host = native.ffi.cast("void *", one.ctypes.data)
    native.call(native.lib.tg_replay_run, instance.replay, given, made,
                instance.native_ports([]), native.ffi.NULL)  # fmt: skip


@pytest.fixture
def bench(instance: Instance) -> Bench:
    return Bench(two_results(instance.program.device))


@pytest.mark.parametrize("offset", [0, 256, 512, 4, 128, 252, 260])
def test_an_input_is_read_where_it_is(bench: Bench, offset: int) -> None:
    x, y = drawn(1), drawn(2)
    found = [np.empty(SHAPE, np.float32) for _ in range(2)]
    copied = bench.run([(bench.buffer(x, offset), offset), y], found)
    assert copied == (BYTES if offset % 256 else 0)
    assert np.array_equal(found[0], x + y) and np.array_equal(found[1], 2 * (x + y))


@pytest.mark.parametrize("offset", [0, 256, 512, 4, 128])
def test_outputs_are_written_where_they_are(bench: Bench, offset: int) -> None:
    x, y, made = drawn(1), drawn(2), [bench.buffer(None, offset) for _ in range(2)]
    copied = bench.run([(bench.buffer(x), 0), (bench.buffer(y), 0)], [(b, offset) for b in made])
    assert copied == (2 * BYTES if offset % 256 else 0)
    assert np.array_equal(bench.read(made[0], offset), x + y)
    assert np.array_equal(bench.read(made[1], offset), 2 * (x + y))


def test_an_output_may_go_to_the_host_as_well(bench: Bench) -> None:
    x, y, found, made = drawn(1), drawn(2), np.empty(SHAPE, np.float32), bench.buffer()
    other = bench.buffer()
    assert bench.run([x, y], [[found, (made, 0)], (other, 0)]) == BYTES
    assert np.array_equal(found, x + y) and np.array_equal(bench.read(made), x + y)
    assert np.array_equal(bench.read(other), 2 * (x + y))


def test_one_tensor_at_several_ports(bench: Bench) -> None:
    """A tensor that is read twice needs no copy; one that is written is not read meanwhile."""
    x, y = drawn(1), drawn(2)
    one, both = bench.buffer(x), bench.buffer(x, more=1024 - BYTES)
    write_buffer(both, 512, y)
    found = [np.empty(SHAPE, np.float32) for _ in range(2)]
    assert bench.run([(one, 0), (one, 0)], found) == 0
    assert np.array_equal(found[0], x + x)
    assert bench.run([(both, 0), (both, 512)], found) == 0
    assert np.array_equal(found[0], x + y)
    assert bench.run([(one, 0), y], [(one, 0), found[1]]) == BYTES
    assert np.array_equal(bench.read(one), x + y) and np.array_equal(found[1], 2 * (x + y))
    assert bench.run([x, y], [(both, 0), (both, 512)]) == 2 * BYTES
    assert np.array_equal(bench.read(both), x + y)
    assert np.array_equal(bench.read(both, 512), 2 * (x + y))


def test_buffers_of_the_replay_are_copied(bench: Bench) -> None:
    """An output of the last run as an input: the steps write it again."""
    x, y = drawn(1), drawn(2)
    found = [np.empty(SHAPE, np.float32) for _ in range(2)]
    bench.run([x, y], found)
    own = bench.instance.buffers[bench.instance.plan.outputs[0].buffer]
    other = bench.buffer()
    assert bench.run([(own, 0), y], [found[0], (other, 0)]) == BYTES
    assert np.array_equal(found[0], x + y + y)
    assert np.array_equal(bench.read(other), 2 * (x + y + y))


def test_a_buffer_of_another_kind_is_copied(bench: Bench) -> None:
    x, y, found = drawn(1), drawn(2), [np.empty(SHAPE, np.float32) for _ in range(2)]
    given = bench.buffer(x, usage=UNIFORM | COPY_SRC | COPY_DST)
    assert bench.run([(given, 0), y], found) == BYTES
    assert np.array_equal(found[0], x + y)


def test_a_part_of_a_vector_at_the_end_of_a_buffer(bench: Bench) -> None:
    """The last tensor of a buffer has room for whole vec4; one that begins too late has not."""
    x, y, found = drawn(1), drawn(2), [np.empty(SHAPE, np.float32) for _ in range(2)]
    held = bench.buffer(x, 256)
    assert bench.run([(held, 256), y], found) == 0
    assert np.array_equal(found[1], 2 * (x + y))


def test_many_tensors_in_turn(bench: Bench) -> None:
    """More than sets of bind groups are kept, at either port; some are freed, and new ones made."""
    random = np.random.default_rng(3)
    values = [drawn(seed) for seed in range(9)]
    buffers = [bench.buffer(value) for value in values]
    made = [bench.buffer() for _ in range(9)]
    for step in range(80):
        i, j, k = random.integers(9, size=3)
        second = np.empty(SHAPE, np.float32)
        assert bench.run([(buffers[i], 0), (buffers[j], 0)], [(made[k], 0), second]) == 0
        assert np.array_equal(bench.read(made[k]), values[i] + values[j]), step
        assert np.array_equal(second, 2 * (values[i] + values[j]))
        if step % 4 == 0:
            values[k] = drawn(100 + step)
            buffers[k], made[k] = bench.buffer(values[k]), bench.buffer()
            gc.collect()
        if step % 7 == 0:
            found = [np.empty(SHAPE, np.float32) for _ in range(2)]
            bench.run([values[i], values[j]], found)
            assert np.array_equal(found[0], values[i] + values[j])


def test_tensors_freed_before_the_run_is_done(bench: Bench) -> None:
    """The host gives them back when the run has returned, and the device may still work."""
    for seed in range(20):
        x, y, made = drawn(seed), drawn(seed + 50), bench.buffer()
        given, other = [bench.buffer(x), bench.buffer(y)], bench.buffer()
        assert bench.run([(b, 0) for b in given], [(made, 0), (other, 0)]) == 0
        del given, other
        new = bench.buffer(drawn(seed + 100))
        assert np.array_equal(bench.read(made), x + y)
        assert np.array_equal(bench.read(new), drawn(seed + 100))


def test_the_instance_goes_first(bench: Bench) -> None:
    x, y, made = drawn(1), drawn(2), bench.buffer()
    bench.run([(bench.buffer(x), 0), y], [(made, 0), np.empty(SHAPE, np.float32)])
    bench.instance = two_results(bench.instance.program.device)
    gc.collect()
    assert np.array_equal(bench.read(made), x + y)
