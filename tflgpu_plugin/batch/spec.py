"""The description of a model for batches, and of its inputs: data that is sent to workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.cache import folders
from tflgpu_plugin.harness import hosts, inputs, onnx, subjects, tflite
from tflgpu_plugin.harness.inputs import BadInput

Array = npt.NDArray[Any]
Shape = tuple[int | None, ...]

BATCH = 32
PLANS = "plans"  # the folder of stored plans in the user's cache


@dataclass(frozen=True)
class Input:
    """An input of the model: the shape of one sample (None: dynamic) and the type. `pad`: the model
    needs an extent of 1 before it."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    pad: bool = False

    def conform(self, value: Array) -> Array:
        """Returns the value as one sample of this type, reshaped if the shapes differ only by a
        leading 1 or the value is a flat list. Raises BadInput."""
        if value.ndim == len(self.shape) + 1 and value.shape[0] == 1:
            value = value[0]
        if value.ndim == 1 and len(self.shape) != 1 and None not in self.shape:
            fixed = tuple(n or 0 for n in self.shape)
            value = value.reshape(fixed) if value.size == np.prod(fixed) else value
        if not self.fits(value.shape):
            raise BadInput(f"{self.name} takes {shown(self.shape)}, not {shown(value.shape)}.")
        return inputs.cast(self.name, value, self.dtype)

    def fits(self, shape: Sequence[int]) -> bool:
        pairs = zip(shape, self.shape, strict=False)
        return len(shape) == len(self.shape) and all(n in (m, None) or m is None for n, m in pairs)


@dataclass(frozen=True)
class Signature:
    """The inputs of a model. `batched`: the first extent of every input is open, and is the batch;
    otherwise a run takes one sample."""

    inputs: tuple[Input, ...]
    batched: bool
    host: str

    @property
    def fixed(self) -> bool:
        """Whether no extent of a sample's shape is open."""
        return not any(None in one.shape for one in self.inputs)

    def zeros(self, batch: int) -> list[Array]:
        """Returns a batch of this size, for models of fixed shapes."""
        shapes = [tuple(n or 0 for n in one.shape) for one in self.inputs]
        given = zip(self.inputs, shapes, strict=True)
        return [np.zeros((batch, *shape), one.dtype) for one, shape in given]


@dataclass(frozen=True)
class Spec:
    """A model file, the host that runs it (None: the preferred one), the options of the plugin, and
    how many samples make a batch (0: an input is a complete tensor, first extent included).
    Pictures become (pixel - mean) / std in models that take floats."""

    model: Path
    host: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: int = BATCH
    mean: float = 127.5
    std: float = 127.5

    def ready(self, adapter: str | None = None) -> Spec:
        """Returns the spec with a worker's additions: its adapter, and a folder where other workers
        of this machine find its plans. Raises BadInput."""
        more = {} if adapter is None else {"adapter": adapter}
        folder = None if "serialization_dir" in self.options else folders.cache(PLANS)
        if folder is not None:
            more |= {"serialization_dir": str(folder), "model_token": digest(self.model)[:16]}
        return replace(self, options=more | {**self.options, **more})

    def sample(self, given: Input, value: Array) -> Array:
        """Returns a value as a sample of this input. Pixels of 8 bits become the values that the
        model takes for them, with its channels. Raises BadInput."""
        if inputs.is_pixels(value, given.dtype):
            if value.ndim == 4 and value.shape[0] == 1 and not given.fits(value.shape):
                value = value[0]
            turned = value.transpose(2, 0, 1) if value.ndim == 3 else value
            value = turned if given.fits(turned.shape) and not given.fits(value.shape) else value
        return given.conform(inputs.scaled(value, given.dtype, self.mean, self.std))

    def signature(self) -> Signature:
        """Returns the inputs of the model, read by its host without this plugin. Raises BadInput or
        NoHost."""
        details, host = _details(self.model, self.host)
        opened = [detail["open"] for detail in details]
        batched = self.batch > 0 and all(shape and shape[0] is None for shape in opened)
        made = []
        for detail, shape in zip(details, opened, strict=True):
            pad = not batched and self.batch > 0 and bool(shape) and shape[0] in (1, None)
            rest = shape[1:] if batched or pad else shape
            made.append(Input(str(detail["name"]), rest, np.dtype(detail["dtype"]), pad))
        return Signature(tuple(made), batched, host)


def _details(path: Path, host: str | None) -> tuple[list[dict[str, Any]], str]:
    """Returns (details, host): name, dtype and shape of each input, with None for dynamic extents,
    and the host's name and version."""
    if subjects.is_onnx(path, host):
        return onnx.details(onnx.read(path), path), onnx.host()
    runner = hosts.host(host)
    return tflite.details(runner, inputs.model(path), path), runner.title


def digest(path: Path) -> str:
    """Returns the SHA-256 of the model file, read once however many workers ask. Raises
    BadInput."""
    try:
        found = path.stat()
        return _digest(path, found.st_size, found.st_mtime_ns)
    except OSError as error:
        raise BadInput(f"The model {path} cannot be read ({error.strerror}).") from error


@cache
def _digest(path: Path, *_: int) -> str:
    return sha256(inputs.content(path)).hexdigest()


def shown(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"
