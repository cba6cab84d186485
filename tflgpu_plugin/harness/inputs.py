"""Makes the inputs of a model: arrays from files, a picture scaled to the model's size and range,
or seeded values. Reads label files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.cache import folders
from tflgpu_plugin.harness import flatbuffer

Array = npt.NDArray[Any]

MAX_MODEL_BYTES = 1 << 31  # bytes: neither format allows larger files
MAX_LABELS = 1 << 24


class BadInput(ValueError):
    """An error for a file or value that cannot be used; the text says what to do."""


def one_line(error: Exception) -> str:
    """Returns the text of an error, or its type where it has no text."""
    return " ".join(str(error).split()) or type(error).__name__


def unread(error: Exception) -> str:
    """Returns why numpy cannot read a file. For what is none of its files, or holds objects, numpy
    advises to unpickle it, which runs the code in it."""
    return "it is not an array in numpy's format" if "pickle" in str(error) else one_line(error)


@dataclass(frozen=True)
class Given:
    """The inputs that a user gives: a picture for the first input that takes one, as (pixel - mean)
    / std in float models; .npy files and shapes by the names of inputs; the seed of all other
    values."""

    image: Path | None = None
    mean: float = 0.0
    std: float = 1.0
    seed: int = 0
    files: Mapping[str, Path] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def make(details: list[dict[str, Any]], given: Given) -> list[Array]:
    """Returns one array per input of the model, and changes `shape` in the details of those whose
    shape is given. Raises BadInput."""
    random = np.random.default_rng(given.seed)
    values, used = [], given.image is None
    _require_known(details, (*given.files, *given.shapes))
    for detail in details:
        name, dtype = str(detail["name"]), np.dtype(detail["dtype"])
        loaded = _loaded(name, dtype, given) if name in given.files else None
        wanted = given.shapes.get(name)
        if loaded is not None:
            require_same(name, loaded.shape, wanted)
            wanted = loaded.shape
        if wanted is not None:
            detail["shape"] = _fitting(name, wanted, detail)
        shape = tuple(int(n) for n in detail["shape"])
        if loaded is not None:
            values.append(loaded)
        elif not used and is_image(shape):
            values.append(picture(given.image, shape, dtype, given.mean, given.std))
            used = True
        else:
            values.append(_seeded(random, name, shape, dtype))
    if not used:
        pictures = {str(detail["name"]) for detail in details if is_image(detail["shape"])}
        taken = [name for name in given.files if name in pictures]
        if taken:
            raise BadInput(
                f"The input {taken[0]}, which takes a picture, has its values from --input: leave "
                "that or the image out."
            )
        shapes = ", ".join(str(list(detail["shape"])) for detail in details)
        raise BadInput(
            f"The model takes no picture (its inputs are {shapes}); leave the image out."
        )
    return values


def require_same(name: str, values: tuple[int, ...], stated: tuple[int, ...] | None) -> None:
    """Raises BadInput where the given values of an input have another shape than the one that is
    stated for it, if any is."""
    if stated not in (None, values):
        shown = ["x".join(map(str, shape)) or "none" for shape in (values, stated or ())]
        raise BadInput(
            f"The dimensions of the values for the input {name} are {shown[0]}, which --shape "
            f"{name}={shown[1]} contradicts. Leave one of them out."
        )


def _require_known(details: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    known = [str(detail["name"]) for detail in details]
    for name in names:
        if name not in known:
            raise BadInput(f"The model has no input {name!r}; its inputs are {', '.join(known)}.")


def _fitting(name: str, wanted: tuple[int, ...], detail: dict[str, Any]) -> list[int]:
    """Returns `wanted` as the shape of an input. Raises BadInput if the number of dimensions
    differs, or if the host can only change open dimensions (`fixed`) and another one differs."""
    extents = tuple(detail["open"])
    shown = "x".join("?" if n is None else str(n) for n in extents) or "none: it is a scalar"
    if len(wanted) != len(extents):
        raise BadInput(
            f"The dimensions of the input {name} are {shown}; it was given {len(wanted)}."
        )
    differing = any(n not in (None, m) for n, m in zip(extents, wanted, strict=True))
    if detail.get("fixed") and differing:
        given = "x".join(map(str, wanted))
        raise BadInput(
            f"The dimensions of the input {name} are {shown}, which {given} contradicts."
        )
    return list(wanted)


def _loaded(name: str, dtype: np.dtype[Any], given: Given) -> Array:
    """Returns the values of the .npy file of this input. Raises BadInput."""
    values = scaled(loaded(given.files[name]), dtype, given.mean, given.std)
    try:
        return cast(name, values, dtype)
    except BadInput as error:
        raise BadInput(f"{given.files[name]}: {error}") from error


def loaded(path: Path) -> Array:
    """Returns the array of a .npy file. Raises BadInput."""
    file = io.BytesIO(content(path, "input"))
    try:
        array: Array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BadInput(f"{path} is not a .npy file with numbers ({unread(error)}).") from error
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{path} holds several arrays; give a .npy file with one.")
    return array


def chosen(details: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Returns the shapes of the inputs that have dynamic extents in the model, by name, whether the
    user has given them or not."""
    found = {}
    for detail in details:
        if None in detail["open"]:
            found[str(detail["name"])] = [int(n) for n in detail["shape"]]
    return found


