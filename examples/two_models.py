"""Finds a face in a picture, cuts it out and finds the points of the face: two models in a row.

    pip install pillow ai-edge-litert onnxruntime
    python examples/two_models.py face_detection_short_range.tflite face_landmark.tflite photo.jpg

The detector is BlazeFace of MediaPipe for 128 x 128 pixels, the second one its face mesh, as TFLite
or ONNX files. As with frames of a video, the detector runs on the next picture, in a thread of its
own, while the mesh runs on the present one. The points are compared with those of the host's CPU
kernels (status 1: they differ); --out writes the picture with the points."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin

HOSTS = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter", "tensorflow.lite")
OURS, CPU = "TflGpuExecutionProvider", "CPUExecutionProvider"
SIDE = 128  # of what the detector sees
CELLS = ((16, 2), (8, 6))  # its maps: cells along a side, boxes of a cell
MARGIN = 1.5  # sides of the cut-out by those of the box
FOUND = 0.5  # least score of a face
APART = 1.0  # pixels of the cut-out
Array = np.ndarray[Any, Any]
Run = Callable[[Array], list[Array]]
Box = tuple[float, float, float]  # left, top, side


class Unusable(Exception):
    """A file or package is missing; the text says which."""


def on_tflite(path: Path, gpu: bool) -> tuple[Run, Callable[[], Any]]:
    """Returns what runs the model, and its report. Raises Unusable."""
    for name in HOSTS:
        try:
            host = import_module(name)
            break
        except ImportError:
            continue
    else:
        raise Unusable("No TFLite host is installed: pip install ai-edge-litert")
    delegates = [tflgpu_plugin.load_delegate("tflgpu")] if gpu else []
    made = host.Interpreter(str(path), experimental_delegates=delegates)
    made.allocate_tensors()
    (given,), outputs = made.get_input_details(), made.get_output_details()

    def run(picture: Array) -> list[Array]:
        made.set_tensor(given["index"], picture)
        made.invoke()
        return [made.get_tensor(output["index"]) for output in outputs]

    return run, lambda: tflgpu_plugin.report(delegates[0])


def on_onnxruntime(path: Path, gpu: bool) -> tuple[Run, Callable[[], Any]]:
    """Returns the same for an ONNX file. Raises Unusable."""
    try:
        ort = import_module("onnxruntime")
    except ImportError as error:
        raise Unusable(f"{error}. pip install onnxruntime") from error
    tflgpu_plugin.register()
    made = ort.InferenceSession(path, providers=[OURS, CPU] if gpu else [CPU])
    name = made.get_inputs()[0].name
    return lambda picture: made.run(None, {name: picture}), lambda: tflgpu_plugin.report(made)


@dataclass
class Pipeline:
    """Both models on the GPU or on the CPU."""

    detector: Run
    mesh: Run
    reports: list[Callable[[], Any]]

    @staticmethod
    def of(detector: Path, mesh: Path, gpu: bool) -> Pipeline:
        """Opens both models. Raises Unusable."""
        for path in (detector, mesh):
            if path.suffix not in (".tflite", ".onnx") or not path.exists():
                raise Unusable(f"{path} is not there, or is no .tflite or .onnx file")
        made = [(on_onnxruntime if path.suffix == ".onnx" else on_tflite)(path, gpu)
                for path in (detector, mesh)]  # fmt: skip
        return Pipeline(made[0][0], made[1][0], [report for _, report in made])

    def all_points(self, pictures: Sequence[Any]) -> Iterator[Array]:
        """Yields the points of each picture, and finds the face of the next one meanwhile. Raises
        Unusable where there is none."""
        with ThreadPoolExecutor(1) as ahead:
            faces = [ahead.submit(self.face, picture) for picture in pictures[:1]]
            for k, picture in enumerate(pictures):
                found = faces.pop().result()
                faces = [ahead.submit(self.face, one) for one in pictures[k + 1 : k + 2]]
                yield self.points(picture, found)

    def face(self, picture: Any) -> Box:
        """Returns the square around the clearest face. Raises Unusable where there is none."""
        return box(self.detector(scaled(picture, SIDE) * 2 - 1), picture.size)

    def points(self, picture: Any, found: Box) -> Array:
        """Returns the points of the face in pixels of the picture, [n, 2]."""
        left, top, side = found
        face = picture.crop((left, top, left + side, top + side))
        made = self.mesh(scaled(face, 192))
        points = max(made, key=lambda one: one.size).reshape(-1, 3)[:, :2]
        return points * (side / 192) + (left, top)


def scaled(picture: Any, side: int) -> Array:
    """Returns the picture as [1, side, side, 3], from 0 to 1."""
    array = np.asarray(picture.convert("RGB").resize((side, side)), np.float32)
    return np.ascontiguousarray(array[None] / 255)


def box(outputs: Sequence[Array], size: tuple[int, int]) -> Box:
    """Returns the square around the best face."""
    scores = next(one for one in outputs if one.shape[-1] == 1).reshape(-1)
    boxes = next(one for one in outputs if one.shape[-1] > 1).reshape(len(scores), -1)
    best = int(scores.argmax())
    if 1 / (1 + np.exp(-scores[best])) < FOUND:
        raise Unusable("There is no face in the picture.")
    x, y, width, height = boxes[best, :4] / SIDE
    across, down = centres()[best] + (x, y)
    side = float(max(width * size[0], height * size[1])) * MARGIN
    return float(across * size[0] - side / 2), float(down * size[1] - side / 2), side


def centres() -> Array:
    """Returns the centres of the detector's boxes, by parts of the picture."""
    found = []
    for cells, boxes in CELLS:
        at = (np.arange(cells) + 0.5) / cells
        rows, columns = np.meshgrid(at, at, indexing="ij")
        found.append(np.repeat(np.stack([columns, rows], -1).reshape(-1, 2), boxes, 0))
    return np.concatenate(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python examples/two_models.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("detector", "landmarks", "picture"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--frames", type=int, default=20, help="how often to run, for the time")
    parser.add_argument("--out", type=Path, help="a picture with the points")
    given = parser.parse_args(arguments)
    try:
        return shown(given)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 2


def shown(given: argparse.Namespace) -> int:
    """Prints points and times, and returns the exit status. Raises Unusable."""
    try:
        image = import_module("PIL.Image")
        picture = image.open(given.picture)
    except (ImportError, OSError) as error:
        raise Unusable(f"{error} (pip install pillow reads pictures)") from error
    found = {}
    for gpu in (True, False):
        pipeline = Pipeline.of(given.detector, given.landmarks, gpu)
        found[gpu] = pipeline.points(picture, pipeline.face(picture))
        start = time.perf_counter()
        for points in pipeline.all_points([picture] * given.frames):
            found[gpu] = points
        each = (time.perf_counter() - start) * 1e3 / max(1, given.frames)
        print(f"{'GPU' if gpu else 'CPU'}: {each:.1f} ms a frame")
        for report in pipeline.reports if gpu else []:
            print(report())
    apart = float(np.abs(found[True] - found[False]).max())
    print(f"{len(found[True])} points, at most {apart:.4f} pixels from the CPU's")
    if given.out:
        draw(picture, found[True], given.out)
    return int(not apart <= APART)


def draw(picture: Any, points: Array, path: Path) -> None:
    """Writes the picture with a dot at each point."""
    made = picture.convert("RGB")
    pen = import_module("PIL.ImageDraw").Draw(made)
    radius = max(1, made.width // 300)
    for x, y in points:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(0, 255, 0))
    made.save(path)


if __name__ == "__main__":
    sys.exit(main())
