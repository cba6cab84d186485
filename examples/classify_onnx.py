"""Classifies pictures with an image classifier in ONNX Runtime.

    pip install onnxruntime pillow
    python examples/classify_onnx.py mobilenet_v2.onnx photo.jpg

The model takes pictures as torchvision's networks do: channels first, normalized by the statistics
of ImageNet."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

import tflgpu_plugin

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def scores(session: Any, picture: Any) -> Any:
    """Returns the probability of each class."""
    (given,) = session.get_inputs()
    height, width = given.shape[2:]
    pixels = np.asarray(picture.convert("RGB").resize((width, height)), np.float32) / 255
    image = ((pixels - MEAN) / STD).transpose(2, 0, 1)[None]
    logits = session.run(None, {given.name: image})[0][0]
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def main(model: str, *pictures: str) -> None:
    tflgpu_plugin.register()
    session = onnxruntime.InferenceSession(model, providers=["TflGpuExecutionProvider"])
    for name in pictures:
        found = scores(session, Image.open(name))
        best = np.argsort(-found)[:5]
        print(f"{name}: " + ", ".join(f"class {k} {found[k]:.3f}" for k in best))
    print(tflgpu_plugin.report(session))


if __name__ == "__main__":
    main(*sys.argv[1:])
