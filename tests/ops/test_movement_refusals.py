"""Refusals of data movement: slices, repeats and blocks that do not fit, and the shapes of
those that do. No device is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ops.test_op_refusals import RUN, graph_of, said
from tests.support.net import Net
from tests.support.refused import code
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Shape, Target, Tensor
from tflgpu_plugin.ops import concat, rows
from tflgpu_plugin.ops.movement import Reading

IMAGE: Shape = (4, 6, 8, 3)
BEGIN, END, ONES = [0] * 4, [4, 6, 8, 3], [1] * 4


FITTING: list[tuple[str, tuple[Any, ...], dict[str, Any], Shape]] = [
    ("tile", ((2,) * 8, [2] * 6 + [1] * 2), {}, (4,) * 6 + (2,) * 2),
    ("strided_slice", (IMAGE, [0, 1], [4, 5], [2, 3]), {}, (2, 2, 8, 3)),
    ("strided_slice", (IMAGE, [3, -1], [0, -7], [-1, -2]), {}, (3, 3, 8, 3)),
    ("strided_slice", (IMAGE, [1, 5], [3, 2], [1, 1]), {"end_mask": 2}, (2, 1, 8, 3)),
    ("strided_slice", (IMAGE, [1, 5], [3, 2], [1, 1]), {"begin_mask": 2}, (2, 2, 8, 3)),
    ("strided_slice", (IMAGE, [1, 0], [3, 2], [1, -1]), {"begin_mask": 2}, (2, 3, 8, 3)),
    ("strided_slice", (IMAGE, [1, 3], [3, 2], [1, -1]), {"end_mask": 2}, (2, 4, 8, 3)),
    ("strided_slice", (IMAGE, [99], [0], [1]), {}, (0, 6, 8, 3)),
    ("strided_slice", (IMAGE, [-99], [99], [1]), {}, IMAGE),
    ("strided_slice", (IMAGE, [99], [-99], [-1]), {}, IMAGE),
    ("strided_slice", (IMAGE, [0], [4], [3]), {}, (2, 6, 8, 3)),
    ("strided_slice", (IMAGE, [0], [3], [3]), {}, (1, 6, 8, 3)),
    ("strided_slice", (IMAGE, [2], [3], [1 << 30]), {}, (1, 6, 8, 3)),
    ("strided_slice", (IMAGE, [1, 2], [2, 9], [1, 1]), {"shrink_axis_mask": 1}, (4, 8, 3)),
    ("strided_slice", (IMAGE, [-4, -6], [0, 0], [1, 1]), {"shrink_axis_mask": 3}, (8, 3)),
    ("strided_slice", (IMAGE, [3, 5], [0, 0], [1, 1]), {"shrink_axis_mask": 3}, (8, 3)),
    (
        "strided_slice",
        (IMAGE, [9], [0], [1]),
        {"shrink_axis_mask": 1, "begin_mask": 1},
        (6, 8, 3),
    ),
    ("strided_slice", (IMAGE, [0, 1], [0, 2], [1, 1]), {"new_axis_mask": 1}, (1, 1, 6, 8, 3)),
    ("strided_slice", (IMAGE, [0, 1], [0, 2], [1, 1]), {"ellipsis_mask": 1}, (4, 6, 8, 1)),
    ("strided_slice", (IMAGE, [1, 0], [2, 0], [1, 1]), {"ellipsis_mask": 2}, (1, 6, 8, 3)),
    ("strided_slice", (IMAGE, BEGIN, END, ONES), {"ellipsis_mask": 4}, IMAGE),
    (
        "strided_slice",
        (IMAGE, [0] * 5, [1] * 5, [1] * 5),
        {"ellipsis_mask": 2, "new_axis_mask": 4},
        (1, 6, 1, 1, 1),
    ),
    ("strided_slice", (IMAGE, [1], [3], [1]), {"offset": True}, (3, 6, 8, 3)),
    ("strided_slice", (IMAGE, [3], [-3], [-1]), {"offset": True}, (3, 6, 8, 3)),
    ("slice", (IMAGE, [1, 0, 7, 3], [3, -1, 1, 0]), {}, (3, 6, 1, 0)),
    ("reshape", ((1, 4, 1),), {"squeeze": (2,)}, (1, 4)),
    ("reshape", ((1, 4, 1),), {"squeeze": (-3,)}, (4, 1)),
    ("reshape", ((1, 4, 1),), {"squeeze": ()}, (4,)),
    ("tile", (IMAGE, [1, 2, 0, 3]), {}, (4, 12, 0, 9)),
    ("expand", ((6, 1, 3), [4, 1, 8, 1]), {}, (4, 6, 8, 3)),
    ("expand", ((6, 1, 3), [5, 1]), {}, (6, 5, 3)),
    ("gather", (IMAGE, [[1, 2], [0, 3]]), {"axis": 0}, (2, 2, 6, 8, 3)),
    ("gather", (IMAGE, RUN), {"axis": -2}, (4, 6, 1, 3)),
    ("depth_to_space", ((2, 3, 4, 8),), {"block": 2}, (2, 6, 8, 2)),
    ("depth_to_space", ((2, 3, 4, 8),), {"block": 2, "mode": "CRD"}, (2, 6, 8, 2)),
    ("depth_to_space", ((2, 3, 4, 7),), {"block": 1}, (2, 3, 4, 7)),
    ("space_to_depth", ((2, 6, 4, 3),), {"block": 2}, (2, 3, 2, 12)),
    ("space_to_batch", (IMAGE, [2, 4], [[1, 1], [0, 0]]), {}, (32, 4, 2, 3)),
    ("batch_to_space", (IMAGE, [2, 2], [[1, 2], [0, 3]]), {}, (1, 9, 13, 3)),
    ("pick", (IMAGE, Tensor("n", (5, 2), "i32")), {"axis": 1}, (4, 5, 3)),
    ("pick", (IMAGE, Tensor("n", (5, 2), "i32")), {"axis": 2}, (4, 6, 5)),
    ("gather_nd", (IMAGE, Tensor("n", (5, 7, 2), "i32")), {}, (5, 7, 8, 3)),
    ("gather_nd", (IMAGE, Tensor("n", (4, 7, 1), "i32")), {"batch": 1}, (4, 7, 8, 3)),
]


@pytest.mark.parametrize(("op", "given", "more", "shape"), FITTING)
def test_what_fits(op: str, given: tuple[Any, ...], more: dict[str, Any], shape: Shape) -> None:
    assert said(op, *given, **more) is None
    graph = graph_of(op, *given, **more)
    (found,) = rows()[op].shapes(graph, graph.nodes[0])
    assert tuple(found) == shape


MISFITS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("strided_slice", (IMAGE, RUN, [1], [1]), {}, "constant.required"),
    ("strided_slice", (IMAGE, [1], RUN, [1]), {}, "constant.required"),
    ("strided_slice", (IMAGE, [1], [1], RUN), {}, "constant.required"),
    ("strided_slice", (IMAGE, [1], [1, 2], [1]), {}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [1], [1], [1, 1]), {}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [1], [1], [0]), {}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [0] * 5, [1] * 5, [1] * 5), {}, "shape.mismatch"),
    (
        "strided_slice",
        (IMAGE, [0] * 5, [1] * 5, [1] * 5),
        {"ellipsis_mask": 1},
        "shape.mismatch",
    ),
    ("strided_slice", (IMAGE, [0] * 3, [1] * 3, ONES[:3]), {"ellipsis_mask": 5}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [0], [1], [1]), {"ellipsis_mask": 2}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [4], [5], [1]), {"shrink_axis_mask": 1}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [-5], [5], [1]), {"shrink_axis_mask": 1}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [1], [2], [-1]), {"shrink_axis_mask": 1}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [1], [2], [0]), {"shrink_axis_mask": 1}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [1], [4], [1]), {"offset": True}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [3], [-5], [-1]), {"offset": True}, "shape.mismatch"),
    ("strided_slice", (IMAGE, [1], [1], [1]), {"offset": True, "end_mask": 1}, "shape.mismatch"),
    ("slice", (IMAGE, RUN, [1]), {}, "constant.required"),
    ("slice", (IMAGE, [0], RUN), {}, "constant.required"),
    ("slice", (IMAGE, BEGIN, [1] * 3), {}, "shape.mismatch"),
    ("slice", (IMAGE, [0] * 3, [1] * 3), {}, "shape.mismatch"),
    ("slice", (IMAGE, [1, 0, 0, 0], [4, 1, 1, 1]), {}, "shape.mismatch"),
    ("slice", (IMAGE, [-1, 0, 0, 0], [1, 1, 1, 1]), {}, "shape.mismatch"),
    ("slice", (IMAGE, [3, 0, 0, 0], [-2, 1, 1, 1]), {}, "shape.mismatch"),
    ("slice", (IMAGE, [5, 0, 0, 0], [-1, 1, 1, 1]), {}, "shape.mismatch"),
    ("tile", (IMAGE, RUN), {}, "constant.required"),
    ("tile", (IMAGE, [1] * 3), {}, "shape.mismatch"),
    ("tile", ((2,) * 8, [1, *[2] * 6, 1]), {}, "rank.too_large"),
    ("expand", ((6, 1, 3), RUN), {}, "constant.required"),
    ("expand", ((6, 1, 3), [5, 1, 1]), {}, "shape.mismatch"),
    ("depth_to_space", ((2, 3, 4, 6),), {"block": 2}, "shape.mismatch"),
    ("depth_to_space", ((2, 3, 4, 8),), {"block": 0}, "shape.mismatch"),
    ("depth_to_space", ((3, 4, 8),), {"block": 2}, "shape.mismatch"),
    ("space_to_depth", ((2, 5, 4, 3),), {"block": 2}, "shape.mismatch"),
    ("space_to_depth", ((2, 4, 5, 3),), {"block": 2}, "shape.mismatch"),
    ("pick", (IMAGE, Tensor("n", (5,), "i32")), {"axis": 1}, "shape.mismatch"),
    ("pick", (IMAGE, Tensor("n", (5, 2), "i32")), {"axis": 3}, "shape.mismatch"),
    ("pick", (IMAGE, Tensor("n", (5, 1), "i32")), {"axis": -1}, "shape.mismatch"),
    ("pick", ((4, 0), Tensor("n", (5, 1), "i32")), {"axis": 1}, "shape.unsupported"),
]


@pytest.mark.parametrize(("op", "given", "more", "wanted"), MISFITS)
def test_what_does_not(op: str, given: tuple[Any, ...], more: dict[str, Any], wanted: str) -> None:
    assert code(said(op, *given, **more)) == wanted


ELEMENTWISE: list[tuple[str, tuple[Any, ...], dict[str, Any], str | None]] = [
    ("add", (IMAGE, (8, 1)), {}, None),
    ("add", (IMAGE, (8, 2)), {}, "shape.mismatch"),
    ("add", (IMAGE, (1,)), {"activation": "relu6"}, None),
    ("add", (IMAGE, (1,)), {"activation": "tanh"}, "activation.unsupported"),
    ("add", ((2,) * 6, (2,) * 6), {}, None),
    ("add", ((2,) * 6, 1.0), {}, None),
    ("add", ((2,) * 6, (1,) * 6), {}, None),
    ("add", ((2,) * 5, (2, 1, 2, 1, 2)), {}, None),
    ("add", ((2,) * 8, (2, 1, 2, 1, 2, 1, 2, 1)), {}, None),
    ("prelu", (IMAGE, (3,)), {}, None),
    ("prelu", (IMAGE, (1, 8, 1)), {}, None),
    ("prelu", ((3,), IMAGE), {}, "shape.mismatch"),
    ("prelu", (IMAGE, (2,)), {}, "shape.mismatch"),
    ("where", (IMAGE, (3,), (8, 1)), {}, None),
    ("where", (IMAGE, (3,), (7, 1)), {}, "shape.mismatch"),
    ("instance_normalization", (IMAGE, (3,), (3,)), {}, None),
    ("instance_normalization", ((4, 3), (3,), (3,)), {}, "shape.unsupported"),
    ("instance_normalization", (IMAGE, (4,), (3,)), {}, "shape.mismatch"),
    ("instance_normalization", (IMAGE, None, (1, 4, 6, 8, 3)), {}, "shape.mismatch"),
    ("layer_normalization", (IMAGE, (8, 3), None), {"axis": -2}, None),
    ("layer_normalization", (IMAGE, (8, 3), None), {"axis": 4}, "shape.unsupported"),
    ("layer_normalization", (IMAGE, None, None), {"axis": -5}, "shape.unsupported"),
    ("layer_normalization", (IMAGE, None, None), {"axis": -4}, None),
    ("layer_normalization", ((2,) * 6, None, None), {}, None),
    ("layer_normalization", ((2, 0), None, None), {}, "shape.empty"),
    ("log_softmax", (IMAGE,), {"axis": 3}, None),
    ("log_softmax", (IMAGE,), {"axis": 4}, "shape.unsupported"),
]


@pytest.mark.parametrize(("op", "given", "more", "wanted"), ELEMENTWISE)
def test_elementwise_ops_and_normalizations(
    op: str, given: tuple[Any, ...], more: dict[str, Any], wanted: str | None
) -> None:
    found = said(op, *given, **more)
    assert code(found) == wanted


def test_images_are_joined_by_floats_along_channels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of vec4 are found along any other axis, or there is no plan."""
    net = Net()
    parts = [net.input((2, 3, 5, 6)) for _ in range(2)]
    graph = net.graph(net.op("concat", *parts, axis=1, activation="none"))
    compiler.compile(graph, Target())
    monkeypatch.setattr(concat, "read", lambda *_: Reading("elements", [], 0))
    # Where defects are raised it is the defect itself.
    with pytest.raises((Unsupported, ValueError), match="joined by vec4"):
        compiler.compile(graph, Target())
