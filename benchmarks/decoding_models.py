"""Models whose inputs have dynamic extents, with seeded weights, as exporters write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.models import decoders
from conformance.models.decoders import F32, Writer

# A decoder as GPT-2 is exported, with narrow layers; and one as the builder of genai writes it.
GPT = decoders.Size(layers=12, width=64, heads=4, words=99, positions=512)
GROUPED = decoders.Size(layers=2, width=64, heads=4, words=99, positions=512)
SETTINGS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip


def conv(
    w: Writer, x: str, made: int, given: int, size: int = 3, stride: Any = 1, groups: int = 1
) -> str:
    """Adds a convolution that keeps the size where its stride is 1."""
    strides = [stride] * 2 if isinstance(stride, int) else [*stride]
    fan = given // groups * size * size
    filters = w.random.normal(0, (2 / fan) ** 0.5, (made, given // groups, size, size))
    bias = w.random.normal(0, 0.05, made).astype(np.float32)
    return str(w.op("Conv", x, filters.astype(np.float32), bias, strides=strides, group=groups,
                    pads=[size // 2] * 4))  # fmt: skip


def _relu6(w: Writer, x: str) -> str:
    return str(w.op("Clip", x, np.float32(0), np.float32(6)))


def mobilenet() -> bytes:
    """Returns MobileNet v2 for pictures [n, 3, h, w]."""
    w, given = Writer(), 32
    x = _relu6(w, conv(w, "x", given, 3, stride=2))
    for expansion, made, repeats, first in SETTINGS:
        for k in range(repeats):
            stride, inner, y = first if k == 0 else 1, given * expansion, x
            if expansion > 1:
                y = _relu6(w, conv(w, y, inner, given, 1))
            y = _relu6(w, conv(w, y, inner, inner, stride=stride, groups=inner))
            y = conv(w, y, made, inner, 1)
            x = w.op("Add", x, y) if stride == 1 and given == made else y
            given = made
    x = w.op("GlobalAveragePool", _relu6(w, conv(w, x, 1280, given, 1)))
    x = w.op("Flatten", x, axis=1)
    w.op("Gemm", x, w.weights(1280, 1000), np.zeros(1000, np.float32), out="y")
    return w.model({"x": (F32, ("n", 3, "h", "w"))}, {"y": (F32, ("n", 1000))})


def segmenter() -> bytes:
    """Returns a fully convolutional network for pictures [n, 3, h, w], which enlarges its result to
    the size of the picture."""
    w, given = Writer(), 16
    x = w.op("Relu", conv(w, "x", given, 3, stride=2))
    for made in (16, 24, 32, 32):
        y = w.op("Relu", conv(w, x, given, given, stride=2, groups=given))
        x, given = w.op("Relu", conv(w, y, made, given, 1)), made
        x = w.op("Add", x, w.op("Relu", conv(w, x, made, made)))
    x = conv(w, x, 8, given, 1)
    sides = w.op("Slice", w.op("Shape", "x"), np.array([2]), np.array([4]), np.array([0]))
    most = w.op("Slice", w.op("Shape", x), np.array([0]), np.array([2]), np.array([0]))
    sizes = w.op("Concat", most, sides, axis=0)
    w.op("Resize", x, "", "", sizes, out="y", mode="linear",
         coordinate_transformation_mode="half_pixel")  # fmt: skip
    return w.model({"x": (F32, ("n", 3, "h", "w"))}, {"y": (F32, ("n", 8, "h", "w"))})


def recogniser() -> bytes:
    """Returns a reader of lines [n, 3, 48, w] as PP-OCR's are: convolutions that keep a quarter of
    the width, a block of attention along it, and scores of characters."""
    w, given, width, heads = Writer(), 16, 48, 4
    x = w.op("HardSwish", conv(w, "x", given, 3, stride=2))
    for made, stride in ((24, 2), (32, (2, 1)), (40, (2, 1)), (width, 1)):
        y = w.op("HardSwish", conv(w, x, given, given, stride=stride, groups=given))
        x, given = w.op("HardSwish", conv(w, y, made, given, 1)), made
    x = w.op("AveragePool", x, kernel_shape=[3, 1], strides=[3, 1])
    x = w.op("Transpose", w.op("Squeeze", x, np.array([2])), perm=[0, 2, 1])
    x = _attended(w, x, width, heads)
    y = w.op("MatMul", x, w.weights(width, 97))
    w.op("Softmax", y, out="y", axis=2)
    return w.model({"x": (F32, ("n", 3, 48, "w"))}, {"y": (F32, ("n", "t", 97))})


def _attended(w: Writer, x: str, width: int, heads: int) -> str:
    """Adds attention over the steps of x [n, t, width], with shapes as Paddle's exporter finds
    them."""
    packed = w.op("MatMul", x, w.weights(width, 3 * width))
    shape = w.op("Shape", x)
    batch, steps = (w.op("Slice", shape, np.array([k]), np.array([k + 1]), np.array([0]))
                    for k in (0, 1))  # fmt: skip
    split = w.op("Concat", batch, steps, np.array([3, heads, width // heads]), axis=0)
    packed = w.op("Transpose", w.op("Reshape", packed, split), perm=[2, 0, 3, 1, 4])
    queries, keys, values = (
        w.op("Squeeze", w.op("Slice", packed, np.array([k]), np.array([k + 1])), np.array([0]))
        for k in range(3)
    )
    scale = np.float32((width // heads) ** -0.5)
    scores = w.op("MatMul", queries, w.op("Transpose", keys, perm=[0, 1, 3, 2]))
    y = w.op("MatMul", w.op("Softmax", w.op("Mul", scores, scale), axis=-1), values)
    joined = w.op("Concat", batch, steps, np.array([width]), axis=0)
    y = w.op("Reshape", w.op("Transpose", y, perm=[0, 2, 1, 3]), joined)
    return str(w.op("Add", x, w.op("MatMul", y, w.weights(width, width))))


def megabyte() -> bytes:
    """Returns a model from 1 MiB to 1 MiB."""
    w = Writer()
    w.op("Relu", w.op("Add", "x", np.full(512, 0.5, np.float32)), out="y")
    return w.model({"x": (F32, (512, 512))}, {"y": (F32, (512, 512))})


def heavy() -> bytes:
    """Returns a model with 64 MiB of weights."""
    w = Writer()
    w.op("MatMul", "x", w.weights(4096, 4096), out="y")
    return w.model({"x": (F32, ("n", 4096))}, {"y": (F32, ("n", 4096))})


MODELS: dict[str, Callable[[], bytes]] = {
    "gpt": lambda: decoders.gpt(GPT),
    "grouped": lambda: decoders.grouped(GROUPED),
    "recogniser": recogniser,
    "mobilenet": mobilenet,
    "segmenter": segmenter,
    "megabyte": megabyte,
    "heavy": heavy,
}
