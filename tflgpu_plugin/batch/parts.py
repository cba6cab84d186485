"""The files of a run in its folder: `_run.json`, and for each part a file of results and, where
inputs failed, a file with the reasons. Each file is written atomically."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from tflgpu_plugin.batch import columns, sources
from tflgpu_plugin.batch.sources import Item
from tflgpu_plugin.batch.spec import Array
from tflgpu_plugin.harness import inputs
from tflgpu_plugin.harness.inputs import BadInput

NPZ, PARQUET = "npz", "parquet"
MANIFEST = "_run.json"  # readers of Parquet folders ignore such names
INDEX, INPUT, ADAPTER = "index", "input", "adapter"
ITEMS, FAILED = "items", "failed"  # suffix of a file of failures
_UNFINISHED = ".unfinished"
DAMAGED = "{} is damaged: choose another folder."
MAX_BYTES = 1 << 28  # bytes of a file of failures


@dataclass(frozen=True)
class Failure:
    """An input for which there are no results: its number, its name, and the reason."""

    index: int
    input: str
    reason: str

    def __str__(self) -> str:
        return f"{self.input}: {self.reason.rstrip('.')}."


@dataclass(frozen=True)
class Results:
    """The results of one part: the items, the model's outputs for each, the names of its outputs,
    and the adapter."""

    part: int
    items: Sequence[Item]
    rows: Sequence[Sequence[Array]]
    names: Sequence[str]
    adapter: str
    failures: Sequence[Failure] = field(default=())


@dataclass(frozen=True)
class Packed:
    """The results of one part in their stored form: the content of their file (empty if all inputs
    of the part failed), and how many inputs the part has."""

    part: int
    count: int
    content: bytes
    failures: Sequence[Failure]
    adapter: str


def packed(results: Results, kind: str) -> Packed:
    stream = io.BytesIO()
    if results.items:
        save = _save_parquet if kind == PARQUET else _save_npz
        save(stream, table(results), results.adapter)
    count = len(results.items) + len(results.failures)
    return Packed(results.part, count, stream.getvalue(), results.failures, results.adapter)


class Folder:
    """The output folder of a run. `kind` is npz or parquet."""

    def __init__(self, path: Path, kind: str) -> None:
        if kind == PARQUET:
            sources.parquet()  # raises an error that says what to install
        self.path, self.kind = path, kind

    def begin(self, manifest: Mapping[str, Any], resume: bool) -> None:
        """Creates the folder or, with `resume`, continues the interrupted run whose results it
        holds. Raises BadInput where it holds results of another run, or other files."""
        self.path.mkdir(parents=True, exist_ok=True)
        known = self.path / MANIFEST
        if known.exists():
            self._same(known, manifest, resume)
        elif any(self.path.iterdir()):
            raise BadInput(f"{self.path} holds other files: choose an empty folder.")
        else:
            _write(known, (json.dumps(manifest, indent=1) + "\n").encode())
        for left in self.path.glob(f".*{_UNFINISHED}"):
            left.unlink(missing_ok=True)

    def _same(self, known: Path, manifest: Mapping[str, Any], resume: bool) -> None:
        if not resume:
            raise BadInput(
                f"{self.path} holds a run: add --resume to continue it, or choose another folder."
            )
        before = _read(known)
        other = [key for key, value in manifest.items() if before.get(key) != value]
        if other:
            raise BadInput(
                f"{self.path} holds a run that differs in {', '.join(other)}: repeat its "
                "arguments, or choose another folder."
            )

    def file(self, part: int) -> Path:
        return self.path / f"part-{part:08}.{self.kind}"

    def _failed(self, part: int) -> Path:
        return self.path / f"_failed-{part:08}.json"

    def done(self) -> set[int]:
        """Returns the parts that are complete."""
        found = {_number(path) for path in self.path.glob(f"part-*.{self.kind}")}
        for path in self.path.glob("_failed-*.json"):
            if _number(path) not in found:
                failures, count = _read_failures(path)
                found |= {_number(path)} if len(failures) == count else set()
        return found

    def keep(self, packed: Packed) -> None:
        """Writes the results of a part to files. Failures are written first, because a part counts
        as complete when its file of results exists."""
        if packed.failures:
            failed = [[one.index, one.input, one.reason] for one in packed.failures]
            content = {ITEMS: packed.count, FAILED: failed}
            _write(self._failed(packed.part), json.dumps(content).encode())
        if packed.content:
            _write(self.file(packed.part), packed.content)

    def failures(self, parts: Iterable[int]) -> Iterator[Failure]:
        """Yields the failures of these parts, in order."""
        for part in parts:
            path = self._failed(part)
            yield from _read_failures(path)[0] if path.exists() else ()


def _number(path: Path) -> int:
    """Returns the number of a file's part, read from its name. Raises BadInput."""
    try:
        return int(path.name.partition("-")[2].partition(".")[0])
    except ValueError as error:
        raise BadInput(f"{path} does not belong to this run: choose another folder.") from error


