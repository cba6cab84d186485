"""Small ONNX models for tests, and sessions on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.harness import onnx

Array = npt.NDArray[Any]
Shape = Sequence[int | str | None]
EP = "TflGpuExecutionProvider"
RANDOM = np.random.default_rng(7)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """Returns a node of the model."""
    from onnx import helper

    return helper.make_node(op, inputs, outputs, **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape | None],
    constants: Mapping[str, Array] | None = None,
    opset: int = 17,
    kinds: Mapping[str, Any] | None = None,
) -> bytes:
    """Returns a model whose inputs and outputs are float32 or have the numpy dtypes in `kinds`; a
    shape may contain names, and None means unknown."""
    from onnx import helper, numpy_helper

    def info(name: str, shape: Shape | None) -> Any:
        kind = np.dtype((kinds or {}).get(name, np.float32))
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)

    graph = helper.make_graph(
        nodes,
        "test",
        [info(name, shape) for name, shape in inputs.items()],
        [info(name, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(made.SerializeToString())


def add_relu(shape: Shape = (2, 3, 5)) -> bytes:
    """Returns a model of y = relu(x + c)."""
    nodes = [node("Add", ["x", "c"], ["a"]), node("Relu", ["a"], ["y"])]
    constant = np.linspace(-1, 1, 5).astype(np.float32)
    return model(nodes, {"x": shape}, {"y": shape}, {"c": constant})


def convolutions() -> bytes:
    """Returns a small network whose layers need every kind of transpose."""
    chance = np.random.default_rng(7)

    def random(*shape: int) -> Array:
        return chance.uniform(-1, 1, shape).astype(np.float32)

    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], strides=[2, 2], auto_pad="SAME_UPPER"),
        node("Clip", ["a", "zero", "six"], ["a1"]),
        node("Conv", ["a1", "w2"], ["b"], group=8, pads=[1, 1, 1, 1]),
        node("Add", ["a1", "b"], ["c"]),
        node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["d", "d"], ["e"], axis=1),
        node("GlobalAveragePool", ["e"], ["f"]),
        node("Flatten", ["f"], ["g"]),
        node("Gemm", ["g", "w3", "b3"], ["h"], transB=1),
        node("Softmax", ["h"], ["y"]),
    ]
    constants = {
        "w1": random(8, 3, 3, 3), "b1": random(8), "w2": random(8, 1, 3, 3),
        "w3": random(5, 16), "b3": random(5), "zero": np.float32(0), "six": np.float32(6),
    }  # fmt: skip
    return model(nodes, {"x": ["n", 3, "h", "w"]}, {"y": ["n", 5]}, constants)


def session(data: bytes, *, optimize: bool = True, **options: Any) -> Any:
    """Returns a session on our provider without fallback to the CPU."""
    return onnx.opened(data, quiet(optimize), options)


def values(*shape: int) -> Array:
    """Returns random values, different ones in each call."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def places(session: Any) -> dict[str, str]:
    """Returns where each node is, by its operator."""
    import tflgpu_plugin

    return {node.op: node.where for node in tflgpu_plugin.report(session).nodes}


def cpu(data: bytes, optimize: bool = True) -> Any:
    """Returns a session on the CPU provider."""
    return onnx.opened(data, quiet(optimize))


def quiet(optimize: bool = True, **entries: str) -> Any:
    """Returns session options that log only fatal errors."""
    return onnx.settings(optimize, logs=onnx.FATAL, **entries)


def assert_same(data: bytes, feeds: Mapping[str, Array], tolerance: float = 1e-5) -> Any:
    """Returns our session, after comparing its results with those of the CPU provider."""
    ours, theirs = session(data), cpu(data)
    compare(ours, theirs, feeds, tolerance)
    return ours


def compare(ours: Any, theirs: Any, feeds: Mapping[str, Array], tolerance: float = 1e-5) -> None:
    """Both sessions give the same, within a part of the largest magnitude."""
    for got, wanted in zip(ours.run(None, feeds), theirs.run(None, feeds), strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        largest = max(float(np.abs(wanted).max(initial=0)), 1e-30)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * largest)
