"""Reads lines of text, each a picture of another width, with a recognizer such as PP-OCR's.

    pip install onnxruntime pillow
    python examples/read_lines.py rec.onnx alphabet.txt line1.png line2.png

alphabet.txt has a character per line. From the second width on, the plugin uses one plan for all
widths. To run rapidocr itself on the GPU, type tflgpu exec -- rapidocr_onnxruntime -img page.png"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

import tflgpu_plugin

HEIGHT = 48  # of models that leave the height open


def classes(session: Any, picture: Any) -> Any:
    """Returns the class of each step along the line: 0 where there is no character."""
    (given,) = session.get_inputs()
    height = given.shape[2] if isinstance(given.shape[2], int) else HEIGHT
    width = max(8, round(picture.width * height / picture.height / 8) * 8)
    pixels = np.asarray(picture.convert("RGB").resize((width, height)), np.float32)
    image = (pixels[..., ::-1] / 127.5 - 1).transpose(2, 0, 1)[None]  # blue first
    return session.run(None, {given.name: image})[0][0].argmax(axis=1)


def text(steps: Any, alphabet: list[str]) -> str:
    """Returns the characters of the steps; a character goes on while its class does not change."""
    begins = np.diff(steps, prepend=0) != 0
    return "".join(alphabet[k - 1] for k in steps[begins & (steps > 0)])


def main(model: str, characters: str, *pictures: str) -> None:
    tflgpu_plugin.register()
    session = onnxruntime.InferenceSession(model, providers=["TflGpuExecutionProvider"])
    alphabet = [*Path(characters).read_text(encoding="utf-8").splitlines(), " "]
    for name in pictures:
        print(f"{name}: {text(classes(session, Image.open(name)), alphabet)}")
    print(tflgpu_plugin.report(session))


if __name__ == "__main__":
    main(*sys.argv[1:])
