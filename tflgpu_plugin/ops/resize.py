"""`resize_bilinear(x, size i32[2] constant): align_corners, half_pixel_centers` and
`resize_nearest` as in TFLite, and `resize(x [B, ..., C], size constant)` of one to three spatial
axes, as the ONNX operator Resize, with attributes

* `mode`: nearest, linear, cubic
* `coordinates`: half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric,
  tf_half_pixel_for_nn, tf_crop_and_resize (default half_pixel)
* `nearest`: round_prefer_floor (default), round_prefer_ceil, floor, ceil
* `scales`: output over input extent of each axis (default: from the extents)
* `roi`: (start, end) of each axis in order, for tf_crop_and_resize; `extrapolation`
* `cubic_a` (default -0.75), `exclude_outside`, `antialias` (of axes that shrink, by `scales`)

`interpolation` computes which input elements each pixel reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Shape, Target, Tensor, quantization
from tflgpu_plugin.ir.symbolic import i32, in_range, integer, is_symbolic, larger
from tflgpu_plugin.ops import interpolation, movement, rounding
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.lowering import WORKGROUP, Access, Constant, Kernel, Lowering
from tflgpu_plugin.ops.table import MOVED, Op
from tflgpu_plugin.ops.views import View, taken
from tflgpu_plugin.ops.window import slices_per_thread

MAX_EXTENT = 1 << 24  # up to which integers are exact in float32
TEN_BITS = ("i8", "i16")  # types whose coordinates have 10 fractional bits
MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"),
    *("asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"),
)
# Coordinate rules that a kernel computes for images of fixed sizes, too; others are in tables then.
QUICK = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one to three axes between batch and channels, and constant extents for them; not
    both align_corners and half_pixel_centers; for integers only the mode nearest."""
    shape, size = graph.shape(node.operand()), graph.constant(node.inputs[1])
    if len(shape) not in (3, 4, 5):
        said = f"Resizing needs an input of rank 3 to 5, this one has rank {len(shape)}."
        return Refusal("rank.unsupported", said)
    if prod(shape) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} has no elements.")
    if size is None:
        return Refusal("constant.required", "The size to resize to must be constant.")
    if size.size != len(shape) - 2 or not in_range(size, 1):
        return Refusal(
            "constant.invalid", f"The size to resize to must be {len(shape) - 2} positive numbers."
        )
    if node.attributes.get("align_corners") and node.attributes.get("half_pixel_centers"):
        return Refusal(
            "attribute.invalid", "align_corners and half_pixel_centers exclude each other."
        )
    counts = {"scales": size.size, "roi": 2 * size.size}
    wrong = [name for name in counts if len(node.attributes.get(name, ())) != counts[name]]
    if any(name in node.attributes or (_is_cropped(node) and name == "roi") for name in wrong):
        said = f"Resizing takes {size.size} scales here, and {2 * size.size} numbers for roi."
        return Refusal("attribute.invalid", said)
    whole = quantization.is_integer(graph.tensors[node.operand()])
    if whole and not _copies(node):
        said = "Integers are resized with the mode nearest only, and within the input."
        return Refusal("attribute.unsupported", said)
    most = MAX_EXTENT
    if node.op == "resize_bilinear" and graph.tensors[node.operand()].dtype in TEN_BITS:
        most >>= 4
    if any(extent > most for extent in shape):
        return Refusal("shape.too_large", f"Resizing takes extents up to {most:,}.")
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the output's shape, [B, size..., C]."""
    shape = graph.shape(node.operand())
    return [(shape[0], *_size(graph, node), shape[-1])]


class Resize(NamedTuple):
    """A node of the op `resize`."""

    low: Lowering
    node: Node

    @property
    def mode(self) -> str:
        return str(self.node.attributes.get("mode", "nearest"))

    @property
    def rule(self) -> str:
        return str(self.node.attributes.get("coordinates", "half_pixel"))

    @property
    def nearest(self) -> str:
        """Returns the rounding to one pixel; empty for other modes."""
        how = str(self.node.attributes.get("nearest", ROUNDINGS[0]))
        return how if self.mode == "nearest" else ""

    @property
    def of_image(self) -> bool:
        """Whether the result lies between four pixels, or is one of them."""
        smooth, axes = self.node.attributes.get("antialias"), _axes(self.low.graph, self.node)
        return len(axes) == 2 and self.mode != "cubic" and not smooth and not _is_cropped(self.node)

    @property
    def computed(self) -> bool:
        return _is_computed(self.low.graph, self.node)