def _read(path: Path) -> dict[str, Any]:
    """Returns the content of a file of a run. Raises BadInput for any other file."""
    try:
        content = json.loads(inputs.content(path, "file", MAX_BYTES))
    except (ValueError, RecursionError) as error:  # BadInput among them
        raise BadInput(DAMAGED.format(path)) from error
    if not isinstance(content, dict):
        raise BadInput(DAMAGED.format(path))
    return content


def _read_failures(path: Path) -> tuple[list[Failure], int]:
    """Returns the failures of a part, and how many inputs it has. Raises BadInput."""
    content = _read(path)
    try:
        failures = [
            Failure(int(index), str(name), str(why)) for index, name, why in content[FAILED]
        ]
        return failures, int(content[ITEMS])
    except (LookupError, TypeError, ValueError) as error:
        raise BadInput(DAMAGED.format(path)) from error


def table(results: Results) -> dict[str, Array]:
    """Returns the columns of a part; a column whose rows have different shapes has dtype object."""
    shown = [one.name.encode(errors="backslashreplace").decode() for one in results.items]
    made: dict[str, Array] = {
        INDEX: np.array([item.index for item in results.items], np.int64),
        INPUT: np.array(shown, np.str_),
    }
    names = columns.names(results.names, (*made, ADAPTER))
    outputs = map(columns.stacked, zip(*results.rows, strict=True))
    return made | dict(zip(names, outputs, strict=True))


def _save_npz(stream: IO[bytes], made: Mapping[str, Array], adapter: str) -> None:
    """Writes the part; rows of different shapes become separate arrays, named by their index in the
    part."""
    arrays = dict[str, Array]()
    for name, column in made.items():
        if column.dtype == object:
            arrays |= {f"{name}#{place}": row for place, row in enumerate(column)}
        else:
            arrays[name] = column
    np.savez(stream, **arrays, **{ADAPTER: np.array(adapter)})


def _save_parquet(stream: IO[bytes], made: Mapping[str, Array], adapter: str) -> None:
    """Writes the part; each result is a flat list of numbers, with its shape in a second column."""
    import pyarrow as pa

    found: dict[str, Any] = {INDEX: pa.array(made[INDEX])}
    found[INPUT] = pa.array(made[INPUT].tolist(), pa.string())
    for name, column in made.items():
        if name not in found:
            ends = np.cumsum([0, *(row.size for row in column)])
            flat = np.concatenate([np.asarray(row).reshape(-1) for row in column])
            values = flat.tolist() if flat.dtype.kind == "U" else flat
            found[name] = pa.LargeListArray.from_arrays(ends, pa.array(values))
            found[f"{name}.shape"] = pa.array([list(np.shape(row)) for row in column])
    whole = pa.table(found).replace_schema_metadata({ADAPTER: adapter})
    sources.parquet().write_table(whole, stream)


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("xb") as stream:  # a new file, so that no link can redirect the write
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    except OSError as error:  # that of a full disk names no file
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
