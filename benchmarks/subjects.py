"""The subjects of measurement: networks in each engine's own format, and TFLite files, which are
converted for the engines that read none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import convert, peers
from benchmarks.engine import Engine, Unavailable
from benchmarks.networks import Network
from benchmarks.tables import NEWER
from tflgpu_plugin.harness import hosts, inputs

Maker = Callable[[], Engine]


@dataclass(frozen=True)
class Subject:
    """A model and its engines in the order of the table; ours in the first TFLite host is first.

    Makers raise Unavailable with the reason why an engine cannot run."""

    name: str
    makers: Sequence[tuple[str, Maker]]


@dataclass(frozen=True)
class Files:
    """One model in three formats, and its picture: for TFLite with channels last, for the others as
    planes or not. Converting may raise Unavailable."""

    tflite: Path
    pixels: Path
    onnx: Callable[[], Path]
    ncnn: Callable[[], tuple[Path, Path]]
    picture: Path
    planes: bool


def network(described: Network, folder: Path) -> Subject:
    """Returns one of the seeded networks, written for every engine into `folder`."""
    from benchmarks.to_ncnn import to_ncnn
    from benchmarks.to_onnx import to_onnx
    from benchmarks.to_tflite import to_tflite

    tflite, onnx = (folder / f"{described.name}.{kind}" for kind in ("tflite", "onnx"))
    pixels, planes = (folder / f"{described.name}-{kind}.npy" for kind in ("pixels", "planes"))
    tflite.write_bytes(to_tflite(described))
    onnx.write_bytes(to_onnx(described))
    np.save(pixels, described.picture())
    np.save(planes, np.ascontiguousarray(described.picture().transpose(0, 3, 1, 2)))
    ncnn = to_ncnn(described, folder)
    files = Files(tflite, pixels, lambda: onnx, lambda: ncnn, planes, True)
    return Subject(described.name, _makers(files))


def file(path: Path, folder: Path) -> Iterator[Subject]:
    """Yields any TFLite model with one input, which gets seeded values. A model that ends with
    custom operators is for TFLite engines; the model without them follows, for all engines."""
    rest = convert.without_custom(path.read_bytes())
    yield _file(path.stem, path, folder / path.stem, rest is None)
    if rest is not None:
        shorter = folder / f"{path.stem}-shorter.tflite"
        shorter.write_bytes(rest)
        name = f"{path.stem} without its custom operators"
        yield _file(name, shorter, folder / shorter.stem, True)


def _file(name: str, path: Path, folder: Path, convertible: bool) -> Subject:
    folder.mkdir()
    picture, onnx = folder / "picture.npy", folder / "converted.onnx"
    details = hosts.host().plain(path).get_input_details()
    (values,) = inputs.make(details, inputs.Given())
    np.save(picture, values)

    @cache
    def to_onnx() -> Path:
        if not convertible:
            raise Unavailable("custom operators are others in ONNX; the next table is without them")
        onnx.write_bytes(convert.to_onnx(path.read_bytes()))
        return onnx

    @cache
    def to_ncnn() -> tuple[Path, Path]:
        return convert.to_ncnn(to_onnx().read_bytes(), values.shape, folder)

    return Subject(name, _makers(Files(path, picture, to_onnx, to_ncnn, picture, False)))


def _makers(files: Files) -> list[tuple[str, Maker]]:
    first = next(iter(hosts.installed()))
    return [
        *_hosts(files),
        (
            f"tflgpu in {first}, without subgroups",
            lambda: _tflite(first, "gpu", files, {"TFLGPU_NO_SUBGROUPS": "1"}),
        ),
        ("tflgpu in onnxruntime", lambda: _onnx("gpu", files)),
        ("onnxruntime CPU", lambda: _onnx("cpu", files)),
        (
            "ncnn Vulkan",
            lambda: peers.ncnn(*files.ncnn(), files.picture, files.planes),
        ),
        _on_newer(f"tflgpu in {first}", lambda: _tflite(first, "gpu", files)),
        _on_newer("LiteRT GPU", lambda: peers.litert(files.tflite, files.pixels)),
        _on_newer("tflgpu in onnxruntime", lambda: _onnx("gpu", files)),
        _on_newer(
            "onnxruntime WebGPU",
            lambda: peers.webgpu(files.onnx(), files.picture, files.planes),
        ),
    ]


def _on_newer(name: str, make: Maker) -> tuple[str, Maker]:
    """Returns the engine on the newer driver, which WebGPU needs."""
    return f"{name}, {NEWER}", lambda: replace(make(), environment=peers.newer_driver())


def _hosts(files: Files) -> Iterator[tuple[str, Maker]]:
    kinds = {"gpu": "tflgpu in {}", "half": "tflgpu in {}, float16 storage", "cpu": "{} CPU"}
    for kind, name in kinds.items():
        for host in hosts.installed():
            yield name.format(host), _maker(host, kind, files)


def _maker(host: str, kind: str, files: Files) -> Maker:
    return lambda: _tflite(host, kind, files)


def _tflite(
    host: str, kind: str, files: Files, variables: Mapping[str, str] | None = None
) -> Engine:
    command = (sys.executable, "-m", "benchmarks.tflite_worker", host, kind)
    return Engine((*command, str(files.tflite), str(files.pixels)), variables or {})


def _onnx(kind: str, files: Files) -> Engine:
    command = (sys.executable, "-m", "benchmarks.onnx_worker", kind)
    parts = (*command, str(files.onnx()), str(files.picture))
    return Engine(parts, planes=files.planes)
