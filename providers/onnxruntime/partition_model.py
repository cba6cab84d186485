"""Writes a partition's nodes as an ONNX model, for runs on onnxruntime's own kernels. Numbers in
calls of `wire` are field numbers of ONNX's public schema (onnx.proto)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.ir import NUMPY_DTYPES, PACKED, Array, packed, wire
from tflgpu_plugin.providers import DEFAULT_DOMAINS, BuildError, HostNode, Value, native

from .host import DTYPES, UNPACKED
from .snapshot import Snapshot

IR_VERSION = 10  # the first IR version with 4-bit types; onnxruntime 1.24 reads up to 11
INLINE = 1 << 10  # bytes; larger constants are passed beside the model
EXTERNAL = 1  # TensorProto.DataLocation
# AttributeProto's (type, field of the value) by Python type; lists add OF_LISTS to both.
ATTRIBUTES: dict[type, tuple[int, int]] = {
    float: (1, 2), int: (2, 3), bytes: (3, 4), np.ndarray: (4, 5),
}  # fmt: skip
OF_LISTS = 5
GRAPH = 5  # AttributeProto's type
# ONNX element types by numpy dtype; numpy lacks bfloat16.
KINDS = {np.dtype(NUMPY_DTYPES[name]): number for number, name in reversed(DTYPES.items())}


def hand_over(compute: Any, part: Snapshot, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Passes the nodes of `part` to native code as a model with the values `inputs` and `outputs`.
    Constants must outlive the partition. Raises BuildError if an input or output is not a tensor,
    NativeError if onnxruntime cannot load the model."""
    ffi = native.ffi
    made = {name for node in part.nodes for name in node.writes}
    constants = _constants(part, {*inputs, *made})
    large = {n: data for n, data in constants.items() if stays_outside(part.values[n], data)}
    tensors = [_constant(part.values[n], data, n in large) for n, data in constants.items()]
    # Of a vector without its extent, ONNX takes the number of sizes for 0.
    ranked = all(len(part.values[name].shape or ()) != 1 for name in (*inputs, *outputs))
    ports = [[_port(part.values[name], ranked) for name in names] for names in (inputs, outputs)]
    data = _model(part, tensors, *ports)
    names = [ffi.new("char[]", name.encode()) for name in large]
    dims = [ffi.new("int64_t[]", np.asarray(part.values[name].data).shape) for name in large]
    listed = ffi.new("tg_ort_constant[]", len(large))
    for one, (name, held), extents in zip(listed, large.items(), dims, strict=True):
        one.data, one.bytes = ffi.cast("void *", held.ctypes.data), held.nbytes
        one.dims, one.rank, one.kind = extents, len(extents), part.values[name].element
    spec = ffi.new("tg_ort_model *")
    content, list_of_names = ffi.from_buffer(data), ffi.new("char *[]", names)
    spec.bytes, spec.byte_count = content, len(data)
    spec.constant_names, spec.constants, spec.constant_count = list_of_names, listed, len(large)
    native.call(native.lib.tg_ort_set_model, compute, spec)


def _constants(part: Snapshot, others: Collection[str] = ()) -> dict[str, Array]:
    """Returns the constants that nodes read, by name, except `others`. Bodies of nodes have copies
    of those that they read."""
    read = (name for node in part.nodes for name in node.inputs if name is not None)
    known = [part.values[name] for name in dict.fromkeys(read) if name not in others]
    return {value.name: _bytes(value) for value in known if value.data is not None}


def _bytes(value: Value) -> Array:
    """Returns a constant as onnxruntime stores it, with types of 4 and 2 bits packed."""
    data = np.ascontiguousarray(value.data)
    if value.element not in UNPACKED:
        return data
    return packed.pack(data.reshape(-1), PACKED[DTYPES[value.element]])


def stays_outside(value: Value, data: Array) -> bool:
    """Whether a constant can be passed beside the model: it has more than 1 KiB, and `data` is the
    memory of `value`, which outlives the partition, unlike a packed copy."""
    assert value.data is not None
    return data.nbytes > INLINE and np.may_share_memory(data, value.data)


def _model(part: Snapshot, *lists: Iterable[bytes]) -> bytes:
    """Returns a ModelProto of the nodes; `lists` are encoded constants, inputs and outputs (fields
    5, 11 and 12 of GraphProto)."""
    graph = b"".join(wire.message(1, _node(node)) for node in part.nodes) + wire.text(2, "tflgpu")
    for number, held in zip((5, 11, 12), lists, strict=True):
        graph += b"".join(wire.message(number, one) for one in held)
    domains = {_domain(node.domain) for node in _all(part.nodes)} | {""}
    versions = {_domain(name): version for name, version in part.opsets.items()}
    imports = (
        wire.message(8, wire.text(1, name) + wire.integer(2, versions.get(name, 1)))
        for name in sorted(domains)
    )
    return wire.integer(1, IR_VERSION) + wire.message(7, graph) + b"".join(imports)


