"""Tests that images which are channels-first outputs are stored where the host reads them, without
a launch that converts them, and converted where something else reads them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, compare, cpu, model, node, session, values

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SHAPES = ((1, 4, 7, 9), (3, 4, 6, 5), (2, 4, 1, 11), (1, 4, 12, 3), (5, 4, 2, 2))


def conv(made: int, **attributes: Any) -> tuple[list[Any], Mapping[str, Array]]:
    nodes = [node("Conv", ["x", "w", "b"], ["y"], **attributes)]
    return nodes, {"w": values(made, 4, 1, 1), "b": values(made)}


def converts(ours: Any) -> int:
    """Returns how many launches convert outputs."""
    kernels = [name for p in tflgpu_plugin.report(ours).partitions for name in p.kernels]
    return sum(name.startswith("unpack") for name in kernels)


def check(
    nodes: Sequence[Any], constants: Mapping[str, Array], outputs: Sequence[str] = ("y",),
    shapes: Sequence[Sequence[int]] = SHAPES, opset: int = 17,
) -> Any:  # fmt: skip
    """Returns a session, after comparing its results of all shapes with those of the CPU."""
    taken = ("n", 4, "h", "w")[: len(shapes[0])]
    data = model(nodes, {"x": taken}, dict.fromkeys(outputs), constants, opset)
    ours, theirs = session(data), cpu(data)
    for shape in shapes:
        compare(ours, theirs, {"x": values(*shape)})
    report = tflgpu_plugin.report(ours)
    assert report.count("gpu") == len(report.nodes)
    return ours


@pytest.mark.parametrize("made", range(1, 10))
def test_channels_of_a_convolution(made: int) -> None:
    assert not converts(check(*conv(made)))


@pytest.mark.parametrize("made", [3, 8])
def test_what_follows_is_applied_before(made: int) -> None:
    nodes, constants = conv(made)
    nodes[0].output[0] = "a"
    nodes += [node("Conv", ["x", "v"], ["c"], pads=[1] * 4), node("Add", ["a", "c"], ["s"]),
              node("Relu", ["s"], ["y"])]  # fmt: skip
    assert not converts(check(nodes, {**constants, "v": values(made, 4, 3, 3)}))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("MaxPool", {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [0, 0, 1, 1]}),
     ("AveragePool", {"kernel_shape": [1, 2], "pads": [0, 1, 0, 0]}),
     ("LRN", {"size": 3})],
)  # fmt: skip
def test_other_operators(op: str, attributes: Mapping[str, Any]) -> None:
    assert not converts(check([node(op, ["x"], ["y"], **attributes)], {}))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_pictures_that_are_enlarged(mode: str) -> None:
    scales = np.float32([1, 1, 2, 3])
    nodes = [node("Resize", ["x", "", "s"], ["y"], mode=mode)]
    assert not converts(check(nodes, {"s": scales}))


def test_depthwise_and_transposed_convolutions() -> None:
    for op, weights, groups in (("Conv", (8, 1, 3, 3), 4), ("ConvTranspose", (4, 3, 2, 2), 1)):
        nodes = [node(op, ["x", "w"], ["y"], group=groups, strides=[2, 2], pads=[1, 1, 1, 1])]
        shapes = [shape for shape in SHAPES if min(shape[2:]) > 2]
        assert not converts(check(nodes, {"w": values(*weights)}, shapes=shapes))


def test_an_image_that_something_else_reads_is_converted() -> None:
    nodes, constants = conv(6)
    pooled = node("GlobalMaxPool", ["y"], ["z"])
    assert converts(check([*nodes, pooled], constants, ["y", "z"]))


def test_an_image_that_is_two_outputs() -> None:
    nodes, constants = conv(6)
    check([*nodes, node("Identity", ["y"], ["z"])], constants, ["y", "z"])
    check([*nodes, node("Flatten", ["y"], ["z"])], constants, ["y", "z"])


def test_images_that_are_joined() -> None:
    nodes, constants = conv(4)
    joined = node("Concat", ["y", "x", "y"], ["z"], axis=1)
    check([*nodes, joined], constants, ["z"])
    check([*nodes, joined], constants, ["z", "y"])


def test_channels_without_an_image() -> None:
    nodes = [node("GlobalAveragePool", ["x"], ["y"])]
    check(nodes, {})
    check([node("Relu", ["x"], ["y"])], {})


def test_results_that_stay_on_the_device() -> None:
    nodes, constants = conv(7)
    data = model(nodes, {"x": ("n", 4, "h", "w")}, {"y": None}, constants)
    ours, theirs = session(data), cpu(data)
    for shape in SHAPES:
        x = values(*shape)
        binding = ours.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "gpu")
        ours.run_with_iobinding(binding)
        (found,) = binding.get_outputs()
        np.testing.assert_allclose(found.numpy(), theirs.run(None, {"x": x})[0], atol=1e-5)
