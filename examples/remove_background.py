"""Makes the background of a picture transparent, as rembg does.

    pip install onnxruntime pillow
    python examples/remove_background.py u2net.onnx photo.jpg cut_out.png

The first output of the model is a mask of one channel. To run rembg itself on the GPU, type
tflgpu exec -- rembg i photo.jpg cut_out.png"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

import tflgpu_plugin

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
SIDE = 320  # of models that take pictures of any size


def mask(session: Any, picture: Any) -> Any:
    """Returns how much each pixel of the picture belongs to the object, as a grey picture."""
    (given,) = session.get_inputs()
    height, width = (n if isinstance(n, int) else SIDE for n in given.shape[2:])
    pixels = np.asarray(picture.convert("RGB").resize((width, height)), np.float32)
    image = ((pixels / max(pixels.max(), 1) - MEAN) / STD).transpose(2, 0, 1)[None]
    found = session.run(None, {given.name: image})[0][0, 0]
    found = (found - found.min()) / max(np.ptp(found), 1e-6)
    grey = Image.fromarray((found * 255).round().astype(np.uint8))
    return grey.resize(picture.size, Image.Resampling.LANCZOS)


def main(model: str, source: str, target: str) -> None:
    tflgpu_plugin.register()
    session = onnxruntime.InferenceSession(model, providers=["TflGpuExecutionProvider"])
    picture = Image.open(source).convert("RGB")
    picture.putalpha(mask(session, picture))
    picture.save(target)
    print(f"Wrote {target}. {tflgpu_plugin.report(session)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
