"""Nodes around a composite run on the GPU, and so do the nodes in it."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.composites import Adds, absolute, model
from tests.support.interpreters import feeds, gpu, same
from tflgpu_plugin import report

LITERT = "ai_edge_litert"  # the other host has no such operator
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(LITERT not in hosts.installed(), reason=f"{LITERT} is not installed"),
]


def negated(part: Model, x: int) -> int:
    return part.op("NEG", [x], shape=(2, 3))


def tiled(part: Model, x: int) -> int:
    """Adds a tile whose result has another shape than the model states: x determines the
    repeats."""
    axes, one = part.constant(np.array([0, 1], np.int32)), part.constant(np.array([1], np.int32))
    most = part.op("REDUCE_MAX", [x, axes], "ReducerOptions", {}, shape=(), dtype="f32")
    times = part.op("CAST", [most], "CastOptions", {"outDataType": "INT32"}, shape=(), dtype="i32")
    times = part.op("RESHAPE", [times, one], shape=(1,), dtype="i32")
    options = {"axis": 0, "fusedActivationFunction": "NONE"}
    two = part.op("CONCATENATION", [times, one], "ConcatenationOptions", options, shape=(2,),
                  dtype="i32")  # fmt: skip
    return part.op("TILE", [x, two], shape=(2, 3))


def spread(model: Model, given: int) -> int:
    """Adds nodes of whose result only the shape counts."""
    row = model.op("NEG", [model.input("row", (1, 3))], shape=(1, 3))
    extents = model.op("SHAPE", [given], "ShapeOptions", {"outType": 2}, shape=(2,),
                       dtype="i32")  # fmt: skip
    return model.op("BROADCAST_TO", [row, extents], shape=(2, 3), version=2)


@pytest.mark.parametrize("kernels", ["reference", "optimized", "default"])
def test_nodes_around_a_composite(kernels: str) -> None:
    content = model((2, 3), negated)
    interpreter, made = gpu(content, LITERT, kernels)
    where = {(n.graph, n.op): n.where for n in report(made).nodes}
    assert where == {
        (0, "EXP"): "gpu", (0, "STABLEHLO_COMPOSITE"): "cpu", (0, "ABS"): "gpu", (1, "NEG"): "gpu",
    }  # fmt: skip
    same(interpreter, content, LITERT)
    interpreter.resize_tensor_input(0, (4, 3))
    interpreter.allocate_tensors()
    same(interpreter, content, LITERT)


@pytest.mark.parametrize("after", [absolute, spread])
@pytest.mark.parametrize("kernels", ["reference", "optimized", "default"])
def test_a_shape_that_the_model_does_not_say(kernels: str, after: Adds) -> None:
    content = model((2, 3), tiled, after)
    interpreter, _ = gpu(content, LITERT, kernels)
    cpu = hosts.interpreter(content, LITERT, kernels)
    cpu.allocate_tensors()
    for times in (1, 3, 2):
        feed = [np.full_like(given, np.log(times + 0.5)) for given in feeds(interpreter)]
        ours, theirs = (hosts.invoke(each, [feed])[0][0] for each in (interpreter, cpu))
        assert ours.shape == theirs.shape == (2 * times, 3)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