# A table takes fewer operations per element, but belongs to one size.
FORMS = Forms(
    Resize,
    (
        Form("resize_image", lambda r: r.of_image, lambda r: _lower_image(r),
             lambda r: r.computed or (r.mode == "linear" and r.rule in QUICK)),
        Form("resize_places", always, lambda r: _places(r), lambda r: r.computed),
        Form("resize_table", always, lambda r: _taps(r)),
    ),
)  # fmt: skip


def lower(low: Lowering, node: Node) -> None:
    """Records one launch of TFLite's interpolation between four neighbours per pixel."""
    given = low.graph.tensors[node.operand()]
    kinds = {"align_corners": "step_corners", "half_pixel_centers": "step_centers"}
    rule = next((kind for name, kind in kinds.items() if node.attributes[name]), "step")
    whole = given if _keeps_levels(low.graph, node) else None
    _between(low, node, "ten_bits" if given.dtype in TEN_BITS else rule, stored=whole)


def _keeps_levels(graph: Graph, node: Node) -> bool:
    """Whether results are numbers of the input's levels, before any further step is fused: hosts
    interpolate the stored numbers then."""
    given, result = (graph.tensors[t] for t in (node.operand(), node.outputs[0]))
    if not quantization.quantized(given) or quantization.alike(given, result):
        return quantization.quantized(given)
    first = node.epilogue[:1]
    scale, _ = quantization.parameters(given)
    return any(step.op == "fake_quant" and step.parameters[0] == scale for step in first)


def _lower_image(r: Resize) -> None:
    _between(r.low, r.node, r.rule, r.node.attributes.get("scales"), nearest=r.nearest)


def _is_computed(graph: Graph, node: Node) -> bool:
    """Whether a kernel computes places and weights because a table of them would hold for few
    extents."""
    return is_symbolic(chain(*_axes(graph, node)))


def lower_nearest(low: Lowering, node: Node) -> None:
    """Records a launch that copies elements, or one that computes which."""
    if not _is_computed(low.graph, node):
        movement.lower(low, node)
    elif node.attributes["align_corners"]:
        _between(low, node, "step_corners", nearest="half_up")
    else:
        rule = "step_middle" if node.attributes["half_pixel_centers"] else "step"
        _between(low, node, rule, nearest="floor")


def _axes(graph: Graph, node: Node) -> list[tuple[int, int]]:
    """Returns the extents of the input and of the result, of each axis that is resized."""
    return [*zip(graph.shape(node.operand())[1:-1], _size(graph, node), strict=True)]


def _tables(graph: Graph, node: Node) -> list[Array]:
    """Returns the table of each axis."""
    axes = enumerate(_axes(graph, node))
    return [interpolation.resized(*axis, k, node.attributes) for k, axis in axes]


def _table(low: Lowering, node: Node, table: Array) -> Constant:
    vectors, key = table.size // 4, ("table", table.tobytes())
    return low.constant(node.operand(1), *key, vectors=vectors, pack=lambda _: table)


