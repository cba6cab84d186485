"""Tests operators over parts of images in ONNX: combined (Col2Im), sampled at run-time positions
(DeformConv, RoiAlign, AffineGrid, GridSample of volumes) or everywhere (Resize with antialiasing);
also determinants and selected elements. Results equal the CPU's; and the conditions of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, assert_same, model, node, places
from tests.support.onnx_nodes import Node, rows

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def random(*shape: int, reach: float = 1.0) -> Array:
    return np.random.default_rng(shape).uniform(-reach, reach, shape).astype(np.float32)


def check(op: str, fed: Mapping[str, Array], held: Mapping[str, Any], opset: int,
          reads: Sequence[str] = (), **attributes: Any) -> None:  # fmt: skip
    """Asserts that the model is entirely on the GPU, with the CPU's result."""
    one = node(op, [*(reads or (*fed, *held))], ["y"], **attributes)
    kinds = {name: array.dtype for name, array in fed.items()}
    shapes = {name: array.shape for name, array in fed.items()}
    data = model([one], shapes, {"y": None}, held, opset, kinds)
    assert set(places(assert_same(data, fed)).values()) == {"gpu"}


# Image, block, strides, dilations, pads.
COLUMNS: dict[str, tuple[Sequence[int], ...]] = {
    "side_by_side": ((4, 6), (2, 3), (2, 3), (1, 1), (0, 0, 0, 0)),
    "over_each_other": ((5, 7), (3, 2), (1, 1), (1, 1), (0, 0, 0, 0)),
    "padded": ((5, 6), (3, 3), (1, 2), (1, 1), (1, 0, 2, 1)),
    "dilated": ((7, 8), (2, 3), (1, 1), (3, 2), (0, 1, 0, 1)),
    "gaps": ((9, 8), (2, 2), (3, 4), (1, 1), (0, 0, 0, 0)),
    "one_axis": ((9,), (3,), (2,), (1,), (1, 1)),
    "volume": ((3, 4, 5), (2, 3, 2), (1, 1, 2), (1, 1, 1), (0, 1, 0, 0, 1, 1)),
}


@pytest.mark.adapter
@pytest.mark.parametrize("name", COLUMNS)
def test_col2im(name: str) -> None:
    image, block, strides, dilations, pads = COLUMNS[name]
    count = len(image)
    spans = [(image[k] + pads[k] + pads[k + count] - dilations[k] * (block[k] - 1) - 1)
             // strides[k] + 1 for k in range(count)]  # fmt: skip
    x = random(2, 3 * int(np.prod(block)), int(np.prod(spans)))
    held = {"image": np.array(image), "block": np.array(block)}
    given: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads}
    check("Col2Im", {"x": x}, held, 18, **given)


@pytest.mark.adapter
@pytest.mark.parametrize(("groups", "shifted"), [(1, 1), (2, 1), (1, 3), (2, 3), (6, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(groups: int, shifted: int, masked: bool) -> None:
    x, kernel, made = random(2, 6, 7, 8), (2, 3), (7, 4)
    fed = {"x": x, "o": random(2, shifted * 12, *made, reach=3.0)}
    if masked:
        fed["m"] = random(2, shifted * 6, *made)
    held = {"w": random(12, 6 // groups, *kernel), "b": random(12)}
    check(
        "DeformConv",
        fed,
        held,
        19,
        ("x", "w", "o", "b", *("m" * masked)),
        group=groups,
        offset_group=shifted,
        strides=[1, 2],
        pads=[1, 2, 0, 1],
        dilations=[1, 2],
    )


@pytest.mark.adapter
def test_deform_conv_of_a_computed_filter() -> None:
    fed = {"x": random(1, 4, 5, 5), "w": random(4, 2, 2, 2), "o": random(1, 8, 4, 4)}
    check("DeformConv", fed, {}, 22, group=2)


REGIONS = np.array(
    [[1.1, 0.7, 5.3, 4.9], [-2.6, -1.7, 3.2, 2.8], [2.3, 1.2, 11.4, 9.7], [4.4, 3.6, 1.3, 0.8],
     [-7.2, -6.1, 21.7, 19.3], [0.0, 0.0, 6.0, 4.0]], np.float32)  # fmt: skip
NUMBERS = np.array([0, 1, 0, 1, 1, 0])


@pytest.mark.adapter
@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 2])
def test_roi_align(opset: int, mode: str, samples: int) -> None:
    fed = {"x": random(2, 5, 6, 7), "rois": REGIONS, "numbers": NUMBERS}
    check(
        "RoiAlign",
        fed,
        {},
        opset,
        mode=mode,
        sampling_ratio=samples,
        output_height=3,
        output_width=2,
        spatial_scale=0.75,
    )


@pytest.mark.adapter
def test_roi_align_on_the_edge_of_what_counts() -> None:
    """Samples are exactly 1 outside: (-8 + 14 * 1.5 / 3) is -1 in this order of operations."""
    rois = np.array([[-4, 1, 31, 16], [-8, -8, 20, 20], [13, 11, 27, 23]], np.float32)
    fed = {"x": random(1, 3, 19, 21), "rois": rois, "numbers": np.zeros(3, np.int64)}
    more = {"sampling_ratio": 3, "output_height": 5, "output_width": 5, "spatial_scale": 2.0}
    check("RoiAlign", fed, {}, 10, mode="max", **more)
    check("RoiAlign", fed, {}, 10, mode="avg", **more)


@pytest.mark.adapter
def test_roi_align_by_default() -> None:
    check("RoiAlign", {"x": random(2, 5, 6, 7), "rois": REGIONS, "numbers": NUMBERS}, {}, 16)
    more = {"coordinate_transformation_mode": "output_half_pixel"}
    check(
        "RoiAlign", {"x": random(2, 5, 6, 7), "rois": REGIONS, "numbers": NUMBERS}, {}, 16, **more
    )


@pytest.mark.adapter
@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_max_roi_pool(scale: float) -> None:
    rois = np.concatenate([NUMBERS[:, None], REGIONS], 1).astype(np.float32)
    check(
        "MaxRoiPool",
        {"x": random(2, 5, 31, 37), "rois": rois},
        {},
        20,
        pooled_shape=[3, 2],
        spatial_scale=scale,
    )
    spans = [[0, 0, 0, k + 9, k] for k in range(6, 27)]
    fed = {"x": random(1, 3, 31, 37), "rois": np.array(spans, np.float32)}
    check("MaxRoiPool", fed, {}, 20, pooled_shape=[7, 7])


@pytest.mark.adapter
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_grid_sample_of_volumes(mode: str, outside: str, aligned: int) -> None:
    fed = {"x": random(2, 3, 4, 5, 6), "grid": random(2, 3, 4, 2, 3, reach=1.5)}
    check("GridSample", fed, {}, 20, mode=mode, padding_mode=outside, align_corners=aligned)


@pytest.mark.adapter
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 7), (3, 1, 2, 4, 5)])
def test_affine_grid(size: Sequence[int], aligned: int) -> None:
    theta = random(size[0], len(size) - 2, len(size) - 1)
    check("AffineGrid", {"t": theta}, {"size": np.array(size)}, 20, align_corners=aligned)


