"""What operators of ONNX mean to the folder: shape arithmetic, worked out while a graph is read
(Shape -> Gather -> Concat -> Reshape, and the like).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tflgpu_plugin.frontend import fold
from tflgpu_plugin.frontend.meanings import MAX_SHAPE_ELEMENTS, MEANINGS
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import Array, Shape, Tensor

from .host import DTYPES
from .ops import HOST_OPS
from .snapshot import DEFAULT_DOMAINS, HostNode

LARGEST_IN_A_RUN = 1 << 24  # of what was shape arithmetic for the shapes of the first plan
# What these attributes must be, where a node has them.
PLAIN = {"mode": b"constant", "reduction": b"none", "exclusive": 0, "reverse": 0}


@dataclass(frozen=True)
class Row:
    """The meaning of nodes from opset `since` on, and its operands. `names` are attributes that are
    arguments (ours by theirs), `fixed` are arguments where a node has no such attribute.
    """

    meaning: str
    operands: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    since: int = 1

    def step(self, node: HostNode) -> fold.Step:
        given = {ours: node.attributes[n] for n, ours in self.names.items() if n in node.attributes}
        if "dtype" in given:
            given["dtype"] = DTYPES.get(int(given["dtype"]))
        results = 0 if self.meaning in MEANINGS else len(node.outputs)
        return fold.Step(self.meaning, self.operands, {**self.fixed, **given}, results)


def operands(node: HostNode, inputs: Sequence[Tensor | None]) -> list[Array | None]:
    """What is known of a node's inputs, as its meaning takes it. What hosts compute of bfloat16 may
    mean something else: such rows are built."""
    row, built = TABLE.get(node.op), node.title in HOST_OPS and HOST_OPS[node.title].rounds
    step = row.step(node) if row else fold.Step("")
    return [
        None if t is None or (built and t.dtype == BFLOAT16) else fold.operand(step, t)
        for t in inputs
    ]


def evaluate(
    node: HostNode,
    inputs: Sequence[Array | None],
    shapes: Sequence[Shape | None],
    largest: int = MAX_SHAPE_ELEMENTS,
) -> list[Array] | None:
    """The node's outputs when they follow from known inputs (None: not known) and input shapes;
    None when they do not, when one has more than `largest` elements, or when the node is no shape
    arithmetic.
    """
    row = TABLE.get(node.op) if node.domain in DEFAULT_DOMAINS else None
    if row is None or node.version < row.since:
        return None
    if node.attributes and any(
        node.attributes.get(name, plain) != plain for name, plain in PLAIN.items()
    ):
        return None
    step = row.step(node)
    values: Sequence[Array | None] = inputs
    if step.of_shapes:
        values = [None if s is None else np.array(s, np.int64) for s in shapes]
    named = zip(node.inputs, values, strict=True)
    if any(value is None for name, value in named if name is not None):
        return None
    return fold.evaluate(step, values, largest)


def _row(meaning: str, operands: str = "", *names: str, since: int = 1, **fixed: Any) -> Row:
    """`names` as "axis", or as "ours:theirs"."""
    pairs = (name.split(":") for name in names)
    return Row(meaning, tuple(operands.split()), {p[-1]: p[0] for p in pairs}, fixed, since)


def _as_op(names: str, *how: Any, **fixed: Any) -> dict[str, Row]:
    """Operators that mean what the op of their row does."""
    return {name: _row(HOST_OPS[name].op, *how, **fixed) for name in names.split()}


TABLE: dict[str, Row] = {
    **_as_op("Abs Add And Ceil Div Equal Floor Greater GreaterOrEqual Less LessOrEqual Max Min"),
    **_as_op("Expand Mul Neg Not Or Pow Round Sign Sqrt Sub Sum Tile Where Xor"),
    **_as_op(
        "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum", "data axes",
        "axes", "keep_dims:keepdims", "noop_without_axes:noop_with_empty_axes", noop_without_axes=0,
    ),
    "Cast": _row("cast", "data", "dtype:to"),
    "Clip": _row("clip", "data low high", since=11),  # before that of floats, with attributes
    "Concat": _row("concat", "", "axis"),
    "ConstantOfShape": _row("fill", "shape", "value"),
    "CumSum": _row("cumsum", "data axis"),
    "Flatten": _row("flatten", "data", "axis"),
    "Gather": _row("gather", "data indices", "axis", from_end=True),
    "GatherND": _row("gather_nd", "data indices", "batch_dims", from_end=True),
    "Identity": _row("identity"),
    "Mod": _row("floor_mod", "a b", "fmod"),
    "NonZero": _row("nonzero"),
    "Pad": _row("pad", "data widths value axes", "widths:pads", "value"),
    "Range": _row("range", "start limit delta"),
    "Reshape": _row("reshape_or_keep", "data shape", "allow_zero:allowzero", allow_zero=0),
    "ScatterND": _row("scatter_nd", "data indices updates"),
    "Shape": _row("shape", "shape", "start", "end"),
    "Size": _row("size", "shape"),
    "Slice": _row("cut", "data starts ends axes steps", "starts", "ends", "axes", "steps"),
    "Split": _row("split_by", "data sizes", "axis", "sizes:split", "count:num_outputs"),
    "Squeeze": _row("squeeze", "data axes", "axes"),
    "Transpose": _row("transpose", "data", "perm"),
    "Unsqueeze": _row("expand_dims", "data axes", "axes"),
}  # fmt: skip
