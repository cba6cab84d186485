"""Buffers of LiteRT's CompiledModel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import small_models
from tests.support.litert_models import MARKS, MODELS, check, made, picture, run
from tests.support.subprocesses import run_python

pytestmark = MARKS


# ---- buffers -------------------------------------------------------------------------------------


def requirements(model: Any) -> tuple[int, int]:
    """Returns the bytes of the buffers that a model of one input and one output wants in the host's
    memory."""
    found = model.get_input_buffer_requirements(0), model.get_output_buffer_requirements(0)
    assert {tuple(one["supported_types"]) for one in found} == {(1,)}
    return found[0]["buffer_size"], found[1]["buffer_size"]


@pytest.mark.parametrize("shape", [(2, 16, 8, 3), (1, 4, 4, 3)])
def test_buffers_are_asked_for_as_large_as_tensors(shape: tuple[int, ...]) -> None:
    """Also after a resize: requirements that an accelerator tells LiteRT could only grow, and not
    before the next run, so ours tells none."""
    content = small_models.one_partition()
    model = made(content)
    assert requirements(model) == (8 * 8 * 3 * 4, 8 * 8 * 4 * 4)
    model.resize_input_tensor(0, shape)
    pixels = int(np.prod(shape[:3]))
    values = [picture(*shape)]
    check(content, run(model, values), values)
    assert requirements(model) == (pixels * 3 * 4, pixels * 4 * 4)


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


def test_runs_on_the_hosts_kernels_use_the_buffers() -> None:
    said = run_python(ON_THE_HOST.format(name="one partition")).stdout
    assert said.split() == ["1", "1"]