def shapes_sentence(shapes: Mapping[str, list[int]]) -> str:
    """Returns a sentence about shapes that were chosen or given; "" where there are none."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    return f"The model has dynamic extents. Shapes used here: {listed}." if listed else ""


def refused(host: str, error: Exception, shapes: Mapping[str, list[int]]) -> str:
    """Returns why a model does not run in a host, and the shapes that were chosen for it."""
    text = f"{host} does not accept these values: {error}"
    if not shapes:
        return text
    advice = "Give others with --shape NAME=1x512, or values with --input NAME=FILE.npy."
    return f"{text.rstrip('. ')}. {shapes_sentence(shapes)} {advice}"


def misshapen(host: str, error: Exception, own: Mapping[str, list[int]]) -> str:
    """Returns why a model does not run with the shapes that were given, and its own ones."""
    reason = " ".join(str(error).split()).rstrip(".")
    listed = ", ".join(f"{name} {shape}" for name, shape in own.items())
    return f"{host} cannot run the model with the shapes given: {reason}. Give its own: {listed}."


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether the shape is [1, H, W, C] or [1, C, H, W] with 1 or 3 channels."""
    return len(shape) == 4 and shape[0] == 1 and (shape[3] in (1, 3) or shape[1] in (1, 3))


def picture(
    source: Path | IO[bytes] | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    mean: float,
    std: float,
) -> Array:
    """Returns the picture at the model's size, channels last or first: (pixel - mean) / std for
    float models, the pixels themselves for others."""
    if source is None:
        raise BadInput("Give a picture.")
    last = shape[3] in (1, 3)
    height, width, channels = shape[1:] if last else (*shape[2:], shape[1])
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise BadInput("Reading pictures needs pillow. Run: pip install pillow") from error
    try:
        with _stream(source) as stream, Image.open(stream) as opened:
            mode = "L" if channels == 1 else "RGB"
            scaled = opened.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    except Exception as error:  # pillow raises exceptions of many kinds for damaged files
        name = source if isinstance(source, Path) else "it"
        unknown = isinstance(
            error, UnidentifiedImageError
        )  # its text contains the repr of a stream
        reason = "pillow does not know its format" if unknown else error
        raise BadInput(f"{name} cannot be read as a picture ({reason}).") from error
    pixels = np.asarray(scaled).reshape(1, height, width, channels)
    return values_of(pixels if last else pixels.transpose(0, 3, 1, 2), dtype, mean, std)


