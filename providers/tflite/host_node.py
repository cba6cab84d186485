"""Nodes as a TFLite host describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import calcsize, unpack
from typing import Any

from tflgpu_plugin.ir import Array, Tensor
from tflgpu_plugin.providers import HostError, Unsupported, Value, native

from . import codes
from .model_file import copied
from .tensors import listed

MAX_PATH_BYTES = 4096  # bytes of the path of the host's library
MAX_BYTES = 4096  # limit of a custom operator's parameters: no supported operator has more


@dataclass(frozen=True)
class RawNode:
    """One node of the execution plan in the host's structs; absent optional `inputs` are None."""

    ffi: Any
    id: int
    code: int
    host_op: str
    version: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    raw_params: Any
    tensors: Mapping[int, Tensor | Value]
    has_side_effect: bool = False  # the host keeps such nodes in order
    custom: bytes = b""  # parameters of a custom operator, bytes of the model
    context: Any = None  # tgl_context * of the node's graph
    intermediates: tuple[int, ...] = ()  # tensors that only have a quantization

    def library(self) -> str:
        """Returns the path of the host's library, "" where the system does not know it."""
        return "" if self.context is None else library(self.ffi, self.context)

    def params(self, struct: str) -> Any:
        """Returns the node's parameters as a struct of tflite/abi.h, or raises Unsupported."""
        if self.raw_params == self.ffi.NULL:
            raise Unsupported.of("attribute.invalid", "The model gives this node no parameters.")
        return self.ffi.cast(f"{struct} *", self.raw_params)

    def listed(self, struct: str, name: str) -> tuple[int, ...]:
        """Returns the list `name` of the node's parameters, whose member `count` is its length.
        Raises Unsupported when it is longer than the struct allows."""
        params = self.params(struct)
        held, count = getattr(params, name), int(params.count)
        if not 0 <= count <= len(held):
            raise Unsupported.of(
                "attribute.invalid", f"{name} with {count} numbers cannot be in the parameters."
            )
        return tuple(held[0:count])

    def members(self, layout: str) -> tuple[Any, ...]:
        """Returns the members of the node's parameters, a struct with this `layout` (in the
        notation of Python's struct module). Raises Unsupported when there are none."""
        given = self.ffi.buffer(self.params("char"), calcsize(layout))
        return unpack(layout, bytes(given))

    def options(self, struct: str, sizes: tuple[int, ...]) -> Any:
        """Returns the parameters of a custom operator as a struct of tflite/abi.h, padded with
        zeros. Raises Unsupported unless their size in bytes is one of `sizes`."""
        if len(self.custom) not in sizes:
            known = ", ".join(map(str, sizes[:-1]))
            raise Unsupported.of(
                "attribute.invalid",
                f"The model gives this node {len(self.custom)} bytes of parameters, not "
                f"{known} or {sizes[-1]}.",
            )
        made = self.ffi.new(f"{struct} *")
        size = min(len(self.custom), self.ffi.sizeof(struct))
        self.ffi.memmove(made, self.custom, size)
        return made

    def has_input(self, position: int, rank: int | None = None) -> bool:
        """Whether the input is present (and has this rank)."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return tensor is not None and (
            rank is None or len(self.tensors[tensor].shape or ()) == rank
        )

    def result(self) -> str:
        """Returns the dtype of the first output in the model."""
        return self.tensors[self.outputs[0]].dtype

    def kind(self, position: int) -> str:
        """Returns the dtype of an input in the model, "" for an absent one. (Values of int64
        constants may be int32 here.)"""
        tensor = self.inputs[position] if self.has_input(position) else None
        if tensor is None:
            return ""
        if self.context is None:
            return self.tensors[tensor].dtype
        return codes.dtype(self.context.tensors[tensor].type)

    def constant(self, position: int) -> Array | None:
        """Returns the value of an input that is a constant, else None."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return None if tensor is None else self.tensors[tensor].data


def library(ffi: Any, context: Any) -> str:
    """Returns the path of the library of a graph's host, "" where the system does not know it."""
    held = ffi.new("char[]", MAX_PATH_BYTES)
    native.lib.tg_tflite_library(context, held, MAX_PATH_BYTES)
    return str(ffi.string(held).decode(errors="replace"))


def execution_plan(ffi: Any, context: Any) -> tuple[int, ...]:
    plan = ffi.new("tgl_ints **")
    if context.get_execution_plan(context, plan):
        raise HostError("The host did not return its execution plan.")
    return listed(plan[0])  # a copy: the host's own array is only valid until the next call


def raw_node(ffi: Any, context: Any, index: int) -> tuple[Any, Any]:
    node, registration = ffi.new("tgl_node **"), ffi.new("tgl_registration **")
    if context.get_node(context, index, node, registration):
        raise HostError(f"The host did not return its node {index}.")
    return node[0], registration[0]


def read_node(ffi: Any, context: Any, index: int, tensors: Mapping[int, Value]) -> RawNode:
    """Returns one node of a graph whose tensors have been read. Raises HostError."""
    node, registration = raw_node(ffi, context, index)
    custom = registration.custom_name
    name = ffi.string(custom).decode(errors="replace") if custom else ""
    code = int(registration.builtin_code)
    inputs = tuple(None if t < 0 else t for t in listed(node.inputs))
    size = int(node.custom_data_size)  # parameters of built-in operators are structs, not bytes
    known = node.custom_data and 0 < size <= MAX_BYTES
    return RawNode(
        ffi=ffi,
        id=index,
        code=code,
        host_op=codes.name(code, name),
        version=int(registration.version),
        inputs=inputs,
        outputs=listed(node.outputs),
        raw_params=node.params,
        tensors=tensors,
        has_side_effect=bool(node.has_side_effect),
        custom=copied(ffi, node.custom_data, size) if known else b"",
        context=context,
        intermediates=listed(node.intermediates),
    )
