"""A plan with its packed weights as bytes, for files and for compiled models.

Layout (little endian): magic, format, crc32 of everything from there to the body, sizes of header
and body in bytes, checksum of the body; then the header as JSON; then, at the next multiple of 64,
the body: the plan's weight buffers, each at a multiple of 64 and laid out as on the device, and the
writer's own arrays. Nothing in it is ever executed on the host, and every number is checked before
it is used."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import SEEK_END
from math import prod
from typing import Any, BinaryIO

import numpy as np

from tflgpu_plugin.cache import codec
from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Buffer, Dispatch, Graph, Plan, Port, Weight

MAGIC, FORMAT = b"tflgpu\r\n", 5
PREAMBLE = struct.Struct("<8sIIQQQ")
CHECKED = 16  # offset of the first byte that the crc32 covers
ALIGNMENT = 64
BLOCK = 4096  # bytes whose sum enters the checksum
READ_BACK = BLOCK << 8  # bytes that are read at a time after they were written
UNIFORM_BLOCK = 256
MOST_DISPATCHES = 1 << 18
ROLES = ("weights", "uniforms", "pool", "input", "output", "state", "check")


class Damaged(ValueError):
    """The bytes are not a plan for this version; the text continues a sentence about them."""


def checksum(parts: Iterable[bytes | memoryview]) -> int:
    """Returns a checksum of bytes that come in parts, each a multiple of `BLOCK` long but the last:
    the crc32 of one sum per block, of its 64-bit integers (the last block is padded with zeros).
    It detects flipped bits and lost, empty or swapped blocks at the speed of memory; a crc32 of all
    bytes would take longer than the rest of a start from a file."""
    crc = 0
    for part in parts:
        data, end = memoryview(part), len(part) // BLOCK * BLOCK
        rest = bytes(data[end:])
        for blocks in (data[:end], rest + bytes(-len(rest) % BLOCK)):
            words = np.frombuffer(blocks, "<u8").reshape(-1, BLOCK // 8)
            sums: Array = words.sum(axis=1, dtype=np.uint64)
            crc = zlib.crc32(sums.astype("<u8").tobytes(), crc)
    return crc


@dataclass(frozen=True)
class Stored:
    """A plan that was read, with its key, its tuning results, and the writer's own data in `extra`
    and `arrays`. Without `weights`, its constants must come from another plan."""

    key: Mapping[str, str]
    plan: Plan
    tuning: Mapping[str, str]
    weights: bool
    extra: Mapping[str, Any]
    arrays: Mapping[str, Array]
    body: memoryview = field(repr=False)
    checksum: int

    def check(self) -> None:
        """Raises Damaged where the weights and arrays are not those that were written."""
        if checksum([self.body]) != self.checksum:
            raise Damaged("its checksum is wrong")

    def serves(self, graph: Graph) -> bool:
        """Returns whether the plan has the inputs, outputs and states of this graph."""
        states = tuple(before for before, _ in graph.states)
        pairs = (
            (self.plan.inputs, graph.inputs),
            (self.plan.outputs, graph.outputs),
            (self.plan.states, states),
        )
        return all(
            [(port.tensor, port.shape, port.dtype) for port in ports]
            == [(t, graph.shape(t), graph.tensors[t].dtype) for t in tensors]
            for ports, tensors in pairs
        )


def write(
    stream: BinaryIO,
    plan: Plan,
    key: Mapping[str, str],
    tuning: Mapping[str, str],
    weights: bool = True,
    extra: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> None:
    """Writes to an empty stream that supports reading and seeking, and packs one weight at a time.
    `extra` maps names to JSON values."""
    arrays = arrays or {}
    header = {
        "key": dict(key),
        "tuning": dict(tuning),
        "plan": codec.encode(plan),
        "digests": [digest.hex() if digest else None for digest in plan.digests],
        "weights": weights,
        "extra": dict(extra or {}),
        "arrays": {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    start = _aligned(PREAMBLE.size + len(text))
    end = start + (_write_weights(stream, plan, start) if weights else 0)
    for array in arrays.values():
        stream.seek(end)
        stream.write(array.tobytes())
        end += _aligned(array.nbytes)
    stream.write(bytes(end - stream.seek(0, SEEK_END)))
    stream.seek(start)
    body = checksum(iter(partial(stream.read, READ_BACK), b""))
    checked = struct.pack("<QQQ", len(text), end - start, body) + text
    checked += bytes(start - CHECKED - len(checked))
    stream.seek(0)
    stream.write(struct.pack("<8sII", MAGIC, FORMAT, zlib.crc32(checked)) + checked)


def read(data: memoryview, check: bool = True) -> Stored:
    """Returns the plan in these bytes, of which its weights are views. Without `check`, the caller
    must call `Stored.check` before it uses them. Raises Damaged."""
    header, body, sums = _split(data)
    try:
        plan = codec.decode(Plan, header["plan"])
        _check(plan)
        weights = header["weights"] is True
        end = _body_bytes(plan) if weights else 0
        if end > len(body):
            raise codec.Mismatch("the weights have another size")
        arrays = _arrays(header["arrays"], body[end:])
        plan = replace(plan, weights=_weights(plan, header["digests"], body if weights else None))
        key, tuning = (_texts(header[name]) for name in ("key", "tuning"))
        found = Stored(key, plan, tuning, weights, dict(header["extra"]), arrays, body, sums)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Damaged(f"its content is not valid ({error})") from error
    if check:
        found.check()
    return found


def begin(start: bytes | memoryview, size: int) -> tuple[int, int, int, int, int]:
    """Returns (crc32, bytes of the header, offset of the body, its bytes, its checksum) from the
    preamble of a file of this size. Raises Damaged for any other file."""
    if len(start) < PREAMBLE.size:
        raise Damaged("it is truncated")
    magic, version, crc, header_bytes, body_bytes, sums = PREAMBLE.unpack_from(start)
    if magic != MAGIC:
        raise Damaged("it was not written by this plugin")
    if version != FORMAT:
        raise Damaged("it was written by another version of this plugin")
    body = _aligned(PREAMBLE.size + header_bytes)
    if body + body_bytes != size:
        raise Damaged("it is truncated" if body + body_bytes > size else "it is too long")
    return crc, header_bytes, body, body_bytes, sums


def _split(data: memoryview) -> tuple[dict[str, Any], memoryview, int]:
    """Returns (header, body, checksum of the body), after verifying the header's checksum."""
    crc, header_bytes, start, _, sums = begin(data, len(data))
    if zlib.crc32(data[CHECKED:start]) != crc:
        raise Damaged("its checksum is wrong")
    try:
        header = json.loads(bytes(data[PREAMBLE.size : PREAMBLE.size + header_bytes]))
    except (ValueError, RecursionError) as error:
        raise Damaged("its header is not valid") from error
    if not isinstance(header, dict):
        raise Damaged("its header is not valid")
    return header, data[start:], sums


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise codec.Mismatch("texts are missing")
    return value


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _starts(plan: Plan) -> dict[int, int]:
    """Returns the offset of each weight buffer in the body, by its number."""
    starts, end = {}, 0
    for number, buffer in enumerate(plan.buffers):
        if buffer.role == "weights":
            starts[number] = end
            end += _aligned(buffer.bytes)
    return starts