@pytest.mark.adapter
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("alone", [0, 1])
@pytest.mark.parametrize(
    "rule", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
)
@pytest.mark.parametrize("scales", [(0.6, 0.45), (1.0, 0.3), (0.25, 1.0)])
def test_resize_smoothly(mode: str, alone: int, rule: str, scales: tuple[float, float]) -> None:
    held = {"scales": np.array([1, 1, *scales], np.float32)}
    check(
        "Resize",
        {"x": random(1, 3, 13, 17)},
        held,
        19,
        ("x", "", "scales"),
        mode=mode,
        antialias=1,
        exclude_outside=alone,
        coordinate_transformation_mode=rule,
    )


@pytest.mark.adapter
def test_resize_smoothly_to_sizes() -> None:
    held = {"sizes": np.array([4, 5])}
    check(
        "Resize",
        {"x": random(2, 3, 13, 17)},
        held,
        19,
        ("x", "", "", "sizes"),
        mode="cubic",
        antialias=1,
        axes=[2, 3],
        cubic_coeff_a=-0.5,
    )


@pytest.mark.adapter
@pytest.mark.parametrize("size", range(1, 5))
def test_det(size: int) -> None:
    check("Det", {"x": random(2, 3, size, size)}, {}, 22)
    check("Det", {"x": random(size, size)}, {}, 11)


@pytest.mark.adapter
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(axis: int | None) -> None:
    held = {"c": np.array([True, False, False, True])}
    more = {} if axis is None else {"axis": axis}
    check("Compress", {"x": random(4, 5, 6)}, held, 11, **more)


def col2im(shape: Any = (1, 8, 6), image: Any = (3, 4), block: Any = (2, 2), **given: Any) -> Node:
    return Node("Col2Im", shape, np.array(image), np.array(block), **given)


def deformed(x: Any = (1, 4, 5, 5), w: Any = (3, 4, 2, 2), o: Any = (1, 8, 4, 4), m: Any = None,
             **given: Any) -> Node:  # fmt: skip
    return Node("DeformConv", x, rows(*w), o, None, m, **given)


def affine(theta: Any = (2, 2, 3), size: Any = (2, 1, 3, 4), **given: Any) -> Node:
    return Node("AffineGrid", theta, np.array(size), **given)


def regions(x: Any = (1, 4, 5, 5), r: Any = (3, 4), n: Any = ("i64", (3,)), **given: Any) -> Node:
    return Node("RoiAlign", x, r, n, **given)


def smooth(*scales: float, shape: Any = (1, 3, 4, 6), **given: Any) -> Node:
    more = {"mode": b"linear", "antialias": 1, **given}
    return Node("Resize", shape, None, np.array(scales, np.float32), **more)


