"""Recurrent weights in the order in which the kernel of `recurrent` reads them: packed before a run
where they are constant, else by ops of the graph."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import Array, Node
from tflgpu_plugin.ops.decompose import Decomposition

R = 1  # position of the recurrent weights


def decompose(steps: Decomposition, node: Node) -> bool:
    """Packs recurrent weights [directions * rows, units] that are computed in a run, as
    `pack_rows`."""
    r = node.operand(R)
    if steps.data(r) is not None or node.attributes.get("packed"):
        return False
    (rows, units), count = steps.shape(r), node.attributes.get("directions", 1)
    if units % 4:
        r = steps.add("pad", r, steps.indices([(0, 0), (0, -units % 4)]), mode="constant")
    r = steps.reshape(r, (count, rows // count, -(-units // 4), 4))
    r = steps.add("transpose", r, perm=(0, 2, 1, 3))
    inputs = (node.inputs[0], r, *node.inputs[R + 1 :])
    steps.many(node.op, *inputs, outputs=node.outputs, **node.attributes, packed=True)
    return True


def pack_rows(weights: Array) -> Array:
    """Returns weights [rows, inputs] as [input slice][row][input lane], padded with zeros."""
    padded = in_slices(weights, 1)
    return np.ascontiguousarray(padded.reshape(len(padded), -1, 4).transpose(1, 0, 2), np.float32)


def pack_extra(
    peephole: Array | None,
    projection: Array | None,
    bias: Array | None,
    norm: Array | None,
    units: int,
    outputs: int,
) -> Array:
    """Returns the peepholes, the projection (as `pack_rows`) and its bias, then the scales and
    biases of the gates, padded with zeros."""
    peepholes = np.zeros((3, units), np.float32) if peephole is None else peephole
    parts = [in_slices(peepholes, 1).reshape(-1)]
    if projection is not None:
        zeros = np.zeros(outputs, np.float32)
        parts += [pack_rows(projection).reshape(-1), in_slices(zeros if bias is None else bias, 0)]
    if norm is not None:
        parts.append(in_slices(norm.reshape(-1, units), 1).reshape(-1))
    return np.asarray(np.concatenate(parts), np.float32)


def in_slices(array: Array, axis: int) -> Array:
    """Returns the array padded with zeros to a multiple of 4 along `axis`."""
    widths = [(0, -array.shape[axis] % 4 if k == axis else 0) for k in range(array.ndim)]
    return np.asarray(np.pad(array, widths))
