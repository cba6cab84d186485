"""One node as a TFLite host tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import calcsize, unpack
from typing import Any

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.graph import Array, Tensor


@dataclass(frozen=True)
class HostNode:
    """One node of the execution plan as the host tells it; `inputs` has None for absent optional
    inputs.
    """

    ffi: Any
    id: int
    code: int
    host_op: str
    version: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    raw_params: Any
    tensors: Mapping[int, Tensor]
    has_side_effect: bool = False  # the host keeps it in order with the others of which it says so
    custom: bytes = b""  # parameters of a custom operator, as they are in the model
    unreadable: Mapping[int, str] = field(default_factory=dict)  # why some tensors are

    def params(self, struct: str) -> Any:
        """The node's parameters as a struct of tflite/abi.h. Raises Unsupported when there are
        none.
        """
        if self.raw_params == self.ffi.NULL:
            raise Unsupported("The model gives this node no parameters.")
        return self.ffi.cast(f"{struct} *", self.raw_params)

    def listed(self, struct: str, name: str) -> tuple[int, ...]:
        """The list of this name among the node's parameters, as long as they say. Raises
        Unsupported when it cannot be that long.
        """
        params = self.params(struct)
        held, count = getattr(params, name), int(params.count)
        if not 0 <= count <= len(held):
            raise Unsupported(f"{name} with {count} numbers cannot be in the parameters.")
        return tuple(held[0:count])

    def members(self, layout: str) -> tuple[Any, ...]:
        """The node's parameters, a struct of these types (as Python's struct module has them).
        Raises Unsupported when there are none.
        """
        given = self.ffi.buffer(self.params("char"), calcsize(layout))
        return unpack(layout, bytes(given))

    def options(self, struct: str, sizes: tuple[int, ...]) -> Any:
        """The parameters of a custom operator as a struct of tflite/abi.h, zeros after their end.
        Raises Unsupported when they are not of one of these sizes.
        """
        if len(self.custom) not in sizes:
            known = ", ".join(map(str, sizes[:-1]))
            raise Unsupported(
                f"The model gives this node {len(self.custom)} bytes of parameters, not {known} or "
                f"{sizes[-1]}."
            )
        made = self.ffi.new(f"{struct} *")
        size = min(len(self.custom), self.ffi.sizeof(struct))
        self.ffi.memmove(made, self.custom, size)
        return made

    def has_input(self, position: int, rank: int | None = None) -> bool:
        """The input is present (and has this rank)."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return tensor is not None and (rank is None or len(self.tensors[tensor].shape) == rank)

    def result(self) -> str:
        """The type that the model gives the first output."""
        return self.tensors[self.outputs[0]].dtype

    def constant(self, position: int) -> Array | None:
        """The value of an input that is a constant."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        return None if tensor is None else self.tensors[tensor].data