def _body_bytes(plan: Plan) -> int:
    return sum(_aligned(buffer.bytes) for buffer in plan.buffers if buffer.role == "weights")


def _write_weights(stream: BinaryIO, plan: Plan, start: int) -> int:
    """Writes each weight to the body, which starts at `start`. Returns their size in bytes; bytes
    between them stay zero."""
    starts = _starts(plan)
    for weight in plan.weights:
        stream.seek(start + starts[weight.buffer] + weight.offset)
        for piece in weight.pieces():
            stream.write(piece.data)
    return _body_bytes(plan)


def _weights(
    plan: Plan, digests: Sequence[str | None], body: memoryview | None
) -> tuple[Weight, ...]:
    starts, found = _starts(plan), []
    for weight, digest in zip(plan.weights, digests, strict=True):
        weight = replace(weight, digest=bytes.fromhex(digest) if digest is not None else None)
        if body is not None:
            start = starts[weight.buffer] + weight.offset
            image = np.frombuffer(body[start : start + weight.bytes], np.uint8)
            weight = replace(weight, pack=partial(_same, image))
        found.append(weight)
    return tuple(found)


def _same(image: Array) -> Array:
    return image


def _arrays(found: Mapping[str, Any], body: memoryview) -> dict[str, Array]:
    """Returns arrays by name, as views of `body`, which they must fill completely."""
    arrays, end = dict[str, Array](), 0
    for name, (dtype, extents) in found.items():
        shape = codec.decode(tuple[int, ...], extents)
        if dtype not in NUMPY_DTYPES.values() or any(extent < 0 for extent in shape):
            raise codec.Mismatch(f"{dtype!r:.20} {shape} is not an array")
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > len(body) - end:
            raise codec.Mismatch("an array is too long")
        arrays[name] = np.frombuffer(body[end : end + size], dtype).reshape(shape)
        end += _aligned(size)
    if end != len(body):
        raise codec.Mismatch("there are bytes after the last array")
    return arrays


