"""Classifies pictures with a float or 8-bit TFLite model in ai-edge-litert.

    pip install ai-edge-litert pillow
    python examples/classify_litert.py mobilenet_v1_1.0_224.tflite photo.jpg

Float models get pixels from -1 to 1."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate
from PIL import Image

import tflgpu_plugin


def scores(interpreter: Any, picture: Any) -> Any:
    """Returns the score of each class; 8-bit scores become real numbers."""
    given, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    _, height, width, _ = given["shape"]
    pixels = np.asarray(picture.convert("RGB").resize((width, height)))[None]
    if given["dtype"] == np.float32:
        image = pixels.astype(np.float32) / 127.5 - 1
    else:  # int8 counts from -128
        image = (pixels + np.int16(np.iinfo(given["dtype"]).min)).astype(given["dtype"])
    interpreter.set_tensor(given["index"], image)
    interpreter.invoke()
    found = interpreter.get_tensor(result["index"])[0]
    scale, zero = result["quantization"]
    return (found.astype(np.float32) - zero) * scale if scale else found


def main(model: str, *pictures: str) -> None:
    delegate = load_delegate("tflgpu")
    interpreter = Interpreter(model, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    for name in pictures:
        found = scores(interpreter, Image.open(name))
        best = np.argsort(-found)[:5]
        print(f"{name}: " + ", ".join(f"class {k} {found[k]:.3f}" for k in best))
    print(tflgpu_plugin.report(delegate))


if __name__ == "__main__":
    main(*sys.argv[1:])
