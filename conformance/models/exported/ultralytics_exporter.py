"""The route from ultralytics to ONNX: detectors with their suppression inside, of a fixed and of an
open size, and what segments, finds poses and turned boxes; narrow, with seeded weights."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

SIZE, OTHER = 128, (96, 160)  # pixels, and those of another run where the size is open
NMS, OPEN = {"nms": True}, {"nms": True, "dynamic": True}
SURE = 0.0  # the logit that half of the scores pass
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
    """What writes each model into a folder, by the model's name."""
    return {f"ultralytics_{name}": partial(_write, name, *row) for name, row in ROUTES.items()}


def _write(name: str, network: str, settings: dict[str, Any], finds: bool, folder: Path) -> None:
    import torch

    os.environ["YOLO_AUTOINSTALL"] = os.environ["YOLO_VERBOSE"] = "false"
    from ultralytics import YOLO

    torch.manual_seed(0)
    path = folder.resolve() / f"ultralytics_{name}.onnx"
    with TemporaryDirectory() as kept, contextlib.chdir(kept):
        with contextlib.redirect_stdout(io.StringIO()):
            model = YOLO(f"{network}.yaml")
            _spread(model.model, finds)
            made = model.export(format="onnx", imgsz=SIZE, **settings)
        path.write_bytes(Path(made).read_bytes())
    random = np.random.default_rng(0)
    sizes = [(SIZE, SIZE), *([OTHER] if settings.get("dynamic") else [])]
    for end, size in zip((".npz", ".0.npz"), sizes, strict=False):
        images = random.random((1, 3, *size), np.float32)
        np.savez(path.with_suffix(end), images=images)


def _spread(model: Any, finds: bool) -> None:
    """Weights of the heads so large that no two scores are near each other, and a threshold that
    some of them pass where the network `finds` something."""
    import torch

    for key, module in model.named_modules():
        last = isinstance(module, torch.nn.Conv2d) and module.bias is not None
        if last and ("cv3" in key or "one2one_cv3" in key):
            torch.nn.init.normal_(module.weight, std=1.0)
            torch.nn.init.constant_(module.bias, SURE if finds else -1e3)
