"""Tensors in the host's buffers that kernels read and write where they are, without a conversion to
device storage: inputs, and outputs whose readers all take them so. The cache of a decoder is one:
keys and values are appended to it and read by attention in one order."""

from __future__ import annotations

from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Geometry, Node, Shape, geometry
from tflgpu_plugin.ir.symbolic import surely_divides
from tflgpu_plugin.ops.io_layout import in_host_order
from tflgpu_plugin.ops.lowering import Hosted, Lowering, Raw, Source
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.views import row_strides


def flat(shape: Shape) -> Geometry:
    """Returns the layout of a tensor in the host's order."""
    return geometry((prod(shape),))


def home(low: Lowering, tensor: int) -> Raw | None:
    """Returns the host's buffer of an output that may be computed there, by vec4 in the host's
    order; None for a tensor that needs device storage, or has it in that order."""
    graph, value = low.graph, low.graph.tensors[tensor]
    fits = value.dtype == "f32" and value.counted is None and tensor in graph.outputs
    if not fits or in_host_order(geometry(value.shape)) or not surely_divides(4, value.shape[-1]):
        return None
    readers = [node for node in graph.nodes if tensor in node.reads]
    stays = tensor in dict(graph.states).values() or not all(_takes(n, tensor) for n in readers)
    return None if stays or not readers else Raw("output", tensor)


def _takes(node: Node, tensor: int) -> bool:
    """Whether a node that reads the tensor can do so in the host's order."""
    count = ops.rows()[node.op].takes_rows
    return tensor not in (*node.inputs[count:], *(step.tensor for step in node.epilogue))


def settle(low: Lowering, tensor: int) -> Raw:
    """Records that an output is computed in the host's buffer, which `home` allows; returns it."""
    raw = Raw("output", tensor)
    low.hosted[tensor] = Hosted(raw, row_strides(low.graph.shape(tensor)))
    return raw


def by_vectors(low: Lowering, tensor: int) -> tuple[Source, tuple[int, ...]]:
    """Returns where a kernel reads a tensor by vec4, and its strides in vec4, on the last axis that
    of slices: the host's buffer if vec4 are whole there, else device storage."""
    hosted, shape = low.hosted.get(tensor), low.graph.shape(tensor)
    if hosted and surely_divides(4, shape[-1]) and hosted.strides[-1] == 1:
        outer = hosted.strides[:-1]
        if all(surely_divides(4, stride) for stride in outer):
            return hosted.raw, (*(stride // 4 for stride in outer), 1)
    return low.stored(tensor), vector_strides(shape)
