"""Depthwise convolution: x [B, H, W, C], weights [1, KH, KW, O] -> [B, OH, OW, O].

Output channel o reads input channel o / multiplier, multiplier = O / C.
"""

from __future__ import annotations

from math import ceil, prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ops import rounding, window
from tflgpu_plugin.ops.blocks import operands, refuse_epilogue, shapes, windows, work
from tflgpu_plugin.ops.lowering import Access, Lowering
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import passes_weights
from tflgpu_plugin.ops.window import Span

AT_ONCE = 2  # output rows whose input a thread of a GPU loads at once; a third costs GCN waves


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """4 dimensions; a whole number of filters per channel; a window that fits; no fused tanh."""
    x, weights = operands(graph, node)
    if len(x) != 4 or len(weights) != 4:
        said = "A depthwise convolution needs an input and weights of 4 dimensions."
        return Refusal("rank.unsupported", said)
    if min(prod(x), prod(weights)) < 1 or weights[0] != 1:
        said = f"Weights of shape {list(weights)} for an input of {list(x)} are not supported."
        return Refusal("shape.unsupported", said)
    multiplier = node.attributes.get("multiplier") or weights[3] // x[3]
    if weights[3] != x[3] * multiplier:
        said = f"{weights[3]} filters are not {multiplier} for each of {x[3]} input channels."
        return Refusal("shape.mismatch", said)
    if refusal := refuse_epilogue(graph, node, weights[3]):
        return refusal
    return window.refuse_window(x, weights[1:3], node.attributes)


def _lower(low: Lowering, node: Node) -> None:
    x, weights = operands(low.graph, node)
    rows, columns = windows(low.graph, node)
    form, pixels = _form(low.target, rows, columns)
    if weights[3] != x[3]:
        form, pixels = "multiplied", 2
    parameters: dict[str, object] = {
        "batch": x[0],
        "slices": -(-weights[3] // 4),
        **window.parameters((rows, columns)),
    }
    along_rows = form in ("rows", "rows2", "span")
    if along_rows:
        column_groups = _groups(columns, pixels)
        height = _height(low.target, form, rows, column_groups)
        items = column_groups * (rows.positions if form == "span" else _groups(rows, height))
        parameters |= {"out_h": rows.positions, "column_groups": column_groups, "items": items}
        parameters |= {} if form == "span" else {"rows": height}
    else:
        items = -(-rows.positions * columns.positions // pixels)
        parameters |= {"pixels": rows.positions * columns.positions}
    if form == "multiplied":
        multiplier = weights[3] // x[3]
        parameters |= {"multiplier": multiplier, "channels": x[3], "x_slices": -(-x[3] // 4)}
    low.loops(node, weights[1] * (2 + weights[2]) + 33)
    lanes, software = _lanes(low.target), low.target.software
    # Lanes that all compute one item have no weights to share, and an NVIDIA H200 (driver
    # 580.159.04) loses the ninth tap there when values are stored as float16. Software drivers
    # compile fewer load sites sooner.
    shared = passes_weights(low.target) and (items > 1 or software)
    low.dispatch(
        "depthwise",
        node,
        reads={
            "x": Access(node.operand(), view=1 if form == "multiplied" else 4),
            "w": low.stored(node.operand(1)),
        },
        writes={"y": node.outputs[0]},
        workgroups=(-(-items // lanes), -(-weights[3] // 4), x[0]),
        parameters=parameters,
        variant={
            "form": form,
            "height": 0 if software else parameters.get("rows", 0),
            "pixels": pixels,
            "lanes": lanes,
            "shared": shared,
            "width": columns.kernel if along_rows else 1,
            "stride": columns.stride if along_rows else 1,
        },
    )


def _form(target: Target, rows: Span, columns: Span) -> tuple[str, int]:
    """The kernel's form for a window, and pixels (columns in the row forms) per thread."""
    if columns.dilation > columns.positions or rows.dilation > rows.positions:
        return "taps", 4  # the other forms go along pixels that lie `dilation` apart
    if rows.kernel == columns.kernel == 3:
        if rows.stride == columns.stride == 1:
            return "rows", 2
        if rows.stride == columns.stride == 2 and rows.dilation == columns.dilation == 1:
            return "rows2", 1
    # The span form has a load per tap and column, one for all taps where weights are shared.
    if 2 <= columns.kernel <= (7 if target.shuffles else 4):
        if columns.stride == 1:
            return "span", 3 if target.least_subgroup >= 64 else 4  # whose SIMDs hold few waves
        if columns.stride == 2 and columns.dilation == 1:
            return "span", 2
    return "taps", 4


def _height(target: Target, form: str, rows: Span, column_groups: int) -> int:
    """Output rows per thread of the row forms: the higher, the fewer input rows are read per output
    row. GPUs need more threads instead, which load all of their rows at once; on software adapters
    so many that groups of threads are busiest.
    """
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
    """Groups of `size` output pixels that lie `dilation` apart."""
    return along.dilation * ceil(ceil(along.positions / along.dilation) / size)


ATTRIBUTES = "strides padding dilations activation multiplier"
OPS = (
    Op("depthwise_conv_2d", _refuse, shapes, _lower, "accumulate", work=work, kind="product",
       operands=3, fuses=True, weights=Weights(axis=-1), padding=True, accumulates=False,
       rounding=rounding.LAYER),
)  # fmt: skip