FIT, OFFSETS, SMOOTH = "shape.unsupported", "shape.mismatch", "attribute.unsupported"
BOUNDS: list[tuple[Node, str]] = [
    (col2im(), ""),
    (col2im((8, 6)), FIT),
    (col2im((1, 7, 6)), FIT),
    (col2im((1, 0, 6)), FIT),
    (col2im((0, 8, 6)), FIT),
    (col2im((1, 8, 5)), FIT),
    (col2im(block=(2,)), FIT),
    (col2im(block=(2, 0)), FIT),
    (col2im(image=(3, 0)), FIT),
    (col2im(image=(1, 4), pads=(1, 0, 1, 0)), ""),
    (col2im(image=(1, 4)), FIT),
    (col2im(pads=(0, 0, 0)), FIT),
    (col2im(pads=(0, 0, 0, -1)), FIT),
    (col2im(strides=(1,)), FIT),
    (col2im(strides=(1, 0)), FIT),
    (col2im(dilations=(0, 1)), FIT),
    (col2im((1, 8, 1), dilations=(2, 3)), ""),
    (col2im((1, 2, 4), (5,), (2,)), ""),
    (col2im((1, 2, 3), (5,), (2,), dilations=(2,)), "host.ambiguous"),
    (col2im((1, 1, 1 << 22), (1, 1 << 22), (1, 1)), ""),
    (col2im((1, 1, (1 << 22) + 1), (1, (1 << 22) + 1), (1, 1)), FIT),
    (deformed(), ""),
    (deformed(o=(1, 8, 4, 5)), OFFSETS),
    (deformed(o=(1, 9, 4, 4)), OFFSETS),
    (deformed(m=(1, 4, 4, 4)), ""),
    (deformed(m=(1, 8, 4, 4)), OFFSETS),
    (deformed(o=(1, 16, 4, 4), offset_group=2), ""),
    (deformed(o=(1, 24, 4, 4), offset_group=3), OFFSETS),
    (deformed(offset_group=0), OFFSETS),
    (deformed(w=(3, 2, 2, 2), group=2), "shape.mismatch"),
    (deformed(w=(4, 2, 2, 2), group=2), ""),
    (deformed(w=(3, 4, 6, 2)), "shape.window_too_large"),
    (deformed(strides=(1,)), "attribute.invalid"),
    (deformed((1, 4, 5), (3, 4, 2), (1, 4, 4)), "rank.unsupported"),
    (regions(), ""),
    (regions((1, 4, 5)), "rank.unsupported"),
    (affine(), ""),
    (affine((2, 3, 4), (2, 1, 3, 4, 5)), ""),
    (affine(size=(2, 1, 1, 7)), ""),
    (affine(size=(2, 1, 2, 7), align_corners=1), ""),
    (affine(size=(2, 1, 1, 7), align_corners=1), "host.ambiguous"),
    (affine(size=(2, 9, 1024, 1024)), ""),
    (affine(size=(2, 1, 1024, 1025)), "shape.unsupported"),
    (affine((2, 3, 4)), "shape.unsupported"),
    (affine((1, 2, 3)), "shape.unsupported"),
    (affine(size=(2, 1, 0, 4)), "shape.unsupported"),
    (affine((2, 1, 2), (2, 1, 4)), "shape.unsupported"),
    (Node("MaxRoiPool", (1, 4, 5, 5), (3, 5), pooled_shape=(2, 2)), ""),
    (Node("MaxRoiPool", (1, 4, 5, 5), (3, 5), pooled_shape=(2,)), "rank.unsupported"),
    (Node("MaxRoiPool", (1, 4, 5), (3, 5), pooled_shape=(2, 2)), "rank.unsupported"),
    (Node("GridSample", (1, 2, 3, 4, 5), (1, 2, 2, 2, 3), mode=b"cubic"), "rank.unsupported"),
    (Node("GridSample", (1, 2, 3, 4, 5), (1, 2, 2, 2, 3), mode=b"nearest"), ""),
    (Node("GridSample", (1, 2, 3), (1, 2, 1)), "rank.unsupported"),
    (smooth(1, 1, 0.5, 0.5), ""),
    (smooth(1, 1, 1, 0.5), ""),
    (smooth(1, 1, 1.5, 0.5), SMOOTH),
    (smooth(1, 0.5, 1, 0.5), SMOOTH),
    (smooth(1, 1, 0.5, shape=(1, 3, 6)), SMOOTH),
    (smooth(1, 1, 0.5, 0.5, mode=b"nearest"), SMOOTH),
    (Node("Det", (3, 3)), ""),
    (Node("Det", (2, 4, 4)), ""),
    (Node("Det", (2, 5, 5)), "shape.unsupported"),
    (Node("Det", (2, 0, 0)), "shape.unsupported"),
    (Node("Det", (2, 3)), "shape.unsupported"),
    (Node("Det", (3,)), "shape.unsupported"),
    (Node("Compress", (3, 4), np.array([True, False])), ""),
    (Node("Compress", (3, 4), np.array([False, False])), "constant.invalid"),
    (Node("Compress", (3, 4), np.arange(4) > 1, axis=0), "constant.invalid"),
    (Node("Compress", (3, 4), np.arange(4) > 1, axis=-1), ""),
]


@pytest.mark.parametrize(("one", "wanted"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(one: Node, wanted: str) -> None:
    assert one.code == wanted, one.reason
