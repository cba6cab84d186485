"""Transposed convolution: x [B, H, W, C], weights [O, KH, KW, C / groups] -> an output of the given
shape. Without that operand, "valid" padding keeps the full result, and "same" keeps at most (extent
- 1) % stride + 1 elements from the position of the last input element on.

Computed by gathering: every stride-th tap reaches an output pixel, so the pixels of one phase of
the strides are an ordinary convolution of stride 1. Padding is that of the convolution from output
to input (tensorflow/lite/kernels/transpose_conv.cc), or (top, bottom, left, right) to crop from the
full result, of which only top and left matter. Dilated weights are filled with zeros."""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.host_op import count_given
from tflgpu_plugin.ir.symbolic import integer
from tflgpu_plugin.ops import rounding, wide_total
from tflgpu_plugin.ops.blocks import Blocks, operands, refuse_epilogue, refuse_groups
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Lowering
from tflgpu_plugin.ops.product import Addressing, Product, multiply
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import choose_tile


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 4 dimensions; a constant output shape, if one is given; no fused tanh."""
    x, weights = operands(graph, node)
    if len(x) != 4 or len(weights) != 4:
        said = "A transposed convolution needs an input and weights of 4 dimensions."
        return Refusal("rank.unsupported", said)
    if min(node.attributes["strides"]) < 1:
        return Refusal("attribute.invalid", "Strides must be at least 1.")
    output = _output(graph, node)
    if output is None:
        return Refusal(
            "constant.required", "The output shape of a transposed convolution must be a constant."
        )
    if len(output) != 4 or any(n < 1 for n in (*output, prod(x), prod(weights))):
        return Refusal(
            "constant.invalid", f"An output shape of {list(output)} is not four positive extents."
        )
    if refusal := refuse_groups(x, weights):
        return refusal
    if output[0] != x[0] or output[3] != weights[0]:
        said = f"Shapes {list(x)}, {list(weights)} and output {list(output)} do not agree."
        return Refusal("shape.mismatch", said)
    if count_given(node.inputs) > 3 and isinstance(node.attributes["padding"], str):
        windows = windows_of(node, output[1:3], weights[1:3])
        if x[1:3] != windows:
            needed = list(windows)
            said = f"An output of {list(output)} needs an input of {needed}, not {list(x[1:3])}."
            return Refusal("shape.mismatch", said)
    return _refuse_dilations(graph, node, target) or refuse_epilogue(graph, node, weights[0])


def windows_of(node: Node, extents: Shape, kernel: Shape) -> Shape:
    """Returns the input extents of a transposed convolution with these output extents: the number
    of windows along each axis, by strides, dilations and padding (same or valid)."""
    strides = node.attributes["strides"]
    dilations = node.attributes.get("dilations", (1,) * len(strides))
    same, found = node.attributes["padding"] == "same", []
    for extent, taps, step, dilation in zip(extents, kernel, strides, dilations, strict=True):
        left = extent if same else extent - (taps - 1) * dilation
        found.append(-(-left // step))
    return tuple(found)


def _refuse_dilations(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires weights that are not too large when filled with zeros."""
    dilations, (_, weights) = node.attributes.get("dilations", (1, 1)), operands(graph, node)
    if max(dilations) == 1:
        return None
    taps = prod((n - 1) * step + 1 for n, step in zip(weights[1:3], dilations, strict=True))
    if taps > MAX_LOOP_ROUNDS or 4 * taps * weights[0] * weights[3] > target.max_binding_bytes:
        said = f"Weights of {list(weights)} dilated by {list(dilations)} are too large."
        return Refusal("shape.too_large", said)
    return None


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    output = _output(graph, node)
    assert output is not None
    return [output]


def _output(graph: Graph, node: Node) -> Shape | None:
    """Returns the output shape that the node states (None if it is not constant), or else the one
    that its padding leaves."""
    if count_given(node.inputs) > 3:
        value = graph.constant(node.inputs[3])
        return None if value is None else tuple(integer(extent) for extent in value)
    (batch, *extents, _), (channels, *kernel, _) = operands(graph, node)
    same = node.attributes["padding"] == "same"
    taken = zip(extents, kernel, node.attributes["strides"], strict=True)
    return (batch, *(_left(*axis, same) for axis in taken), channels)


def _left(extent: int, kernel: int, stride: int, same: bool) -> int:
    """Returns the output extent that padding leaves along one axis
    (mediapipe/util/tflite/operations)."""
    reached = (extent - 1) * stride
    return reached + (min(kernel, (extent - 1) % stride + 1) if same else kernel)


