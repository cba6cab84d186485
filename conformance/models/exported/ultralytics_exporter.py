"""The route from ultralytics to ONNX: detectors that include non-maximum suppression, of a fixed
and of an open size, and models for segmentation, poses and rotated boxes; narrow, with seeded
weights."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

SIZE, OTHER = 128, (96, 160)  # pixels, and those of another run where the size is open
NMS, OPEN = {"nms": True}, {"nms": True, "dynamic": True}
FOUND = 12  # places of noise whose score passes the threshold
THRESHOLD = -1.0986  # its logit, of 0.25
NEVER = -20.0
SPREAD = 1.5  # standard deviation of the logits
CLASSES = 3
SEEDS, NEAR = range(20), 1e-4  # of weights; logits of a place that are so near are nearly a tie
NETWORKS = ("yolov8", "yolo11", "yolo12", "yolo26")
# A network, the settings of its export, and whether it finds something.
ROUTES: dict[str, tuple[str, dict[str, Any], bool]] = {
    **{f"{name}n{task}": (f"{name}n{task}", {}, True) for name in NETWORKS
       for task in ("", "-seg", "-pose", "-obb")},
    **{f"{name}n.nms": (f"{name}n", NMS, True) for name in NETWORKS},
    **{f"{name}n.nms_none": (f"{name}n", NMS, False) for name in NETWORKS},
    **{f"{name}n.nms_open": (f"{name}n", OPEN, True) for name in NETWORKS},
    **{f"{name}n.nms_open_none": (f"{name}n", OPEN, False) for name in ("yolov8", "yolo11")},
    **{f"yolo11n{task}.nms": (f"yolo11n{task}", NMS, True) for task in ("-seg", "-pose", "-obb")},
    "yolo11n.open": ("yolo11n", {"dynamic": True}, True),
    "yolov5n": ("yolov5n", {}, True),
    "yolov10n": ("yolov10n", {}, True),
    "yolo11n-cls": ("yolo11n-cls", {}, True),
}  # fmt: skip


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model into a folder, by the model's name."""
    return {f"ultralytics_{name}": partial(_write, name, *row) for name, row in ROUTES.items()}


def _write(name: str, network: str, settings: dict[str, Any], finds: bool, folder: Path) -> None:
    import torch

    os.environ["YOLO_AUTOINSTALL"] = os.environ["YOLO_VERBOSE"] = "false"
    from ultralytics import YOLO
    from ultralytics.utils import YAML

    path = folder.resolve() / f"ultralytics_{name}.onnx"
    with TemporaryDirectory() as kept, contextlib.chdir(kept):
        with contextlib.redirect_stdout(io.StringIO()):
            described = YOLO(f"{network}.yaml").model.yaml | {"nc": CLASSES}
            YAML.save(f"{network}.yaml", described)
            for seed in SEEDS:
                torch.manual_seed(seed)
                model = YOLO(f"{kept}/{network}.yaml")
                _spread(model.model, finds)
                if _gap(model.model) > NEAR:
                    break
            else:
                raise RuntimeError(f"All weights of {network} have two logits that nearly tie.")
            made = model.export(format="onnx", imgsz=SIZE, **settings)
        path.write_bytes(Path(made).read_bytes())
    random = np.random.default_rng(0)
    sizes = [(SIZE, SIZE), *([OTHER] if settings.get("dynamic") else [])]
    for end, size in zip((".npz", ".0.npz"), sizes, strict=False):
        images = random.random((1, 3, *size), np.float32)
        np.savez(path.with_suffix(end), images=images)


def _spread(model: Any, finds: bool) -> None:
    """Scales the scores of each level of a head, so that no two of a place are nearly equal (with
    seeded weights the scales of levels differ by powers of ten), and shifts them, so that a few
    pass the threshold where the network `finds` something, and none elsewhere."""
    import torch

    for lasts in _heads(model):
        for one in lasts:
            torch.nn.init.zeros_(one.bias)
        made = _made_by(model, lasts)
        scales = [SPREAD / float(scores.std()) for scores in made]
        pairs = zip(made, scales, strict=True)
        best = [(scores.amax(1) * scale).flatten() for scores, scale in pairs]
        least = torch.cat(best).sort(descending=True).values[FOUND]
        for one, scale in zip(lasts, scales, strict=True):
            one.weight.data *= scale
            one.bias.data += THRESHOLD - least if finds else NEVER


def _heads(model: Any) -> list[list[Any]]:
    """Returns the last layers of each head of scores; [] for a network without them."""
    import torch

    heads = [getattr(model.model[-1], name, None) for name in ("cv3", "one2one_cv3")]
    lists = [head for head in heads if isinstance(head, torch.nn.ModuleList)]
    return [[one[-1] for one in head] for head in lists if hasattr(head[0], "__getitem__")]


def _gap(model: Any) -> float:
    """Returns the least distance between the two highest logits of a position, for the images of
    the runs."""
    import torch

    least = 1.0
    for lasts in _heads(model):
        for made in _made_by(model, lasts, torch.from_numpy(_images(SIZE, SIZE))):
            first, second = made.topk(2, 1).values.unbind(1)
            least = min(least, float((first - second).min()))
    return least


def _images(*size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((1, 3, *size), np.float32)


def _made_by(model: Any, layers: Sequence[Any], images: Any = None) -> list[Any]:
    """Returns the result of these layers for images, or for noise."""
    import torch

    seen: list[Any] = []
    hooks = [one.register_forward_hook(lambda *given: seen.append(given[2])) for one in layers]
    with torch.no_grad():
        noise = torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
        model.eval()(noise if images is None else images)
    for hook in hooks:
        hook.remove()
    return seen
