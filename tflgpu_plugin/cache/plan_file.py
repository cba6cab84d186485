"""Plans with their packed weights as bytes, for files and for compiled models.

Such bytes are a sequence of segments, one for each plan. Layout of a segment (little endian):
magic, format, crc32 of everything from there to the body, sizes of header and body in bytes,
checksum of the body; then the header as compressed JSON; then, at the next multiple of 64, the
body: the packed weights that no earlier segment has, and the writer's own arrays, each at a
multiple of 64. Nothing in it is ever executed on the host, and every number is checked before it is
used."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from io import SEEK_END
from math import prod
from typing import Any, BinaryIO

import numpy as np

from tflgpu_plugin.cache import codec
from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Buffer, Dispatch, Graph, Plan, Port, Weight

MAGIC, FORMAT = b"tflgpu\r\n", 6
PREAMBLE = struct.Struct("<8sIIQQQ")
CHECKED = 16  # offset of the first byte that the crc32 covers
ALIGNMENT = 64
BLOCK = 4096  # bytes whose sum enters the checksum
READ_BACK = BLOCK << 8  # bytes that are read at a time after they were written
MOST_TEXT = 256 << 20  # bytes of a header that is not compressed
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
class Segment:
    """A plan as it was read, not yet decoded."""

    header: Mapping[str, Any]
    body: memoryview = field(repr=False)
    checksum: int

    @property
    def extra(self) -> Mapping[str, Any]:
        """Returns the writer's own data."""
        found: Mapping[str, Any] = self.header["extra"]
        return found

    @cached_property
    def is_sound(self) -> bool:
        """Whether the body is what was written."""
        return checksum([self.body]) == self.checksum

    @cached_property
    def images(self) -> Mapping[str, memoryview]:
        """Returns the packed weights in the body by name. Raises Damaged."""
        found, end = dict[str, memoryview](), 0
        try:
            for name, size in codec.decode(tuple[tuple[str, int], ...], self.header["images"]):
                if not 0 <= size <= len(self.body) - end:
                    raise codec.Mismatch("a weight is too long")
                found[name] = self.body[end : end + size]
                end += _aligned(size)
        except (KeyError, ValueError) as error:
            raise Damaged(f"its content is not valid ({error})") from error
        return found


@dataclass(frozen=True)
class Stored:
    """A plan that was read, with its key, its tuning results, and the writer's own data in `extra`
    and `arrays`. `segments` are those that it takes bytes from."""

    key: Mapping[str, str]
    plan: Plan
    tuning: Mapping[str, str]
    extra: Mapping[str, Any]
    arrays: Mapping[str, Array]
    segments: tuple[Segment, ...] = field(repr=False)

    def check(self) -> None:
        """Raises Damaged where the weights and arrays are not those that were written."""
        if not all(segment.is_sound for segment in self.segments):
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


@dataclass(frozen=True)
class Contents:
    """The segments in some bytes, of which all before `end` are valid."""

    segments: tuple[Segment, ...]
    end: int

    @cached_property
    def images(self) -> Mapping[str, tuple[Segment, memoryview]]:
        """Returns each packed weight by name, with the segment that has it. Raises Damaged."""
        found: dict[str, tuple[Segment, memoryview]] = {}
        for segment in self.segments:
            for name, image in segment.images.items():
                found.setdefault(name, (segment, image))
        return found

    def stored(self, segment: Segment) -> Stored:
        """Returns the plan of a segment, of which weights and arrays are views. The caller must
        `check` it before it uses them. Raises Damaged."""
        header = segment.header
        try:
            plan = codec.decode(Plan, header["plan"])
            check(plan)
            names = codec.decode(tuple[str, ...], header["names"])
            weights = tuple(self._weights(plan, names, header["digests"]))
            first = sum(_aligned(len(image)) for image in segment.images.values())
            arrays = _arrays(header["arrays"], segment.body[first:])
            key, tuning = (_texts(header[name]) for name in ("key", "tuning"))
            used = dict.fromkeys(id(self.images[name][0]) for name in names)
            some = tuple(s for s in self.segments if s is segment or id(s) in used)
            plan = replace(plan, weights=weights)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Damaged(f"its content is not valid ({error})") from error
        return Stored(key, plan, tuning, segment.extra, arrays, some)

    def _weights(
        self, plan: Plan, names: Sequence[str], digests: Sequence[str]
    ) -> Iterator[Weight]:
        for weight, name, digest in zip(plan.weights, names, digests, strict=True):
            _, image = self.images[name]
            _require(len(image) == weight.bytes, "a weight")
            pack = partial(_same, np.frombuffer(image, np.uint8))
            yield replace(weight, pack=pack, digest=bytes.fromhex(digest))


