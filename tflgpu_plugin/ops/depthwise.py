"""Depthwise convolution: x [B, H, W, C], weights [1, KH, KW, O] -> [B, OH, OW, O].

Output channel o reads input channel o / multiplier, multiplier = O / C."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.kernels import variants
from tflgpu_plugin.ops import byte_products, depthwise_bytes, rounding, wide_total, window
from tflgpu_plugin.ops.blocks import operands, refuse_epilogue, shapes, windows, work
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.lowering import EPILOGUE, Access, Kernel, Lowering, Source
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import passes_weights
from tflgpu_plugin.ops.window import Span

MAX_SPANNED = 7  # taps of a row in the span form
AT_ONCE = 2  # output rows that a GPU thread loads at once; 3 would leave GCN fewer waves


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 4 dimensions; the same number of filters for each channel; a window that fits; no
    fused tanh."""
    x, weights = operands(graph, node)
    if len(x) != 4 or len(weights) != 4:
        said = "A depthwise convolution needs an input and weights of 4 dimensions."
        return Refusal("rank.unsupported", said)
    if 0 in (prod(x), prod(weights)) or weights[0] != 1:
        said = f"Weights of shape {list(weights)} for an input of {list(x)} are not supported."
        return Refusal("shape.unsupported", said)
    multiplier = node.attributes.get("multiplier") or weights[3] // x[3]
    if weights[3] != x[3] * multiplier:
        said = f"{weights[3]} filters are not {multiplier} per input channel; there are {x[3]}."
        return Refusal("shape.mismatch", said)
    if refusal := refuse_epilogue(graph, node, weights[3]):
        return refusal
    return window.refuse_window(x, weights[1:3], node.attributes)


class Depthwise(NamedTuple):
    """A depthwise convolution: shapes of the input and the weights, and the window along rows and
    columns. `bytes`: it reads bytes."""

    low: Lowering
    node: Node
    x: Shape
    weights: Shape
    rows: Span
    columns: Span
    bytes: bool = False

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Depthwise:
        """Returns the convolution of this node."""
        (x, weights), (rows, columns) = operands(low.graph, node), windows(low.graph, node)
        return cls(low, node, x, weights, rows, columns)

    @property
    def multiplier(self) -> int:
        """Returns the number of filters per input channel."""
        return self.weights[3] // self.x[3]

    @property
    def walks(self) -> bool:
        """Whether outputs that are `dilation` apart may share loads."""
        rows, columns = self.rows, self.columns
        near = columns.dilation <= columns.positions and rows.dilation <= rows.positions
        return near and self.multiplier == 1

    @property
    def dots(self) -> bool:
        """Whether windows of 3x3 use integer dot products."""
        near = self.rows.dilation == self.columns.dilation == 1
        return self.bytes and near and depthwise_bytes.multiplies(self.low, self.node)

    def three(self, stride: int) -> bool:
        """Whether windows are 3x3 with this stride."""
        spans = self.rows, self.columns
        return self.walks and all(s.kernel == 3 and s.stride == stride for s in spans)


def _strided_rows(d: Depthwise) -> bool:
    return d.three(2) and d.rows.dilation == d.columns.dilation == 1


def _span_suits(d: Depthwise) -> bool:
    columns = d.columns
    strides = columns.stride == 1 or (columns.stride == 2 and columns.dilation == 1)
    return d.walks and strides and 2 <= columns.kernel <= MAX_SPANNED


def _span_pays(d: Depthwise) -> bool:
    """Whether the span form pays: it loads input per tap and column, and weights once if shared."""
    return d.columns.kernel <= (MAX_SPANNED if d.low.target.shuffles else 4)


def _spanned(d: Depthwise) -> int:
    """Returns the number of pixels per thread; fewer for subgroups of 64 lanes, whose registers
    allow few waves."""
    if d.columns.stride == 2:
        return 2
    return 3 if d.low.target.least_subgroup >= 64 else 4


def _lower_rows(d: Depthwise, form: str, pixels: int) -> None:
    """Records one launch whose threads compute `pixels` columns of one or more rows."""
    rows, columns = d.rows, d.columns
    dots = form != "span" and d.dots
    pixels = 1 if dots else pixels  # of two rows, which take NVIDIA 0.8 of the time of four
    groups = _groups(columns, pixels)
    parameters: dict[str, object] = {"out_h": rows.positions, "column_groups": groups}
    height = 0
    if form == "span":
        items = groups * rows.positions
    else:
        height = _height(d.low.target, form, rows, groups)
        items = groups * _groups(rows, height)
        parameters["rows"] = height
    parameters["items"] = items
    made = variants.Depthwise(form, height, pixels, width=columns.kernel, stride=columns.stride)
    _dispatch(d, items, parameters, made._replace(dots=dots))


