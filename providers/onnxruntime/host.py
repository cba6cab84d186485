"""Calls onnxruntime's C API through the function table that it passes to plugins
(native/ort/abi.h); an error status becomes a HostError."""

from __future__ import annotations

import os
import sys
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import BFLOAT16, NUMPY_DTYPES, PACKED, Array, packed, stored_bytes
from tflgpu_plugin.providers import native

from .. import HostError

TENSOR = 1
INT, FLOAT, TEXT = 1, 3, 5
# C types of attributes by their kind: one integer, several, one float, several, a string, several.
ITEMS = {INT: "int64_t", 2: "int64_t", FLOAT: "float", 4: "float", TEXT: "char", 6: "char"}
TENSOR_ATTRIBUTE = 8
# Element types by their number in ONNX; types that are missing here have no numpy dtype.
DTYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16",
    11: "f64", 12: "u32", 13: "u64", 16: BFLOAT16,
    17: "f8e4m3fn", 18: "f8e4m3fnuz", 19: "f8e5m2", 20: "f8e5m2fnuz",
    21: "uint4", 22: "int4", 25: "uint2", 26: "int2",
}  # fmt: skip
UNPACKED = {21: "u8", 22: "i8", 25: "u8", 26: "i8"}  # types of constants of 4 and 2 bits
UNREAD = {8: "string"}  # names of other types in messages
NUMBERS = {24: 25, 25: 26}  # in ONNX, of types that have another number in onnxruntime's C API


