"""Routes from torch to ONNX: as exported, with dynamic extents, by the older exporter, with a
cache, as onnxruntime's tools write it (fused, with integers, by the builder of its generator)."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import (
    detector_models,
    diffusion_models,
    genai_models,
    newer_models,
    speech_models,
    today,
    torch_models,
    transformer_models,
)
from .transformer_models import Recipe

OPSET = 20
FUSED = {"bert": "bert", "roberta": "bert", "distilbert": "bert", "vit": "vit",
         "whisper_encoder": "bart", "llama": "gpt2", "unet_2d_condition": "unet"}  # fmt: skip
OLDER = ("text_bert", "text_gpt2", "image_vit", "image_convnext", "image_segformer",
         "torch_lstm_tagger", "torch_gru_tagger", "torch_unet",
         "torch_recommender", "torch_detector", "image_mobilenetv2", "rtdetr", "rtdetrv2", "dfine",
         *speech_models.RECIPES)  # fmt: skip
BATCH, LENGTH = (0,), (0, 1)  # the dynamic axes
OPEN = {
    **dict.fromkeys(("text_bert", "text_llama", "text_debertav2", "text_gpt2", "text_qwen3",
                     "text_t5", "text_umt5", "text_mpnet", "text_deberta", "t5", "umt5", "wavlm",
                     "bart"), LENGTH),
    **dict.fromkeys(("image_vit", "image_segformer", "image_resnet", "torch_unet", "rtdetr",
                     "dfine", "image_dinov3vit"), BATCH),
}  # fmt: skip
LENGTHS = (7, 24, 40)  # tokens in texts, beside the exported length; sounds are 100 times as long
PASTS = (0, 5, 33)  # numbers of past tokens, beside the exported one
SMALL_NUMBERS = ("text_bert", "image_resnet", "image_vit", "image_mobilenetv2")


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model into a folder, by the model's name."""
    recipes: dict[str, Recipe] = {
        **transformer_models.RECIPES,
        **{f"torch_{name}": recipe for name, recipe in torch_models.networks().items()},
        **diffusion_models.RECIPES,
        **detector_models.RECIPES,
        **newer_models.RECIPES,
        **speech_models.RECIPES,
    }
    found: dict[str, Callable[[Path], None]] = {}
    found |= {name: partial(_plain, name, recipe) for name, recipe in recipes.items()}
    found |= {f"{n}.open": partial(_open, n, recipes[n], axes) for n, axes in OPEN.items()}
    found |= {f"{n}.open": partial(_past, n, recipes[n]) for n in recipes if n.startswith("cached")}
    found |= {f"{n}.older": partial(_older, n, recipes[n]) for n in OLDER}
    kinds = {n: kind for n in recipes for end, kind in FUSED.items() if n.endswith(f"_{end}")}
    found |= {f"{n}.fused": partial(_fused, n, kind) for n, kind in kinds.items()}
    found |= {f"{n}.int8": partial(_int8, n) for n in SMALL_NUMBERS}
    return found | genai_models.routes()


def measured() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each measured model into a folder that lacks it, by name."""
    sizes = ("tiny", "published")
    return {
        f"{name}.{size}": partial(_once, f"{name}.{size}", recipe)
        for name, recipes in today.networks().items()
        for size, recipe in zip(sizes, recipes, strict=True)
    }


def estimated() -> dict[str, Callable[[Path], None]]:
    """Returns functions that write each model whose time is estimated."""
    return {name: partial(_once, name, recipe) for name, recipe in today.encoders().items()}


def _once(name: str, recipe: Recipe, folder: Path) -> None:
    if not (folder / f"{name}.npz").exists():
        _plain(name, recipe, folder)


def _export(path: Path, recipe: Recipe, open_axes: Collection[int] = (), **more: Any) -> None:
    import torch

    module, inputs = recipe()
    if open_axes:  # an extent of 1 would be taken for one that is always 1
        inputs = {name: torch.cat([t, t]) for name, t in inputs.items()}
        shapes = dict.fromkeys(open_axes, torch.export.Dim.AUTO)
        given = tuple(dict(shapes) for _ in inputs)
        more |= {"dynamic_shapes": (given,) if hasattr(module, "inner") else given}
    settings = {"opset_version": OPSET, "input_names": [*inputs], **more}
    if settings.get("dynamo", True):
        settings = {"dynamo": True, "external_data": False, "verbose": False, **settings}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), str(path), **settings)
    np.savez(path.with_suffix(".npz"), **{name: t.numpy() for name, t in inputs.items()})


def _plain(name: str, recipe: Recipe, folder: Path) -> None:
    _export(folder / f"{name}.onnx", recipe)


def _open(name: str, recipe: Recipe, axes: tuple[int, ...], folder: Path) -> None:
    """Exports the model with a dynamic batch axis. Models of text or sound also get a dynamic
    length axis, and inputs of three further lengths (LENGTHS) beside those of the export."""
    path = folder / f"{name}.open.onnx"
    _export(path, recipe, axes)
    left = dict(np.load(path.with_suffix(".npz")))
    for k, length in enumerate(LENGTHS if axes == LENGTH else ()):
        other = {key: _of_length(array, length) for key, array in left.items()}
        np.savez(path.with_suffix(f".{k}.npz"), **other)


def _of_length(array: Any, length: int) -> Any:
    length *= 1 if array.dtype.kind == "i" else 100
    return array[:, np.arange(length) % array.shape[1]]


def _past(name: str, recipe: Recipe, folder: Path) -> None:
    """Exports the model with a dynamic number of past tokens, and inputs with three further numbers
    of them (PASTS) beside those of the export."""
    import torch

    path, auto = folder / f"{name}.open.onnx", torch.export.Dim.AUTO
    pasts = len(recipe()[1]) - 2
    _export(path, recipe, dynamic_shapes=({}, {1: auto}, ({2: auto},) * pasts))
    left = dict(np.load(path.with_suffix(".npz")))
    for k, length in enumerate(PASTS):
        at = np.arange(length) % 12
        other = {key: a[:, :, at] if a.ndim == 4 else a for key, a in left.items()}
        other["mask"] = np.ones((1, length + 1), left["mask"].dtype)
        np.savez(path.with_suffix(f".{k}.npz"), **other)


def _older(name: str, recipe: Recipe, folder: Path) -> None:
    _export(folder / f"{name}.older.onnx", recipe, dynamo=False, opset_version=17)


def _fused(name: str, kind: str, folder: Path) -> None:
    from onnxruntime.transformers import optimizer

    heads = {"num_heads": 4, "hidden_size": 64} if kind in ("bert", "gpt2", "vit") else {}
    made = optimizer.optimize_model(str(folder / f"{name}.onnx"), kind, opt_level=1, **heads)
    made.save_model_to_file(str(folder / f"{name}.fused.onnx"))


def _int8(name: str, folder: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = folder / f"{name}.int8.onnx"
    quantize_dynamic(folder / f"{name}.onnx", target, weight_type=QuantType.QInt8)
