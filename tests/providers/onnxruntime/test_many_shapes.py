"""Networks with dynamic extents run with many shapes in one session, including the smallest: each
run gives the CPU provider's result."""

from __future__ import annotations

import numpy as np
import pytest

import tflgpu_plugin
from benchmarks.decoding_models import MODELS
from conformance.models.decoders import F32, Writer
from tests.support.onnx_models import compare, cpu, model, node, session, values
from tflgpu_plugin import engine

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

LINES = [(1 + width % 3, 3, 48, width) for width in (320, 321, 100, 8, 9, 64, 33, 200, 12, 320)]
PICTURES = [(1, 3, 60, 50), (1, 3, 70, 61), (1, 3, 81, 77), (2, 3, 12, 87), (2, 3, 57, 46),
            (3, 3, 5, 9), (1, 3, 74, 1), (1, 3, 1, 1), (1, 3, 128, 130), (2, 3, 33, 20),
            (1, 3, 70, 61)]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shapes"), [("recogniser", LINES), ("mobilenet", PICTURES), ("segmenter", PICTURES)]
)
def test_every_shape_gives_what_the_cpu_gives(name: str, shapes: list[tuple[int, ...]]) -> None:
    data = MODELS[name]()
    ours, theirs = session(data), cpu(data)
    for shape in shapes:
        x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
        compare(ours, theirs, {"x": x})
    report = tflgpu_plugin.report(ours)
    assert report.count("gpu") == len(report.nodes)
    (partition,) = report.partitions
    assert partition.runs == len(shapes)


def test_rows_that_become_shorter_than_the_pixels_of_a_thread() -> None:
    """The plan of the second shape has symbols, and its threads compute several pixels of a row."""
    w = Writer()
    w.op("Conv", "x", w.weights(8, 4, 7, 7), strides=[2, 2], pads=[3] * 4, out="y")
    data = w.model({"x": (F32, ("n", 4, "h", "w"))}, {"y": (F32, None)})
    ours, theirs = session(data), cpu(data)
    for height, width in ((20, 20), (21, 18), (22, 6), (22, 5), (9, 7), (40, 3)):
        x = np.random.default_rng(width).normal(size=(1, 4, height, width)).astype(np.float32)
        compare(ours, theirs, {"x": x})


def test_slices_of_a_volume_joined_along_the_batch() -> None:
    """Positions that polynomials do not tell to be 0 still begin at a vec4."""
    w = Writer()
    volume = w.op("Conv", "x", w.weights(2, 1, 2, 3, 2), dilations=[1, 1, 2], strides=[1, 2, 1])
    first, two = (w.op("Slice", volume, *map(np.array, ([0], [end], [0]))) for end in (1, 2))
    w.op("Concat", two, first, axis=0, out="y")
    data = w.model({"x": (F32, ("n", 1, "d", "h", "w"))}, {"y": (F32, None)})
    ours, theirs = session(data), cpu(data)
    for batch, width in ((4, 6), (2, 5), (3, 9), (5, 7), (1, 8), (2, 12)):
        x = np.random.default_rng(width).normal(size=(batch, 1, 6, 8, width)).astype(np.float32)
        compare(ours, theirs, {"x": x})


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padding_that_repeats_elements(mode: str) -> None:
    """A plan holds for every size that is wide enough."""
    pads = np.array([0, 0, 2, 1, 0, 0, 3, 4])
    nodes = [node("Pad", ["x", "pads"], ["p"], mode=mode), node("Relu", ["p"], ["y"])]
    data = model(nodes, {"x": ("n", 3, "h", "w")}, {"y": None}, {"pads": pads}, opset=19)
    ours, theirs = session(data), cpu(data)
    with engine.watch() as built:
        for n, height, width in ((1, 9, 8), (2, 9, 8), (2, 17, 40), (4, 5, 6), (1, 30, 7),
                                 (3, 8, 5), (1, 4, 5), (2, 50, 49)):  # fmt: skip
            compare(ours, theirs, {"x": values(n, 3, height, width)})
    assert len(built) <= 3
    assert [(p.runs, p.host_runs) for p in tflgpu_plugin.report(ours).partitions] == [(8, 0)]
