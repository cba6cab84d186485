"""Fourier transforms of real numbers, and parts and magnitudes of complex ones.

`rfft(x [..., H, W], lengths (h, w) i32 constant)` -> c64 [..., h, w / 2 + 1]: over the last two
axes, cropped or zero-padded to h and w, which are powers of two in rfft2d.cc of TFLite. `real(x
c64)`, `imaginary(x c64)` and `complex_abs(x c64)` return float32 in the shape of x.

Before lowering complex numbers become float32 pairs on a last axis, and transforms become products
with constant matrices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from tflgpu_plugin.ir import COMPLEX, Array, Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.symbolic import integer
from tflgpu_plugin.ir.types import type_name
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.table import Op, same_shape
from tflgpu_plugin.ops.views import part

# A matrix of 16 MiB. With twice this length a dozen rows would take the nominal GPU longer
# (importer/partition.py) than a fast transform on the CPU between two partitions.
LONGEST = 2048
NONE = 1e-9  # a smaller sine or cosine is 0 but for the rounding of pi


def matrix(
    given: int, parts: int, length: int, onesided: bool = False, inverse: bool = False
) -> Array:
    """Returns the matrix [n, part, k, part] of a transform as float32: X[k] = sum over n of x[n] *
    exp(-2 pi i k n / length), or its inverse, with the other sign. It maps real and imaginary parts
    of `given` numbers (only real ones if `parts` is 1) to those of `length` frequencies or,
    `onesided`, of the first half. The onesided inverse returns real numbers; it implies the
    mirrored half. Of symbolic numbers it is the matrix for their examples, and leaves guards."""
    given, length = int(given), int(length)
    half = length // 2 + 1
    n, k = np.arange(given)[:, None], np.arange(half if onesided and not inverse else length)
    turns = (n * k) % length * (2 * np.pi / length)
    kept = (n < (half if onesided and inverse else length)).astype(np.float64)
    if onesided and inverse:
        kept *= np.where((n == 0) | (2 * n == length), 1, 2)
    cos, sin = (np.where(np.abs(f) < NONE, 0, f) for f in (np.cos(turns), np.sin(turns)))
    cos, sin = cos * kept, sin * (kept if inverse else -kept)
    rows = [np.stack([cos, sin], -1), np.stack([-sin, cos], -1)][:parts]
    made = np.stack(rows, 1)
    made = made[..., :1] if onesided and inverse else made
    return np.asarray(made.reshape(given * parts, -1), np.float32)


def _lengths(graph: Graph, node: Node) -> Shape:
    value = graph.constant(node.operand(1))
    assert value is not None
    return tuple(integer(length) for length in value.reshape(-1))


def shapes(graph: Graph, node: Node) -> list[Shape]:
    height, width = _lengths(graph, node)
    return [(*graph.shape(node.operand())[:-2], height, width // 2 + 1)]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires real numbers of rank 2 or more; lengths of at most 2,048, and of at least 2 for
    rows."""
    x, lengths = graph.tensors[node.operand()], graph.constant(node.operand(1))
    if x.dtype == COMPLEX or len(x.shape) < 2:
        given = f"{type_name(x.dtype)} of rank {len(x.shape)}"
        said = f"A transform of real numbers does not support {given}."
        return Refusal("dtype.unsupported", said)
    if lengths is None or lengths.size != 2:
        return Refusal("constant.required", "A transform needs two constant lengths.")
    height, width = _lengths(graph, node)
    # Hosts accept any rows of one sample.
    if height < 1 or width < 2 or max(height, width) > LONGEST:
        return Refusal(
            "shape.too_large",
            f"A transform of {height} by {width} is not supported; rows have from 2 to "
            f"{LONGEST:,} samples, columns up to as many.",
        )
    return None


def decompose(steps: Decomposition, node: Node) -> bool:
    """Replaces the transform by a product over rows, and one over columns."""
    x, out = node.operand(), steps.pairs(node.outputs[0])
    height, width = _lengths(steps.graph, node)
    for axis, length in ((-2, height), (-1, width)):
        shape = steps.shape(x)
        if shape[axis] > length:
            x = steps.add("view", x, view=part(shape, len(shape) + axis, 0, length))
    *outer, rows, samples = steps.shape(x)
    made = steps.reshape(x, (prod(outer) * rows, samples))
    made = steps.add("matmul", made, steps.number(matrix(samples, 1, width, onesided=True)))
    if height > 1:
        made = steps.reshape(made, (prod(outer), rows, width // 2 + 1, 2))
        made = steps.add("transpose", made, perm=(0, 2, 1, 3))
        made = steps.reshape(made, (prod(outer) * (width // 2 + 1), rows * 2))
        made = steps.add("matmul", made, steps.number(matrix(rows, 2, height)))
        made = steps.reshape(made, (prod(outer), width // 2 + 1, height, 2))
        made = steps.add("transpose", made, perm=(0, 2, 1, 3))
    steps.last("reshape", made, None, shape=steps.shape(out))
    return True


def _work(graph: Graph, node: Node) -> int:
    """Returns the number of multiply-adds in the products."""
    height, width = _lengths(graph, node)
    samples = 2 * (width + (2 * height if height > 1 else 0))
    return prod(shapes(graph, node)[0]) * samples


def refuse_real(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires complex numbers."""
    held = graph.tensors[node.operand()].dtype
    if held == COMPLEX:
        return None
    said = f"{node.op} takes complex numbers, not {type_name(held)} ones."
    return Refusal("dtype.unsupported", said)


def _side(steps: Decomposition, side: int) -> int:
    """Returns the first number of each pair, or the second."""
    x = steps.pairs(steps.node.operand())
    shape = steps.shape(x)
    view = replace(part(shape, len(shape) - 1, side, 1), shape=shape[:-1])
    return steps.add("view", x, view=view)


def decompose_side(steps: Decomposition, node: Node, side: int) -> bool:
    made = _side(steps, side)
    steps.last("reshape", made, None, shape=steps.shape(made))
    return True


def decompose_abs(steps: Decomposition, node: Node) -> bool:
    steps.last("hypot", _side(steps, 0), _side(steps, 1))
    return True


OPS = (
    Op("rfft", refuse, shapes, lower_decomposed, "accumulate", types=("f32", COMPLEX), work=_work,
       kind="composite", operands="xx", accumulates=True, decompose=decompose),
    *(
        Op(name, refuse_real, same_shape, lower_decomposed, "exact", types=("f32", COMPLEX),
           kind="composite", decompose=partial(decompose_side, side=side))
        for side, name in enumerate(("real", "imaginary"))
    ),
    Op("complex_abs", refuse_real, same_shape, lower_decomposed, "function",
       types=("f32", COMPLEX), kind="composite", accumulates=True, decompose=decompose_abs),
)  # fmt: skip
