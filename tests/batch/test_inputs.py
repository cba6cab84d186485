"""Tests which files are inputs of `tflgpu run`, how many samples they hold, and which are refused.
No adapter is needed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.subprocesses import run_python
from tflgpu_plugin.batch import columns, parts, sources
from tflgpu_plugin.batch.reading import Reader
from tflgpu_plugin.batch.sources import Item
from tflgpu_plugin.batch.spec import Input, Signature, Spec
from tflgpu_plugin.harness.inputs import BadInput

SPEC = Spec(Path("model.tflite"))
PICTURE = Input("serving_default_x:0", (4, 6, 3), np.dtype("f4"))
NUMBERS = Input("n", (2,), np.dtype("i4"))


def signature(*inputs: Input) -> Signature:
    return Signature(inputs, True, "host 1")


def png(width: int = 6, height: int = 4) -> bytes:
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.fromarray(np.full((height, width, 3), 255, np.uint8)).save(stream, "png")
    return stream.getvalue()


def read(path: Path, *inputs: Input, row: int | None = None) -> list[Any]:
    return Reader(SPEC, signature(*inputs)).read(Item(0, str(path), row))


def test_nothing_heavy_is_imported() -> None:
    run_python(
        "import sys, tflgpu_plugin, tflgpu_plugin.batch, tflgpu_plugin.cli.commands\n"
        "assert not {'ray', 'pyarrow', 'pandas', 'PIL'} & {*sys.modules}"
    )


def test_folders_are_in_order_of_names(tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "notes.txt", ".hidden.png", "sub/c.npy", ".sub/d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = sources.listed([tmp_path, tmp_path / "notes.txt"], signature(PICTURE))
    names = [Path(one.path).relative_to(tmp_path).as_posix() for one in found.sources]
    assert names == ["a.JPG", "b.png", "sub/c.npy", "notes.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="no inputs in"):
        sources.listed([tmp_path / "empty"], signature(PICTURE))


def test_samples_are_numbered_through_all_files() -> None:
    listing = sources.Listing(
        [sources.Source("a"), sources.Source("b", 3), sources.Source("c", 0), sources.Source("d")]
    )
    assert len(listing) == 5
    assert [one.name for one in listing.items(0, 9)] == ["a", "b#0", "b#1", "b#2", "d"]
    assert [one.name for one in listing.items(2, 4)] == ["b#1", "b#2"]


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((4, 6, 3), None), ((1, 4, 6, 3), None), ((5, 4, 6, 3), 5), ((0, 4, 6, 3), 0), ((7,), None)],
)
def test_rows_of_an_array(shape: tuple[int, ...], rows: int | None, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
    np.savez(tmp_path / "x.npz", x=np.zeros(shape, np.float32))
    for name in ("x.npy", "x.npz"):
        assert sources.source_of(tmp_path / name, signature(PICTURE)).rows == rows


def test_another_file_is_another_run(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((4, 6, 3), np.float32))
    before = sources.listed([path], signature(PICTURE)).digest()
    assert sources.listed([path], signature(PICTURE)).digest() == before
    np.save(path, np.zeros((4, 6, 3), np.float64))
    assert sources.listed([path], signature(PICTURE)).digest() != before


def test_pictures_and_pixels(tmp_path: Path) -> None:
    """8-bit pixels are scaled, whatever the file format; channels are in the position that the
    model requires."""
    (tmp_path / "x.png").write_bytes(png(12, 8))
    np.save(tmp_path / "x.npy", np.full((1, 4, 6, 3), 255, np.uint8))
    first = Input("x", (3, 4, 6), np.dtype("f4"))
    for one in (PICTURE, first):
        for name in ("x.png", "x.npy"):
            (found,) = read(tmp_path / name, one)
            np.testing.assert_array_equal(found, np.ones(one.shape, np.float32))
    (signed,) = read(tmp_path / "x.npy", Input("x", (4, 6, 3), np.dtype("i1")))
    assert signed.dtype == np.int8 and (signed == 127).all()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.array([1, 1 << 40]), "n takes int32, and some numbers are out of its range"),
        (np.array([1.0, 2.0]), "n takes int32, not float64"),
        (np.array([1, 2, 3]), r"n takes \[2\], not \[3\]"),
        (np.array([{}, 2]), "cannot be read"),
    ],
)
def test_what_a_model_does_not_take(value: Any, reason: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", value, allow_pickle=True)
    with pytest.raises(BadInput, match=reason):
        read(tmp_path / "x.npy", NUMBERS)


def test_arrays_of_several_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((3, 4, 6, 3), np.float32), n=np.arange(6).reshape(3, 2))
    path, both = tmp_path / "x.npz", (PICTURE, NUMBERS)
    assert sources.source_of(path, signature(*both)).rows == 3
    image, numbers = read(path, *both, row=1)
    assert image.shape == (4, 6, 3) and numbers.tolist() == [2, 3] and numbers.dtype == np.int32
    np.savez(path, x=np.ones((3, 4, 6, 3), np.float32), n=np.arange(8).reshape(4, 2))
    with pytest.raises(BadInput, match="numbers of samples: 3 of serving_default_x:0, 4 of n"):
        read(path, *both)
    for one in (np.arange(2), np.arange(2).reshape(1, 2)):
        np.savez(path, x=np.ones((3, 4, 6, 3), np.float32), n=one)
        assert sources.source_of(path, signature(*both)).rows is None
        with pytest.raises(BadInput, match="numbers of samples: 3 of serving_default_x:0, 1 of n"):
            read(path, *both)
    np.savez(path, y=np.ones((4, 6, 3), np.float32), n=np.arange(2))
    with pytest.raises(BadInput, match="input serving_default_x:0: it has y, n"):
        read(path, *both)
    (tmp_path / "x.png").write_bytes(png())
    with pytest.raises(BadInput, match=r"takes several inputs \(serving_default_x:0, n\): give"):
        read(tmp_path / "x.png", *both)


def test_rows_of_a_table(tmp_path: Path) -> None:
    """Lists, nested lists, and images in the format of data sets, in several row groups."""
    pa = pytest.importorskip("pyarrow", exc_type=ImportError)
    from pyarrow import parquet

    rows = np.random.default_rng(1).uniform(-1, 1, (5, 4, 6, 3)).astype(np.float32)
    table = pa.table({
        "serving_default_x:0": [row.reshape(-1).tolist() for row in rows],
        "n": [[[k, 1]] for k in range(5)],
        "unused": ["text"] * 5,
    })  # fmt: skip
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path, row_group_size=2)
    assert sources.source_of(path, signature(PICTURE, NUMBERS)).rows == 5
    reader = Reader(SPEC, signature(PICTURE, NUMBERS))
    for k in (0, 4, 3, 1):
        image, numbers = reader.read(Item(k, str(path), k))
        np.testing.assert_array_equal(image, rows[k])
        assert numbers.tolist() == [k, 1]
    pictures = pa.table({"image": [{"bytes": png(), "path": "x"}, {"bytes": b"no", "path": "y"},
                                   None]})  # fmt: skip
    parquet.write_table(pictures, path)
    assert read(path, PICTURE, row=0)[0].shape == (4, 6, 3)
    with pytest.raises(BadInput, match="cannot be read as a picture"):
        read(path, PICTURE, row=1)
    with pytest.raises(BadInput, match="its column image is empty"):
        read(path, PICTURE, row=2)


def test_damaged_files(tmp_path: Path) -> None:
    for name in ("x.npy", "x.npz", "x.parquet", "x.jpg"):
        for content in (b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\xff\xff", b"PAR1 PAR1"):
            (tmp_path / name).write_bytes(content)
            listing = sources.listed([tmp_path / name], signature(PICTURE))
            assert len(listing) == 1
            with pytest.raises(BadInput, match=r"cannot be read|needs pyarrow"):
                read(tmp_path / name, PICTURE)


def test_names_of_columns() -> None:
    assert columns.names(["y", "input", "y"], ["input", "index"]) == ["y", "input_1", "y_1"]


def test_rows_of_different_shapes(tmp_path: Path) -> None:
    rows = [[np.ones((k, 4), np.float32)] for k in range(3)]
    items = [Item(k, f"{k}.png") for k in range(3)]
    for kind in (parts.NPZ, parts.PARQUET):
        if kind == parts.PARQUET:
            pytest.importorskip("pyarrow", exc_type=ImportError)
        folder = parts.Folder(tmp_path / kind, kind)
        folder.begin({}, resume=False)
        results = parts.Results(0, items, rows, ["boxes"], "adapter")
        folder.keep(parts.packed(results, kind))
    found = np.load(tmp_path / "npz" / "part-00000000.npz")
    assert [found[f"boxes#{k}"].shape for k in range(3)] == [(0, 4), (1, 4), (2, 4)]
    from pyarrow import parquet

    table = parquet.read_table(tmp_path / "parquet").to_pydict()
    assert table["boxes.shape"] == [[0, 4], [1, 4], [2, 4]]
    assert [len(row) for row in table["boxes"]] == [0, 4, 8]


def test_the_column_of_an_only_input() -> None:
    """The name of a column does not matter if it is the only one with arrays."""
    batch = {"path": np.array(["a", "b"]), "image": np.zeros((2, 4, 6, 3), np.uint8)}
    assert columns.taken(batch, signature(PICTURE)) == ["image"]
    (first, _) = columns.samples(batch, signature(PICTURE), SPEC)
    np.testing.assert_array_equal(first[0], np.full((4, 6, 3), -1, np.float32))
    with pytest.raises(BadInput, match="the data lacks the model's input"):
        columns.taken(batch | {"other": np.zeros((2, 3))}, signature(PICTURE))
    assert columns.taken(batch | {"x": np.zeros((2, 3))}, signature(PICTURE)) == ["x"]


def test_files_without_samples_are_no_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((0, 2), np.int32))
    with pytest.raises(BadInput, match="There are no inputs in"):
        sources.listed([tmp_path / "x.npy"], signature(NUMBERS))


def test_files_that_numpy_would_unpickle(tmp_path: Path) -> None:
    """Its advice to do so is not repeated."""
    (tmp_path / "x.npy").write_bytes(b"no array")
    with pytest.raises(BadInput, match=r"cannot be read \(it is not an array in numpy's format\)"):
        read(tmp_path / "x.npy", NUMBERS)


@pytest.mark.parametrize("kind", ["f4", "i1"])
def test_pixels_of_whole_tensors_are_scaled(kind: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 4, 6, 3), 255, np.uint8))
    (found,) = read(tmp_path / "x.npy", Input("x", (2, 4, 6, 3), np.dtype(kind)))
    assert (found == (1 if kind == "f4" else 127)).all() and found.dtype == kind
