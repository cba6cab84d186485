"""The route from torch to TFLite that litert-torch takes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from . import torch_models, transformer_models
from .transformer_models import Recipe

# It takes its time: one of each kind.
NAMES = ("text_bert", "image_vit", "text_llama", "image_convnext", "image_swin", "text_gpt2",
         "image_segformer", "image_mobilevit", "image_mobilenetv2", "image_levit", "text_debertav2",
         "text_gemma2", "image_resnet", "text_modernbert", "image_yolos")  # fmt: skip


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model into a folder, by the model's name."""
    recipes: dict[str, Recipe] = {
        **{name: transformer_models.RECIPES[name] for name in NAMES},
        **{f"torch_{name}": recipe for name, recipe in torch_models.networks().items()},
    }
    return {f"litert_{name}": partial(_write, name, recipe) for name, recipe in recipes.items()}


def _write(name: str, recipe: Recipe, folder: Path) -> None:
    import litert_torch

    module, inputs = recipe()
    path = folder / f"litert_{name}.tflite"
    with contextlib.redirect_stdout(io.StringIO()):
        litert_torch.convert(module.eval(), tuple(inputs.values())).export(str(path))
    arrays = (t.numpy() for t in inputs.values())
    narrow = (a.astype(np.int32) if a.dtype == np.int64 else a for a in arrays)
    fed = {f"serving_default_args_{k}": a for k, a in enumerate(narrow)}
    np.savez(path.with_suffix(".npz"), **fed)
