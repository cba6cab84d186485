"""Plans with their packed weights as bytes, for files and for compiled models.

Such bytes are a sequence of segments, one for each plan. Layout of a segment (little endian):
magic, format, crc32 of everything from there to the body, sizes of header and body in bytes,
checksum of the body; then the header as compressed JSON; then, at the next multiple of 64, the
body: the packed weights that no earlier segment has, and the writer's own arrays, each at a
multiple of 64. For a weight that consists of the words of an earlier one in another order, only
that order is stored (`rearranged`). Nothing in the bytes is ever executed on the host, and every
number is checked before it is used."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from io import SEEK_END
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tflgpu_plugin.cache import codec, plan_check, rearranged
from tflgpu_plugin.cache.codec import Damaged as Damaged
from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Graph, Plan, Weight

MAGIC, FORMAT = b"tflgpu\r\n", 7
PREAMBLE = struct.Struct("<8sIIQQQ")
CHECKED = 16  # offset of the first byte that the crc32 covers
ALIGNMENT = 64
BLOCK = 4096  # bytes whose sum enters the checksum
READ_BACK = BLOCK << 8  # bytes that are read at a time after they were written
MAX_HEADER_BYTES = 256 << 20  # bytes of a header that is not compressed


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


class Image(NamedTuple):
    """A packed weight in the body of a segment. If it has a `source`, `data` is the order in which
    it has the words of the weight with that name."""

    segment: Segment
    data: memoryview
    source: str


@dataclass(frozen=True)
class Segment:
    """A plan as it was read from bytes, not yet decoded."""

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
        """Whether the body matches its checksum."""
        return checksum([self.body]) == self.checksum

    @cached_property
    def images(self) -> Mapping[str, Image]:
        """Returns the packed weights in the body by name. Raises Damaged."""
        found, end = dict[str, Image](), 0
        kind = tuple[tuple[str, int, str], ...]
        try:
            for name, size, source in codec.decode(kind, self.header["images"]):
                if not 0 <= size <= len(self.body) - end:
                    raise codec.Mismatch("a weight is too long")
                found[name] = Image(self, self.body[end : end + size], source)
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
        """Returns whether the plan has the inputs, outputs and states of this graph, and counts the
        same outputs."""
        states = tuple(before for before, _ in graph.states)
        pairs = (
            (self.plan.inputs, graph.inputs),
            (self.plan.outputs, graph.outputs),
            (self.plan.states, states),
        )
        counted = [graph.tensors[t].counted for t in graph.outputs]
        places = [told and (told[0], graph.outputs.index(told[1])) for told in counted]
        return [port.counted for port in self.plan.outputs] == places and all(
            [(port.tensor, port.shape, port.dtype) for port in ports]
            == [(t, graph.shape(t), graph.tensors[t].port_dtype) for t in tensors]
            for ports, tensors in pairs
        )


@dataclass(frozen=True)
class Contents:
    """The segments that were read from bytes, whose first `end` bytes are valid."""

    segments: tuple[Segment, ...]
    end: int

    @cached_property
    def images(self) -> Mapping[str, Image]:
        """Returns each packed weight by name. Raises Damaged."""
        found = dict[str, Image]()
        for segment in self.segments:
            for name, image in segment.images.items():
                found.setdefault(name, image)
        return found

    @cached_property
    def complete(self) -> Mapping[str, str]:
        """Returns the names of the weights that are stored with all their bytes, not as an order,
        by the digests of their values."""
        found = dict[str, str]()
        for header in (segment.header for segment in self.segments):
            for name, digest in zip(header["names"], header["digests"], strict=True):
                if not self.images[name].source:
                    found.setdefault(digest, name)
        return found

    def stored(self, segment: Segment) -> Stored:
        """Returns the plan of a segment, of which weights and arrays are views. The caller must
        `check` it before it uses them. Raises Damaged."""
        header = segment.header
        try:
            plan = codec.decode(Plan, header["plan"])
            plan_check.check(plan)
            names = codec.decode(tuple[str, ...], header["names"])
            weights = tuple(self._weights(plan, names, header["digests"]))
            first = sum(_aligned(len(image.data)) for image in segment.images.values())
            arrays = _arrays(header["arrays"], segment.body[first:])
            key, tuning = (_texts(header[name]) for name in ("key", "tuning"))
            needed = [self.images[name] for name in names]
            needed += [self.images[image.source] for image in needed if image.source]
            used = {id(segment), *(id(image.segment) for image in needed)}
            some = tuple(s for s in self.segments if id(s) in used)
            plan = replace(plan, weights=weights)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Damaged(f"its content is not valid ({error})") from error
        return Stored(key, plan, tuning, segment.extra, arrays, some)

    def _weights(
        self, plan: Plan, names: Sequence[str], digests: Sequence[str]
    ) -> Iterator[Weight]:
        for weight, name, digest in zip(plan.weights, names, digests, strict=True):
            image = self.images[name]
            if image.source:
                source = self.images[image.source]
                codec.require(not source.source, "the source of a weight")
                pack = partial(rearranged.arranged, image.data, source.data, weight.bytes)
            else:
                codec.require(len(image.data) == weight.bytes, "a weight")
                pack = partial(_same, np.frombuffer(image.data, np.uint8))
            yield replace(weight, pack=pack, digest=bytes.fromhex(digest))


def write(
    stream: BinaryIO,
    plan: Plan,
    key: Mapping[str, str],
    tuning: Mapping[str, str],
    before: Contents | None = None,
    extra: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> None:
    """Writes a segment to an empty stream that supports reading and seeking, and packs one weight
    at a time. It goes behind the segments `before`, whose weights are not written again. `extra`
    maps names to JSON values."""
    arrays, names = arrays or {}, [weight.identity.hex() for weight in plan.weights]
    digests = [weight.values.hex() for weight in plan.weights]
    new = _new(plan, names, digests, before)
    header = {
        "key": dict(key),
        "tuning": dict(tuning),
        "plan": codec.encode(plan),
        "digests": digests,
        "names": names,
        "images": [[name, size, source] for name, (size, source, _) in new.items()],
        "extra": dict(extra or {}),
        "arrays": {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()},
    }
    text = zlib.compress(json.dumps(header, separators=(",", ":")).encode(), 1)
    start = end = _aligned(PREAMBLE.size + len(text))
    pieces = [(size, parts) for size, _, parts in new.values()]
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


def _new(
    plan: Plan, names: Sequence[str], digests: Sequence[str], before: Contents | None
) -> dict[str, tuple[int, str, Iterator[Array]]]:
    """Returns, by name, what to write for each weight of the plan that is not in `before`: its size
    in bytes, the name of the stored weight that has the same words in another order ("" if none),
    and its bytes in pieces."""
    found, left = dict[str, tuple[int, str, Iterator[Array]]](), rearranged.MAX_COMPARED_BYTES
    for name, digest, weight in zip(names, digests, plan.weights, strict=True):
        if name in found or (before and name in before.images):
            continue
        source = before.complete.get(digest, "") if before else ""
        if before and source and weight.bytes <= left:
            left -= weight.bytes
            text = rearranged.order(weight.image(), before.images[source].data)
            if text is not None:
                found[name] = len(text), source, iter([np.frombuffer(text, np.uint8)])
                continue
        found[name] = weight.bytes, "", weight.pieces()
    return found


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
        header = json.loads(reader.decompress(text, MAX_HEADER_BYTES))
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
