"""Compiled models, their environments and their buffers may end in any order, in any thread."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.litert_models import MARKS, MODELS, check, expected, made, picture, run
from tests.support.subprocesses import run_python

pytestmark = MARKS


# ---- lifetimes -----------------------------------------------------------------------------------


def test_models_outlive_their_environments() -> None:
    content, shape = MODELS["two partitions"]
    environment = tflgpu_plugin.litert_environment()
    model, values = made(content, environment), [picture(*shape)]
    environment.close()
    del environment
    gc.collect()
    check(content, run(model, values), values)


def test_environments_outlive_their_models() -> None:
    content, shape = MODELS["two partitions"]
    environment = tflgpu_plugin.litert_environment()
    for _ in range(3):
        model, values = made(content, environment), [picture(*shape)]
        check(content, run(model, values), values)
        model.close()
    with pytest.raises(ValueError, match="no longer valid"):
        environment.close()
        made(content, environment)


def test_several_models_share_an_environment() -> None:
    environment = tflgpu_plugin.litert_environment()
    models = [(made(content, environment), content, shape) for content, shape in MODELS.values()]
    for model, content, shape in [*models, *reversed(models)]:
        values = [picture(*shape)]
        check(content, run(model, values), values)


def test_buffers_outlive_the_model() -> None:
    content, shape = MODELS["one partition"]
    model = made(content)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    values = [picture(*shape)]
    inputs[0].write(values[0])
    model.run_by_index(0, inputs, outputs)
    model.close()
    del model
    gc.collect()
    check(content, [outputs[0].read(256, np.float32).reshape(1, 8, 8, 4)], values)


def test_threads_make_and_run_models() -> None:
    failures: list[BaseException] = []
    wanted = {name: expected(content, [picture(*shape)])[0] for name, (content, shape)
              in MODELS.items()}  # fmt: skip

    def work() -> None:
        try:
            environment = tflgpu_plugin.litert_environment()
            for name, (content, shape) in MODELS.items():
                model = made(content, environment)
                for _ in range(3):
                    outputs = run(model, [picture(*shape)])
                    for got, ours in zip(outputs, wanted[name], strict=True):
                        np.testing.assert_array_equal(got, ours)
                assert tflgpu_plugin.report(model).partitions[0].runs == 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


AT_EXIT = """
import numpy as np, tflgpu_plugin
from tests.support import small_models
from tests.support.litert_models import made, run
environment = tflgpu_plugin.litert_environment()
kept = model = made(small_models.guide(), environment)
buffers = model.create_input_buffers(0), model.create_output_buffers(0)
run(model, [np.zeros((1, 8, 8, 3), np.float32)])
{end}
"""


@pytest.mark.parametrize("end", ["", "del environment", "import sys; sys.exit(0)"])
def test_a_process_ends_with_models(end: str) -> None:
    run_python(AT_EXIT.format(end=end))
