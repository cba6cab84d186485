"""Converts dataclasses to JSON values and back, by their annotations. A new field needs no change
here, and every value that is read is checked against its type.

A dataclass becomes a list of the fields that take part in its comparison, a mapping a list of its
pairs, bytes become base64, and arrays are kept next to the JSON value, or in it (dtype, shape,
bytes)."""

from __future__ import annotations

import base64
import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array

ARRAY = "array"  # the key of an array's name

MAX_EXACT_INTEGER = 1 << 53  # every reader of JSON represents smaller integers exactly


class Damaged(ValueError):
    """An error for bytes that are not a plan for this version. Its text is the end of a sentence
    about these bytes."""


class Mismatch(ValueError):
    """An error for a value in a file that does not have the expected type."""


def require(true: bool, what: str) -> None:
    """Raises Mismatch, with a text that names `what`, unless the condition `true` holds."""
    if not true:
        raise Mismatch(f"{what} does not fit")


def encode(value: Any, arrays: dict[str, Array] | None = None) -> Any:
    """Returns a JSON value for dataclasses, mappings, tuples, bytes, numbers, strings, None and
    arrays, which are added to `arrays` where it is given. Raises TypeError for other types."""
    if is_dataclass(value) and not isinstance(value, type):
        return [encode(getattr(value, name), arrays) for name in _fields(type(value))]
    if isinstance(value, Mapping):
        return [[key, encode(item, arrays)] for key, item in value.items()]
    if isinstance(value, np.ndarray) and arrays is not None:
        arrays[name := str(len(arrays))] = value
        return {ARRAY: name}
    if isinstance(value, np.ndarray):
        return [value.dtype.name, list(value.shape), encode(value.tobytes())]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (tuple, list)):
        return [encode(item, arrays) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def decode(kind: Any, value: Any, arrays: Mapping[str, Array] | None = None) -> Any:
    """Returns the value of type `kind` that `encode` wrote as `value`. A value of type `Any` may be
    a number, bytes, an array or a tuple of these. Raises Mismatch, and KeyError for a missing
    array."""
    return _decoder(kind)(value if arrays is None else _with_arrays(value, arrays))


def _with_arrays(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, dict):
        return arrays[value[ARRAY]]
    return [_with_arrays(item, arrays) for item in value] if isinstance(value, list) else value


@functools.cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """Returns the function that reads values of this type; cached, because plans have thousands."""
    if is_dataclass(kind):
        return partial(_record, kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if (origin or kind) in _PLAIN:
        return partial(_plain, *_PLAIN[origin or kind])
    others = {bytes: _bytes, np.ndarray: _array, object: _anything, Any: _untyped}
    if (origin or kind) in others:
        return others[origin or kind]
    if origin is UnionType:
        return partial(_either, [_decoder(part) for part in parts])
    if origin is Mapping:
        return partial(_mapping, partial(_tuple, [_decoder(part) for part in parts]))
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        return partial(_list, _decoder(parts[0]))
    if origin is tuple:
        return partial(_tuple, [_decoder(part) for part in parts])
    raise TypeError(f"{kind} cannot be read")


@functools.cache
def _fields(kind: type) -> Mapping[str, Any]:
    """Returns the names and types of the fields that are stored."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.compare}


@functools.cache
def _readers(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((name, _decoder(part)) for name, part in _fields(kind).items())


def _record(kind: Any, value: Any) -> Any:
    wanted = _readers(kind)
    if not isinstance(value, list) or len(value) != len(wanted):
        raise Mismatch(f"a {kind.__name__} has {len(wanted)} fields")
    pairs = zip(wanted, value, strict=True)
    return kind(**{name: read(item) for (name, read), item in pairs})


# Types whose values need no conversion: the types of JSON values, and the error for others.
_PLAIN: Mapping[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "neither true nor false"),
    int: ((int,), "no int"),
    float: ((int, float), "no float"),
    str: ((str,), "no str"),
    NoneType: ((NoneType,), "not nothing"),
}


def _plain(kinds: tuple[type, ...], what: str, value: Any) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise Mismatch(f"{value!r:.60} is {what}")
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        raise Mismatch(f"{value!r:.60} is too large")
    return value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError) as error:
        raise Mismatch("bytes are not base64") from error


def _array(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    dtype, shape, data = _decoder(tuple[str, tuple[int, ...], bytes])(value)
    try:
        return np.frombuffer(data, dtype).reshape(shape)
    except (ValueError, TypeError) as error:
        raise Mismatch(f"an array does not fit its bytes ({error})") from error


def _anything(value: Any) -> object:
    """Returns a scalar, or a tuple of scalars, that was read. Raises Mismatch for others."""
    if isinstance(value, list):
        return tuple(_anything(item) for item in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Mismatch(f"{value!r:.60} is not a scalar")


def _untyped(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_untyped, value))
    if isinstance(value, (int, float, np.ndarray)):
        return value
    return _bytes(value)


def _either(readers: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    """Returns the result of the first reader that accepts the value."""
    for read in readers:
        with suppress(Mismatch):
            return read(value)
    raise Mismatch(f"{value!r:.60} has another type")


def _mapping(read: Callable[[Any], Any], value: Any) -> dict[Any, Any]:
    return dict(_list(read, value))


def _list(read: Callable[[Any], Any], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise Mismatch(f"{value!r:.60} is not a list")
    return tuple([read(item) for item in value])


def _tuple(readers: Sequence[Callable[[Any], Any]], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise Mismatch(f"{value!r:.60} is not a list")
    if len(readers) != len(value):
        raise Mismatch(f"a list of {len(value)} should have {len(readers)} items")
    return tuple([read(item) for read, item in zip(readers, value, strict=True)])
