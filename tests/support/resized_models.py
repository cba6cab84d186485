"""TFLite models whose inputs hold a place: users resize them before the first run."""

from __future__ import annotations

import numpy as np

from conformance.models.tflite import Model

WINDOW, HOP, BINS, BANDS = 512, 160, 257, 32
CONV = {"padding": "VALID", "dilationWFactor": 1, "dilationHFactor": 1}


def melspectrogram(signature: bool = True) -> bytes:
    """Returns a model from samples [1, n] to logarithmic bands [1, frames, 32], like front ends of
    wake-word models; for the one sample in the file there is no frame."""
    model, random = Model(), np.random.default_rng(3)
    x = model.input("samples", (1, 1), signature=(1, -1) if signature else None)
    shape = model.constant(np.array([1, 1, -1, 1], np.int32))
    y = model.op("RESHAPE", [x, shape], shape=(1, 1, 1, 1), name="row")
    y = model.op("MUL", [y, model.constant(np.float32(0.5))], "MulOptions",
                 shape=(1, 1, 1, 1), name="scaled")  # fmt: skip
    parts = []
    for name in ("real", "imaginary"):
        taps = random.normal(size=(BINS, 1, WINDOW, 1)).astype(np.float32) / WINDOW
        options = {**CONV, "strideW": HOP, "strideH": 1}
        given = [y, model.constant(taps), model.constant(np.zeros(BINS, np.float32))]
        part = model.op("CONV_2D", given, "Conv2DOptions", options, shape=(1, 1, 1, BINS),
                        name=name)  # fmt: skip
        parts.append(model.op("MUL", [part, part], "MulOptions", shape=(1, 1, 1, BINS)))
    power = model.op("ADD", parts, "AddOptions", shape=(1, 1, 1, BINS), name="power")
    bands = model.constant(random.uniform(0, 1, (BANDS, BINS)).astype(np.float32))
    keep = {"keepNumDims": True}
    mel = model.op("FULLY_CONNECTED", [power, bands, None], "FullyConnectedOptions", keep,
                   shape=(1, 1, 1, BANDS), version=6, name="mel")  # fmt: skip
    least = model.constant(np.float32(1e-5))
    mel = model.op("MAXIMUM", [mel, least], shape=(1, 1, 1, BANDS), name="least")
    log = model.op("LOG", [mel], shape=(1, 1, 1, BANDS), name="log")
    squeezed = model.op("SQUEEZE", [log], "SqueezeOptions", {"squeezeDims": [1]},
                        shape=(1, 1, BANDS), name="bands")  # fmt: skip
    model.output(squeezed)
    return model.to_bytes()


def pictures() -> bytes:
    """Returns a model for images of any size. If "tanh" is left to the CPU, the nodes between are
    worth a partition for an image, but not for the one pixel in the file."""
    model, random = Model(), np.random.default_rng(4)
    y = model.input("picture", (1, 1, 1, 8), signature=(1, -1, -1, 8))
    options = {**CONV, "padding": "SAME", "strideW": 1, "strideH": 1}
    for k in range(4):
        if k in (1, 3):
            y = model.op("TANH", [y], shape=(1, 1, 1, 8), name=f"tanh {k}")
        taps = random.normal(size=(8, 3, 3, 8)).astype(np.float32) / 9
        given = [y, model.constant(taps), model.constant(np.zeros(8, np.float32))]
        y = model.op("CONV_2D", given, "Conv2DOptions", options, shape=(1, 1, 1, 8),
                     name=f"layer {k}")  # fmt: skip
    model.output(y)
    return model.to_bytes()


def mirrored() -> bytes:
    """Returns a model for images of any size with mirrored edges, which a single pixel cannot
    have."""
    model = Model()
    x = model.input("picture", (1, 1, 1, 4), signature=(1, -1, -1, 4))
    padding = model.constant(np.array([(0, 0), (2, 2), (2, 2), (0, 0)], np.int32))
    y = model.op("MIRROR_PAD", [x, padding], "MirrorPadOptions", {"mode": "REFLECT"},
                 shape=(1, 1, 1, 4), name="padding")  # fmt: skip
    model.output(model.op("RELU", [y], shape=(1, 1, 1, 4), name="relu"))
    return model.to_bytes()


def pooled(size: int) -> bytes:
    """Returns a model of three nodes for images of any size (`size` in the file)."""
    model, shape = Model(), (1, size, size, 4)
    x = model.input("picture", shape, signature=(1, -1, -1, 4))
    y = model.op("RELU", [x], shape=shape, name="first")
    options = {"padding": "SAME", "strideW": 1, "strideH": 1, "filterWidth": 3, "filterHeight": 3}
    y = model.op("MAX_POOL_2D", [y], "Pool2DOptions", options, shape=shape, name="pool")
    model.output(model.op("RELU", [y], shape=shape, name="last"))
    return model.to_bytes()


def reduced(window: int) -> bytes:
    """Returns a model for images of any size that gives one number per square of this size."""
    model = Model()
    x = model.input("picture", (1, 1, 1, 4), signature=(1, -1, -1, 4))
    options = {"padding": "VALID", "strideW": window, "strideH": window,
               "filterWidth": window, "filterHeight": window}  # fmt: skip
    y = model.op("AVERAGE_POOL_2D", [x], "Pool2DOptions", options, shape=(1, 1, 1, 4), name="pool")
    model.output(model.op("RELU", [y], shape=(1, 1, 1, 4), name="last"))
    return model.to_bytes()
