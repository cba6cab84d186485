"""Relations between integers of a run: pairs that differ by a number that is known before the run,
such as the start and the end of a slice. Shapes follow from the difference although the values are
unknown."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.importer.tensors import Tensors
from tflgpu_plugin.ir import COUNTS, Node
from tflgpu_plugin.ops.table import Op

SIGNS = {"term": 1, "subtrahend": -1}  # of the second operand, by `Op.affine`


def note(tensors: Tensors, node: Node, row: Op) -> None:
    """Records that the result of a node is another integer plus a known number, if it is."""
    table, first = tensors.table, node.reads[0]
    result = table[node.outputs[0]]
    if result.dtype not in COUNTS or table[first].dtype not in COUNTS or prod(result.shape) != 1:
        return
    number = 0
    if row.affine in SIGNS and node.attributes.get("activation", "none") == "none":
        first, second = node.operand(), node.operand(1)  # which may be the same
        if row.affine == "term" and table[first].data is not None:
            first, second = second, first
        data = table[second].data
        if data is None:
            return
        number = SIGNS[row.affine] * int(data.reshape(-1)[0])
    elif not row.arranges and not row.converts:
        return
    base, before = _offset(tensors, first)
    tensors.offsets[node.outputs[0]] = base, before + number


def distance(tensors: Tensors, start: int, end: int) -> int | None:
    """Returns by how much the integer `end` exceeds `start` in every run, None if that depends on
    the run."""
    (base, before), (other, after) = (_offset(tensors, t) for t in (start, end))
    return after - before if base == other else None


def _offset(tensors: Tensors, tensor: int) -> tuple[int, int]:
    return tensors.offsets.get(tensor, (tensor, 0))