def work_back(graph: Graph, node: Node) -> int:
    """Returns the number of multiply-adds: each input element is multiplied by each weight of its
    channel."""
    return prod(graph.shape(node.operand())) * prod(graph.shape(node.operand(1))[:-1])


def decompose(steps: Decomposition, node: Node) -> bool:
    """Replaces dilated weights by larger ones with zeros."""
    steps_h, steps_w = node.attributes.get("dilations", (1, 1))
    if steps_h == steps_w == 1:
        return False
    weights, data = node.operand(1), steps.data(node.inputs[1])
    if data is None:
        wider = spread(steps, spread(steps, weights, 1, steps_h), 2, steps_w)
    else:
        o, h, w, i = data.shape
        zeros = np.zeros((o, (h - 1) * steps_h + 1, (w - 1) * steps_w + 1, i), np.float32)
        zeros[:, ::steps_h, ::steps_w] = data
        wider = steps.number(zeros)
    inputs = (node.inputs[0], wider, *node.inputs[2:])
    steps.last(node.op, *inputs, **{**node.attributes, "dilations": (1, 1)})
    return True


def spread(steps: Decomposition, x: int, axis: int, stride: int) -> int:
    """Inserts `stride - 1` zeros between the elements of an axis."""
    shape = steps.shape(x)
    if stride == 1 or shape[axis] == 1:
        return x
    outer, inner = prod(shape[: axis + 1]), prod(shape[axis + 1 :])
    apart = steps.reshape(x, (outer, 1, inner))
    zeros = steps.indices([[0, 0], [0, stride - 1], [0, 0]])
    longer = (*shape[:axis], shape[axis] * stride, *shape[axis + 1 :])
    whole = steps.reshape(steps.add("pad", apart, zeros), longer)
    used = (*shape[:axis], (shape[axis] - 1) * stride + 1, *shape[axis + 1 :])
    return steps.add("slice", whole, steps.indices([0] * len(shape)), steps.indices(used))


def padding_before(axis: int, extent: int, kernel: int, stride: int, node: Node) -> int:
    """Returns the padding before the output along one axis. With VALID it is 0 unless the output is
    smaller than the kernel: the host's division then truncates toward zero, which leaves some."""
    padding = node.attributes["padding"]
    if not isinstance(padding, str):
        return int(padding[2 * axis])
    if padding == "same":
        positions = -(-extent // stride)
    else:
        positions = int((extent + stride - kernel) / stride)
    return max((positions - 1) * stride + kernel - extent, 0) // 2


def _lower(low: Lowering, node: Node) -> None:
    x, filters = operands(low.graph, node)
    y = low.graph.shape(node.outputs[0])
    stride_h, stride_w = node.attributes["strides"]
    groups = x[3] // filters[3]
    tile = choose_tile(low.target, -(-(filters[0] // groups) // 4), y[1] * y[2])
    blocks = Blocks(filters[0], filters[1] * filters[2], filters[3], groups, tile.slices)
    phases = min(stride_h, y[1]), min(stride_w, y[2])
    planes = x[0] * phases[0] * phases[1]
    extents = -(-y[1] // stride_h), -(-y[2] // stride_w)
    parameters: dict[str, object] = {
        "phases": phases[0] * phases[1],
        "phases_w": phases[1],
        "stride_h": stride_h,
        "stride_w": stride_w,
        "out_h": y[1],
        "out_w": y[2],
        "before_h": padding_before(0, y[1], filters[1], stride_h, node),
        "before_w": padding_before(1, y[2], filters[2], stride_w, node),
        "kernel_h": filters[1],
        "kernel_w": filters[2],
        "tap_vectors": blocks.tap_vectors,
        "in_h": x[1],
        "in_w": x[2],
        "y_batch": -(-y[3] // 4) * y[1] * y[2],
        "y_slice": y[1] * y[2],
    }
    address = Addressing("transposed", prod(extents), planes, x[1] * x[2], parameters)
    multiply(low, node, Product(blocks, tile, address, kernel="transpose_conv"))


ATTRIBUTES = "strides[2]! padding[4]!=same|valid dilations[2] activation"
OPS = (
    Op("transpose_conv", _refuse, _shapes, _lower, "accumulate", work=work_back, kind="product",
       fuses=True, decompose=decompose, weights=Weights(spreads=True),
       int16=wide_total.layers(0), accumulates=False,
       rounding=rounding.LAYER, operands="xx??"),
)  # fmt: skip
