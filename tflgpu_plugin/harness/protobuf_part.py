"""Copies some nodes of an ONNX model, and all that they need, into a small model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tflgpu_plugin.harness.protobuf import changed, fields, parts, port, texts
from tflgpu_plugin.ir import wire

_GRAPH, _NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE = 7, 1, 5, 11, 12, 15
_LEFT_OUT = (_INPUT, _OUTPUT, 13, 14, 16)  # also notes on types and quantization, and metadata
_NAME, _RAW, _EXTERNAL, _PLACE = 8, 9, 13, 14  # of a tensor


def nodes(model: bytes) -> list[tuple[list[str], list[str]]]:
    """Returns what each node of a model's graph reads, also in its bodies, and its results."""
    return [
        ([*filter(None, _reads(node))], [*filter(None, texts(node, 2))])
        for graph in fields(model, _GRAPH)
        for node in fields(graph, _NODE)
    ]


def _reads(node: bytes) -> Iterator[str]:
    yield from texts(node, 1)
    for attribute in fields(node, 5):
        for slot in (6, 11):
            for body in fields(attribute, slot):
                for inner in fields(body, _NODE):
                    yield from _reads(inner)
                yield from (name for output in fields(body, _OUTPUT) for name in texts(output, 1))


def part(
    model: bytes,
    kept: Collection[int],
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Sequence[str],
    folder: Path,
) -> bytes:
    """Returns a model with those nodes of the graph whose places are `kept`, and with these inputs,
    given by name as type and shape, and outputs. Constants in files of the folder are copied into
    it. Raises OSError."""
    all_nodes = nodes(model)
    read = {name for place in kept for name in all_nodes[place][0]} - inputs.keys()
    place = iter(range(len(all_nodes)))

    def kept_fields(graph: bytes) -> bytes:
        out = b""
        for key, start, at, end in parts(graph):
            number, content = key >> 3, graph[at:end]
            if number == _INITIALIZER and read.isdisjoint(texts(content, _NAME)):
                continue
            if number == _SPARSE and not any(
                read.intersection(texts(values, _NAME)) for values in fields(content, 1)
            ):
                continue
            if number in _LEFT_OUT or (number == _NODE and next(place) not in kept):
                continue
            if number == _INITIALIZER:
                out += wire.message(number, _inlined(content, folder))
            else:
                out += graph[start:end]
        return out

    made = changed(model, _GRAPH, kept_fields)
    ports = b"".join(
        wire.message(_INPUT, port(name, shape, kind)) for name, (kind, shape) in inputs.items()
    )
    ports += b"".join(wire.message(_OUTPUT, wire.text(1, name)) for name in outputs)
    return made + wire.message(_GRAPH, ports)


def _inlined(tensor: bytes, folder: Path) -> bytes:
    """Returns a constant with its values in it, which may be in a file of the folder."""
    elsewhere = _PLACE << 3, b"\1"
    if not any((key, tensor[at:end]) == elsewhere for key, _, at, end in parts(tensor)):
        return tensor
    where = {texts(entry, 1)[0]: texts(entry, 2)[0] for entry in fields(tensor, _EXTERNAL)}
    with (folder / where["location"]).open("rb") as file:
        file.seek(int(where.get("offset", 0)))
        data = file.read(int(where.get("length", -1)))
    others = [tensor[start:end] for key, start, _, end in parts(tensor)
              if key >> 3 not in (_EXTERNAL, _PLACE)]  # fmt: skip
    return b"".join(others) + wire.message(_RAW, data)