def _check(plan: Plan) -> None:
    """Raises Mismatch for inconsistent numbers."""
    buffers = plan.buffers
    for buffer in buffers:
        inside = buffer.bytes >= 0 and 0 <= buffer.zeros <= buffer.bytes
        _require(buffer.role in ROLES and inside, "a buffer")
    uniforms = [k for k, buffer in enumerate(buffers) if buffer.role == "uniforms"]
    _require(len(uniforms) == 1, "the uniform buffer")
    _require(len(plan.uniforms) <= buffers[uniforms[0]].bytes, "the uniforms")
    for weight in plan.weights:
        held = _buffer(buffers, weight.buffer, "weights").bytes
        _require(weight.offset % 4 == 0 and weight.bytes % 4 == 0, "a weight")
        _require(0 <= weight.offset <= weight.offset + weight.bytes <= held, "a weight")
    _require(len(plan.dispatches) <= MOST_DISPATCHES, "the number of dispatches")
    for dispatch in plan.dispatches:
        _check_dispatch(plan, dispatch)
    for role in ("input", "output", "state"):
        for port in getattr(plan, f"{role}s"):
            _check_port(buffers, port, role)


def _check_dispatch(plan: Plan, dispatch: Dispatch) -> None:
    _require(0 <= dispatch.pipeline < len(plan.pipelines), "a dispatch")
    kinds = plan.pipelines[dispatch.pipeline].kinds
    _require(len(kinds) == len(dispatch.buffers), "a dispatch")
    _require(all(0 <= number < len(plan.buffers) for number in dispatch.buffers), "a dispatch")
    for kind, number in zip(kinds, dispatch.buffers, strict=True):
        _require((plan.buffers[number].role == "uniforms") == (kind == "u"), "a binding")
    end = dispatch.uniform_offset + UNIFORM_BLOCK
    _require(0 <= dispatch.uniform_offset and end <= len(plan.uniforms), "a dispatch")
    _require(dispatch.uniform_offset % UNIFORM_BLOCK == 0, "a dispatch")
    _require(all(0 < count < 1 << 32 for count in dispatch.groups), "a dispatch")
    # Each workgroup reads or writes bytes of its own; more workgroups would only block the device.
    bound = {number for number in dispatch.buffers if plan.buffers[number].role != "uniforms"}
    most = sum(plan.buffers[number].bytes for number in bound)
    _require(prod(dispatch.groups) <= most, "a dispatch")


def _check_port(buffers: tuple[Buffer, ...], port: Port, role: str) -> None:
    held = _buffer(buffers, port.buffer, role).bytes
    _require(port.dtype in NUMPY_DTYPES, "a port")
    _require(all(extent >= 0 for extent in port.shape), "a port")
    size = prod(port.shape) * np.dtype(NUMPY_DTYPES[port.dtype]).itemsize
    _require(port.bytes == size <= held, "a port")


def _buffer(buffers: tuple[Buffer, ...], number: int, role: str) -> Buffer:
    _require(0 <= number < len(buffers) and buffers[number].role == role, f"a buffer for {role}")
    return buffers[number]


def _require(true: bool, what: str) -> None:
    if not true:
        raise codec.Mismatch(f"{what} does not fit")
