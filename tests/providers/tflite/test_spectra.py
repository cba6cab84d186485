"""Tests RFFT2D and the readers of its complex numbers in the host: changing batches, tensors that
the user wants to read, run-time lengths, half precision."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models import spectrum_graphs
from conformance.models.tflite import Model
from tests.support.interpreters import delegate, gpu, places, same

pytestmark = pytest.mark.adapter
KERNELS = "default"  # of the reference ones some hosts lack RFFT2D


def frames(lengths: int | None = None) -> Model:
    """Returns a model of |RFFT2D| over any number of frames; lengths may be an input."""
    m = Model()
    x = m.input("x", (2, 1, 20), signature=(-1, 1, 20))
    given = m.constant(np.array([1, 32], np.int32)) if lengths is None else m.input(
        "lengths", (lengths,), "i32"
    )  # fmt: skip
    found = m.op("RFFT2D", [x, given], "Rfft2dOptions", {}, dtype="c64", shape=(2, 1, 17))
    flat = m.constant(np.array([-1, 17], np.int32))
    found = m.op("RESHAPE", [found, flat], dtype="c64", shape=(2, 17), name="flat")
    m.output(m.op("COMPLEX_ABS", [found], shape=(2, 17)))
    return m


@pytest.mark.parametrize("host", hosts.installed())
def test_any_number_of_frames(host: str) -> None:
    model = frames().to_bytes()
    interpreter, made = gpu(model, host, KERNELS)
    assert set(places(made).values()) == {"gpu"}
    for count in (2, 5, 1, 2):
        interpreter.resize_tensor_input(0, (count, 1, 20))
        interpreter.allocate_tensors()
        same(interpreter, model, host, kernels=KERNELS)
    assert set(places(made).values()) == {"gpu"}


@pytest.mark.parametrize("host", hosts.installed())
def test_lengths_of_a_run(host: str) -> None:
    _interpreter, made = gpu(frames(lengths=2).to_bytes(), host, KERNELS)
    assert set(places(made).values()) == {"cpu"}


@pytest.mark.filterwarnings("ignore:.*preserve_all_tensors")
@pytest.mark.parametrize("host", hosts.installed())
def test_every_tensor_can_be_read(host: str) -> None:
    """With preserve_all_tensors, complex tensors must be readable, so their nodes stay on the
    CPU."""
    if host == "tflite_runtime":
        pytest.skip("tflite-runtime keeps no tensors inside a delegate's partitions")
    made = delegate(host)
    model = spectrum_graphs.reshaped("COMPLEX_ABS")().to_bytes()
    interpreter = hosts.interpreter(
        model, host, KERNELS, experimental_delegates=[made], experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    assert "gpu" not in set(places(made).values())


@pytest.mark.parametrize("host", hosts.installed())
def test_half_precision_keeps_large_sums(host: str) -> None:
    model = spectrum_graphs.spectrum((40, 1, 512), 1, 512, "COMPLEX_ABS")().to_bytes()
    interpreter, _ = gpu(model, host, KERNELS, is_precision_loss_allowed=1)
    reference = hosts.interpreter(model, host, KERNELS)
    reference.allocate_tensors()
    x = np.full((40, 1, 512), 3.0, np.float32)
    (ours,), (theirs,) = (hosts.invoke(i, [[x]])[0] for i in (interpreter, reference))
    np.testing.assert_allclose(ours, theirs, atol=2e-3 * theirs.max())
