"""Inputs of exported models: those that the exporter has written, which are noise, and the same
with a nonzero mean, like images and recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from conformance.models import model_inputs
from conformance.models.model_inputs import Array

PICTURES = ("cats_and_dogs.jpg", "grace_hopper.jpg")  # the first of a batch, the second, in turn
SPEECH = "yes_1000ms.wav"
SAMPLES = 400  # a sound has as many at least
FROM_CENTRE = 2.0  # standard deviations between zero and the mean of what is neither


def feeds(model: Path) -> list[dict[str, Array]]:
    """Returns inputs by name, for each run of a model: as its exporter left them, of every length
    that it left; each off centre; and the first again, after all the others."""
    left = [dict(np.load(path)) for path in _files(model)]
    found = [one for given in left for one in (given, off_centre(given))]
    return [*found, left[0]]


def _files(model: Path) -> list[Path]:
    """Returns the input files beside the model, or beside the model from which it was made."""
    for stem in (model.with_suffix("").name, model.name.split(".")[0]):
        first = model.with_name(f"{stem}.npz")
        if first.exists():
            return [first, *sorted(model.parent.glob(f"{stem}.[0-9].npz"))]
    raise FileNotFoundError(f"{model} has no inputs beside it; write it again with its exporter.")


def off_centre(given: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the same inputs, but images are photographs, sounds are speech, and other floats
    have a mean of several standard deviations. Integers do not change: they are tokens, masks
    and steps."""
    return {name: _off_centre(array) for name, array in given.items()}


def _off_centre(array: Array) -> Array:
    shape = array.shape
    pictured = len(shape) == 4 and 3 in (shape[1], shape[3])
    if pictured and array.dtype.kind in "fu" and (photos := list(_photographs(shape))):
        scale = 1.0 if array.dtype.kind == "u" else 1 / 255
        return (np.concatenate(photos) * scale).astype(array.dtype)
    if array.dtype.kind != "f":
        return array
    file = model_inputs.SHARED / "images" / SPEECH
    if shape and SAMPLES <= shape[-1] == array.size and file.exists():
        array = np.resize(model_inputs.sound(file), shape).astype(array.dtype)
        return array
    moved: Array = (array + FROM_CENTRE * array.std()).astype(array.dtype)
    return moved


def _photographs(shape: tuple[int, ...]) -> Iterator[Array]:
    """Returns a photograph for each element of the batch; none if this machine has no images."""
    for k in range(shape[0]):
        file = model_inputs.SHARED / "images" / PICTURES[k % len(PICTURES)]
        if not file.exists():
            return
        made: Any = model_inputs.picture(file, shape)
        yield made
