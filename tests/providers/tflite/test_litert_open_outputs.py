"""Outputs whose shape only a run determines, in LiteRT's CompiledModel: they are written where the
buffer has that shape, and else the run fails with a sentence. And outputs that are inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance.models.tflite import Model
from tests.support import small_models
from tests.support.litert_models import MARKS, made, picture
from tests.support.subprocesses import run_python
from tflgpu_plugin.providers.tflite import litert

pytestmark = MARKS

WHY = "LiteRT's CompiledModel returns no outputs whose shape only a run determines"
UNWRITTEN = -7.0


def spread(read_on_cpu: bool = False) -> bytes:
    """Returns a model of two inputs, a matrix and steps: the matrix with zeros between its
    elements, and where that is `read_on_cpu`, what a node there makes of it."""
    model, shape = Model(), (2, 3)
    x, steps = model.input("x", shape), model.input("steps", (2,), "i32")
    zero = model.constant(np.float32(0))
    y = model.op("DILATE", [x, steps, zero], "DilateOptions", shape=shape, name="spread")
    model.output(y)
    if read_on_cpu:
        model.output(small_models.on_cpu(model, y, y, shape))
    return model.to_bytes()


def wanted(x: Any, steps: tuple[int, int]) -> Any:
    rows, columns = ((n - 1) * k + 1 for n, k in zip(x.shape, steps, strict=True))
    found = np.zeros((rows, columns), np.float32)
    found[:: steps[0], :: steps[1]] = x
    return found


def filled(model: Any, x: Any, steps: tuple[int, int]) -> tuple[list[Any], list[Any]]:
    """Returns buffers for a run, of which the outputs have a value that is no result."""
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(x)
    inputs[1].write(np.array(steps, np.int32))
    for one in outputs:
        one.write(np.full((2, 3), UNWRITTEN, np.float32))
    return inputs, outputs


def failure(model: Any) -> str:
    (partition,) = tflgpu_plugin.report(model).partitions
    return partition.failure


def test_a_result_of_the_buffers_shape_is_written_and_another_is_an_error() -> None:
    model = made(spread(), tflgpu_plugin.litert_environment(force=1))
    for number, steps in enumerate([(1, 1), (2, 1), (1, 1), (3, 2), (1, 1)]):
        x = picture(2, 3, seed=number)
        inputs, outputs = filled(model, x, steps)
        if steps == (1, 1):
            model.run_by_index(0, inputs, outputs)
            np.testing.assert_array_equal(outputs[0].read(6, np.float32), x.ravel())
            continue
        with pytest.raises(RuntimeError):
            model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].read(6, np.float32), [UNWRITTEN] * 6)
        shape = list(wanted(x, steps).shape)
        assert failure(model) == (
            f'{WHY}: tensor "spread" has the shape {shape} in this run, and its buffer [2, 3].'
        )
    (partition,) = tflgpu_plugin.report(model).partitions
    assert (partition.runs, partition.host_runs, partition.failures) == (3, 0, 2)
    assert failure(model) in str(tflgpu_plugin.report(model))


def test_memory_of_the_program_is_for_as_many_elements_as_it_has() -> None:
    model = made(spread(), tflgpu_plugin.litert_environment(force=1))
    buffer = litert.module().TensorBuffer
    aligned = buffer._align_numpy_array
    for number, steps in enumerate([(1, 1), (2, 1), (3, 2), (1, 1)]):
        x = picture(2, 3, seed=number)
        result = wanted(x, steps)
        inputs, _ = filled(model, x, steps)
        for spare in (0, 1):
            y = aligned(np.full(result.size + spare, UNWRITTEN, np.float32))
            outputs = [buffer.create_from_host_memory(y)]
            if spare:
                with pytest.raises(RuntimeError):
                    model.run_by_index(0, inputs, outputs)
                assert (y == UNWRITTEN).all()
            else:
                model.run_by_index(0, inputs, outputs)
                np.testing.assert_array_equal(y, result.ravel())


def test_a_tensor_that_the_cpu_reads_is_an_error() -> None:
    """Whatever its shape, because LiteRT has no buffer for it after it is open."""
    model = made(spread(read_on_cpu=True), tflgpu_plugin.litert_environment(force=1))
    inputs, outputs = filled(model, picture(2, 3), (2, 1))
    with pytest.raises(RuntimeError):
        model.run_by_index(0, inputs, outputs)
    assert failure(model) == f'{WHY}: tensor "spread" has the shape [3, 3] in this run.'


ON_THE_HOST = """
import numpy as np
import pytest
import tflgpu_plugin
from tests.providers.tflite import test_litert_open_outputs as tests
from tests.support.litert_models import made, picture
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import delegates
model = made(tests.spread(), tflgpu_plugin.litert_environment(force=1))
x = picture(2, 3)
for steps in ((1, 1), (1, 1), (3, 2)):
    inputs, outputs = tests.filled(model, x, steps)
    if steps == (1, 1):
        model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].read(6, np.float32), x.ravel())
    else:
        with pytest.raises(RuntimeError):
            model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].read(6, np.float32), [tests.UNWRITTEN] * 6)
    placed = delegates.kept.partitions.items()[0]
    native.lib.tg_device_mark_lost(placed[1].partition.device.handle)
(partition,) = tflgpu_plugin.report(model).partitions
print(partition.runs, partition.host_runs, partition.failures, partition.failure)
"""


def test_runs_on_the_hosts_kernels_say_the_same() -> None:
    said = run_python(ON_THE_HOST).stdout
    shape = '"spread" has the shape [4, 5] in this run, and its buffer [2, 3].'
    assert said.strip() == f"1 1 1 {WHY}: tensor {shape}"


def test_an_input_that_is_an_output_is_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    """And the advice of that warning holds: with one buffer for both, nothing is lost."""
    graph, shape = Model(), (4, 8)
    x = graph.input("passed", shape)
    graph.output(x)
    graph.output(graph.op("EXP", [graph.op("ABS", [x], shape=shape)], shape=shape))
    model = made(graph.to_bytes(), tflgpu_plugin.litert_environment(force=1))
    assert "loses the values of 'passed', which is an input and an output" in capfd.readouterr().err
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for seed in range(2):
        value = picture(*shape, seed=seed)
        inputs[0].write(value)
        model.run_by_index(0, inputs, [*inputs, outputs[1]])
        passed, made_ = (one.read(32, np.float32) for one in (inputs[0], outputs[1]))
        np.testing.assert_array_equal(passed, value.ravel())
        np.testing.assert_allclose(made_, np.exp(np.abs(passed)), rtol=1e-6)
    made(small_models.guide())
    assert "loses the values" not in capfd.readouterr().err
