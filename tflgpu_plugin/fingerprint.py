"""What a graph is, as digests: of its structure (everything but the values of its constants), and
of all of it. Equal digests mean that the same plan and the same packed weights come out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin.graph import Array, Form, Graph, Tensor

THREADS = 4
WORTH_THREADS = 4 << 20  # bytes
_CODE = ("*.py", "ops/*.py", "passes/*.py", "kernels/*.py", "kernels/*.wgsl")


def structure(graph: Graph) -> str:
    """A digest (hexadecimal) of nodes, attributes, tensors, names and numbers; of constants only
    type and shape. Raises TypeError for an attribute whose value it cannot tell.
    """
    digest = sha256()
    for text in _texts(graph):
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def content(
    graph: Graph, known: Mapping[int, bytes] | None = None, structured: str | None = None
) -> str:
    """A digest (hexadecimal) of the structure and of every constant's bytes. `known` maps the id
    of an array that lives to its digest, so that nothing is read twice; see `constants`.
    `structured` is what `structure` gives, where it is known.
    """
    digest = sha256((structured or structure(graph)).encode())
    for tensor in sorted(graph.tensors):
        data = graph.tensors[tensor].data
        if data is not None:
            digest.update((known or {}).get(id(data)) or of_array(data))
    return digest.hexdigest()


def constants(graph: Graph) -> dict[int, bytes]:
    """Digests of the graph's constants by the ids of their arrays; true while the graph lives."""
    values = [tensor.data for tensor in graph.tensors.values() if tensor.data is not None]
    if sum(data.nbytes for data in values) < WORTH_THREADS:
        return {id(data): of_array(data) for data in values}
    with ThreadPoolExecutor(THREADS) as pool:  # hashing lets go of the GIL
        return dict(zip(map(id, values), pool.map(of_array, values), strict=True))


def of_array(data: Array) -> bytes:
    """The digest of a value: of its bytes in C order. sha256 has instructions of its own on
    today's CPUs, and there is the fastest of the cryptographic ones.
    """
    return sha256(np.ascontiguousarray(data).data).digest()


@functools.cache
def of_plugin() -> str:
    """The version of this package and a digest (hexadecimal) of the code that plans depend on, so
    that who changes a kernel never gets a plan from before.
    """
    try:
        number = version("tflgpu-plugin")
    except PackageNotFoundError:
        number = "unknown"
    folder, digest = Path(__file__).parent, sha256()
    for path in sorted(found for part in _CODE for found in folder.glob(part)):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return f"{number}-{digest.hexdigest()[:16]}"


def _texts(value: Any) -> Iterator[str]:
    """A value as texts in one order, equal only for equal values."""
    if isinstance(value, Form):
        return  # a row of a host's table: what it allows was decided before
    if isinstance(value, np.ndarray):
        yield f"array {value.dtype.str} {value.shape} {of_array(value).hex()}"
    elif isinstance(value, Tensor) and value.data is not None:
        yield f"constant {value.data.dtype.str} {value.data.shape}"
        yield from _texts(replace(value, data=None))
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__
        for field in fields(value):
            yield from _texts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield f"map {len(value)}"
        for key in sorted(value, key=str):
            yield repr(key)
            yield from _texts(value[key])
    elif isinstance(value, (tuple, list)):
        yield f"list {len(value)}"
        for item in value:
            yield from _texts(item)
    elif value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        yield f"{type(value).__name__} {value!r}"
    else:
        raise TypeError(f"a {type(value).__name__} has no fingerprint")
