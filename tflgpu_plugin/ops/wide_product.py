"""`wide_product(x i32 [n, m]): numbers` -> [m], the products of integers along the first axis, as
hosts compute it for quantized numbers: every step multiplies by an element and by a factor of 15
bits, shifts to the right, rounds halves up and keeps the low 32 bits, and the last one has no
element (`QuantizedReduceProd` of tensorflow/lite/kernels/internal/reference/reduce.h). Factor and
elements are such that a step has less than 64 bits. `numbers`: the factor and the shift."""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.graph import NUMPY_DTYPES
from tflgpu_plugin.ir.quantization import parameters
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Kernel, Lowering
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.reduce_forms import reduced_axes
from tflgpu_plugin.ops.stored_numbers import COUNTED, as_int32, keep
from tflgpu_plugin.ops.table import Op, elements
from tflgpu_plugin.ops.wide_total import LAST_SHIFT, reduced


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a matrix that is not empty, of at most 65,534 rows, and a shift by 1 to 46 bits."""
    shape, (_, right) = graph.shape(node.operand()), node.attributes["numbers"]
    if len(shape) != 2 or 0 in shape or not 1 <= right <= LAST_SHIFT:
        said = f"A product of integers over {list(shape)} with a shift by {right} is not supported."
        return Refusal("shape.unsupported", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    return [graph.shape(node.operand())[1:]]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with one thread per vec4 of the result."""
    shape, (factor, right) = low.graph.shape(node.operand()), node.attributes["numbers"]
    low.loops(node, shape[0])
    low.each_vector(
        Kernel(
            "wide_product",
            {"step": vector_strides(shape)[0], "count": shape[0], "factor": int(factor),
             "right": int(right)},
        ),
        node,
        {"x": low.stored(node.operand())},
    )  # fmt: skip


OPS = (
    Op("wide_product", refuse, shapes, lower, "exact", types=("i32",), work=elements(),
       kind="reduction", accumulates=False),
)  # fmt: skip


# ---- the product of quantized numbers ------------------------------------------------------------


def numbers_of(graph: Graph, node: Node) -> tuple[float, float]:
    """Returns `numbers` of a reduce_prod over quantized numbers: each step has an equal share of
    the result's scale."""
    x, result = (parameters(graph.tensors[t])[0] for t in (node.operand(), node.outputs[0]))
    count = prod(graph.shape(node.operand())[axis] for axis in reduced_axes(graph, node))
    factor, right = reduced(np.array([x / result ** (1.0 / max(count, 1))]))
    return float(factor[0]), float(right[0])


def refuse_quantized(graph: Graph, node: Node) -> Refusal | None:
    """Refuses a reduce_prod over stored numbers whose scales hosts cannot compute with, or with
    more steps than a launch may take."""
    tensors = [graph.tensors[t] for t in (node.operand(), node.outputs[0])]
    if tensors[0].dtype not in COUNTED:
        return None
    if not 1 <= numbers_of(graph, node)[1] <= LAST_SHIFT:
        said = "The scales of a product of stored numbers are too far apart."
        return Refusal("quantization.unsupported", said)
    count = prod(graph.shape(node.operand())[axis] for axis in reduced_axes(graph, node))
    if count >= MAX_LOOP_ROUNDS:
        said = (
            f"A product of {count:,} stored numbers; up to {MAX_LOOP_ROUNDS - 1:,} are supported."
        )
        return Refusal("shape.too_large", said)
    return None


def decompose(steps: Decomposition, node: Node) -> bool:
    """Computes a reduce_prod over stored numbers."""
    x, result = (steps.editor.tensors[t] for t in (node.operand(), node.outputs[0]))
    if x.dtype not in COUNTED:
        return False
    shape, axes = steps.shape(node.operand()), sorted(reduced_axes(steps.graph, node))
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    count, wanted = prod(shape[axis] for axis in axes), steps.shape(node.outputs[0])
    given = as_int32(steps, node.operand())
    if zero := int(parameters(x)[1]):
        given = steps.add("sub", given, steps.indices(zero))
    if axes != list(range(len(axes))):
        given = steps.add("transpose", given, perm=(*axes, *kept))
    rows = steps.reshape(given, (count, prod(wanted)))
    made = steps.add("wide_product", rows, numbers=numbers_of(steps.graph, node))
    made = steps.add("add", steps.reshape(made, wanted), steps.indices(int(parameters(result)[1])))
    kind = np.iinfo(NUMPY_DTYPES[result.dtype])
    made = steps.add("minimum", steps.add("maximum", made, steps.indices(kind.min)),
                     steps.indices(kind.max))  # fmt: skip
    keep(steps, made)
    return True
