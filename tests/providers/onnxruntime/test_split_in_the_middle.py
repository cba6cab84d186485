"""A node in the middle of a model that stays on the CPU, or whose results are counted in a run,
does not keep the nodes around it off the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m

pytestmark = pytest.mark.adapter
SEED = 3.0


def vocoder(length: int | str) -> bytes:
    """Returns a model in the form of a speech synthesizer: noise is added to what the text gives,
    passes layers, and is scaled by noise again before the last convolution."""
    nodes = [
        m.node("Conv", ["x", "w1"], ["a"], pads=[1, 1]),
        m.node("RandomNormalLike", ["a"], ["noise"], seed=SEED),
        m.node("Add", ["a", "noise"], ["b0"]),
        *(m.node(op, [f"b{k}"], [f"b{k + 1}"])
          for k, op in enumerate(["Tanh", "Sigmoid", "Exp", "Neg"] * 2)),
        m.node("RandomUniformLike", ["b8"], ["more"], seed=SEED),
        m.node("Mul", ["b8", "more"], ["c"]),
        m.node("Conv", ["c", "w2"], ["y"], pads=[1, 1]),
    ]  # fmt: skip
    weights = {"w1": m.values(6, 4, 3), "w2": m.values(2, 6, 3)}
    return m.model(nodes, {"x": [1, 4, length]}, {"y": [1, 2, length]}, weights)


def staying(report: Any) -> set[str]:
    return {node.op for node in report.nodes if node.where == "cpu"}


def test_noise_in_the_middle_of_an_open_model() -> None:
    """Guessed extents do not say how much the middle computes."""
    data = vocoder("n")
    ours, theirs = m.session(data), m.cpu(data)
    for length in (9, 40):  # both generators begin with the same seed
        m.compare(ours, theirs, {"x": m.values(1, 4, length)})
    report = tflgpu_plugin.report(ours)
    assert staying(report) == {"RandomNormalLike", "RandomUniformLike"}
    assert len(report.partitions) == 3 and report.runs == 6


@pytest.mark.parametrize(("length", "taken"), [(9, False), (20_000, True)])
def test_noise_in_the_middle_of_a_model_of_one_size(length: int, taken: bool) -> None:
    data = vocoder(length)
    ours, theirs = m.session(data), m.cpu(data)
    m.compare(ours, theirs, {"x": m.values(1, 4, length)})
    report = tflgpu_plugin.report(ours)
    assert len(report.partitions) == (3 if taken else 2)
    assert ("Tanh" in staying(report)) != taken


def test_seeded_noise_is_the_same_in_each_session() -> None:
    data, x = vocoder(5), m.values(1, 4, 5)
    (first,), (second,) = (m.cpu(data).run(None, {"x": x}) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def detector(size: int) -> bytes:
    """Returns a model of boxes and scores of a picture, and what is selected of them, twice."""
    cells = (size // 8) ** 2
    nodes = [
        m.node("Conv", ["x", "w"], ["f"], strides=[8, 8]),
        m.node("Reshape", ["f", "rows"], ["r"]),
        m.node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        m.node("Sigmoid", ["t"], ["s"]),
        m.node("Split", ["s", "parts"], ["boxes", "score"], axis=2),
        m.node("Transpose", ["score"], ["scores"], perm=[0, 2, 1]),
        m.node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["chosen"]),
        m.node("Slice", ["chosen", "two", "three", "one"], ["at"]),
        m.node("Squeeze", ["at", "one"], ["index"]),
        m.node("Gather", ["flat_boxes", "index"], ["kept"]),
        m.node("Squeeze", ["boxes", "zero"], ["flat_boxes"]),
        m.node("ReduceMax", ["kept"], ["widest"], axes=[1], keepdims=0),
        m.node("Greater", ["widest", "half"], ["large"]),
        m.node("Compress", ["kept", "large"], ["some"], axis=0),
        m.node("Mul", ["some", "scale"], ["y"]),
    ]
    nodes[9], nodes[10] = nodes[10], nodes[9]
    numbers = {"rows": [1, 5, cells], "parts": [4, 1], "two": [2], "three": [3], "one": [1],
               "zero": [0], "most": [20]}  # fmt: skip
    constants: dict[str, Any] = {name: np.array(held) for name, held in numbers.items()}
    constants |= {"w": m.values(5, 3, 8, 8), "iou": np.float32([0.5]), "half": np.float32(0.5),
                  "scale": np.float32(2)}  # fmt: skip
    return m.model(nodes, {"x": [1, 3, size, size]}, {"y": ["k", 4]}, constants)


@pytest.mark.parametrize("size", [64, 160])
def test_what_reads_the_selected_boxes_of_a_small_picture(size: int) -> None:
    data = detector(size)
    ours, theirs = m.session(data), m.cpu(data)
    # An eighth: scores near 1 differ by as little as two correct sums of one score.
    m.compare(ours, theirs, {"x": m.values(1, 3, size, size) / np.float32(8)})
    report = tflgpu_plugin.report(ours)
    assert not staying(report), str(report)
