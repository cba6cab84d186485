"""Small plans as files, and what damages them."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.net import Net
from tflgpu_plugin.cache import plan_file
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Plan, Target

KEY = {"plugin": "1", "adapter": "none"}


def dense(scale: float = 1.0) -> Graph:
    """Returns the graph of one matrix product with a bias."""
    weights = np.arange(48, dtype=np.float32).reshape(6, 8) * np.float32(scale)
    n = Net()
    x, w, bias = n.input((2, 8)), n.constant(weights), n.constant(np.ones(6, np.float32))
    return n.graph(n.op("fully_connected", x, w, bias))


def plan() -> Plan:
    return compiler.compile(dense(), Target())


def written(of: Plan, before: bytes = b"", **extra: Any) -> bytes:
    held = plan_file.contents(memoryview(before)) if before else None
    stream = io.BytesIO()
    plan_file.write(stream, of, KEY, {"tile": "4x8"}, held, {"names": ["x"]} | extra)
    return stream.getvalue()


def read(data: bytes) -> plan_file.Stored:
    """The only plan in these bytes."""
    (found,) = plan_file.read(memoryview(data))
    return found


def changed(data: bytes, change: Callable[[Any], None], which: int = 0) -> bytes:
    """Returns the stored bytes with another header of a segment and a valid checksum, as a hostile
    writer would make them."""
    parts = list[bytes]()
    for segment in plan_file.contents(memoryview(data)).segments:
        head = plan_file.PREAMBLE.unpack_from(data)
        end = -(-(plan_file.PREAMBLE.size + head[3]) // 64) * 64 + head[4]
        parts, data = [*parts, data[:end]], data[end:]
        assert bytes(segment.body) == parts[-1][end - head[4] :]
    one = plan_file.contents(memoryview(parts[which])).segments[0]
    header = json.loads(json.dumps(one.header))
    change(header)
    text = zlib.compress(json.dumps(header).encode())
    parts[which] = headed(text, len(one.body), one.checksum) + bytes(one.body)
    return b"".join(parts)


def headed(text: bytes, body: int, checksum: int) -> bytes:
    """Returns the head of a body of this size and checksum, with the header `text`."""
    rest = struct.pack("<QQQ", len(text), body, checksum) + text
    rest += bytes(-(plan_file.CHECKED + len(rest)) % plan_file.ALIGNMENT)
    return struct.pack("<8sII", plan_file.MAGIC, plan_file.FORMAT, zlib.crc32(rest)) + rest


def identities(plan: Plan) -> list[bytes]:
    return [weight.identity for weight in plan.weights]


def numbers(value: Any) -> list[tuple[Any, Any]]:
    """Returns the places of all integers inside lists and maps, as (container, key)."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, Any]] = []
    for key, item in items:
        if isinstance(item, (dict, list)):
            found += numbers(item)
        elif isinstance(item, int) and not isinstance(item, bool):
            found.append((value, key))
    return found
