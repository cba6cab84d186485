"""Buffers of LiteRT's CompiledModel: those of the plugin's kind stay on the device between models,
and memory of programs is used as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance.models.tflite import Model
from tests.support import small_models
from tests.support.litert_models import MARKS, MODELS, check, made, picture, run
from tests.support.subprocesses import run_python
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import litert

pytestmark = MARKS

OURS, HOST = 142, 1  # kinds of buffers


def requirements(model: Any) -> tuple[int, int]:
    """Returns the bytes of the buffers that a model of one input and one output wants."""
    found = model.get_input_buffer_requirements(0), model.get_output_buffer_requirements(0)
    assert {tuple(one["supported_types"]) for one in found} == {(OURS, HOST)}
    return found[0]["buffer_size"], found[1]["buffer_size"]


@pytest.mark.parametrize("shape", [(2, 16, 8, 3), (1, 4, 4, 3)])
def test_buffers_are_as_large_as_tensors(shape: tuple[int, ...]) -> None:
    """Also after a resize, although LiteRT joins requirements, which only grow."""
    content = small_models.one_partition()
    model = made(content)
    first = requirements(model)
    assert first == (8 * 8 * 3 * 4, 8 * 8 * 4 * 4)
    model.resize_input_tensor(0, shape)
    pixels = int(np.prod(shape[:3]))
    values = [picture(*shape)]
    check(content, run(model, values), values)
    assert requirements(model) == tuple(map(max, first, (pixels * 3 * 4, pixels * 4 * 4)))


def test_a_buffer_of_an_earlier_shape_is_refused_when_it_is_too_small(
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = made(small_models.one_partition())
    outputs = model.create_output_buffers(0)
    model.resize_input_tensor(0, (1, 16, 16, 3))
    inputs = model.create_input_buffers(0)
    inputs[0].write(picture(1, 16, 16, 3))
    with pytest.raises(RuntimeError):
        model.run_by_index(0, inputs, outputs)
    assert (
        "has 1024 bytes, but this run needs 4096. Make the buffers again" in capfd.readouterr().err
    )


def exponential(*shape: int) -> bytes:
    """Returns a model of one partition: exp(-abs(x))."""
    model = Model()
    x = model.input("x", shape)
    for op in ("ABS", "NEG", "EXP"):
        x = model.op(op, [x], shape=shape)
    model.output(x)
    return model.to_bytes()


def traffic(model: Any) -> list[tuple[int, int, int]]:
    """Returns for each partition the bytes sent and fetched, and the inputs read on the device."""
    report = tflgpu_plugin.report(model)
    return [(one.uploaded_bytes, one.downloaded_bytes, one.device_inputs)
            for one in report.partitions]  # fmt: skip


def test_between_two_models_no_byte_goes_through_the_cpu() -> None:
    shape = (1, 32, 32, 4)
    first, second = (made(exponential(*shape), tflgpu_plugin.litert_environment(force=1))
                     for _ in range(2))  # fmt: skip
    given, between = first.create_input_buffers(0), first.create_output_buffers(0)
    results = second.create_output_buffers(0)
    for number in range(1, 5):
        x = picture(*shape, seed=number)
        given[0].write(x)
        first.run_by_index(0, given, between)
        second.run_by_index(0, between, results)
        got = results[0].read(x.size, np.float32).reshape(shape)
        np.testing.assert_allclose(got, np.exp(-np.exp(-np.abs(x))), rtol=1e-6)
        assert traffic(first) == [(number * x.nbytes, 0, 0)]
        assert traffic(second) == [(0, number * x.nbytes, number)]
    middle = between[0].read(x.size, np.float32).reshape(shape)
    np.testing.assert_allclose(middle, np.exp(-np.abs(x)), rtol=1e-6)


def test_between_two_partitions_no_byte_goes_through_the_cpu() -> None:
    content, shape = MODELS["two partitions"]
    model, values = made(content), [picture(*shape)]
    check(content, run(model, values), values)
    (_, _, none), (_, _, read) = traffic(model)
    assert (none, read) == (0, 1)


def test_a_run_may_write_the_buffer_that_it_reads() -> None:
    shape = (1, 32, 32, 4)
    model = made(exponential(*shape), tflgpu_plugin.litert_environment(force=1))
    (buffer,), wanted = model.create_input_buffers(0), picture(*shape)
    buffer.write(wanted)
    for _ in range(3):
        model.run_by_index(0, [buffer], [buffer])
        wanted = np.exp(-np.abs(wanted))
    got = buffer.read(wanted.size, np.float32).reshape(shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    ((sent, _, on_device),) = traffic(model)
    assert (sent, on_device) == (wanted.nbytes, 2)


def test_models_on_the_cpu_take_the_buffers() -> None:
    """Aligned as its kernels want it, and with the bytes that are on the device."""
    shape, host = (1, 32, 32, 4), litert.module()
    first = made(exponential(*shape), tflgpu_plugin.litert_environment(force=1))
    second = host.CompiledModel.from_buffer(
        exponential(*shape), hardware_accel=host.HardwareAccelerator.CPU,
        environment=tflgpu_plugin.litert_environment(),
    )  # fmt: skip
    given, between = first.create_input_buffers(0), first.create_output_buffers(0)
    results, x = first.create_output_buffers(0), picture(*shape)
    given[0].write(x)
    for _ in range(3):
        first.run_by_index(0, given, between)
        second.run_by_index(0, between, results)
        got = results[0].read(x.size, np.float32).reshape(shape)
        np.testing.assert_allclose(got, np.exp(-np.exp(-np.abs(x))), rtol=1e-6)


def test_what_the_program_writes_replaces_a_result() -> None:
    """Also where it writes a part: the rest is the result."""
    shape, half = (1, 32, 32, 4), 2048
    first, second = (made(exponential(*shape), tflgpu_plugin.litert_environment(force=1))
                     for _ in range(2))  # fmt: skip
    given, between = first.create_input_buffers(0), first.create_output_buffers(0)
    results, x = second.create_output_buffers(0), picture(*shape)
    given[0].write(x)
    first.run_by_index(0, given, between)
    between[0].write(np.full(half, 2, np.float32))
    second.run_by_index(0, between, results)
    middle = np.exp(-np.abs(x)).ravel()
    middle[:half] = 2
    got = results[0].read(x.size, np.float32)
    np.testing.assert_allclose(got, np.exp(-np.abs(middle)), rtol=1e-6)


LAST = """
import gc
import numpy as np
import tflgpu_plugin
from tests.support import small_models
from tests.support.litert_models import made, picture
environment = tflgpu_plugin.litert_environment()
model = made(small_models.one_partition(), environment)
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
inputs[0].write(picture(1, 8, 8, 3))
model.run_by_index(0, inputs, outputs)
environment.close()
model.close()
del environment, model
gc.collect()
assert np.isfinite(outputs[0].read(256, np.float32)).all()
del inputs, outputs
gc.collect()
"""


def test_buffers_outlive_the_model_and_the_environment() -> None:
    run_python(LAST)


IN_A_RING = """
import gc
import tflgpu_plugin
from tests.support import small_models
from tests.support.litert_models import made
gc.disable()
for _ in range(3):
    environment = tflgpu_plugin.litert_environment(force=1)
    model = made(small_models.guide(), environment)
    ring = [environment.__dict__, environment, model]
    ring += [*model.create_input_buffers(0), *model.create_output_buffers(0), ring]
    environment.ring = ring
    del environment, model, ring
    gc.collect()
