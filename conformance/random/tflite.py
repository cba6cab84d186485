"""Single TFLite operators with random shapes, axes and options, in the terms of `cases`."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, detection, non_max_suppression

Shape = tuple[int, ...]


class Chance:
    """A seeded source of random numbers."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.of, self.up_to = self.random.choice, self.random.randint

    def shape(self, ranks: tuple[int, ...], most: int = 7) -> Shape:
        rank = self.of(ranks)
        return tuple(1 if self.maybe(0.2) else self.up_to(1, most) for _ in range(rank))

    def maybe(self, share: float = 0.5) -> bool:
        return self.random.random() < share

    def spread(self, shape: Shape) -> Shape:
        """Returns a shape that broadcasts to this one."""
        kept = [n if self.maybe(0.7) else 1 for n in shape]
        return tuple(kept[self.up_to(0, len(kept)) :]) if self.maybe(0.3) else tuple(kept)

    def value(self, shape: Shape, low: float = -2.0, high: float = 2.0, **more: Any) -> Input:
        """Adds a fed tensor, or sometimes a constant."""
        fed = Input(shape, low=low, high=high, **more)
        if self.maybe(0.8) or more:
            return fed
        return constant(self.numbers.uniform(low, high, shape).astype(np.float32))


def unary(c: Chance) -> Case:
    ops = ("NEG", "FLOOR", "CEIL", "ROUND", "SIGN", "SIN", "COS", "SQUARE", "GELU", "LOGICAL_NOT")
    op, shape = c.of(ops), c.shape((0, 1, 2, 3, 4, 5, 6), 5)
    if op == "LOGICAL_NOT":
        return Case("", op, 1, (Input(shape, "bool"),), output_type="bool")
    given = (Input(shape, low=-9, high=9, step=c.of((0.0, 0.5))),)
    if op == "GELU":
        return Case("", op, 1, given, "GeluOptions", {"approximate": c.maybe()})
    return Case("", op, 1, given)


def pairs(c: Chance) -> Case:
    shape = c.shape((0, 1, 2, 3, 4))
    op = c.of(("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "POW",
               "LOGICAL_OR", "SQUARED_DIFFERENCE"))  # fmt: skip
    shapes = [c.spread(shape), shape]
    c.random.shuffle(shapes)
    if op == "LOGICAL_OR":
        given = tuple(Input(s, "bool") for s in shapes)
        return Case("", op, 1, given, output_type="bool")
    if op == "POW":
        return Case("", op, 1, (Input(shapes[0], low=0.2, high=3), c.value(shapes[1])))
    if op == "SQUARED_DIFFERENCE":
        return Case("", op, 1, (Input(shapes[0], low=-2), c.value(shapes[1])))
    first, second = (Input(s, low=-2.4, high=2.4, step=1.0) for s in shapes)
    return Case("", op, 1, (first, second), output_type="bool")


def select(c: Chance) -> Case:
    shape = c.shape((0, 1, 2, 3, 4))
    shape = shape if prod(shape) > 1 else ()  # of single elements the host makes a scalar
    shapes = [c.spread(shape), c.spread(shape), shape]
    c.random.shuffle(shapes)
    condition, *values = shapes
    given = (Input(condition, "bool"), *(c.value(s) for s in values))
    return Case("", "SELECT_V2", 1, given, "SelectV2Options")


def product(c: Chance) -> Case:
    m, k, n = (c.up_to(1, 13) for _ in range(3))
    outer = c.shape((0, 0, 1, 2), 3)
    others = [c.spread(outer), outer]
    c.random.shuffle(others)
    swaps = c.maybe(), c.maybe()
    a = (*others[0], *((k, m) if swaps[0] else (m, k)))
    b = (*others[1], *((n, k) if swaps[1] else (k, n)))
    options = {"adjX": swaps[0], "adjY": swaps[1]}
    return Case("", "BATCH_MATMUL", 1, (Input(a), c.value(b)), "BatchMatMulOptions", options)


