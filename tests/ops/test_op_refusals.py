"""Tests refusals of ops: shapes and numbers that do not fit, and the last ones that fit. No device
is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.refused import code
from tflgpu_plugin.ir import Graph, Node, Quantization, Refusal, Shape, Target, Tensor
from tflgpu_plugin.ops import (
    arg,
    detection,
    non_max_suppression,
    resize,
    rows,
    scan,
    softmax,
    top_k,
)
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS
from tflgpu_plugin.ops.quantization import same_bits


class Told:
    """A tensor of this type and shape whose values are given at run time."""

    def __init__(self, dtype: str, *shape: int) -> None:
        self.dtype, self.shape = dtype, shape


RUN = Told("i32", 1)


def graph_of(
    op: str, *inputs: Any, results: int | Sequence[Tensor] = 1, **attributes: Any
) -> Graph:
    """Returns a graph of one node. For an input, a tuple is the shape of float values that are
    given at run time, a list or number a constant, and None an absent input; tensors are taken
    unchanged."""
    tensors: dict[int, Tensor] = {}
    for k, given in enumerate(inputs):
        if isinstance(given, Tensor):
            tensors[k] = given
        elif isinstance(given, Told):
            tensors[k] = Tensor("n", given.shape, given.dtype)
        elif isinstance(given, tuple):
            tensors[k] = Tensor("x", given)
        elif given is not None:
            data = np.array(given, np.float32 if isinstance(given, float) else np.int32)
            dtype = "f32" if isinstance(given, float) else "i32"
            tensors[k] = Tensor("n", data.shape, dtype, data)
    given = [Tensor("y", ())] * results if isinstance(results, int) else results
    made = tuple(range(90, 90 + len(given)))
    tensors |= dict(zip(made, given, strict=True))
    reads = tuple(None if given is None else k for k, given in enumerate(inputs))
    return Graph(tensors, (Node(0, op, reads, made, attributes),), (0,), made)


def said(op: str, *inputs: Any, **more: Any) -> Refusal | None:
    """Returns the refusal of the node of `graph_of`, or None."""
    graph = graph_of(op, *inputs, **more)
    return rows()[op].refuse(graph, graph.nodes[0], Target())


def asks(*given: Any, **more: Any) -> partial[Refusal | None]:
    """Returns a function that calls `said` when the test runs."""
    return partial(said, *given, **more)


IMAGE: Shape = (4, 6, 8, 3)
MANY, LINE, ROW = arg.MAX_COUNT, scan.MAX_LINE, top_k.MAX_ROW
CHANNELS, INDEX, ROUNDS = softmax.MAX_CHANNELS, resize.MAX_EXTENT, MAX_LOOP_ROUNDS
STEPS = {"align_corners": False, "half_pixel_centers": False}
BYTES = Tensor("x", (1, INDEX // 16, 1, 1), "i8", quantization=Quantization((0.1,), (0,), 0))
softly = partial(asks, "soft_non_max_suppression", results=3)
SOFT = non_max_suppression.MAX_COMPARISONS // 512 - 512
DETECTED: dict[str, Any] = {"count": 3, "each": None, "classes": 5, "least": 0.5, "overlap": 0.5,
                            "scales": (1.0,) * 4}  # fmt: skip
detects = partial(asks, "detections", results=4)
VISITS = detection.MAX_VISITS // 4 * detection.THREADS  # by boxes, of which 3 are chosen
CHOICES = non_max_suppression.MAX_COMPARISONS // 16 - 1024  # of which 1,024 may be chosen
POOL: dict[str, Any] = {"window": (2, 2), "strides": (2, 2), "padding": "valid"}
ONCE: dict[str, Any] = {"window": (1, 1), "strides": (1, 1), "padding": "valid"}
SPARSE: dict[str, Any] = {"window": (3,), "strides": (1,), "dilations": (5,)}
HALVES = {"align_corners": True, "half_pixel_centers": True}

CASES: list[tuple[partial[Refusal | None], str | None]] = [
    # gather, space_to_batch, batch_to_space
    (asks("gather", IMAGE, [0, 5, -6], axis=1), None),
    (asks("gather", IMAGE, [6], axis=1), "shape.mismatch"),
    (asks("gather", IMAGE, [-7], axis=1), "shape.mismatch"),
    (asks("gather", IMAGE, [2, -3], axis=-1), None),
    (asks("gather", IMAGE, [3], axis=-1), "shape.mismatch"),
    (asks("gather", IMAGE, [0], axis=4), "shape.mismatch"),
    (asks("gather", (2, 2, 2, 2, 2), [0, 1], axis=0), None),
    (asks("gather", IMAGE, RUN, axis=0), None),
    (asks("gather", IMAGE, Told("f32", 3), axis=0), "dtype.unsupported"),
    (asks("gather_nd", IMAGE, Told("f32", 3, 1)), "dtype.unsupported"),
    (asks("space_to_batch", IMAGE, [2, 4], [[0, 0], [0, 0]]), None),
    (asks("space_to_batch", IMAGE, [2, 3], [[0, 0], [1, 0]]), None),
    (asks("space_to_batch", IMAGE, [2, 3], [[0, 0], [0, 0]]), "shape.mismatch"),
    (asks("space_to_batch", IMAGE, [2, 4], [[0, 0]]), "shape.mismatch"),
    (asks("space_to_batch", IMAGE, [1, 1, 1], [[0, 0]] * 3), None),
    (asks("space_to_batch", IMAGE, [1, 1, 1, 1], [[0, 0]] * 4), "shape.mismatch"),
    (asks("space_to_batch", (1,) * 8, [1] * 4, [[0, 0]] * 4), None),
    (asks("space_to_batch", (1,) * 8, [1] * 5, [[0, 0]] * 5), "shape.mismatch"),
    (asks("space_to_batch", IMAGE, [], []), "shape.mismatch"),
    (asks("space_to_batch", IMAGE, [0, 1], [[0, 0]] * 2), "shape.mismatch"),
    (asks("space_to_batch", IMAGE, [1, 1], [[0, 0], [0, -1]]), "shape.mismatch"),
    (asks("space_to_batch", IMAGE, RUN, [[0, 0]]), "constant.required"),
    (asks("space_to_batch", IMAGE, [2, 2], RUN), "constant.required"),
    (asks("batch_to_space", IMAGE, [2, 2], [[0, 0], [0, 0]]), None),
    (asks("batch_to_space", IMAGE, [2, 3], [[0, 0], [0, 0]]), "shape.mismatch"),
    (asks("batch_to_space", IMAGE, [2, 2], [[6, 6], [0, 16]]), None),  # nothing is left
    (asks("batch_to_space", IMAGE, [2, 2], [[6, 7], [0, 0]]), "shape.mismatch"),
    # arg_max, cumsum, top_k
    (asks("arg_max", IMAGE, [3]), None),
    (asks("arg_max", IMAGE, [-4]), None),
    (asks("arg_max", IMAGE, [4]), "constant.invalid"),
    (asks("arg_max", IMAGE, [1, 2]), "constant.required"),
    (asks("arg_max", IMAGE, RUN), "constant.required"),
    (asks("arg_max", (2, MANY - 1), [1]), None),
    (asks("arg_max", (2, MANY), [1]), "shape.unsupported"),
    (asks("arg_max", (), [0]), "shape.unsupported"),
    (asks("arg_max", (2, 0), [1]), "shape.unsupported"),
    (asks("arg_max", (0, 2), [1]), "shape.unsupported"),
    (asks("cumsum", (2, LINE), [1]), None),
    (asks("cumsum", (2, LINE + 1), [1]), "shape.unsupported"),
    (asks("cumsum", (0, 2), [1]), "shape.unsupported"),
    (asks("cumsum", (), [0]), "shape.unsupported"),
    (asks("cumsum", (2, 2), [2]), "constant.invalid"),
    (asks("cumsum", (2, 2), RUN), "constant.required"),
    (asks("cumsum", (2, 2), [0, 1]), "constant.required"),
    (asks("top_k", (2, 9), [9]), None),
    (asks("top_k", (2, 9), [1]), None),
    (asks("top_k", (2, 9), [10]), "constant.invalid"),
    (asks("top_k", (2, 9), [-1]), "constant.invalid"),
    (asks("top_k", (2, 9), [0]), None),
    (asks("top_k", (9, 2), [9], axis=0), None),
    (asks("top_k", (9, 2), [9], axis=-2), None),
    (asks("top_k", (9, 2), [1], axis=2), "attribute.invalid"),
    (asks("top_k", (9, 2), [1], axis=-3), "attribute.invalid"),
    (asks("top_k", (), [1]), "shape.empty"),
    (asks("top_k", (0, 9), [1]), "shape.empty"),
    (asks("top_k", (2, 9), [1, 2]), "constant.required"),
    (asks("top_k", (2, 9), RUN), "constant.required"),
    (asks("top_k", (ROW,), [ROUNDS]), None),
    (asks("top_k", (ROW,), [ROUNDS + 1]), "constant.invalid"),
    (asks("top_k", (ROW + 1,), [1]), "shape.too_large"),
    # detections
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED), None),
    (detects((1, 9, 6), (1, 9, 6), (9, 4), **DETECTED), None),
    (detects((2, 9, 4), (1, 9, 5), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 3), (1, 9, 5), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((9, 4), (1, 9, 5), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 4), (1, 9, 5), (8, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 4), (1, 8, 5), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 4), (9, 5), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 4), (1, 9, 4), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 4), (1, 9, 7), (9, 4), **DETECTED), "shape.mismatch"),
    (detects((1, 9, 4), (1, 9, 1), (9, 4), **DETECTED | {"classes": 1}), None),
    (detects((1, 9, 4), (1, 9, 1), (9, 4), **DETECTED | {"classes": 0}), "shape.mismatch"),
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED | {"overlap": 1.0}), None),
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED | {"overlap": 0.0}), "attribute.invalid"),
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED | {"overlap": 1.5}), "attribute.invalid"),
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED | {"count": 1, "each": 1}), None),
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED | {"count": 0}), "shape.empty"),
    (detects((1, 9, 4), (1, 9, 5), (9, 4), **DETECTED | {"each": 0}), "shape.empty"),
    (detects((1, VISITS, 4), (1, VISITS, 5), (VISITS, 4), **DETECTED), None),
    (
        detects((1, VISITS + 1, 4), (1, VISITS + 1, 5), (VISITS + 1, 4), **DETECTED),
        "shape.too_large",
    ),
    (
        detects(
            (1, 256, 4),
            (1, 256, 256),
            (256, 4),
            **DETECTED | {"classes": 256, "each": VISITS // 256},
        ),
        None,
    ),
    (
        detects(
            (1, 256, 4),
            (1, 256, 256),
            (256, 4),
            **DETECTED | {"classes": 256, "each": VISITS // 256 + 1},
        ),
        "shape.too_large",
    ),
    # non_max_suppression
    (asks("non_max_suppression", (9, 4), (9,), 3, 0.5, 0.5), None),
    (asks("non_max_suppression", (9, 4), (9,), 3, 0.5, RUN), "constant.required"),
    (asks("non_max_suppression", (9, 4), (9,), [3, 3], 0.5, 0.5), "constant.required"),
    (asks("non_max_suppression", (9, 4), (9,), -1, 0.5, 0.5), "shape.mismatch"),
    (asks("non_max_suppression", (9, 5), (9,), 3, 0.5, 0.5), "shape.mismatch"),
    (asks("non_max_suppression", (9, 4, 1), (9,), 3, 0.5, 0.5), "shape.mismatch"),
    (asks("non_max_suppression", (9, 4), (8,), 3, 0.5, 0.5), "shape.mismatch"),
    (asks("non_max_suppression", (9, 4), Told("i32", 9), 3, 0.5, 0.5), "dtype.unsupported"),
    (asks("non_max_suppression", Told("i32", 9, 4), (9,), 3, 0.5, 0.5), "dtype.unsupported"),
    (asks("non_max_suppression", (ROUNDS, 4), (ROUNDS,), 64, 0.5, 0.5), None),
    (asks("non_max_suppression", (ROUNDS + 1, 4), (ROUNDS + 1,), 64, 0.5, 0.5), "shape.too_large"),
    (asks("non_max_suppression", (CHOICES, 4), (CHOICES,), 1024, 0.5, 0.5), None),
    (
        asks("non_max_suppression", (CHOICES + 1, 4), (CHOICES + 1,), 1024, 0.5, 0.5),
        "shape.too_large",
    ),
    (asks("non_max_suppression", (CHOICES, 4), (CHOICES,), 1025, 0.5, 0.5), "shape.too_large"),
    (softly((9, 4), (9,), 3, 0.5, 0.5, 0.0), None),
    (softly((9, 4), (9,), 3, 0.5, 0.5, -0.5), "attribute.invalid"),
    (softly((9, 4), (9,), 3, 0.5, 0.5, RUN), "constant.required"),
    (softly((CHOICES, 4), (CHOICES,), 1024, 0.5, 0.5, 0.0), None),
    (softly((SOFT, 4), (SOFT,), 512, 0.5, 0.5, 0.5), None),
    (softly((SOFT + 1, 4), (SOFT + 1,), 512, 0.5, 0.5, 0.5), "shape.too_large"),
    # reductions
    (asks("mean", IMAGE, [0, -1], keep_dims=True), None),
    (asks("mean", IMAGE, RUN, keep_dims=True), "constant.required"),
    (asks("mean", IMAGE, [-5], keep_dims=True), "constant.invalid"),
    (asks("mean", (3, 0), [0], keep_dims=True), "shape.empty"),
    (asks("mean", (), [7], keep_dims=True), None),
    (asks("mean", (2,) * 6, [0, 2, 4], keep_dims=True), None),
    (asks("mean", (2,) * 7, [0, 2, 4, 6], keep_dims=True), "rank.too_large"),
    (asks("mean", (2,) * 7, [1, 3, 5], keep_dims=True), "rank.too_large"),
    # softmax, normalizations
    (asks("softmax", (2, CHANNELS)), None),
    (asks("softmax", (2, CHANNELS + 1)), "shape.too_large"),
    (asks("softmax", (CHANNELS + 1, 2)), None),
    (asks("softmax", ()), "rank.unsupported"),
    (asks("softmax", (2, 0)), "shape.empty"),
    (asks("softmax", IMAGE, axis=3), None),
    (asks("softmax", IMAGE, axis=-4), None),
    (asks("softmax", IMAGE, axis=4), "attribute.invalid"),
    (asks("softmax", IMAGE, axis=-5), "attribute.invalid"),
    (asks("lrn", (2, 3), size=5), None),
    (asks("lrn", (2, 3, 4, 5, 6), size=1), None),
    (asks("lrn", (3,), size=5), "rank.unsupported"),
    (asks("lrn", (2,) * 6, size=5), "rank.unsupported"),
    (asks("lrn", IMAGE, size=0), "attribute.unsupported"),
    (asks("lrn", IMAGE, size=65_535), None),  # rounds of a loop that every driver runs to the end
    (asks("lrn", IMAGE, size=65_536), "attribute.unsupported"),
    (asks("lrn", IMAGE, size=5, alpha=0.0), None),
    (asks("lrn", IMAGE, size=5, alpha=-0.001), "attribute.unsupported"),
    (asks("lrn", IMAGE, size=5, bias=0.0), "attribute.unsupported"),
    # pads
    (asks("pad", IMAGE, [[0, 1]] * 4), None),
    (asks("pad", IMAGE, RUN), "constant.required"),
    (asks("pad", IMAGE, [[0, 1]] * 3), "shape.mismatch"),
    (asks("pad", IMAGE, [[0, 1], [0, -1], [0, 0], [0, 0]]), "shape.mismatch"),
    (asks("pad", IMAGE, [[0, 1]] * 4, (1,)), "constant.required"),
    (asks("pad", IMAGE, [[0, 1]] * 4, 2.0), None),
    (asks("pad", (3, 4), [[2, 0], [0, 3]], mode="reflect"), None),
    (asks("pad", (3, 4), [[3, 0], [0, 3]], mode="reflect"), "shape.mismatch"),
    (asks("pad", (3, 4), [[2, 0], [0, 4]], mode="reflect"), "shape.mismatch"),
    (asks("pad", (3, 4), [[3, 0], [0, 4]], mode="symmetric"), None),
    (asks("pad", (3, 4), [[4, 0], [0, 4]], mode="symmetric"), "shape.mismatch"),
    (asks("pad", (3, 4), [[0, 3], [4, 0]], mode="wrap"), None),
    (asks("pad", (3, 4), [[0, 3], [5, 0]], mode="wrap"), "shape.mismatch"),
    (asks("pad", (3, 4), [[99, 0], [0, 0]], mode="edge"), None),
    (asks("dilate", (3, 4), [1, 2], 0.5), None),
    (asks("dilate", (1, 1, 1, 1, 2), [1, 1, 1, 1, 2], 0.5), None),
    (asks("dilate", (1, 1, 1, 1, 1, 2), [1, 1, 1, 1, 1, 2], 0.5), "rank.too_large"),
    (asks("dilate", (3, 4), RUN, 0.5), "constant.required"),
    (asks("dilate", (3, 4), [1, 0], 0.5), "shape.mismatch"),
    (asks("dilate", (3, 4), [2], 0.5), "shape.mismatch"),
    (asks("dilate", (3, 0), [1, 2], 0.5), "shape.mismatch"),
    (asks("dilate", (3, 4), [1, 2], (1,)), "constant.required"),
    # gather_nd
    (asks("gather_nd", IMAGE, [[3, 5], [0, 0]]), None),
    (asks("gather_nd", IMAGE, [[4, 5], [0, 0]]), "constant.invalid"),
    (asks("gather_nd", IMAGE, [[3, 6], [0, 0]]), "constant.invalid"),
    (asks("gather_nd", IMAGE, [[-1, 0]]), "constant.invalid"),
    (asks("gather_nd", IMAGE, [[-4, -6]], wraps=True), None),
    (asks("gather_nd", IMAGE, [[-5, 0]], wraps=True), "constant.invalid"),
    (asks("gather_nd", IMAGE, [[0] * 4]), None),
    (asks("gather_nd", IMAGE, [[0] * 5]), "shape.mismatch"),
    (asks("gather_nd", IMAGE, Told("i32", 2, 0)), "shape.mismatch"),
    (asks("gather_nd", IMAGE, [[5, 7, 2]] * 4, batch=1), None),
    (asks("gather_nd", IMAGE, [[6, 7, 2]] * 4, batch=1), "constant.invalid"),
    (asks("gather_nd", IMAGE, [[0, 0, 0, 0]] * 4, batch=1), "shape.mismatch"),
    (asks("gather_nd", IMAGE, [[0]] * 3, batch=1), "shape.mismatch"),
    (asks("gather_nd", IMAGE, [[0]] * 4, batch=2), "shape.mismatch"),
    (asks("gather_nd", IMAGE, [[0]] * 4, batch=-1), "shape.mismatch"),
    (asks("gather_nd", (4, 0), Told("i32", 1, 1)), "shape.unsupported"),
    # range_reduce
    (asks("range_sum", IMAGE, [0, 1], [1, 3]), None),
    (asks("range_sum", IMAGE, [0, 1], [1]), "shape.mismatch"),
    (asks("range_max", Told("i32", 4, 3), [0, 1], [1, 3]), "dtype.unsupported"),
    # reverse_sequence
    (asks("reverse_sequence", IMAGE, [0, 6, 3, 1], batch_axis=0, time_axis=1), None),
    (asks("reverse_sequence", IMAGE, [0, 7, 3, 1], batch_axis=0, time_axis=1), "constant.invalid"),
    (asks("reverse_sequence", IMAGE, [0, -1, 3, 1], batch_axis=0, time_axis=1), "constant.invalid"),
    (asks("reverse_sequence", IMAGE, [0, 6, 3], batch_axis=0, time_axis=1), "shape.mismatch"),
    (asks("reverse_sequence", IMAGE, [1] * 3, batch_axis=-1, time_axis=-4), None),
    (asks("reverse_sequence", IMAGE, [1] * 4, batch_axis=0, time_axis=-4), "attribute.invalid"),
    (asks("reverse_sequence", IMAGE, [1] * 4, batch_axis=0, time_axis=4), "attribute.invalid"),
    (asks("reverse_sequence", IMAGE, [1] * 4, batch_axis=-5, time_axis=1), "attribute.invalid"),
    # split, unstack, concat, stack
    (asks("split", IMAGE, [1], results=3), None),
    (asks("split", IMAGE, [-2], results=4), None),
    (asks("split", IMAGE, [1], results=4), "shape.mismatch"),
    (asks("split", IMAGE, RUN, results=2), "constant.required"),
    (asks("split", IMAGE, [0, 1], results=2), "constant.required"),
    (asks("split", IMAGE, [4], results=1), "shape.mismatch"),
    (asks("split", IMAGE, [1], [1, 2, 3], results=3), None),
    (asks("split", IMAGE, [1], [1, -1, 0], results=3), None),
    (asks("split", IMAGE, [1], [6, -1], results=2), None),
    (asks("split", IMAGE, [1], [7, -1], results=2), "shape.mismatch"),
    (asks("split", IMAGE, [1], [1, 2, 4], results=3), "shape.mismatch"),
    (asks("split", IMAGE, [1], [1, 2, 2], results=3), "shape.mismatch"),
    (asks("split", IMAGE, [1], [3, 3], results=3), "shape.mismatch"),
    (asks("split", IMAGE, [1], [-1, -1, 3], results=3), "shape.mismatch"),
    (asks("split", IMAGE, [1], [8, -2], results=2), "shape.mismatch"),
    (asks("split", IMAGE, [1], RUN, results=1), "constant.required"),
    (asks("unstack", IMAGE, results=6, axis=1), None),
    (asks("unstack", IMAGE, results=3, axis=-1), None),
    (asks("unstack", IMAGE, results=5, axis=1), "shape.mismatch"),
    (asks("concat", IMAGE, IMAGE, axis=1), None),
    (asks("concat", IMAGE, (4, 9, 8, 3), axis=1), None),
    (asks("concat", IMAGE, (4, 9, 8, 3), axis=2), "shape.mismatch"),
    (asks("concat", IMAGE, IMAGE, axis=1, activation="relu"), "activation.unsupported"),
    (asks("stack", IMAGE, IMAGE, axis=4), None),
    (asks("stack", (2, 3), (2, 4), axis=0), "shape.mismatch"),
    # matmul
    (asks("matmul", (2, 3), (3, 4)), None),
    (asks("matmul", (2, 3), (4, 3), transpose_b=True), None),
    (asks("matmul", (3, 2), (3, 4), transpose_a=True), None),
    (asks("matmul", (2, 3), (4, 3)), "shape.mismatch"),
    (asks("matmul", (3,), (3, 4)), "shape.mismatch"),
    (asks("matmul", (2, 3), (3,)), "shape.mismatch"),
    (asks("matmul", (2, 1, 1, 2, 3), (3, 4)), None),
    (asks("matmul", (2, 1, 1, 1, 2, 3), (3, 4)), None),
    (asks("matmul", (2, 0), (0, 4)), "shape.empty"),
    (asks("matmul", (0, 2), (2, 4)), "shape.empty"),
    (asks("matmul", (2, 2), (2, 0)), "shape.empty"),
    # reshape
    (asks("reshape", IMAGE, [-1, 3]), None),
    (asks("reshape", IMAGE, [192, 3]), None),
    (asks("reshape", IMAGE, [191, 3]), "shape.mismatch"),
    (asks("reshape", IMAGE, [-1, 5]), "shape.mismatch"),
    (asks("reshape", IMAGE, [-1, -1]), "shape.mismatch"),
    (asks("reshape", IMAGE, [-2, 3]), "shape.mismatch"),
    (asks("reshape", (0, 3), [-1, 0]), None),
    (asks("reshape", IMAGE, RUN), "constant.required"),
    (asks("reshape", (1, 4, 1), squeeze=(0, -1)), None),
    (asks("reshape", (1, 4, 1), squeeze=(1,)), "shape.mismatch"),
    (asks("reshape", (1, 4, 1), squeeze=(3,)), "shape.mismatch"),
    (asks("reshape", (1, 4, 1), squeeze=(-4,)), "shape.mismatch"),
    (asks("reshape", (4, 5), expand=2), None),
    (asks("reshape", (4, 5), expand=-3), None),
    (asks("reshape", (4, 5), expand=3), "shape.mismatch"),
    (asks("reshape", (4, 5), expand=-4), "shape.mismatch"),
    # unpooling
    (asks("max_unpool", IMAGE, IMAGE, window=(2, 2)), None),
    (asks("max_unpool", (4, 6, 8), (4, 6, 8), window=(2, 2)), "rank.unsupported"),
    (asks("max_unpool", (4, 0, 8, 3), (4, 0, 8, 3), window=(2, 2)), "rank.unsupported"),
    (asks("max_unpool", IMAGE, (4, 6, 8, 2), window=(2, 2)), "shape.mismatch"),
    (asks("max_unpool", IMAGE, IMAGE, window=(0, 2)), "shape.too_large"),
    (asks("max_unpool", IMAGE, IMAGE, window=(1, 65_535)), None),
    (asks("max_unpool", IMAGE, IMAGE, window=(2, 32_768)), "shape.too_large"),
    (asks("max_pool_argmax", (1, 1, 1, 1), **ONCE, results=2), None),
    (asks("max_pool_argmax", (1, 0, 1, 1), **ONCE, results=2), "rank.unsupported"),
    (asks("max_pool_argmax", (1, 1, 1), **ONCE, results=2), "rank.unsupported"),
    # pooling, resizing
    (asks("average_pool_2d", IMAGE, **POOL), None),
    (asks("average_pool_2d", (4, 6, 3), **{**POOL, "window": (2,), "strides": (2,)}), None),
    (asks("average_pool_2d", (4, 6), **POOL), "rank.unsupported"),
    (asks("average_pool_2d", (4, 6, 3), **POOL), "rank.unsupported"),
    (asks("average_pool_2d", (0, 6, 8, 3), **POOL), "shape.empty"),
    (asks("average_pool_2d", IMAGE, **POOL, activation="relu6"), None),
    (asks("average_pool_2d", IMAGE, **POOL, activation="tanh"), "activation.unsupported"),
    (
        asks("average_pool_2d", IMAGE, **{**POOL, "padding": "same"}, counted=True),
        "attribute.unsupported",
    ),
    (
        asks("average_pool_2d", IMAGE, **{**POOL, "padding": (2, 0, 0, 0)}),
        "shape.unsupported",
    ),
    (asks("average_pool_2d", IMAGE, **{**POOL, "padding": (1, 0, 0, 0)}), None),
    # Taps 5 apart, from -3 on and from -4 on, of which one meets 2 elements
    (asks("max_pool_2d", (1, 2, 1), **SPARSE, padding=(3, 6)), "shape.unsupported"),
    (asks("max_pool_2d", (1, 2, 1), **SPARSE, padding=(4, 5)), None),
    (asks("resize", IMAGE, [5, 1]), None),
    (asks("resize", (4, 6, 3), [5]), None),
    (asks("resize", IMAGE, RUN), "constant.required"),
    (asks("resize", IMAGE, [5, 0]), "constant.invalid"),
    (asks("resize", IMAGE, [5, 5, 5]), "constant.invalid"),
    (asks("resize", (4, 6), [5]), "rank.unsupported"),
    (asks("resize", (2,) * 6, [5] * 4), "rank.unsupported"),
    (asks("resize", (4, 0, 8, 3), [5, 5]), "shape.empty"),
    (asks("resize", IMAGE, [5, 5], **HALVES), "attribute.invalid"),
    (asks("resize", IMAGE, [5, 5], coordinates="tf_crop_and_resize"), "attribute.invalid"),
    (asks("resize", IMAGE, [5, 5], coordinates="tf_crop_and_resize", roi=(0.0,) * 4), None),
    (asks("resize", IMAGE, [5, 5], scales=(1.0,)), "attribute.invalid"),
    (asks("resize", (1, INDEX, 1, 1), [5, 5]), None),
    (asks("resize", (1, INDEX + 1, 1, 1), [5, 5]), "shape.too_large"),
    (asks("resize_bilinear", (1, INDEX, 1, 1), [5, 5], **STEPS), None),
    (asks("resize_bilinear", BYTES, [5, 5], **STEPS), None),
    (
        asks("resize_bilinear", replace(BYTES, shape=(1, INDEX // 16 + 1, 1, 1)), [5, 5], **STEPS),
        "shape.too_large",
    ),
]


@pytest.mark.parametrize(
    ("said", "wanted"), CASES, ids=[f"{k} {said.args[0]}" for k, (said, _) in enumerate(CASES)]
)
def test_what_does_not_fit(said: partial[Refusal | None], wanted: str | None) -> None:
    found = said()
    assert code(found) == wanted


# Inputs of lstm_full: where its parts begin, and the order of the four gates.
INPUTS, RECURRENTS, PEEPHOLES, BIASES, NORMS = 1, 5, 9, 12, 20
DEPTH, UNITS = 3, 2


def gates(first: int, *shape: int, count: int = 4) -> dict[int, Any]:
    return {first + k: np.zeros(shape).tolist() for k in range(count)}


def full(*absent: int, **attributes: Any) -> Refusal | None:
    """Returns the refusal of a full LSTM without these inputs, or None."""
    given: dict[int, Any] = {0: (1, DEPTH), 18: (1, UNITS), 19: (1, UNITS)}
    given |= gates(INPUTS, UNITS, DEPTH) | gates(RECURRENTS, UNITS, UNITS)
    given |= gates(PEEPHOLES, UNITS, count=3)
    given |= gates(BIASES, UNITS) | gates(NORMS, UNITS)
    inputs = [None if k in absent else given.get(k) for k in range(24)]
    return said("lstm_full", *inputs, results=3, **attributes)


@pytest.mark.parametrize(
    ("absent", "wanted"),
    [
        ((), None),
        ((INPUTS, RECURRENTS, PEEPHOLES, BIASES, NORMS), None),
        ((PEEPHOLES, PEEPHOLES + 1, PEEPHOLES + 2), None),
        ((*range(NORMS, NORMS + 4),), None),
        ((INPUTS,), "input.missing"),
        ((RECURRENTS,), "input.missing"),
        ((BIASES,), "input.missing"),
        ((PEEPHOLES + 1,), "input.missing"),
        ((PEEPHOLES + 2,), "input.missing"),
        ((NORMS,), "input.missing"),
        ((NORMS + 3,), "input.missing"),
        *(((k,), "input.missing") for k in (2, 3, 4, 6, 7, 8, 13, 14, 15, 18, 19)),
    ],
)
def test_the_parts_of_a_full_lstm_belong_together(
    absent: tuple[int, ...], wanted: str | None
) -> None:
    found = full(*absent)
    assert code(found) == wanted, found


def test_a_full_lstm_has_tanh() -> None:
    assert code(full(activation="relu")) == "activation.unsupported"
    assert full(activation="tanh") is None


@pytest.mark.parametrize(
    ("held", "wanted", "same"),
    [("i32", "i32", True), ("i64", "i64", True), ("i32", "i64", False), ("u8", "i8", True),
     ("bool", "u8", True), ("u8", "bool", False), ("i8", "i16", False), ("u16", "i16", True),
     ("f32", "i32", False), ("i32", "f32", False), ("f32", "f32", False), ("f16", "i16", False)],
)  # fmt: skip
def test_bits_of_floats_are_not_taken(held: str, wanted: str, same: bool) -> None:
    assert same_bits(held, wanted) == same
