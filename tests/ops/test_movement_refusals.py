"""What ops that move elements say to slices, repeats and blocks that do not fit, and the shapes of
those that do. No device is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ops.test_op_refusals import RUN, graph_of, said
from tflgpu_plugin.ir.graph import Shape, Tensor
from tflgpu_plugin.ops import rows

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
    ("strided_slice", (IMAGE, RUN, [1], [1]), {}, "begin, end and strides must be constants"),
    ("strided_slice", (IMAGE, [1], RUN, [1]), {}, "begin, end and strides must be constants"),
    ("strided_slice", (IMAGE, [1], [1], RUN), {}, "begin, end and strides must be constants"),
    ("strided_slice", (IMAGE, [1], [1, 2], [1]), {}, "must have one length"),
    ("strided_slice", (IMAGE, [1], [1], [1, 1]), {}, "must have one length"),
    ("strided_slice", (IMAGE, [1], [1], [0]), {}, "a stride must not be zero"),
    ("strided_slice", (IMAGE, [0] * 5, [1] * 5, [1] * 5), {}, "too many entries"),
    (
        "strided_slice",
        (IMAGE, [0] * 5, [1] * 5, [1] * 5),
        {"ellipsis_mask": 1},
        "too many entries",
    ),
    ("strided_slice", (IMAGE, [0] * 3, [1] * 3, ONES[:3]), {"ellipsis_mask": 5}, "one ellipsis"),
    ("strided_slice", (IMAGE, [0], [1], [1]), {"ellipsis_mask": 2}, "one ellipsis"),
    ("strided_slice", (IMAGE, [4], [5], [1]), {"shrink_axis_mask": 1}, "index 4 is outside"),
    ("strided_slice", (IMAGE, [-5], [5], [1]), {"shrink_axis_mask": 1}, "index -5 is outside"),
    ("strided_slice", (IMAGE, [1], [2], [-1]), {"shrink_axis_mask": 1}, "a positive stride"),
    ("strided_slice", (IMAGE, [1], [2], [0]), {"shrink_axis_mask": 1}, "a positive stride"),
    ("strided_slice", (IMAGE, [1], [4], [1]), {"offset": True}, "leaves an axis of 4"),
    ("strided_slice", (IMAGE, [3], [-5], [-1]), {"offset": True}, "leaves an axis of 4"),
    ("strided_slice", (IMAGE, [1], [1], [1]), {"offset": True, "end_mask": 1}, "no defined"),
    ("slice", (IMAGE, RUN, [1]), {}, "begin and size must be constants"),
    ("slice", (IMAGE, [0], RUN), {}, "begin and size must be constants"),
    ("slice", (IMAGE, BEGIN, [1] * 3), {}, "an entry for each of 4 axes"),
    ("slice", (IMAGE, [0] * 3, [1] * 3), {}, "an entry for each of 4 axes"),
    ("slice", (IMAGE, [1, 0, 0, 0], [4, 1, 1, 1]), {}, "1 to 5 is not inside an axis of 4"),
    ("slice", (IMAGE, [-1, 0, 0, 0], [1, 1, 1, 1]), {}, "-1 to 0 is not inside an axis of 4"),
    ("slice", (IMAGE, [3, 0, 0, 0], [-2, 1, 1, 1]), {}, "3 to 1 is not inside an axis of 4"),
    ("slice", (IMAGE, [5, 0, 0, 0], [-1, 1, 1, 1]), {}, "5 to 4 is not inside an axis of 4"),
    ("tile", (IMAGE, RUN), {}, "repeats must be constant"),
    ("tile", (IMAGE, [1] * 3), {}, "3 repeats do not fit a tensor of rank 4"),
    ("tile", ((2,) * 8, [1, *[2] * 6, 1]), {}, "goes along 13 axes, with those of copies; 12"),
    ("expand", ((6, 1, 3), RUN), {}, "the shape must be constant"),
    ("expand", ((6, 1, 3), [5, 1, 1]), {}, "cannot be broadcast together"),
    ("depth_to_space", ((2, 3, 4, 6),), {"block": 2}, "does not divide"),
    ("depth_to_space", ((2, 3, 4, 8),), {"block": 0}, "do not fit"),
    ("depth_to_space", ((3, 4, 8),), {"block": 2}, "do not fit"),
    ("space_to_depth", ((2, 5, 4, 3),), {"block": 2}, "does not divide"),
    ("space_to_depth", ((2, 4, 5, 3),), {"block": 2}, "does not divide"),
    ("pick", (IMAGE, Tensor("n", (5,), "i32")), {"axis": 1}, "do not fit"),
    ("pick", (IMAGE, Tensor("n", (5, 2), "i32")), {"axis": 3}, "do not fit"),
    ("pick", (IMAGE, Tensor("n", (5, 1), "i32")), {"axis": -1}, "do not fit"),
    ("pick", ((4, 0), Tensor("n", (5, 1), "i32")), {"axis": 1}, "takes from axes of at least 1"),
]


@pytest.mark.parametrize(("op", "given", "more", "sentence"), MISFITS)
def test_what_does_not(
    op: str, given: tuple[Any, ...], more: dict[str, Any], sentence: str
) -> None:
    assert sentence in (said(op, *given, **more) or "")


ELEMENTWISE: list[tuple[str, tuple[Any, ...], dict[str, Any], str | None]] = [
    ("add", (IMAGE, (8, 1)), {}, None),
    ("add", (IMAGE, (8, 2)), {}, "cannot be broadcast together"),
    ("add", (IMAGE, (1,)), {"activation": "relu6"}, None),
    ("add", (IMAGE, (1,)), {"activation": "tanh"}, "fused activation tanh is not supported"),
    ("add", ((2,) * 6, (2,) * 6), {}, None),
    ("add", ((2,) * 6, 1.0), {}, None),
    ("add", ((2,) * 6, (1,) * 6), {}, None),
    ("add", ((2,) * 5, (2, 1, 2, 1, 2)), {}, None),
    ("add", ((2,) * 8, (2, 1, 2, 1, 2, 1, 2, 1)), {}, None),
    ("prelu", (IMAGE, (3,)), {}, None),
    ("prelu", (IMAGE, (1, 8, 1)), {}, None),
    ("prelu", ((3,), IMAGE), {}, "prelu has alpha of shape"),
    ("prelu", (IMAGE, (2,)), {}, "cannot be broadcast together"),
    ("where", (IMAGE, (3,), (8, 1)), {}, None),
    ("where", (IMAGE, (3,), (7, 1)), {}, "cannot be broadcast together"),
    ("instance_normalization", (IMAGE, (3,), (3,)), {}, None),
    ("instance_normalization", ((4, 3), (3,), (3,)), {}, "has no axes to work on"),
    ("instance_normalization", (IMAGE, (4,), (3,)), {}, "scale or bias of shape .4."),
    ("instance_normalization", (IMAGE, None, (1, 4, 6, 8, 3)), {}, "scale or bias"),
    ("layer_normalization", (IMAGE, (8, 3), None), {"axis": -2}, None),
    ("layer_normalization", (IMAGE, (8, 3), None), {"axis": 4}, "has no axes to work on"),
    ("layer_normalization", (IMAGE, None, None), {"axis": -5}, "has no axes to work on"),
    ("layer_normalization", (IMAGE, None, None), {"axis": -4}, None),
    ("layer_normalization", ((2,) * 6, None, None), {}, None),
    ("layer_normalization", ((2, 0), None, None), {}, "has no elements"),
    ("log_softmax", (IMAGE,), {"axis": 3}, None),
    ("log_softmax", (IMAGE,), {"axis": 4}, "has no axes to work on"),
]


@pytest.mark.parametrize(("op", "given", "more", "sentence"), ELEMENTWISE)
def test_elementwise_ops_and_normalizations(
    op: str, given: tuple[Any, ...], more: dict[str, Any], sentence: str | None
) -> None:
    found = said(op, *given, **more)
    assert found is None if sentence is None else sentence.replace(".4.", "[4]") in (found or "")