def write(
    stream: BinaryIO,
    plan: Plan,
    key: Mapping[str, str],
    tuning: Mapping[str, str],
    known: Collection[str] = (),
    extra: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> None:
    """Writes a segment to an empty stream that supports reading and seeking, and packs one weight
    at a time. It goes behind segments that have the weights with the names `known`. `extra` maps
    names to JSON values."""
    arrays, names = arrays or {}, [weight.identity.hex() for weight in plan.weights]
    new = {n: w for n, w in zip(names, plan.weights, strict=True) if n not in known}
    header = {
        "key": dict(key),
        "tuning": dict(tuning),
        "plan": codec.encode(plan),
        "digests": [weight.values.hex() for weight in plan.weights],
        "names": names,
        "images": [[name, weight.bytes] for name, weight in new.items()],
        "extra": dict(extra or {}),
        "arrays": {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()},
    }
    text = zlib.compress(json.dumps(header, separators=(",", ":")).encode(), 1)
    start = end = _aligned(PREAMBLE.size + len(text))
    pieces = [(weight.bytes, weight.pieces()) for weight in new.values()]
    pieces += [(a.nbytes, iter([np.frombuffer(a.tobytes(), np.uint8)])) for a in arrays.values()]
    for size, parts in pieces:
        stream.seek(end)
        for piece in parts:
            stream.write(piece.data)
        end += _aligned(size)
    stream.write(bytes(end - stream.seek(0, SEEK_END)))
    stream.seek(start)
    body = checksum(iter(partial(stream.read, READ_BACK), b""))
    checked = struct.pack("<QQQ", len(text), end - start, body) + text
    checked += bytes(start - CHECKED - len(checked))
    stream.seek(0)
    stream.write(struct.pack("<8sII", MAGIC, FORMAT, zlib.crc32(checked)) + checked)


def contents(data: memoryview, growing: bool = False) -> Contents:
    """Returns the segments in these bytes. Where they are of a file that may be `growing`, bytes
    behind the last complete segment are ignored. Raises Damaged."""
    found, end = list[Segment](), 0
    while end < len(data) or not found:
        try:
            segment, size = _segment(data[end:])
        except Damaged:
            if growing and found:
                break
            raise
        found.append(segment)
        end += size
    return Contents(tuple(found), end)


def read(data: memoryview) -> tuple[Stored, ...]:
    """Returns the plans in these bytes, of which their weights are views. Raises Damaged."""
    held = contents(data)
    found = tuple(map(held.stored, held.segments))
    for one in found:
        one.check()
    return found


def begin(start: bytes | memoryview, size: int) -> tuple[int, int, int, int, int]:
    """Returns (crc32, bytes of the header, offset of the body, its bytes, its checksum) from the
    preamble of a segment, which is at the start of `size` bytes. Raises Damaged for others."""
    if len(start) < PREAMBLE.size:
        raise Damaged("it is truncated")
    magic, version, crc, header_bytes, body_bytes, sums = PREAMBLE.unpack_from(start)
    if magic != MAGIC:
        raise Damaged("it was not written by this plugin")
    if version != FORMAT:
        raise Damaged("it was written by another version of this plugin")
    body = _aligned(PREAMBLE.size + header_bytes)
    if body + body_bytes > size:
        raise Damaged("it is truncated")
    return crc, header_bytes, body, body_bytes, sums


def _segment(data: memoryview) -> tuple[Segment, int]:
    """Returns the segment at the start of these bytes, and its size."""
    crc, header_bytes, start, body_bytes, sums = begin(data[: PREAMBLE.size], len(data))
    if zlib.crc32(data[CHECKED:start]) != crc:
        raise Damaged("its checksum is wrong")
    reader, text = zlib.decompressobj(), data[PREAMBLE.size : PREAMBLE.size + header_bytes]
    try:
        header = json.loads(reader.decompress(text, MOST_TEXT))
    except (ValueError, RecursionError, zlib.error) as error:
        raise Damaged("its header is not valid") from error
    if not isinstance(header, dict) or not isinstance(header.get("extra"), dict):
        raise Damaged("its header is not valid")
    end = start + body_bytes
    return Segment(header, data[start:end], sums), end


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise codec.Mismatch("texts are missing")
    return value


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


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


def check(plan: Plan) -> None:
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
        # Kernels also read symbolic constants, which are behind the uniform blocks.
        _require(kind in {"uniforms": "ur"}.get(plan.buffers[number].role, "rw"), "a binding")
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
