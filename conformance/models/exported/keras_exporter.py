"""Routes from Keras to TFLite: as converted, with float16 weights, with 8-bit weights, and with
8 bits throughout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from . import keras_models

ALSO = ("mobilenetv2", "unet", "attending", "mlp")  # those that are written in every way
SAVED = ("sound", "volume", "resnet50")  # those that are also written with a dynamic batch axis


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model into a folder, by the model's name."""
    found: dict[str, Callable[[Path], None]] = {}
    for name, build in keras_models.networks().items():
        kinds = ["", *([".float16", ".int8_weights", ".int8"] if name in ALSO else [])]
        kinds += [".open"] if name in SAVED else []
        found |= {f"keras_{name}{kind}": partial(_write, name, build, kind) for kind in kinds}
    return found


def _write(name: str, build: Callable[[], Any], kind: str, folder: Path) -> None:
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    model = build()
    chance = np.random.default_rng(0)

    def values() -> list[Any]:
        return [_values(chance, (1, *one.shape[1:]), one.dtype) for one in model.inputs]

    with TemporaryDirectory() as saved:
        fixed = [tf.TensorSpec((1, *one.shape[1:]), one.dtype) for one in model.inputs]
        model.export(saved, verbose=False, input_signature=None if kind == ".open" else fixed)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved)
        if kind not in ("", ".open"):
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if kind == ".float16":
            converter.target_spec.supported_types = [tf.float16]
        if kind == ".int8":
            converter.representative_dataset = lambda: _samples(values)
        content = converter.convert()
    path = folder / f"keras_{name}{kind}.tflite"
    path.write_bytes(content)
    wanted = tf.lite.Interpreter(model_content=content).get_input_details()
    np.savez(path.with_suffix(".npz"),
             **{d["name"]: _values(chance, d["shape"], d["dtype"]) for d in wanted})  # fmt: skip


def _samples(values: Callable[[], list[Any]]) -> Iterator[list[Any]]:
    for _ in range(8):
        yield values()


def _values(chance: np.random.Generator, shape: Any, dtype: Any) -> Any:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return chance.integers(0, 20, shape).astype(kind)
    return chance.uniform(0, 1, shape).astype(kind)