def _lower_taps(d: Depthwise, form: str, pixels: int) -> None:
    """Records one launch in which each thread computes `pixels` pixels, which may lie in different
    rows."""
    count = d.rows.positions * d.columns.positions
    parameters: dict[str, object] = {"pixels": count}
    if form == "multiplied":
        slices = -(-d.x[3] // 4)
        parameters |= {"multiplier": d.multiplier, "channels": d.x[3], "x_slices": slices}
    _dispatch(d, -(-count // pixels), parameters, variants.Depthwise(form, 0, pixels))


def _dispatch(
    d: Depthwise, items: int, parameters: dict[str, object], variant: variants.Depthwise
) -> None:
    low, node, weights = d.low, d.node, d.weights
    x: Source = node.operand()
    w, stores = low.stored(node.operand(1)), EPILOGUE
    if d.bytes:
        x, w, node, stores, less = depthwise_bytes.taken(low, node, variant.dots)
        variant = variant._replace(words=True, shifted=bool(less))
        parameters = {**parameters, "shift": np.int32(less or 0)}
    low.loops(node, weights[1] * (2 + weights[2]) + 33)
    lanes, software, slices = _lanes(low.target), low.target.software, -(-weights[3] // 4)
    # Lanes that all compute one item have no weights to share, and sharing them there drops the
    # ninth tap on an NVIDIA H200 (driver 580.159.04) when values are stored as float16. Software
    # drivers share weights even so: fewer load sites compile sooner.
    shared = passes_weights(low.target) and (items > 1 or software) and not variant.dots
    view = 1 if variant.form == "multiplied" else 4
    height = 0 if software else variant.height
    low.dispatch(
        Kernel(
            "depthwise",
            {
                "batch": d.x[0],
                "slices": slices,
                **window.parameters((d.rows, d.columns)),
                **parameters,
            },
            variant._replace(height=height, lanes=lanes, shared=shared)._asdict(),
        ),
        node,
        {"x": Access(x, view=view), "w": w},
        {"y": node.outputs[0]},
        (-(-items // lanes), slices, d.x[0]),
        stores,
    )


def _lower_bytes(d: Depthwise) -> None:
    """Records the launch of the form that would be chosen for float32, which reads bytes."""
    form = Forms(Depthwise.of, _FLOATS).chosen(d, d.low, d.node)
    form.lower(d._replace(bytes=form != _MULTIPLIED))


_MULTIPLIED: Form[Depthwise] = Form(
    "depthwise_multiplied", always, lambda d: _lower_taps(d, "multiplied", 2)
)
_FLOATS: tuple[Form[Depthwise], ...] = (
    Form("depthwise_rows", lambda d: d.three(1), lambda d: _lower_rows(d, "rows", 2)),
    Form("depthwise_strided_rows", _strided_rows, lambda d: _lower_rows(d, "rows2", 1)),
    Form("depthwise_span", _span_suits, lambda d: _lower_rows(d, "span", _spanned(d)),
         _span_pays),
    Form("depthwise_taps", lambda d: d.multiplier == 1, lambda d: _lower_taps(d, "taps", 4)),
    _MULTIPLIED,
)  # fmt: skip
_BYTES: Form[Depthwise] = Form(
    byte_products.NAME,
    lambda d: d.multiplier == 1 and depthwise_bytes.suits(d.low, d.node),
    _lower_bytes,
    lambda d: False,
)
FORMS = Forms(Depthwise.of, (_BYTES, *_FLOATS))


@heuristic
def _height(target: Target, form: str, rows: Span, column_groups: int) -> int:
    """Returns the output rows per thread. More rows read fewer input rows per output row, but GPUs
    need more threads, each of which loads all its rows at once. On software adapters the busiest
    workgroup decides."""
    lanes, most = _lanes(target), -(-rows.positions // rows.dilation)
    if not target.software:
        return min(AT_ONCE, most)
    extra = 2 if form == "rows" else 1
    highest = min(most, 16)

    def cost(height: int) -> tuple[int, int]:
        items = column_groups * _groups(rows, height)
        return -(-items // lanes) * (height + extra), height

    return min(range(1, highest + 1), key=cost)


def _lanes(target: Target) -> int:
    return 8 if target.software else target.workgroup(32)


def _groups(along: Span, size: int) -> int:
    """Returns the number of groups of `size` output pixels whose pixels are `dilation` apart."""
    return along.dilation * -(-along.positions // (along.dilation * size))


ATTRIBUTES = "strides[2]! padding[4]!=same|valid dilations[2] activation multiplier"
OPS = (
    Op("depthwise_conv_2d", _refuse, shapes, FORMS, "accumulate", work=work, kind="product",
       operands="xx?", fuses=True, weights=Weights(axis=-1),
       int16=wide_total.layers(-1), padding=True, accumulates=False,
       rounding=rounding.LAYER),
)  # fmt: skip