def _between(
    low: Lowering, node: Node, rule: str, scales: Sequence[float] | None = None,
    stored: Tensor | None = None, nearest: str = "",
) -> None:  # fmt: skip
    """Records the launch that interpolates each pixel between four neighbours or, with `nearest`,
    takes the one that this rounding selects. `rule` names the coordinate mode; `stored` is a
    tensor whose stored numbers hosts interpolate."""
    (height, out_height), (width, out_width) = _axes(low.graph, node)
    out = low.geometry(node.outputs[0])
    chunk = slices_per_thread(low.target, out)
    parameters: dict[str, object] = {
        "batch": out.batch, "slices": out.slices, "chunk": chunk, "spatial": out.spatial,
        "height": height, "width": width, "out_height": out_height, "out_width": out_width,
    }  # fmt: skip
    if rule == "ten_bits":
        parameters |= _steps(low, node)
    if scales is not None:
        parameters |= {"row_scale": float(scales[0]), "column_scale": float(scales[1])}
    if stored:
        scale, zero = quantization.parameters(stored)
        parameters |= {"scale": scale, "zero": zero}
    low.dispatch(
        Kernel(
            "resize",
            parameters,
            {
                "rule": rule,
                "scaled": scales is not None,
                "whole": stored.dtype if stored else "",
                "nearest": nearest,
            },
        ),
        node,
        {"x": node.operand()},
        {"out": node.outputs[0]},
        (-(-out.spatial // WORKGROUP), -(-out.slices // chunk), out.batch),
    )


def _steps(low: Lowering, node: Node) -> dict[str, object]:
    rule = [bool(node.attributes[name]) for name in ("align_corners", "half_pixel_centers")]
    found: dict[str, object] = {}
    for name, axis in zip(("row", "column"), _axes(low.graph, node), strict=True):
        step, start = interpolation.ten_bits(*axis, *rule)
        found |= {f"{name}_step": step, f"{name}_start": i32(start)}
    return found


def _taps(r: Resize) -> None:
    """Records the launch that sums any number of taps, (input index, weight) of each, axis by
    axis."""
    low, node = r.low, r.node
    extents, tables = low.graph.shape(node.operand())[1:-1], _tables(low.graph, node)
    one: Array = np.array([[[0, 1]]], np.float32)
    depth, rows, columns = (*[one] * (3 - len(tables)), *tables)
    whole = np.concatenate([t.reshape(-1, 2) for t in (depth, rows, columns)])
    padded = np.pad(whole, ((0, len(whole) % 2), (0, 0)))
    full = (1,) * (3 - len(extents)) + extents
    table = _table(low, node, padded)
    deep, high, wide = (part.shape[1] for part in (depth, rows, columns))
    low.loops(node, deep * (2 + high * (2 + wide)) + 1)
    low.each_vector(
        Kernel(
            "resample",
            {
                "out_width": len(columns),
                "out_height": len(rows),
                "depth": full[0],
                "height": full[1],
                "width": full[2],
                "taps_d": depth.shape[1],
                "taps_h": rows.shape[1],
                "taps_w": columns.shape[1],
                "rows_at": depth.shape[0] * depth.shape[1],
                "columns_at": depth.shape[0] * depth.shape[1] + rows.shape[0] * rows.shape[1],
                "outside": float(node.attributes.get("extrapolation", 0.0)),
            },
        ),
        node,
        {"x": node.operand(), "table": Access(table, 2)},
    )


def _places(r: Resize) -> None:
    """Records the launch that computes the taps of each element and sums them."""
    low, node, rule, mode = r.low, r.node, r.rule, r.mode
    axes, attributes = _axes(low.graph, node), node.attributes
    missing = 3 - len(axes)
    counts = [1] * missing + _tap_counts(low.graph, node)
    low.loops(node, counts[0] * (2 + counts[1] * (2 + counts[2])) + 1)
    scales, smooth = attributes.get("scales"), bool(attributes.get("antialias"))
    given, made = ([1] * missing + [axis[k] for axis in axes] for k in range(2))
    numbers: dict[str, Sequence[object]] = {"taps_": counts}
    if scales is not None:
        found = [1.0] * missing + [float(scale) for scale in scales]
        numbers["scale_"] = found
        numbers |= {"wide_": [max(1 / scale, 1.0) for scale in found]} if smooth else {}
    if rule == "tf_crop_and_resize":
        roi = [0.0, 1.0] * missing + [float(end) for end in attributes["roi"]]
        numbers |= {"start_": roi[::2], "end_": roi[1::2]}
    parameters: dict[str, object] = {
        **dict(zip(("depth", "height", "width"), given, strict=True)),
        **dict(zip(("out_depth", "out_height", "out_width"), made, strict=True)),
        **{name + axis: of[k] for name, of in numbers.items() for k, axis in enumerate("dhw")},
        "cubic_a": float(attributes.get("cubic_a", -0.75)),
        "outside": float(attributes.get("extrapolation", 0.0)),
    }
    variant = {
        "rule": rule, "scaled": scales is not None, "nearest": r.nearest, "mode": mode,
        "axes": len(axes), "smooth": smooth,
        "excluded": bool(attributes.get("exclude_outside")) and (smooth or mode == "cubic"),
    }  # fmt: skip
    low.each_vector(Kernel("resample_places", parameters, variant), node, {"x": node.operand()})


def _tap_counts(graph: Graph, node: Node) -> list[int]:
    """Returns how many taps a kernel sums along each axis, at most."""
    mode, scales = node.attributes.get("mode", "nearest"), node.attributes.get("scales")
    reach = {"nearest": 0, "linear": 1, "cubic": 2}[mode]
    if mode == "nearest" or not node.attributes.get("antialias"):
        return [max(2 * reach, 1)] * len(_axes(graph, node))
    if scales is not None:
        return [2 + ceil(2 * reach * max(1 / float(scale), 1.0)) for scale in scales]
    axes = _axes(graph, node)
    return [1 + larger(-(-2 * reach * extent // made), 2 * reach) for extent, made in axes]


def _size(graph: Graph, node: Node) -> tuple[int, ...]:
    size = graph.constant(node.inputs[1])
    assert size is not None
    return tuple(integer(extent) for extent in size.reshape(-1))


def _work(graph: Graph, node: Node) -> int:
    mode = node.attributes.get("mode", "nearest" if node.op == "resize" else "linear")
    if node.attributes.get("antialias"):
        return prod(_tap_counts(graph, node)) * prod(shapes(graph, node)[0])
    return {"nearest": 1, "linear": 4, "cubic": 16}[mode] * prod(shapes(graph, node)[0])


def nearest(graph: Graph, node: Node) -> list[View]:
    """Returns the view that selects the rows and columns of the nearest pixels. Raises ValueError
    where a kernel computes them."""
    if _is_computed(graph, node):
        raise ValueError("the nearest pixels depend on symbolic extents")
    shape, size = graph.shape(node.operand()), _size(graph, node)
    axes = range(1, len(shape) - 1)
    rule = [bool(node.attributes[name]) for name in ("align_corners", "half_pixel_centers")]
    return [taken(shape, {k: interpolation.nearest(shape[k], size[k - 1], *rule) for k in axes})]


def _is_cropped(node: Node) -> bool:
    return bool(node.attributes.get("coordinates") == "tf_crop_and_resize")


def _copies(node: Node) -> bool:
    """Whether every result is an element of the input, because nothing is interpolated."""
    return node.attributes.get("mode", "nearest") == "nearest" and not _is_cropped(node)


def decompose_integers(steps: Decomposition, node: Node) -> bool:
    """Replaces a resize of integers by a view, since its results are elements of the input."""
    if not quantization.is_integer(steps.editor.tensors[node.operand()]):
        return False
    if _is_computed(steps.graph, node):
        return False
    shape, tables = steps.shape(node.operand()), _tables(steps.graph, node)
    view = taken(shape, {k: table[:, 0, 0].astype(int) for k, table in enumerate(tables, 1)})
    steps.last("view", node.operand(), view=view)
    return True


ATTRIBUTES = {
    **dict.fromkeys(("resize_bilinear", "resize_nearest"), "align_corners! half_pixel_centers!"),
    "resize": "antialias coordinates=" + "|".join(COORDINATES) + " cubic_a exclude_outside "
    f"extrapolation mode={'|'.join(MODES)} nearest={'|'.join(ROUNDINGS)} roi[2n] scales[n]",
}
OPS = (
    # Hosts interpolate uint8 in float32, where rounding errors decide ties.
    Op("resize_bilinear", refuse, shapes, lower, "accumulate", work=_work, kind="window",
       fuses=True, accumulates=False, errors=MOVED, same_quantization=True,
       operands="xx", rounding=rounding.INTERPOLATION),
    Op("resize_nearest", refuse, shapes, lower_nearest, "exact", types=("f32", "i32"),
       kind="movement", keeps="first", fuses=True, views=nearest, operands="xx",
       errors=MOVED),
    Op("resize", refuse, shapes, FORMS, "accumulate", types=("f32", "i32"), work=_work,
       kind="window", fuses=True, accumulates=False, operands="xx",
       decompose=decompose_integers, errors=MOVED),
)  # fmt: skip