def _stream(source: Path | IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """Returns a regular file, or the stream that is already open."""
    if isinstance(source, Path):
        return os.fdopen(folders.opened(source, None, private=False), "rb")
    return nullcontext(source)


def values_of(pixels: Array, dtype: np.dtype[Any], mean: float, std: float) -> Array:
    """Returns the contiguous values that a model of this type takes for pixels of 8 bits."""
    if dtype.kind == "f":
        return np.ascontiguousarray(((pixels.astype(np.float32) - mean) / std).astype(dtype))
    if dtype == np.int8:
        return np.ascontiguousarray((pixels.astype(np.int16) - 128).astype(dtype))
    return np.ascontiguousarray(pixels.astype(dtype))


def is_pixels(value: Array, dtype: np.dtype[Any]) -> bool:
    """Whether the values are pixels of 8 bits, in three or four dimensions, for an input that takes
    other numbers for them."""
    takes = dtype.kind == "f" or dtype == np.int8
    return takes and value.dtype == np.uint8 and value.ndim in (3, 4)


def scaled(value: Array, dtype: np.dtype[Any], mean: float, std: float) -> Array:
    """Returns the values that an input of this type takes for pixels of 8 bits, and any other array
    as it is."""
    return values_of(value, dtype, mean, std) if is_pixels(value, dtype) else value


def cast(name: str, value: Array, dtype: np.dtype[Any]) -> Array:
    """Returns a contiguous copy of the values in the type of the input of this name. Raises
    BadInput where the type cannot represent them, floats after rounding. The values of integers are
    checked instead of their type, since tables store them in wider types."""
    beyond = BadInput(f"{name} takes {dtype}, and some numbers are out of its range.")
    if value.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value.size and not limits.min <= value.min() <= value.max() <= limits.max:
            raise beyond
    elif not np.can_cast(value.dtype, dtype, "same_kind"):
        raise BadInput(f"{name} takes {dtype}, not {value.dtype}.")
    try:
        with np.errstate(over="raise"):
            return np.array(value, dtype, order="C")  # values mapped from a file are read here
    except FloatingPointError as error:
        raise beyond from error


def _seeded(
    random: np.random.Generator, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Returns seeded values for the input of this name. Raises BadInput."""
    if prod(shape) * 8 > sys.maxsize:  # float64 at first
        extents = "x".join(map(str, shape))
        raise BadInput(f"The input {name} cannot be made with shape {extents}: it is too large.")
    if dtype.kind == "f":
        return random.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind not in "iu":
        raise BadInput(f"The model has an input of type {dtype}, for which no values can be made.")
    low, high = (0, 2) if dtype.itemsize > 1 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return random.integers(low, high, shape).astype(dtype)


def labels(path: Path) -> list[str]:
    """Returns one label per line, at least one. Raises BadInput."""
    try:
        lines = content(path, "labels", MAX_LABELS).decode().splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"The labels {path} cannot be read ({error}).") from error
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise BadInput(f"{path} has no labels. Pass a file with one label per line.")
    return found


def model(path: Path) -> bytes:
    """Returns the bytes of a TFLite model file. Raises BadInput."""
    found = content(path)
    try:
        flatbuffer.require_model(found)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error
    return found


def content(path: Path, what: str = "model", most: int = MAX_MODEL_BYTES) -> bytes:
    """Returns the bytes of a regular file. Raises BadInput for any other file, which may never end,
    and for a file of more bytes."""
    try:
        with os.fdopen(folders.opened(path, most, private=False), "rb") as stream:
            return stream.read(os.fstat(stream.fileno()).st_size)  # allocated before it is read
    except OSError as error:
        raise BadInput(f"The {what} {path} cannot be read ({error.strerror}).") from error
    except (folders.Unsafe, MemoryError) as error:
        reason = str(error) or "there is not enough memory for it"
        raise BadInput(f"The {what} {path} cannot be read: {reason}.") from error


def are_scores(value: Array, labels: int) -> bool:
    """Whether an output can be one score per class: numbers along one axis, at least as many as
    labels minus one."""
    return value.dtype.kind in "fiu" and value.size == max(value.shape, default=0) >= labels - 1


def top(scores: Array, names: list[str] | None, count: int = 5) -> list[tuple[str, float]]:
    """Returns the best classes of an output with one score per class; labels may omit a background
    class at 0."""
    flat = scores.reshape(-1).astype(np.float64)
    shift = 1 if names and len(names) == flat.size - 1 else 0
    best = np.argsort(-flat, kind="stable")[:count]

    def label(index: int) -> str:
        if names and 0 <= index - shift < len(names):
            return names[index - shift]
        return "background" if shift and index == 0 else f"class {index}"

    return [(label(int(i)), float(flat[i])) for i in best]


def unlabelled(scores: Array, names: list[str]) -> str | None:
    """Returns a sentence if classes have no label, other than a background class at 0."""
    if scores.size - 1 <= len(names):
        return None
    return (
        f"The file has {len(names)} labels for {scores.size} classes, so that it may belong to "
        "another model; a class without a label is shown by its number."
    )
