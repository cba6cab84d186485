"""Digests of a graph: of its structure (everything except the values of its constants), and of all
of it. Equal digests mean that the compiler makes the same plan and the same packed weights."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin import threads
from tflgpu_plugin.cache import folders
from tflgpu_plugin.ir import Array, Graph, HostOp, Tensor
from tflgpu_plugin.ir.digests import of_array

THREADS = max(1, threads.MAX_THREADS - 1)  # leaves a core to the rest of a start
CODE_FOLDERS = (
    ".", "ir", "frontend", "importer", "compile", "cache", "kernels", "ops",
    "passes", "passes/layout", "passes/fuse", "passes/quant",
)  # folders of this package  # fmt: skip
PROVIDERS = (".", "onnxruntime", "tflite")  # their folders: plans for other shapes start there


def structure(graph: Graph) -> str:
    """Returns a digest (hexadecimal) of nodes, attributes, tensors and names, with only type and
    shape of constants. Raises TypeError for an attribute of an unknown type."""
    return of(graph)


def content(
    graph: Graph, known: Mapping[int, bytes] | None = None, structured: str | None = None
) -> str:
    """Returns a digest (hexadecimal) of the structure and of every constant's bytes. `known` maps
    ids of arrays to their digests, so that no array is read twice (`constants`). `structured` is
    the result of `structure`, where it is known."""
    digest = sha256((structured or structure(graph)).encode())
    for tensor in sorted(graph.tensors):
        data = graph.tensors[tensor].data
        if data is not None:
            digest.update((known or {}).get(id(data)) or of_array(data))
    return digest.hexdigest()


def of(value: object) -> str:
    """Returns a digest (hexadecimal) of plain data and its arrays. Raises TypeError for values of
    an unknown type."""
    texts: list[str] = []
    _texts(value, texts)
    return sha256("\0".join(texts).encode()).hexdigest()


def constants(graph: Graph) -> dict[int, bytes]:
    """Returns digests of the graph's constants by the ids of their arrays, which are valid as long
    as the graph exists."""
    values = [tensor.data for tensor in graph.tensors.values() if tensor.data is not None]
    if sum(data.nbytes for data in values) < threads.WORTH:
        return {id(data): of_array(data) for data in values}
    found: dict[int, bytes] = {}

    def hash_one(data: Array) -> None:  # releases the GIL
        found[id(data)] = of_array(data)

    threads.share(hash_one, values, "hash", THREADS)
    return found


@functools.cache
def of_plugin() -> str:
    """Returns the version of this package and a digest (hexadecimal) of the code that plans depend
    on, so that a changed kernel never gets an old plan. It is cached with a digest of these files'
    status, because reading all of them takes a while."""
    signature, folder = _signature(), folders.cache("code")
    path = folder / "digest" if folder else None
    before, _, known = ((path and folders.kept(path)) or "").partition(" ")
    if before == signature and known:
        return known
    made = of_code()
    if path:
        folders.keep(path, f"{signature} {made}")
    return made


def code_files() -> list[os.DirEntry[str]]:
    """Returns the files that plans depend on."""
    package, providers = Path(__file__).parent.parent, find_spec("tflgpu_plugin.providers")
    places = [package / name for name in CODE_FOLDERS]
    for folder in (providers and providers.submodule_search_locations) or ():
        places += [Path(folder) / name for name in PROVIDERS]
    listed = (entry for place in places for entry in os.scandir(place))
    return [entry for entry in listed if entry.name.endswith((".py", ".wgsl"))]


def _signature() -> str:
    """Returns a digest of the files' status. A file that is written or replaced gets another change
    time (ctime), which programs cannot set, whatever an installer does with its modification
    time."""
    listed = []
    for file in code_files():
        s = file.stat()
        listed.append((file.path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino))
    return sha256(repr(sorted(listed)).encode()).hexdigest()


def of_code() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("tflgpu-plugin")
    except PackageNotFoundError:
        number = "unknown"
    digest = sha256()
    for path in sorted(file.path for file in code_files()):
        digest.update(os.path.basename(path).encode())
        digest.update(Path(path).read_bytes())
    return f"{number}-{digest.hexdigest()[:16]}"


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _texts(value: Any, texts: list[str]) -> None:
    """Appends texts for a value, in a fixed order; they are equal only for equal values."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        texts.append(f"{type(value).__name__} {value!r}")
    elif isinstance(value, (tuple, list)):
        texts.append(f"list {len(value)}")
        for item in value:
            _texts(item, texts)
    elif isinstance(value, HostOp):
        pass  # a row of a host's table, whose conditions were checked before
    elif isinstance(value, np.ndarray):
        texts.append(f"array {value.dtype.str} {value.shape} {of_array(value).hex()}")
    elif is_dataclass(value) and not isinstance(value, type):
        texts.append(type(value).__name__)
        for name in _names(type(value)):
            part = getattr(value, name)
            if name == "data" and isinstance(value, Tensor) and part is not None:
                texts.append(f"constant {part.dtype.str} {part.shape}")
            else:
                _texts(part, texts)
    elif isinstance(value, Mapping):
        texts.append(f"map {len(value)}")
        for key in sorted(value, key=str):
            texts.append(repr(key))
            _texts(value[key], texts)
    else:
        raise TypeError(f"a {type(value).__name__} has no fingerprint")