def reduction(c: Chance) -> Case:
    op = c.of(("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "MEAN"))
    shape = c.shape((1, 2, 3, 4, 5))
    axes = c.random.choices(range(-len(shape), len(shape)), k=c.up_to(0, len(shape)))
    given = (Input(shape, low=-1.2, high=1.2), constant(tuple(axes), "i32"))
    return Case("", op, 1, given, "ReducerOptions", {"keepDims": c.maybe()})


def slices(c: Chance) -> Case:
    shape = c.shape((1, 2, 3, 4, 5))
    begin = [c.up_to(0, n - 1) for n in shape]
    size = [c.of((-1, c.up_to(1, n - b))) for n, b in zip(shape, begin, strict=True)]
    kind = c.of(("i32", "i64"))
    given = (Input(shape), constant(begin, kind), constant(size, kind))
    return Case("", "SLICE", 5 if len(shape) > 4 else 1, given, "SliceOptions")


def tile(c: Chance) -> Case:
    shape = c.shape((1, 2, 3, 4, 5), 4)
    given = (Input(shape), constant([c.of((1, 1, 2, 3)) for _ in shape], "i32"))
    return Case("", "TILE", 1, given, "TileOptions")


def expand_dims(c: Chance) -> Case:
    shape = c.shape((0, 1, 2, 3, 4))
    axis = c.up_to(-len(shape) - 1, len(shape))
    given = (Input(shape), constant(axis, "i32"))
    return Case("", "EXPAND_DIMS", 1, given, "ExpandDimsOptions")


def log_softmax(c: Chance) -> Case:
    shape = c.shape((1, 2, 3, 4, 5), 19)
    return Case("", "LOG_SOFTMAX", 1, (Input(shape, low=-9, high=9),), "LogSoftmaxOptions")


def volume(c: Chance) -> Case:
    inputs, outputs = c.up_to(1, 6), c.up_to(1, 9)
    kernel = tuple(c.up_to(1, 3) for _ in range(3))
    given = (
        Input((c.of((1, 2)), *(c.up_to(3, 8) for _ in range(3)), inputs)),
        c.value((*kernel, inputs, outputs)),
        *([c.value((outputs,))] if c.maybe() else []),
    )
    options: dict[str, Any] = {"padding": c.of(("SAME", "VALID"))}
    options |= {f"stride{axis}": c.of((1, 1, 2, 3)) for axis in "DHW"}
    options |= {f"dilation{axis}Factor": c.of((1, 1, 2)) for axis in "DHW"}
    options["fusedActivationFunction"] = c.of(("NONE", "RELU", "RELU6"))
    return Case("", "CONV_3D", 1, given, "Conv3DOptions", options)


def batches(c: Chance) -> Case:
    count = c.of((1, 2, 2))
    blocks = [c.up_to(1, 3) for _ in range(count)]
    margins = np.array([(c.up_to(0, 2), c.up_to(0, 2)) for _ in range(count)])
    inner, channels, batch = [c.up_to(1, 4) for _ in range(count)], c.up_to(1, 9), c.up_to(1, 2)
    if c.maybe():
        extents = [n * b - int(sum(m)) for n, b, m in zip(inner, blocks, margins, strict=True)]
        if min(extents) < 1:
            margins, extents = margins * 0, [n * b for n, b in zip(inner, blocks, strict=True)]
        op, shape = "SPACE_TO_BATCH_ND", (batch, *extents, channels)
    else:
        whole = [n * b - int(sum(m)) for n, b, m in zip(inner, blocks, margins, strict=True)]
        margins = margins if min(whole) > 0 else margins * 0
        op, shape = "BATCH_TO_SPACE_ND", (batch * prod(blocks), *inner, channels)
    given = (Input(shape), constant(blocks, "i32"), constant(margins, "i32"))
    return Case("", op, 1 if count == 2 else 3, given)


def choice(c: Chance) -> Case:
    """Draws numbers of which many are equal, or none."""
    shape = c.shape((1, 2, 3, 4), 30)
    given = Input(shape, low=-3, high=3, step=c.of((0.0, 0.5, 2.0)))
    if c.maybe():
        count = constant(c.up_to(1, shape[-1]), "i32")
        types = ("f32", "i32")
        return Case("", "TOPK_V2", 1, (given, count), "TopKV2Options", {}, 2, output_types=types)
    which, rank = c.of(("Max", "Min")), len(shape)
    axis = constant(c.up_to(-rank, rank - 1), "i32")
    options = {"outputType": "INT32"}
    return Case("", f"ARG_{which.upper()}", 1, (given, axis), f"Arg{which}Options", options,
                output_type="i32")  # fmt: skip


def suppression(c: Chance) -> Case:
    """Adds a non-maximum suppression, with some equal scores and boxes unless overlaps lower
    scores."""
    count, soft = c.of((1, 9, 64, 65, 200)), c.maybe(0.3)
    wanted, overlap, least = c.up_to(1, count), c.of((0.2, 0.5, 1.0)), c.of((-2.0, 0.25))
    step = 0.0 if soft else c.of((0.0, 0.125))
    scores = Input((count,), low=-1, step=step)
    boxes = Input((count, 4), low=0, high=5, step=c.of((0.0, 0.0 if soft else 1.0)))
    if soft or c.maybe():
        sigma = 0.5 if soft else 0.0
        return non_max_suppression.v5("", boxes, scores, sigma, wanted, overlap, least)
    return non_max_suppression.v4("", boxes, scores, wanted, overlap, least)


def detections(c: Chance) -> Case:
    """Adds a detection, for each class or over all classes. In the latter case it finds as many
    boxes as are wanted, because hosts leave arbitrary values after them: the anchors are pairs at
    the same position, of which one is found."""
    count, classes, regular = 2 * c.of((1, 4, 33, 70)), c.of((1, 2, 5)), c.maybe()
    around = detection.anchors(count) if regular else detection.apart(count)[np.arange(count) // 2]
    step = 0.0 if regular else c.of((0.0, 0.125))  # hosts do not agree which class comes first
    scores = Input((1, count, classes + c.of((0, 1))), low=-1, step=step)
    return detection.host(
        "", (1, count, 4), scores, constant(around), num_classes=classes, use_regular_nms=regular,
        max_detections=c.up_to(1, count // 2), nms_iou_threshold=c.of((0.2, 0.5, 1.0)),
        nms_score_threshold=c.of((0.1, 0.9)) if regular else -2.0,
    )  # fmt: skip


GROUPS: tuple[Callable[[Chance], Case], ...] = (
    unary, pairs, select, product, reduction, slices, tile, expand_dims, log_softmax, volume,
    batches, choice, suppression, detections,
)  # fmt: skip