def _all(nodes: Iterable[HostNode]) -> Iterator[HostNode]:
    """Yields the nodes, and those of their bodies."""
    for node in nodes:
        yield node
        for body in node.bodies:
            yield from _all(body.nodes)


def _domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name


def _node(node: HostNode) -> bytes:
    values = (wire.text(1, name or "") for name in node.inputs)
    results = (wire.text(2, name or "") for name in node.outputs)
    head = wire.text(3, node.name) + wire.text(4, node.op) + wire.text(7, node.domain)
    attributes = (wire.message(5, _attribute(*item)) for item in node.attributes.items())
    bodies = (wire.message(5, _body(one)) for one in node.bodies if isinstance(one, Snapshot))
    return b"".join((*values, *results, head, *attributes, *bodies))


def _body(body: Snapshot) -> bytes:
    """Returns an AttributeProto with a graph that a node runs. Defaults of inputs are read from
    the graph around it, where a run may replace them."""
    constants = _constants(body, {name for name, value in body.values.items() if value.default})
    results = {name: body.values[name] for name in body.outputs}
    held = {n: _bytes(v) for n, v in results.items() if v.data is not None} | constants
    graph = b"".join(wire.message(1, _node(node)) for node in body.nodes) + wire.text(2, body.slot)
    graph += b"".join(
        wire.message(5, _constant(body.values[name], data, False)) for name, data in held.items()
    )
    graph += b"".join(wire.message(11, _body_port(body.values[name])) for name in body.given)
    graph += b"".join(wire.message(12, _body_port(body.values[name])) for name in body.outputs)
    return wire.text(1, body.slot) + wire.message(6, graph) + wire.integer(20, GRAPH)


def _attribute(name: str, value: Any) -> bytes:
    """Returns an AttributeProto. The type of an empty list is unknown; it is written as INTS."""
    items, more = (value, OF_LISTS) if isinstance(value, tuple) else ((value,), 0)
    kind, field = ATTRIBUTES[type(items[0]) if items else int]
    content = b"".join(_item(field + more, item) for item in items)
    return wire.text(1, name) + content + wire.integer(20, kind + more)


def _item(field: int, value: Any) -> bytes:
    if isinstance(value, float):
        return wire.real(field, value)
    if isinstance(value, int):
        return wire.integer(field, value)
    return wire.message(field, _tensor(value) if isinstance(value, np.ndarray) else value)


def _tensor(data: Array) -> bytes:
    """Returns the TensorProto of an attribute's value."""
    raw = np.ascontiguousarray(data).tobytes()
    return wire.integers(1, data.shape) + wire.integer(2, KINDS[data.dtype]) + wire.message(9, raw)


def _constant(value: Value, data: Array, external: bool) -> bytes:
    """Returns the TensorProto of a constant, without its data if `external`."""
    assert value.data is not None
    head = wire.integers(1, value.data.shape) + wire.integer(2, value.element)
    head += wire.text(8, value.name)
    if not external:
        return head + wire.message(9, data.tobytes())
    place = wire.text(1, "location") + wire.text(2, value.name)
    return head + wire.message(13, place) + wire.integer(14, EXTERNAL)


def _port(value: Value, ranked: bool) -> bytes:
    """Returns the ValueInfoProto of an input or output, with its rank if `ranked`; extents differ
    between runs. Without ranks, onnxruntime's optimizer inserts a Reshape that fails for a batch of
    0 where convolutions are added."""
    if not value.element:
        raise BuildError.of((), "dtype.unsupported", f"The value {value.name!r} is not a tensor.")
    known = ranked and value.shape is not None
    return _information(value, (None,) * len(value.shape or ()) if known else None)


def _body_port(value: Value) -> bytes:
    """Returns the same for the body of a node, with its extents: loops that take no step need the
    shapes of their results. Returns only the name of a sequence, whose type onnxruntime derives."""
    return _information(value, value.shape) if value.element else wire.text(1, value.name)


def _information(value: Value, shape: Sequence[Any] | None) -> bytes:
    kind = wire.integer(1, value.element)
    if shape is not None:
        dims = (wire.integer(1, n) if isinstance(n, int) else b"" for n in shape)
        kind += wire.message(2, b"".join(wire.message(1, dim) for dim in dims))
    return wire.text(1, value.name) + wire.message(2, wire.message(1, kind))
