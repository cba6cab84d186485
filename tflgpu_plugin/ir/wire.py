"""Encodes fields of protocol buffers. A message is a sequence of fields, each a key (number * 8 +
wire type) and a value, which is a variable-length integer, 4 bytes, or a length and that many bytes
(https://protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

NUMBER, BYTES, WORD = 0, 2, 5  # wire types
MASK = (1 << 64) - 1  # negative numbers are encoded as 64 bits


def integer(number: int, value: int) -> bytes:
    """Returns an integer as field `number`."""
    return varint(number << 3 | NUMBER) + varint(value & MASK)


def integers(number: int, values: Sequence[int]) -> bytes:
    """Returns integers as the repeated field `number`."""
    return b"".join(integer(number, int(value)) for value in values)


def real(number: int, value: float) -> bytes:
    """Returns a float32 as field `number`."""
    return varint(number << 3 | WORD) + pack("<f", value)


def text(number: int, value: str) -> bytes:
    """Returns a string as field `number`."""
    return message(number, value.encode())


def message(number: int, value: bytes) -> bytes:
    """Returns bytes, such as an encoded message, as field `number`."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Returns a variable-length integer: seven bits per byte, the lowest first; the top bit says
    that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
