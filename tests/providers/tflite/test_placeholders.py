"""Tests models whose input shapes are placeholders: what is claimed before users resize them, what
is reported of the rest, and what happens if a shape is too small."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import resized_models
from tests.support.interpreters import delegate, gpu, places, same
from tflgpu_plugin.ir import quirks
from tflgpu_plugin.ir.quirks import Quirk

HOSTS = hosts.installed()
KERNELS = ("reference", "default")
pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", HOSTS)]


def prepared(model: bytes, host: str, kernels: str, **options: Any) -> tuple[Any, Any]:
    """Returns (an interpreter that is not allocated yet, its delegate)."""
    made = delegate(host, **options)
    return hosts.interpreter(model, host, kernels, experimental_delegates=[made]), made


def resize(interpreter: Any, *shape: int) -> None:
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("signature", [True, False])
def test_a_window_that_does_not_fit_the_placeholder(
    host: str, kernels: str, signature: bool
) -> None:
    """All nodes are claimed, before and after resizing; every size has its own plan."""
    model = resized_models.melspectrogram(signature)
    interpreter, made = prepared(model, host, kernels)
    assert set(places(made).values()) == {"gpu"}
    for samples in (1280, 5120, 672, 1280):
        resize(interpreter, 1, samples)
        same(interpreter, model, host)
    assert set(places(made).values()) == {"gpu"}
    (partition,) = [i for i in tflgpu_plugin.report(made).partitions if i.live]
    assert partition.runs and not partition.failures


@pytest.mark.parametrize("kernels", KERNELS)
def test_mirrors_wider_than_the_placeholder(host: str, kernels: str) -> None:
    model = resized_models.mirrored()
    interpreter, made = prepared(model, host, kernels)
    assert set(places(made).values()) == {"gpu"}
    for size in (5, 9):
        resize(interpreter, 1, size, size, 4)
        same(interpreter, model, host)


@pytest.mark.parametrize("kernels", KERNELS)
def test_what_pays_is_decided_by_more_than_one_pixel(host: str, kernels: str) -> None:
    model = resized_models.pictures()
    interpreter, made = prepared(model, host, kernels, exclude="tanh 1,tanh 3")
    where = places(made)
    assert {name for name, place in where.items() if place == "cpu"} == {"tanh 1", "tanh 3"}
    for size in (1, 60, 7):  # 1: the shape of the file runs, too
        resize(interpreter, 1, size, size, 8)
        same(interpreter, model, host)


@pytest.mark.parametrize("size", [1, 3])
def test_the_models_own_shapes_run_where_they_can(
    size: int, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that can run only with larger inputs stays on the CPU, with this reason."""
    small = Quirk(
        "", "max_pool_2d", "It is too small.", condition=lambda g, n: g.shape(n.outputs[0])[1] < 4
    )
    monkeypatch.setattr(quirks, "QUIRKS", [small])
    model = resized_models.pooled(size)
    interpreter, made = gpu(model, host)
    assert places(made) == {"first": "gpu", "pool": "cpu", "last": "gpu"}
    (reason,) = (node.reason for node in tflgpu_plugin.report(made).nodes if node.reason)
    shape = [1, size, size, 4]
    assert reason == f"With the present shape {shape} of 'picture': It is too small."
    same(interpreter, model, host)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_shape_that_is_too_small_is_an_error_of_the_run(host: str, kernels: str) -> None:
    """It is the host's own error; the interpreter continues with another shape."""
    model = resized_models.melspectrogram()
    interpreter, made = prepared(model, host, kernels)
    for samples in (1, 100):
        resize(interpreter, 1, samples)
        with pytest.raises(RuntimeError, match="failed to invoke"):
            interpreter.invoke()
        resize(interpreter, 1, 1280)
        same(interpreter, model, host)
    assert set(places(made).values()) == {"gpu"}


def test_what_a_failed_kernel_leaves_is_not_read(host: str) -> None:
    """Hosts allocate a list of temporaries before they fill it. glibc fills new memory with
    0x5a."""
    test = f"{__file__}::{test_a_shape_that_is_too_small_is_an_error_of_the_run.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test, "-k", host],
        env={**os.environ, "MALLOC_PERTURB_": "165"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_a_window_that_fits_no_picture(host: str) -> None:
    """Windows of 9,000 fit no image: the nodes stay on the CPU."""
    interpreter, made = prepared(resized_models.reduced(9000), host, "default")
    (reason,) = (node.reason for node in tflgpu_plugin.report(made).nodes if node.name == "pool")
    assert places(made)["pool"] == "cpu" and reason.startswith("A window of 9000 x 9000")
    del interpreter


def test_a_fixed_shape_is_no_placeholder(host: str) -> None:
    """Without dynamic extents the shapes in the file are those of its runs."""
    model = Model()
    x = model.input("x", (1, 1))
    y = model.op("RELU", [x], shape=(1, 1), name="relu")
    model.output(model.op("MUL", [y, model.constant(np.float32(2))], "MulOptions", shape=(1, 1)))
    interpreter, made = gpu(model.to_bytes(), host)
    assert set(places(made).values()) == {"gpu"}
    same(interpreter, model.to_bytes(), host)
    (partition,) = tflgpu_plugin.report(made).partitions
    assert partition.uploaded_bytes == 4