"""


def test_a_collection_may_free_an_environment_before_its_buffers() -> None:
    run_python(IN_A_RING)


def test_handlers_of_buffers() -> None:
    ffi, handlers = native.ffi, native.lib.LiteRtAcceleratorImpl.handlers
    made_, at, none = ffi.new("tgr_memory **"), ffi.new("void **"), ffi.NULL
    assert (handlers.kind_count, handlers.kinds[0]) == (1, OURS)
    # The bytes of the type are more than those that were required for an earlier shape.
    assert handlers.create(none, none, none, OURS, 8, 400, made_) == 0
    for mode in (native.lib.TGR_WRITE, native.lib.TGR_READ_WRITE, native.lib.TGR_READ):
        assert handlers.lock(made_[0], mode, at) == 0
        assert int(ffi.cast("uintptr_t", at[0])) % 64 == 0
        ffi.memmove(at[0], bytes([mode]) * 400, 400)
        assert handlers.unlock(made_[0]) == 0
    assert handlers.clear(made_[0]) == 0
    assert handlers.lock(made_[0], native.lib.TGR_READ, at) == 0
    assert bytes(ffi.buffer(at[0], 400)) == bytes(400)
    assert handlers.unlock(made_[0]) == handlers.destroy(made_[0]) == 0
    wrong = native.lib.TGR_INVALID_ARGUMENT
    assert handlers.create(none, none, none, OURS, 8, 8, none) == wrong
    assert handlers.create(none, none, none, OURS, 2**64 - 1, 8, made_) == native.lib.TGR_FAILURE
    assert handlers.lock(none, 0, at) == handlers.destroy(none) == wrong
    assert handlers.unlock(none) == handlers.clear(none) == wrong


def test_buffers_may_change_between_runs() -> None:
    content, shape = MODELS["one partition"]
    model = made(content)
    inputs = [model.create_input_buffers(0) for _ in range(2)]
    outputs = [model.create_output_buffers(0) for _ in range(2)]
    for seed in range(2):
        inputs[seed][0].write(picture(*shape, seed=seed))
    for given, taken in ((0, 1), (1, 0), (1, 1), (0, 0)):
        model.run_by_index(0, inputs[given], outputs[taken])
        got = outputs[taken][0].read(256, np.float32).reshape(1, 8, 8, 4)
        check(content, [got], [picture(*shape, seed=given)])


ON_THE_HOST = """
import numpy as np
from tests.support import litert_models as tests
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import delegates
import tflgpu_plugin
content, shape = tests.MODELS[{name!r}]
model = tests.made(content)
values = [tests.picture(*shape)]
before = tests.run(model, values)
placed = delegates.kept.partitions.items()[0]
native.lib.tg_device_mark_lost(placed[1].partition.device.handle)
after = tests.run(model, values)
np.testing.assert_allclose(before[0], after[0], rtol=0, atol=1e-5)
report = tflgpu_plugin.report(model)
print(sum(one.runs for one in report.partitions), sum(one.host_runs for one in report.partitions))
"""


@pytest.mark.parametrize(("name", "runs"), [("one partition", "1"), ("two partitions", "2")])
def test_runs_on_the_hosts_kernels_use_the_buffers(name: str, runs: str) -> None:
    said = run_python(ON_THE_HOST.format(name=name)).stdout
    assert said.split() == [runs, runs]
