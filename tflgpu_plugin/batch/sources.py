"""The inputs of a run: files that hold one sample or many, numbered in the order in which they were
given."""

from __future__ import annotations

import bisect
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tflgpu_plugin.batch.spec import Input, Signature
from tflgpu_plugin.harness.inputs import BadInput

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
TABLES = (".npy", ".npz", ".parquet")


@dataclass(frozen=True)
class Item:
    """One sample of a run: its number, its file and, where the file holds several samples, its row
    in that file."""

    index: int
    path: str
    row: int | None = None

    @property
    def name(self) -> str:
        return self.path if self.row is None else f"{self.path}#{self.row}"


@dataclass(frozen=True)
class Source:
    """A file with `rows` samples. If `rows` is None, the file is one sample, or cannot be read (its
    reader then reports why)."""

    path: str
    rows: int | None = None
    size: int = 0

    @property
    def count(self) -> int:
        return 1 if self.rows is None else self.rows


class Listing:
    """All inputs of a run, in order."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.ends = list(accumulate(source.count for source in sources))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def items(self, start: int, stop: int) -> list[Item]:
        """Returns the inputs with these numbers."""
        found = []
        place = bisect.bisect_right(self.ends, start)
        for index in range(start, min(stop, len(self))):
            while self.ends[place] <= index:
                place += 1
            source = self.sources[place]
            row = None if source.rows is None else index - self.ends[place] + source.count
            found.append(Item(index, source.path, row))
        return found

    def digest(self) -> str:
        """Returns a digest of the names, counts and sizes, which identifies the inputs."""
        lines = (f"{one.path}\0{one.rows}\0{one.size}\n" for one in self.sources)
        return sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def listed(paths: Sequence[Path], signature: Signature) -> Listing:
    """Returns the files and, in order of their names, those in the folders. Raises BadInput where
    there is none, or where they hold no samples."""
    found = [source_of(path, signature) for given in paths for path in _files(given)]
    if not any(source.count for source in found):
        named = ", ".join(str(path) for path in paths)
        raise BadInput(
            f"There are no inputs in {named}. An input is a picture, a .npy, .npz or .parquet file."
        )
    return Listing(found)


def _files(given: Path) -> Iterator[Path]:
    if not given.is_dir():
        yield given
        return
    for path in sorted(given.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(given).parts)
        if path.suffix.lower() in PICTURES + TABLES and not hidden and path.is_file():
            yield path


def source_of(path: Path, signature: Signature) -> Source:
    """Returns a file with its number of samples, from its header alone. A file that cannot be read,
    such as a pipe, is refused later, by its reader."""
    kind = path.suffix.lower()
    if not path.is_file():
        return Source(str(path))
    try:
        size = path.stat().st_size
        if kind == ".npy":
            with path.open("rb") as stream:
                rows = _rows(signature.inputs[0], _head(stream))
        elif kind == ".npz":
            rows = _rows_of_npz(path, signature)
        elif kind == ".parquet":
            rows = parquet().ParquetFile(path).metadata.num_rows
        else:
            rows = None
    except Exception:  # errors of many kinds, for damaged files
        return Source(str(path))
    return Source(str(path), rows, size)


def parquet() -> Any:
    """Returns the module for Parquet files. Raises BadInput without it."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput("Parquet needs pyarrow. Run: pip install pyarrow") from error
    return parquet


def _head(stream: BinaryIO) -> tuple[int, ...]:
    """Returns the shape that the header of a .npy file states."""
    heads: Any = np.lib.format
    version = heads.read_magic(stream)
    read = heads.read_array_header_1_0 if version == (1, 0) else heads.read_array_header_2_0
    return tuple(read(stream)[0])


def _rows_of_npz(path: Path, signature: Signature) -> int | None:
    with zipfile.ZipFile(path) as archive:
        heads = {}
        for name in archive.namelist():
            with archive.open(name) as stream:
                heads[name.removesuffix(".npy")] = _head(stream)  # type: ignore[arg-type]
    names = matched(signature, list(heads))
    shapes = [heads[name] for name in names]
    require_as_many(signature, shapes)
    return _rows(signature.inputs[0], shapes[0])


def require_as_many(signature: Signature, shapes: Sequence[Sequence[int]]) -> None:
    """Raises BadInput where the arrays of the inputs hold different numbers of samples."""
    pairs = zip(signature.inputs, shapes, strict=True)
    counts = {one.name: _rows(one, shape) for one, shape in pairs
              if one.fits(shape) or one.fits(shape[1:])}  # fmt: skip
    if len({*counts.values()}) > 1:
        each = ((1 if rows is None else rows, name) for name, rows in counts.items())
        listed = ", ".join(f"{rows} of {name}" for rows, name in each)
        raise BadInput(f"its arrays have different numbers of samples: {listed}")


def _rows(given: Input, shape: Sequence[int]) -> int | None:
    """Returns the number of samples in an array of this shape; None if the array is one sample."""
    whole = len(shape) == len(given.shape) + 1 and shape[0] == 1
    if given.fits(shape) or (whole and given.fits(shape[1:])):
        return None
    if len(shape) == len(given.shape) + 1 and given.fits(shape[1:]):
        return shape[0]
    return None  # its reader reports the error


def matched(signature: Signature, names: Sequence[str]) -> list[str]:
    """Returns the name of each input's array or column. Raises BadInput."""
    if len(signature.inputs) == 1 and len(names) == 1:
        return [names[0]]
    found = []
    for one in signature.inputs:
        short = one.name.removeprefix("serving_default_").partition(":")[0]
        name = next((each for each in (one.name, short) if each in names), None)
        if name is None:
            here = ", ".join(names) or "none"
            raise BadInput(f"the data lacks the model's input {one.name}: it has {here}")
        found.append(name)
    return found
