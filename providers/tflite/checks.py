"""What a node's tensors must hold, by what its host's kernels would say when they prepare it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Protocol

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.frontend.integer_range import ARITHMETIC, RELATIONS
from tflgpu_plugin.frontend.support import TYPE_NAMES
from tflgpu_plugin.ir.graph import Tensor
from tflgpu_plugin.ir.host_op import HostOp

CONVERTING = {"cast", "arg_max", "arg_min"}
JOINED = {"concat", "stack"}
# Operands that are lists: V is a vector, P a list of pairs for each axis of the first value, A a
# vector with an element for each of these axes, 1 one element in any shape; by their positions.
LISTS = {
    "STRIDED_SLICE": " VVV",
    "PAD": " P",
    "PADV2": " P1",
    "MIRROR_PAD": " P",
    "SLICE": " AA",
    "TRANSPOSE": " A",
    "TILE": " A",
    "RESIZE_BILINEAR": " V",
    "RESIZE_NEAREST_NEIGHBOR": " V",
    "SPLIT": "1 ",
    "SPLIT_V": " V1",
    "ARG_MAX": " 1",
    "ARG_MIN": " 1",
    "EXPAND_DIMS": " 1",
    "TRANSPOSE_CONV": "V",
    "BROADCAST_TO": " V",
    "DEPTHWISE_CONV_2D": "  V",
    "SPACE_TO_BATCH_ND": " V",
    "BATCH_TO_SPACE_ND": " V",
}
GRIDS = {"quantize", "dequantize"}
PAIRED = {"prelu", "div", "pow", "squared_difference", *ARITHMETIC, *RELATIONS}
# By input 1.
WEIGHTED = {"conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected", "matmul"}
STATEFUL = {"lstm_basic", "lstm_full"}  # results after the first are the host's scratch
STORED = {"i8", "u8", "i16"}


class HostNode(Protocol):
    """What is needed of a node of the host."""

    @property
    def host_op(self) -> str: ...
    @property
    def inputs(self) -> tuple[int | None, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def tensors(self) -> Mapping[int, Tensor]: ...


def result_types(host: HostNode, row: HostOp, first: int | None) -> None:
    """Hosts give results the type of the first value when they prepare a node, whatever the model
    file says of them; that comes later.
    """
    if first is None or row.op in CONVERTING:
        return
    if row.op in GRIDS:
        _grids(host, first)
        return
    present = tuple(t for t in host.inputs if t is not None)
    if row.op == "where":  # a condition comes first
        first, present = present[1], present[1:]
    given = _whole(host.tensors[first].dtype)
    others = host.outputs[:1] if row.op in STATEFUL else host.outputs
    if row.op in RELATIONS:
        others = ()
    if row.op in (*PAIRED, *JOINED, "where"):
        others = (*others, *present)
    for other in others:
        tensor = host.tensors[other]
        if _whole(tensor.dtype) != given:
            raise Unsupported(
                f"Tensor {tensor.name!r} holds {tensor.dtype} values in the model, but "
                f"{host.host_op} goes by the {given} values of its input."
            )


def _grids(host: HostNode, first: int) -> None:
    for other in (first, *host.outputs):
        tensor = host.tensors[other]
        if tensor.dtype in STORED and tensor.quantization is None:
            raise Unsupported(f"Tensor {tensor.name!r} is not quantized: it has no scale.")


def weights(host: HostNode, row: HostOp) -> None:
    """Kernels for int8 weights take them to be symmetric and never look at their zero points; only
    FULLY_CONNECTED and BATCH_MATMUL of int8 inputs do.
    """
    held = host.tensors[host.inputs[1] or 0] if row.op in WEIGHTED else None
    if held is None or held.dtype != "i8" or held.quantization is None:
        return
    looks = (
        row.op in ("fully_connected", "matmul") and host.tensors[host.inputs[0] or 0].dtype == "i8"
    )
    if any(held.quantization.zero_point) and not looks:
        raise Unsupported(
            f"The int8 weights {held.name!r} have another zero point than 0, which is not "
            "supported."
        )


def operand_shapes(host: HostNode) -> None:
    """Hosts look at the shapes of axes, sizes and the like, too, not only at their elements."""
    for position, kind in enumerate(LISTS.get(host.host_op, "")):
        index = host.inputs[position] if position < len(host.inputs) else None
        first = host.inputs[0]
        if kind == " " or index is None or first is None:
            continue
        shape, rank = host.tensors[index].shape, len(host.tensors[first].shape)
        fits = {
            "V": len(shape) == 1,
            "P": shape == (rank, 2),
            "A": shape == (rank,),
            "1": prod(shape) == 1,
        }
        if not fits[kind]:
            raise Unsupported(
                f"Input {position}, {host.tensors[index].name!r}, has the shape {list(shape)}, "
                f"which is not one that {host.host_op} takes."
            )


def _whole(dtype: str) -> str:
    return "i64" if dtype == "i32" else dtype  # small constants of int64 are held as int32


def row_types(host: HostNode, row: HostOp) -> None:
    """Those of a row that has types of its own."""
    for tensor in (*host.inputs, *host.outputs) if row.types else ():
        held = None if tensor is None else host.tensors[tensor]
        if held is not None and held.dtype not in row.types:
            names = [TYPE_NAMES.get(name, name) for name in (held.dtype, *row.types)]
            raise Unsupported(
                f"Tensor {held.name!r} holds {names[0]} values; {row.name} is supported for "
                f"{' or '.join(names[1:])}."
            )
