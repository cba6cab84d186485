"""Reads options of custom operators that are a map of numbers in FlexBuffers, the schemaless format
of the FlatBuffers project: offsets point backwards to values, and the last two bytes are the type
and the width of the root value."""

from __future__ import annotations

from collections.abc import Callable
from struct import error, unpack_from

from tflgpu_plugin.providers import Unsupported

Number = int | float
INT, UINT, FLOAT, BOOL = 1, 2, 3, 26
INDIRECT = 5  # offset from the type of an inline number to that of an indirect one
MAP = 9
KINDS = {INT: "bhiq", UINT: "BHIQ", FLOAT: " efd", BOOL: "BHIQ"}


def numbers(data: bytes) -> dict[str, Number]:
    """Returns the numbers of a map by their keys; other values are skipped. Raises Unsupported
    where `data` is not a map."""
    try:
        return _map(data)
    except (error, IndexError, ValueError) as damaged:
        raise Unsupported.of(
            "attribute.invalid", "The model gives this node options that cannot be read."
        ) from damaged


def _map(data: bytes) -> dict[str, Number]:
    width = data[-1]
    if data[-2] >> 2 != MAP or width not in (1, 2, 4, 8):
        raise ValueError("no map")
    number: Callable[[int, int], int] = lambda at, size: int(_number(data, UINT, at, size))  # noqa: E731
    values = len(data) - 2 - width
    values -= number(values, width)
    size = 1 << (data[-2] & 3)
    count, key_size = number(values - size, size), number(values - 2 * size, size)
    keys = values - 3 * size
    keys -= number(keys, size)
    found: dict[str, Number] = {}
    for k in range(count):
        at = keys + k * key_size
        at -= number(at, key_size)
        name = data[at : data.index(0, at)].decode()
        held, where = data[values + count * size + k], values + k * size
        kind, wide = held >> 2, size
        if kind - INDIRECT in (INT, UINT, FLOAT):
            kind, wide, where = kind - INDIRECT, 1 << (held & 3), where - number(where, size)
        if kind in KINDS:
            found[name] = _number(data, kind, where, wide)
    return found


def _number(data: bytes, kind: int, at: int, size: int) -> Number:
    if at < 0:
        raise ValueError("outside")
    found: Number = unpack_from("<" + KINDS[kind][size.bit_length() - 1], data, at)[0]
    return found
