"""What operators of ONNX mean to the folder: shape arithmetic, worked out while a graph is read
(Shape -> Gather -> Concat -> Reshape, and the like).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tflgpu_plugin.frontend import fold
from tflgpu_plugin.ir.graph import Array, Shape

from .host import DTYPES
from .snapshot import DEFAULT_DOMAINS, HostNode

LARGEST_IN_A_RUN = 1 << 24  # of what was shape arithmetic for the shapes of the first plan
# What these attributes must be, where a node has them.
PLAIN = {"mode": b"constant", "reduction": b"none", "exclusive": 0, "reverse": 0}


@dataclass(frozen=True)
class Row(fold.Row):
    """Of nodes from opset `since` on. `names` are attributes that are arguments (ours by theirs),
    `fixed` are arguments where a node has no such attribute.
    """

    names: dict[str, str]
    fixed: dict[str, Any]
    since: int = 1

    def step(self, node: HostNode) -> fold.Step:
        given = {ours: node.attributes[n] for n, ours in self.names.items() if n in node.attributes}
        if "dtype" in given:
            given["dtype"] = DTYPES.get(int(given["dtype"]))
        return fold.Step(self.meaning, self.operands, self.fixed | given)


def evaluate(
    node: HostNode,
    inputs: Sequence[Array | None],
    shapes: Sequence[Shape | None],
    largest: int = fold.MAX_SHAPE_ELEMENTS,
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


def _reduction(meaning: str) -> Row:
    options = ("axes", "keep_dims:keepdims", "noop_without_axes:noop_with_empty_axes")
    return _row(meaning, "data axes", *options)


TABLE: dict[str, Row] = {
    "Abs": _row("abs"),
    "Add": _row("add"),
    "And": _row("logical_and"),
    "Cast": _row("cast", "data", "dtype:to"),
    "Ceil": _row("ceil"),
    "Clip": _row("clip", "data low high", since=11),  # before that of floats, with attributes
    "Concat": _row("concat", "", "axis"),
    "ConstantOfShape": _row("fill", "shape", "value"),
    "CumSum": _row("cumsum", "data axis"),
    "Div": _row("div"),
    "Equal": _row("equal"),
    "Expand": _row("expand", "data shape"),
    "Flatten": _row("flatten", "data", "axis"),
    "Floor": _row("floor"),
    "Gather": _row("gather", "data indices", "axis", from_end=True),
    "GatherND": _row("gather_nd", "data indices", "batch_dims"),
    "Greater": _row("greater"),
    "GreaterOrEqual": _row("greater_equal"),
    "Identity": _row("identity"),
    "Less": _row("less"),
    "LessOrEqual": _row("less_equal"),
    "Max": _row("maximum"),
    "Min": _row("minimum"),
    "Mod": _row("mod", "a b", "fmod"),
    "Mul": _row("mul"),
    "Neg": _row("neg"),
    "NonZero": _row("nonzero"),
    "Not": _row("logical_not"),
    "Or": _row("logical_or"),
    "Pad": _row("pad", "data widths value axes", "widths:pads", "value"),
    "Pow": _row("pow"),
    "Range": _row("range", "start limit delta"),
    "ReduceMax": _reduction("reduce_max"),
    "ReduceMean": _reduction("reduce_mean"),
    "ReduceMin": _reduction("reduce_min"),
    "ReduceProd": _reduction("reduce_prod"),
    "ReduceSum": _reduction("reduce_sum"),
    "Reshape": _row("reshape", "data shape", "allow_zero:allowzero", allow_zero=0),
    "Round": _row("round"),
    "ScatterND": _row("scatter_nd", "data indices updates"),
    "Shape": _row("shape", "shape", "start", "end"),
    "Sign": _row("sign"),
    "Size": _row("size", "shape"),
    "Slice": _row("cut", "data starts ends axes steps", "starts", "ends", "axes", "steps"),
    "Split": _row("split", "data sizes", "axis", "sizes:split", "count:num_outputs"),
    "Sqrt": _row("sqrt"),
    "Squeeze": _row("squeeze", "data axes", "axes"),
    "Sub": _row("sub"),
    "Sum": _row("add"),
    "Tile": _row("tile", "data times"),
    "Transpose": _row("transpose", "data", "perm"),
    "Unsqueeze": _row("expand_dims", "data axes", "axes"),
    "Where": _row("where"),
    "Xor": _row("logical_xor"),
}
