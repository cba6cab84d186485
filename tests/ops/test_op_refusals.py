"""What each op says to shapes and numbers that do not fit, beside the last that fits. No device is
needed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.ir.graph import Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import arg, resize, rows, scan, softmax, top_k
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS


class Told:
    """A tensor of this type and shape, whose values only a run tells."""

    def __init__(self, dtype: str, *shape: int) -> None:
        self.dtype, self.shape = dtype, shape


RUN = Told("i32", 1)


def said(op: str, *inputs: Any, results: int = 1, **attributes: Any) -> str | None:
    """The sentence against one node. A tuple is the shape of float values that a run tells, a list
    or a number a constant, None an input that is not there."""
    tensors: dict[int, Tensor] = {}
    for k, given in enumerate(inputs):
        if isinstance(given, Told):
            tensors[k] = Tensor("n", given.shape, given.dtype)
        elif isinstance(given, tuple):
            tensors[k] = Tensor("x", given)
        elif given is not None:
            data = np.array(given, np.float32 if isinstance(given, float) else np.int32)
            dtype = "f32" if isinstance(given, float) else "i32"
            tensors[k] = Tensor("n", data.shape, dtype, data)
    made = tuple(range(90, 90 + results))
    tensors |= {t: Tensor("y", ()) for t in made}
    reads = tuple(None if given is None else k for k, given in enumerate(inputs))
    graph = Graph(tensors, (Node(0, op, reads, made, attributes),), (0,), made)
    return rows()[op].refuse(graph, graph.nodes[0], Target())


IMAGE: Shape = (4, 6, 8, 3)
MANY, LINE, ROW = arg.MAX_COUNT, scan.MAX_LINE, top_k.MAX_ROW
CHANNELS, INDEX, ROUNDS = softmax.MAX_CHANNELS, resize.MAX_EXTENT, MAX_LOOP_ROUNDS
POOL: dict[str, Any] = {"window": (2, 2), "strides": (2, 2), "padding": "valid"}
HALVES = {"align_corners": True, "half_pixel_centers": True}

CASES: list[tuple[str | None, str | None]] = [
    # gather, space_to_batch, batch_to_space
    (said("gather", IMAGE, [0, 5, -6], axis=1), None),
    (said("gather", IMAGE, [6], axis=1), "outside an axis of 6"),
    (said("gather", IMAGE, [-7], axis=1), "outside an axis of 6"),
    (said("gather", IMAGE, [2, -3], axis=-1), None),
    (said("gather", IMAGE, [3], axis=-1), "outside an axis of 3"),
    (said("gather", IMAGE, [0], axis=4), "axis"),
    (said("gather", (2, 2, 2, 2, 2), [0, 1], axis=0), None),
    (said("gather", (2, 2, 2, 2, 2), [[0, 1]], axis=0), "works on 6 axes"),
    (said("gather", (2, 2, 2, 2, 2, 2), 0, axis=0), "works on 6 axes"),
    (said("gather", IMAGE, RUN, axis=0), None),
    (said("gather", IMAGE, Told("f32", 3), axis=0), "hold f32 values; use int32 or int64"),
    (said("gather_nd", IMAGE, Told("f32", 3, 1)), "hold f32 values; use int32 or int64"),
    (said("space_to_batch", IMAGE, [2, 4], [[0, 0], [0, 0]]), None),
    (said("space_to_batch", IMAGE, [2, 3], [[0, 0], [1, 0]]), None),
    (said("space_to_batch", IMAGE, [2, 3], [[0, 0], [0, 0]]), "blocks of .2, 3. do not fit"),
    (said("space_to_batch", IMAGE, [2, 4], [[0, 0]]), "2 blocks do not fit"),
    (said("space_to_batch", IMAGE, [1, 1, 1], [[0, 0]] * 3), None),
    (said("space_to_batch", IMAGE, [1, 1, 1, 1], [[0, 0]] * 4), "4 blocks do not fit"),
    (said("space_to_batch", IMAGE, [], []), "0 blocks do not fit"),
    (said("space_to_batch", IMAGE, [0, 1], [[0, 0]] * 2), "blocks must be positive"),
    (said("space_to_batch", IMAGE, [1, 1], [[0, 0], [0, -1]]), "and margins not negative"),
    (said("space_to_batch", IMAGE, RUN, [[0, 0]]), "must be constant"),
    (said("space_to_batch", IMAGE, [2, 2], RUN), "must be constant"),
    (said("batch_to_space", IMAGE, [2, 2], [[0, 0], [0, 0]]), None),
    (said("batch_to_space", IMAGE, [2, 3], [[0, 0], [0, 0]]), "blocks of .2, 3. do not fit"),
    (said("batch_to_space", IMAGE, [2, 2], [[6, 6], [0, 16]]), None),  # nothing is left
    (said("batch_to_space", IMAGE, [2, 2], [[6, 7], [0, 0]]), "blocks of .2, 2. do not fit"),
    # arg_max, cumsum, top_k
    (said("arg_max", IMAGE, [3]), None),
    (said("arg_max", IMAGE, [-4]), None),
    (said("arg_max", IMAGE, [4]), "Axis 4 is out of range for an input of rank 4"),
    (said("arg_max", IMAGE, [1, 2]), "needs one constant axis"),
    (said("arg_max", IMAGE, RUN), "needs one constant axis"),
    (said("arg_max", (2, MANY - 1), [1]), None),
    (said("arg_max", (2, MANY), [1]), "takes from axes of 1 to"),
    (said("arg_max", (), [0]), "takes from axes of 1 to"),
    (said("arg_max", (2, 0), [1]), "takes from axes of 1 to"),
    (said("arg_max", (0, 2), [1]), "takes from axes of 1 to"),
    (said("cumsum", (2, LINE), [1]), None),
    (said("cumsum", (2, LINE + 1), [1]), "takes from axes of 1 to"),
    (said("cumsum", (0, 2), [1]), "takes from axes of 1 to"),
    (said("cumsum", (), [0]), "takes from axes of 1 to"),
    (said("cumsum", (2, 2), [2]), "Axis 2 is out of range"),
    (said("cumsum", (2, 2), RUN), "needs one constant axis"),
    (said("cumsum", (2, 2), [0, 1]), "needs one constant axis"),
    (said("top_k", (2, 9), [9]), None),
    (said("top_k", (2, 9), [1]), None),
    (said("top_k", (2, 9), [10]), "10 elements are not to be had of 9"),
    (said("top_k", (2, 9), [0]), "0 elements are not to be had"),
    (said("top_k", (9, 2), [9], axis=0), None),
    (said("top_k", (9, 2), [9], axis=-2), None),
    (said("top_k", (9, 2), [1], axis=2), "Axis 2 is out of range"),
    (said("top_k", (9, 2), [1], axis=-3), "Axis -3 is out of range"),
    (said("top_k", (), [1]), "has no elements to choose from"),
    (said("top_k", (0, 9), [1]), "has no elements to choose from"),
    (said("top_k", (2, 9), [1, 2]), "must be one constant number"),
    (said("top_k", (2, 9), RUN), "must be one constant number"),
    (said("top_k", (ROW,), [ROUNDS]), None),
    (said("top_k", (ROW,), [ROUNDS + 1]), "are not to be had"),
    (said("top_k", (ROW + 1,), [1]), "is over the limit of"),
    # reductions
    (said("mean", IMAGE, [0, -1], keep_dims=True), None),
    (said("mean", IMAGE, RUN, keep_dims=True), "axes of a reduction must be constant"),
    (said("mean", IMAGE, [-5], keep_dims=True), "Axis -5 is out of range"),
    (said("mean", (3, 0), [0], keep_dims=True), "has no elements"),
    (said("mean", (), [7], keep_dims=True), None),
    (said("mean", (2,) * 6, [0, 2, 4], keep_dims=True), None),
    (said("mean", (2,) * 7, [0, 2, 4, 6], keep_dims=True), "alternate more than three times"),
    (said("mean", (2,) * 7, [1, 3, 5], keep_dims=True), "alternate more than three times"),
    # softmax, normalizations
    (said("softmax", (2, CHANNELS)), None),
    (said("softmax", (2, CHANNELS + 1)), "is over the limit of"),
    (said("softmax", (CHANNELS + 1, 2)), None),
    (said("softmax", ()), "needs an input of rank 1"),
    (said("softmax", (2, 0)), "has no elements"),
    (said("softmax", IMAGE, axis=3), None),
    (said("softmax", IMAGE, axis=-4), None),
    (said("softmax", IMAGE, axis=4), "Axis 4 is out of range"),
    (said("softmax", IMAGE, axis=-5), "Axis -5 is out of range"),
    (said("lrn", (2, 3), size=5), None),
    (said("lrn", (2, 3, 4, 5, 6), size=1), None),
    (said("lrn", (3,), size=5), "needs rank 2 to 5, this input has 1"),
    (said("lrn", (2,) * 6, size=5), "needs rank 2 to 5, this input has 6"),
    (said("lrn", IMAGE, size=0), "size of 0 is not from 1"),
    (said("lrn", IMAGE, size=65_535), None),  # rounds of a loop that every driver runs to the end
    (said("lrn", IMAGE, size=65_536), "is not from 1 to"),
    (said("lrn", IMAGE, size=5, alpha=0.0), None),
    (said("lrn", IMAGE, size=5, alpha=-0.001), "needs alpha of at least 0"),
    (said("lrn", IMAGE, size=5, bias=0.0), "and a positive bias"),
    # pads
    (said("pad", IMAGE, [[0, 1]] * 4), None),
    (said("pad", IMAGE, RUN), "computed at run time; make them a constant"),
    (said("pad", IMAGE, [[0, 1]] * 3), "paddings for 3 axes do not fit a tensor of rank 4"),
    (said("pad", IMAGE, [[0, 1], [0, -1], [0, 0], [0, 0]]), "must not be negative"),
    (said("pad", IMAGE, [[0, 1]] * 4, (1,)), "the pad value must be a constant"),
    (said("pad", IMAGE, [[0, 1]] * 4, 2.0), None),
    (said("pad", (3, 4), [[2, 0], [0, 3]], mode="reflect"), None),
    (said("pad", (3, 4), [[3, 0], [0, 3]], mode="reflect"), "is wider than the shape"),
    (said("pad", (3, 4), [[2, 0], [0, 4]], mode="reflect"), "is wider than the shape"),
    (said("pad", (3, 4), [[3, 0], [0, 4]], mode="symmetric"), None),
    (said("pad", (3, 4), [[4, 0], [0, 4]], mode="symmetric"), "is wider than the shape"),
    (said("pad", (3, 4), [[0, 3], [4, 0]], mode="wrap"), None),
    (said("pad", (3, 4), [[0, 3], [5, 0]], mode="wrap"), "is wider than the shape"),
    (said("pad", (3, 4), [[99, 0], [0, 0]], mode="edge"), None),
    (said("pad", (3, 4), [[1, 0], [0, 0]], mode="other"), "mode other is not supported"),
    # gather_nd
    (said("gather_nd", IMAGE, [[3, 5], [0, 0]]), None),
    (said("gather_nd", IMAGE, [[4, 5], [0, 0]]), "an index is outside"),
    (said("gather_nd", IMAGE, [[3, 6], [0, 0]]), "an index is outside"),
    (said("gather_nd", IMAGE, [[-1, 0]]), "an index is outside"),
    (said("gather_nd", IMAGE, [[-4, -6]], wraps=True), None),
    (said("gather_nd", IMAGE, [[-5, 0]], wraps=True), "an index is outside"),
    (said("gather_nd", IMAGE, [[0] * 4]), None),
    (said("gather_nd", IMAGE, [[0] * 5]), "indices of shape .1, 5. do not fit"),
    (said("gather_nd", IMAGE, Told("i32", 2, 0)), "indices of shape .2, 0. do not fit"),
    (said("gather_nd", IMAGE, [[5, 7, 2]] * 4, batch=1), None),
    (said("gather_nd", IMAGE, [[6, 7, 2]] * 4, batch=1), "an index is outside"),
    (said("gather_nd", IMAGE, [[0, 0, 0, 0]] * 4, batch=1), "do not fit"),
    (said("gather_nd", IMAGE, [[0]] * 3, batch=1), "have no 1 axes in common"),
    (said("gather_nd", IMAGE, [[0]] * 4, batch=2), "have no 2 axes in common"),
    (said("gather_nd", IMAGE, [[0]] * 4, batch=-1), "have no -1 axes in common"),
    (said("gather_nd", (4, 0), Told("i32", 1, 1)), "takes from axes of at least 1"),
    # reverse_sequence
    (said("reverse_sequence", IMAGE, [0, 6, 3, 1], batch_axis=0, time_axis=1), None),
    (said("reverse_sequence", IMAGE, [0, 7, 3, 1], batch_axis=0, time_axis=1), "from 0 to 6"),
    (said("reverse_sequence", IMAGE, [0, -1, 3, 1], batch_axis=0, time_axis=1), "from 0 to 6"),
    (said("reverse_sequence", IMAGE, [0, 6, 3], batch_axis=0, time_axis=1), "4 sequences have"),
    (said("reverse_sequence", IMAGE, [1] * 3, batch_axis=-1, time_axis=-4), None),
    (said("reverse_sequence", IMAGE, [1] * 4, batch_axis=0, time_axis=-4), "are the same, 0"),
    (said("reverse_sequence", IMAGE, [1] * 4, batch_axis=0, time_axis=4), "are out of range"),
    (said("reverse_sequence", IMAGE, [1] * 4, batch_axis=-5, time_axis=1), "are out of range"),
    # split, unstack, concat, stack
    (said("split", IMAGE, [1], results=3), None),
    (said("split", IMAGE, [-2], results=4), None),
    (said("split", IMAGE, [1], results=4), "an extent of 6 does not divide into 4 parts"),
    (said("split", IMAGE, RUN, results=2), "the axis must be one constant"),
    (said("split", IMAGE, [0, 1], results=2), "the axis must be one constant"),
    (said("split", IMAGE, [4], results=1), "axis"),
    (said("split", IMAGE, [1], [1, 2, 3], results=3), None),
    (said("split", IMAGE, [1], [1, -1, 0], results=3), None),
    (said("split", IMAGE, [1], [6, -1], results=2), None),
    (said("split", IMAGE, [1], [7, -1], results=2), "do not make up 2 of an extent of 6"),
    (said("split", IMAGE, [1], [1, 2, 4], results=3), "do not make up 3 of an extent of 6"),
    (said("split", IMAGE, [1], [1, 2, 2], results=3), "do not make up 3"),
    (said("split", IMAGE, [1], [3, 3], results=3), "do not make up 3"),
    (said("split", IMAGE, [1], [-1, -1, 3], results=3), "do not make up 3"),
    (said("split", IMAGE, [1], [8, -2], results=2), "do not make up 2"),
    (said("split", IMAGE, [1], RUN, results=1), "extents of the parts must be constants"),
    (said("unstack", IMAGE, results=6, axis=1), None),
    (said("unstack", IMAGE, results=3, axis=-1), None),
    (said("unstack", IMAGE, results=5, axis=1), "an extent of 6 does not become 5 tensors"),
    (said("concat", IMAGE, IMAGE, axis=1), None),
    (said("concat", IMAGE, (4, 9, 8, 3), axis=1), None),
    (said("concat", IMAGE, (4, 9, 8, 3), axis=2), "differ outside axis 2"),
    (said("concat", IMAGE, IMAGE, axis=1, activation="relu"), "has a fused activation"),
    (said("stack", IMAGE, IMAGE, axis=4), None),
    (said("stack", (2, 3), (2, 4), axis=0), "differ"),
    # matmul
    (said("matmul", (2, 3), (3, 4)), None),
    (said("matmul", (2, 3), (4, 3), transpose_b=True), None),
    (said("matmul", (3, 2), (3, 4), transpose_a=True), None),
    (said("matmul", (2, 3), (4, 3)), "cannot be multiplied"),
    (said("matmul", (3,), (3, 4)), "are not matrices"),
    (said("matmul", (2, 3), (3,)), "are not matrices"),
    (said("matmul", (2, 1, 1, 2, 3), (3, 4)), None),
    (said("matmul", (2, 1, 1, 1, 2, 3), (3, 4)), "of rank 6 is not supported"),
    (said("matmul", (2, 0), (0, 4)), "of empty tensors"),
    (said("matmul", (0, 2), (2, 4)), "of empty tensors"),
    (said("matmul", (2, 2), (2, 0)), "of empty tensors"),
    # reshape
    (said("reshape", IMAGE, [-1, 3]), None),
    (said("reshape", IMAGE, [192, 3]), None),
    (said("reshape", IMAGE, [191, 3]), "576 elements do not fit shape"),
    (said("reshape", IMAGE, [-1, 5]), "576 elements do not fit shape"),
    (said("reshape", IMAGE, [-1, -1]), "may hold one -1"),
    (said("reshape", IMAGE, [-2, 3]), "may hold one -1"),
    (said("reshape", (0, 3), [-1, 0]), None),
    (said("reshape", IMAGE, RUN), "computed at run time; make it a constant"),
    (said("reshape", (1, 4, 1), squeeze=(0, -1)), None),
    (said("reshape", (1, 4, 1), squeeze=(1,)), "are not all of extent 1"),
    (said("reshape", (1, 4, 1), squeeze=(3,)), "are not all of extent 1"),
    (said("reshape", (1, 4, 1), squeeze=(-4,)), "are not all of extent 1"),
    (said("reshape", (4, 5), expand=2), None),
    (said("reshape", (4, 5), expand=-3), None),
    (said("reshape", (4, 5), expand=3), "there is no axis 3 to add"),
    (said("reshape", (4, 5), expand=-4), "there is no axis -4 to add"),
    # unpooling
    (said("max_unpool", IMAGE, IMAGE, window=(2, 2)), None),
    (said("max_unpool", (4, 6, 8), (4, 6, 8), window=(2, 2)), "needs an image of 4 dimensions"),
    (said("max_unpool", (4, 0, 8, 3), (4, 0, 8, 3), window=(2, 2)), "needs an image of 4"),
    (said("max_unpool", IMAGE, (4, 6, 8, 2), window=(2, 2)), "do not agree"),
    (said("max_unpool", IMAGE, IMAGE, window=(0, 2)), "is not of 1 to 65,535 elements"),
    (said("max_unpool", IMAGE, IMAGE, window=(1, 65_535)), None),
    (said("max_unpool", IMAGE, IMAGE, window=(2, 32_768)), "is not of 1 to 65,535 elements"),
    # pooling, resizing
    (said("average_pool_2d", IMAGE, **POOL), None),
    (said("average_pool_2d", (4, 6, 3), **{**POOL, "window": (2,), "strides": (2,)}), None),
    (said("average_pool_2d", (4, 6), **POOL), "does not fit rank 2"),
    (said("average_pool_2d", (4, 6, 3), **POOL), "does not fit rank 3"),
    (said("average_pool_2d", (0, 6, 8, 3), **POOL), "has no elements"),
    (said("average_pool_2d", IMAGE, **POOL, activation="relu6"), None),
    (said("average_pool_2d", IMAGE, **POOL, activation="tanh"), "takes no tanh activation"),
    (said("average_pool_2d", IMAGE, **{**POOL, "padding": "same"}, counted=True), "in numbers"),
    (
        said("average_pool_2d", IMAGE, **{**POOL, "padding": (2, 0, 0, 0)}),
        "lies in the padding",
    ),
    (said("average_pool_2d", IMAGE, **{**POOL, "padding": (1, 0, 0, 0)}), None),
    (said("resize", IMAGE, [5, 1]), None),
    (said("resize", (4, 6, 3), [5]), None),
    (said("resize", IMAGE, RUN), "size to resize to must be constant"),
    (said("resize", IMAGE, [5, 0]), "must be 2 positive numbers"),
    (said("resize", IMAGE, [5, 5, 5]), "must be 2 positive numbers"),
    (said("resize", (4, 6), [5]), "needs an input of rank 3 to 5, this one has rank 2"),
    (said("resize", (2,) * 6, [5] * 4), "this one has rank 6"),
    (said("resize", (4, 0, 8, 3), [5, 5]), "has no elements"),
    (said("resize", IMAGE, [5, 5], **HALVES), "exclude each other"),
    (said("resize", IMAGE, [5, 5], mode="other"), "Resizing with mode other"),
    (said("resize", IMAGE, [5, 5], coordinates="other"), "Resizing with coordinates other"),
    (said("resize", IMAGE, [5, 5], nearest="other"), "Resizing with nearest other"),
    (said("resize", (1, INDEX, 1, 1), [5, 5]), None),
    (said("resize", (1, INDEX + 1, 1, 1), [5, 5]), "takes extents up to"),
]


@pytest.mark.parametrize(("found", "sentence"), CASES)
def test_what_does_not_fit(found: str | None, sentence: str | None) -> None:
    assert found is None if sentence is None else re.search(sentence, found or "")
