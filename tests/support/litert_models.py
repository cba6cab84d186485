"""Models through LiteRT's CompiledModel with our accelerator, and what interpreters answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import small_models
from tflgpu_plugin.providers.tflite import litert

LITERT = "ai_edge_litert"
MARKS = [
    pytest.mark.adapter,
    pytest.mark.skipif(LITERT not in hosts.installed(), reason=f"{LITERT} is not installed"),
]
MODELS = {
    "guide": (small_models.guide(), (1, 8, 8, 3)),
    "one partition": (small_models.one_partition(), (1, 8, 8, 3)),
    "two partitions": (small_models.two_partitions(), (1, 6, 5, 3)),
    "read by both": (small_models.two_partitions(read_by_both=True), (1, 6, 5, 3)),
    "shown between": (small_models.two_partitions(shown=True), (1, 6, 5, 3)),
    "CPU between": (small_models.resized_between_partitions(), (1, 5, 4, 3)),
}


def made(content: bytes, environment: Any = None, **options: Any) -> Any:
    """Returns a CompiledModel on the GPU and the CPU, with these options of LiteRT for the GPU."""
    host = litert.module()
    kinds = host.HardwareAccelerator.GPU | host.HardwareAccelerator.CPU
    chosen = host.Options(hardware_accelerators=kinds, gpu_options=host.GpuOptions(**options))
    given = environment or tflgpu_plugin.litert_environment()
    return host.CompiledModel.from_buffer(content, options=chosen, environment=given)


def run(model: Any, values: Sequence[Any], signature: int = 0) -> list[Any]:
    inputs, outputs = (
        make(signature) for make in (model.create_input_buffers, model.create_output_buffers)
    )
    for buffer, value in zip(inputs, values, strict=True):
        buffer.write(value)
    model.run_by_index(signature, inputs, outputs)
    shapes = [buffer.get_tensor_details()["shape"] for buffer in outputs]
    return [
        buffer.read(int(np.prod(shape)), np.float32).reshape(shape)
        for buffer, shape in zip(outputs, shapes, strict=True)
    ]


def expected(content: bytes, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the outputs of interpreters: through our delegate, and on the CPU."""
    delegate = hosts.load_delegate(LITERT)
    found = []
    for delegates in ([delegate], []):
        interpreter = hosts.interpreter(content, LITERT, experimental_delegates=delegates)
        for detail, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        found.append(hosts.invoke(interpreter, [values])[0])
    return found[0], found[1]


def check(content: bytes, outputs: Sequence[Any], values: Sequence[Any]) -> None:
    """The outputs are those of our delegate, bit for bit, and near to the CPU's."""
    for got, ours, theirs in zip(outputs, *expected(content, values), strict=True):
        np.testing.assert_array_equal(got, ours)
        np.testing.assert_allclose(got, theirs, rtol=0, atol=2e-6 * max(1, np.abs(theirs).max()))


def picture(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
