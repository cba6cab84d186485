"""Fields of protocol buffers as bytes. A message is a row of fields, each a key (number * 8 + wire
type) and a value, which is a variable-length integer, 4 bytes, or a length and that many bytes
(https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

NUMBER, BYTES, WORD = 0, 2, 5  # wire types
MASK = (1 << 64) - 1  # negative numbers are as long as those of 64 bits


def integer(number: int, value: int) -> bytes:
    """An integer as field `number`."""
    return varint(number << 3 | NUMBER) + varint(value & MASK)


def integers(number: int, values: Sequence[int]) -> bytes:
    """A repeated field of integers."""
    return b"".join(integer(number, int(value)) for value in values)


def real(number: int, value: float) -> bytes:
    """A float32."""
    return varint(number << 3 | WORD) + pack("<f", value)


def text(number: int, value: str) -> bytes:
    """A string."""
    return message(number, value.encode())


def message(number: int, value: bytes) -> bytes:
    """Bytes, or a message inside this one."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first; the top bit says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