class Host:
    """Wraps the function table of one onnxruntime. Handles are cffi pointers; they are valid only
    during the callback that received them."""

    def __init__(self, address: int) -> None:
        self.ffi = native.interface("_declarations_ort")
        self.api = self.ffi.cast("const tgo_api *", address)

    def cast(self, kind: str, address: int) -> Any:
        """Returns `address` as a pointer to `kind`, for example `cast("tgo_graph", address)`."""
        return self.ffi.cast(f"{kind} *", address)

    def check(self, status: Any) -> None:
        """Raises HostError with onnxruntime's message unless `status` is success."""
        if status == self.ffi.NULL:
            return
        text = self.ffi.string(self.api.get_error_message(status)).decode(errors="replace")
        self.api.release_status(status)
        raise HostError(text)

    def get(self, function: Any, subject: Any, kind: str) -> Any:
        """Returns the value that `function(subject, out)` writes; `kind` is the C type of `out`."""
        out = self.ffi.new(kind)
        if (status := function(subject, out)) != self.ffi.NULL:
            self.check(status)
        return out[0]

    def text(self, function: Any, subject: Any) -> str:
        """Returns the string that `function(subject, out)` writes, "" for NULL."""
        found = self.get(function, subject, "const char **")
        return self.ffi.string(found).decode(errors="replace") if found else ""

    def type_of(self, value: Any) -> Any:
        """Returns the type of a value (tgo_type *), None where the host does not know it yet: it
        passes graphs with the nodes of a function before it derives their types."""
        try:
            return self.get(self.api.get_type, value, "const tgo_type **")
        except HostError:
            return None

    def path(self, found: Any) -> str:
        """Returns the path at pointer `found` as a string: it points to wide characters on Windows,
        to bytes in the file system's encoding elsewhere."""
        if not found:
            return ""
        if sys.platform == "win32":
            return str(self.ffi.string(self.ffi.cast("wchar_t *", found)))
        return os.fsdecode(self.ffi.string(self.ffi.cast("char *", found)))

    def handles(self, count: Any, function: Any, subject: Any, kind: str) -> list[Any]:
        """Returns the handles that `function` lists, `count` of them, including NULL."""
        return self._array(count, function, subject, f"const {kind} *[]")

    def _array(self, count: Any, function: Any, subject: Any, kind: str) -> list[Any]:
        """Returns the array that `function(subject, out, length)` fills, with the length that
        `count(subject, out)` writes."""
        length = self.get(count, subject, "size_t *")
        if not length:
            return []
        out = self.ffi.new(kind, length)
        self.check(function(subject, out, length))
        return list(out)

    def opsets(self, graph: Any) -> dict[str, int]:
        """Returns the opset version of each domain that the graph imports."""
        count = self.get(self.api.get_opset_count, graph, "size_t *")
        domains = self.ffi.new("const char *[]", max(1, count))
        versions = self.ffi.new("int64_t[]", max(1, count))
        self.check(self.api.get_opsets(graph, domains, versions, count))
        return {self.ffi.string(domains[k]).decode(): int(versions[k]) for k in range(count)}

    def attributes(self, node: Any) -> dict[str, Any]:
        """Returns a node's attributes by name, as int, float, bytes, array, or tuple of numbers or
        bytes. Attributes that are graphs or types are left out."""
        api = self.api
        found = self.handles(api.get_attribute_count, api.get_attributes, node, "tgo_attribute")
        pairs = ((self.text(api.get_attribute_name, h), self._attribute(h)) for h in found if h)
        return {name: value for name, value in pairs if value is not None}

    def bodies(self, node: Any) -> list[tuple[Any, str]]:
        """Returns the graphs that a node runs, with the names of the attributes that hold them."""
        count = self.get(self.api.get_body_count, node, "size_t *")
        if not count:
            return []
        graphs = self.ffi.new("const tgo_graph *[]", count)
        names = self.ffi.new("const char *[]", count)
        self.check(self.api.get_bodies(node, graphs, count, names))
        return [
            (graph, self.ffi.string(name).decode())
            for graph, name in zip(graphs, names, strict=True)
        ]

    def _attribute(self, handle: Any) -> Any:
        try:
            kind = self.get(self.api.get_attribute_kind, handle, "int *")
        except HostError:  # a kind that the host itself cannot name, such as a type
            return None
        if kind == TENSOR_ATTRIBUTE:
            return self._tensor_attribute(handle)
        if kind not in ITEMS:
            return None
        item, single = ITEMS[kind], kind in (INT, FLOAT)
        each = self.ffi.sizeof(item)
        size = each if single else self._size(handle, kind)
        out, needed = self.ffi.new(f"{item}[]", size // each), self.ffi.new("size_t *")
        if size:
            self.check(self.api.read_attribute(handle, kind, out, size, needed))
        if item != "char":
            return out[0] if single else tuple(out)
        text = bytes(self.ffi.buffer(out))
        return text if kind == TEXT else tuple(text.split(b"\0")[:-1])  # each ends with a zero byte

    def _size(self, handle: Any, kind: int) -> int:
        """Returns the size of an attribute's value in bytes: reading it into an empty buffer fails,
        but reports the size."""
        needed = self.ffi.new("size_t *")
        status = self.api.read_attribute(handle, kind, self.ffi.NULL, 0, needed)
        if status != self.ffi.NULL:
            self.api.release_status(status)
        return int(needed[0])

    def _tensor_attribute(self, handle: Any) -> Array | None:
        value = self.get(self.api.get_attribute_tensor, handle, "tgo_value **")
        try:
            data = self.data(value)
            return None if data is None else data.copy()
        finally:
            self.api.release_value(value)

    def data(self, value: Any) -> Array | None:
        """Returns a tensor's data as a read-only view, types of 4 and 2 bits unpacked; None for
        types without a numpy dtype."""
        info = self.get(self.api.get_value_info, value, "tgo_tensor_info **")
        try:
            element = self.element(info)
            shape = tuple(self.dims(info))
        finally:
            self.api.release_tensor_info(info)
        dtype = DTYPES.get(element)
        if dtype is None:
            return None
        kind = np.dtype(NUMPY_DTYPES[dtype])
        count = prod(shape)
        if not count:
            return np.zeros(shape, kind)
        address = self.get(self.api.get_tensor_data, value, "void **")
        if dtype in PACKED:
            held = self.ffi.buffer(address, stored_bytes(shape, dtype))
            numbers = packed.unpack(
                np.frombuffer(held, np.uint8), PACKED[dtype], packed.signed(dtype)
            )
            return numbers[:count].reshape(shape)
        view = np.frombuffer(self.ffi.buffer(address, count * kind.itemsize), kind)
        view.flags.writeable = False
        return view.reshape(shape)

    def element(self, info: Any) -> int:
        """Returns the element type of a tensor as its number in ONNX."""
        found = int(self.get(self.api.get_element_kind, info, "int *"))
        return NUMBERS.get(found, found)

    def dims(self, info: Any) -> list[int]:
        """Returns the extents of a tensor, -1 for symbolic and unknown ones."""
        return self._array(self.api.get_rank, self.api.get_dims, info, "int64_t[]")

    def symbols(self, info: Any) -> list[str]:
        """Returns the names of the symbolic extents of a tensor, "" for all others."""
        found = self._array(self.api.get_rank, self.api.get_symbols, info, "const char *[]")
        return [self.ffi.string(one).decode() if one else "" for one in found]
