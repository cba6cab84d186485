"""Reads samples: one array per input of the model."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from tflgpu_plugin.batch import sources
from tflgpu_plugin.batch.sources import Item
from tflgpu_plugin.batch.spec import Array, Input, Signature, Spec, shown
from tflgpu_plugin.cache import folders
from tflgpu_plugin.harness import inputs, onnx
from tflgpu_plugin.harness.inputs import BadInput

Sample = list[Array]


class Reader:
    """Reads items in order. It keeps the last file open for the next item."""

    def __init__(self, spec: Spec, signature: Signature) -> None:
        self.spec, self.signature = spec, signature
        self._path, self._file = "", None
        self._group: tuple[int, Any] = (0, None)

    def read(self, item: Item) -> Sample:
        """Returns the sample of an item. Raises BadInput with the reason."""
        try:
            return self._read(item)
        except BadInput:
            raise
        except Exception as error:  # readers raise errors of many kinds for damaged files
            system = error.strerror if isinstance(error, OSError) else None
            raise BadInput(f"it cannot be read ({system or inputs.unread(error)})") from error

    def _read(self, item: Item) -> Sample:
        path = Path(item.path)
        kind = path.suffix.lower()
        if kind not in sources.TABLES:
            with os.fdopen(folders.opened(path, None, private=False), "rb") as stream:
                return self._picture(stream)
        if item.path != self._path:
            os.close(folders.opened(path, None, private=False))  # checks that it is regular
            self._path, self._group = "", (0, None)
            self._file = self._opened(item.path, kind)
            self._path = item.path
        if kind == ".parquet":
            return self._row_of_table(item.row or 0)
        values: Any = self._file
        if kind == ".npy":
            names, values = ["0"], {"0": values}
        else:
            names = sources.matched(self.signature, list(values))
            sources.require_as_many(self.signature, [values[name].shape for name in names])
        given = ((one, values[name]) for one, name in zip(self.inputs, names, strict=True))
        return [
            self.spec.sample(one, value if item.row is None else value[item.row])
            for one, value in given
        ]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.signature.inputs

    def _opened(self, path: str, kind: str) -> Any:
        if kind == ".parquet":
            return sources.parquet().ParquetFile(path)
        if kind == ".npy":
            if len(self.inputs) > 1:
                raise BadInput("the model takes several inputs: use .npz or .parquet files")
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def _picture(self, source: IO[bytes]) -> Sample:
        if len(self.inputs) != 1:
            listed = ", ".join(one.name for one in self.inputs)
            raise BadInput(
                f"the model takes several inputs ({listed}): give them together in an .npz or "
                ".parquet file"
            )
        return [picture(self.inputs[0], source, self.spec)]

    def _row_of_table(self, row: int) -> Sample:
        """Returns a sample from columns of numbers, or of encoded pictures."""
        start, group = self._group
        if group is None or not start <= row < start + group.num_rows:
            start, group = self._group = _group(self._file, row)
        found = []
        names = sources.matched(self.signature, group.column_names)
        for one, name in zip(self.inputs, names, strict=True):
            value = group.column(name)[row - start]
            if value.is_valid and "StructScalar" in type(value).__name__:  # the form in data sets
                value = value["bytes"]
            if not value.is_valid:
                raise BadInput(f"its column {name} is empty there")
            given = value.as_py() if not hasattr(value, "values") else None
            if isinstance(given, bytes):
                found.append(picture(one, io.BytesIO(given), self.spec))
            else:
                found.append(self.spec.sample(one, _numbers(value)))
        return found


def _numbers(value: Any) -> Array:
    """Returns the array of a number, a list, or nested lists."""
    if not hasattr(value, "values"):
        return np.asarray(value.as_py())
    inner = value.values
    flat = inner.type.num_fields == 0
    return np.asarray(inner.to_numpy(zero_copy_only=False) if flat else value.as_py())


def _group(file: Any, row: int) -> tuple[int, Any]:
    """Returns the number of the first row of the row group that contains this row, and the
    group."""
    start = 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if row < start + count:
            return start, file.read_row_group(group)
        start += count
    raise BadInput(f"it has no row {row}")


def picture(given: Input, source: IO[bytes], spec: Spec) -> Array:
    """Returns a picture as one sample of this input. Raises BadInput."""
    shape = tuple(onnx.OPEN if n is None else n for n in given.shape)
    if len(shape) == 4 and given.shape[0] in (1, None):  # a complete tensor
        shape = (1, *shape[1:])
        return inputs.picture(source, shape, given.dtype, spec.mean, spec.std)
    if not inputs.is_image((1, *shape)):
        raise BadInput(f"{given.name} takes {shown(given.shape)}, which is not a picture")
    made: Array = inputs.picture(source, (1, *shape), given.dtype, spec.mean, spec.std)[0]
    return made
