"""Tensors that kernels read and write in the host's buffers, without a conversion to device
storage: inputs, and outputs that all of their readers can read in the host's order. The cache of a
decoder is an example: keys and values are appended to it and read by attention in the same
order."""

from __future__ import annotations

from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Geometry, Node, Shape, geometry
from tflgpu_plugin.ir.symbolic import always_divides
from tflgpu_plugin.ops.io_layout import in_host_order
from tflgpu_plugin.ops.lowering import Hosted, Lowering, Raw, Source
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.views import row_strides


def flat(shape: Shape) -> Geometry:
    """Returns the layout of a tensor in the host's order."""
    return geometry((prod(shape),))


def home(low: Lowering, tensor: int) -> Raw | None:
    """Returns the host's buffer of an output, if kernels can compute the output there, vec4 by vec4
    in the host's order. Returns None if it needs device storage, or device storage has that order
    anyway."""
    graph, value = low.graph, low.graph.tensors[tensor]
    fits = value.port_dtype == "f32" and value.counted is None and tensor in graph.outputs
    if not fits or in_host_order(geometry(value.shape)) or not always_divides(4, value.shape[-1]):
        return None
    readers = [node for node in graph.nodes if tensor in node.reads]
    stays = tensor in dict(graph.states).values() or not all(_takes(n, tensor) for n in readers)
    return None if stays or not readers else Raw("output", tensor)


def _takes(node: Node, tensor: int) -> bool:
    """Whether a node that reads the tensor can read it in the host's order."""
    count = ops.rows()[node.op].takes_rows
    return tensor not in (*node.inputs[count:], *(step.tensor for step in node.epilogue))


def settle(low: Lowering, tensor: int) -> Raw:
    """Records that an output, for which `home` returned the host's buffer, is computed there.
    Returns the buffer."""
    raw = Raw("output", tensor)
    low.hosted[tensor] = Hosted(raw, row_strides(low.graph.shape(tensor)))
    return raw


def by_vectors(low: Lowering, tensor: int) -> tuple[Source, tuple[int, ...]]:
    """Returns the source from which a kernel reads a tensor as vec4, and its strides in vec4 (on
    the last axis, the stride of slices). The source is the host's buffer if rows begin at a
    multiple of 4 floats there, else device storage."""
    hosted, shape = low.hosted.get(tensor), low.graph.shape(tensor)
    if hosted and always_divides(4, shape[-1]) and hosted.strides[-1] == 1:
        outer = hosted.strides[:-1]
        if all(always_divides(4, stride) for stride in outer):
            return hosted.raw, (*(stride // 4 for stride in outer), 1)
    return low.stored(tensor), vector_strides(shape)
