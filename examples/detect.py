"""Finds objects with a detector that ultralytics has exported (YOLOv8 and YOLO11).

    pip install onnxruntime pillow
    yolo export model=yolo11n.pt format=onnx
    python examples/detect.py yolo11n.onnx photo.jpg

The output has a column per box: centre, width and height in pixels, and a score per class."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

import tflgpu_plugin

MIN_SCORE, OVERLAP = 0.25, 0.45


def boxes(session: Any, picture: Any) -> list[tuple[int, float, list[float]]]:
    """Returns class, score and corners (in pixels of the picture) of each object."""
    (given,) = session.get_inputs()
    side = given.shape[2]
    scale = side / max(picture.size)
    small = picture.convert("RGB").resize([max(1, round(n * scale)) for n in picture.size])
    square = Image.new("RGB", (side, side), (114, 114, 114))
    square.paste(small)
    image = (np.asarray(square, np.float32) / 255).transpose(2, 0, 1)[None]
    centre, size, scores = np.split(session.run(None, {given.name: image})[0][0].T, [2, 4], axis=1)
    corners, best = np.hstack([centre - size / 2, centre + size / 2]), scores.max(axis=1)
    kept = list[int]()
    for k in np.argsort(-best):
        rivals = [j for j in kept if scores[j].argmax() == scores[k].argmax()]
        if best[k] >= MIN_SCORE and all(shared(corners[k], corners[j]) < OVERLAP for j in rivals):
            kept.append(int(k))
    return [(int(scores[k].argmax()), float(best[k]), [*(corners[k] / scale)]) for k in kept]


def shared(a: Any, b: Any) -> float:
    """Returns the intersection of two boxes, divided by their union."""
    inner = np.prod(np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None))
    return float(inner / max(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inner, 1e-9))


def main(model: str, picture: str) -> None:
    tflgpu_plugin.register()
    session = onnxruntime.InferenceSession(model, providers=["TflGpuExecutionProvider"])
    for number, score, corners in boxes(session, Image.open(picture)):
        print(f"class {number}, {score:.3f}: {', '.join(f'{n:.0f}' for n in corners)}")
    print(tflgpu_plugin.report(session))


if __name__ == "__main__":
    main(*sys.argv[1:])
