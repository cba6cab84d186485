"""Judges both float32 answers: evaluates an ONNX model in float64.

`onnx.reference.ReferenceEvaluator` runs the model with its float32 tensors widened. This module has
only the operators that it lacks (three early ones that ONNX Runtime still takes), has wrong
(`VALID` padding, BatchNormalization before opset 14, a Resize with an empty `roi`), or is slow at
(convolutions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from conformance.references.nodes import REFERENCES
from tflgpu_plugin.ir import Array

EARLY = "early"  # the domain that we give to operators without a schema


def evaluate(
    model: onnx.ModelProto, feed: Mapping[str, Array], more: Sequence[type[OpRun]] = ()
) -> list[Any]:
    """Returns the model's outputs for inputs by name, floats as float64. `more` operators take
    precedence over those here."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen(wide.graph)
    wide.opset_import.append(onnx.helper.make_opsetid(EARLY, 1))
    evaluator = ReferenceEvaluator(wide, new_ops=[*more, *OPERATORS])  # the first of a name counts
    return list(evaluator.run(None, {name: _wide(value) for name, value in feed.items()}))


def _wide(value: Array) -> Array:
    return value.astype(np.float64) if value.dtype == np.float32 else value


def _widen(graph: onnx.GraphProto) -> None:
    """Converts all float32 of a graph and of its nodes' graphs to float64, in place."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    held = {tensor.name for tensor in graph.initializer}
    fed = [value for value in graph.input if value.name not in held]
    del graph.input[:]
    graph.input.extend(fed)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        if node.op_type in {
            operator.__name__ for operator in OPERATORS if operator.op_domain == EARLY
        }:
            node.domain = EARLY
        for attribute in node.attribute:
            _widen_tensor(attribute.t)
            _widen(attribute.g)
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


class Conv(OpRun):
    op_domain = ""

    def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array]:
        return (_biased(convolve(x, w, **attributes), b),)


def convolve(x: Array, w: Array, auto_pad: str = "NOTSET", dilations: list[int] | None = None,
             group: int = 1, kernel_shape: list[int] | None = None, pads: list[int] | None = None,
             strides: list[int] | None = None) -> Array:  # fmt: skip
    """Computes a convolution in float64: the sum over the filter's taps of a matrix product, group
    by group."""
    rank, kernel = x.ndim - 2, w.shape[2:]
    dilations, strides = dilations or [1] * rank, strides or [1] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = _padding(auto_pad, x.shape[2:], reach, strides, pads or [0] * 2 * rank)
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    out = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(x, (1, 1, *reach))
    views = views.squeeze((x.ndim, x.ndim + 1))
    steps = (slice(None, None, s) for s in (1, 1, *strides, *dilations))
    views = views[tuple(steps)]  # [B, C, *out, *kernel]
    y = np.empty((x.shape[0], w.shape[0], *out))
    for batch, k in np.ndindex(x.shape[0], group):
        filters = slice(k * w.shape[0] // group, (k + 1) * w.shape[0] // group)
        depth = slice(k * w.shape[1], (k + 1) * w.shape[1])
        _filter(views[batch, depth], w[filters], y[batch, filters])
    return y


def _filter(views: Array, w: Array, y: Array) -> None:
    """Returns y [F, *out] for views [C, *out, *kernel] and w [F, C, *kernel], some rows at a time,
    so that copies stay small."""
    axes = [0, *range(y.ndim, views.ndim)]
    rows = max(1, 2**22 // (w[0].size * max(1, y[0, 0].size)))
    for first in range(0, y.shape[1], rows):
        part = slice(first, first + rows)
        y[:, part] = np.tensordot(w, views[:, part], (range(1, w.ndim), axes))


class ConvTranspose(OpRun):
    """Adds each input element times its filter to the full result, and then crops it."""

    op_domain = ""

    def _run(self, x: Array, w: Array, b: Array | None = None, auto_pad: str = "NOTSET",
             dilations: list[int] | None = None, group: int = 1,
             kernel_shape: list[int] | None = None, output_padding: list[int] | None = None,
             output_shape: list[int] | None = None, pads: list[int] | None = None,
             strides: list[int] | None = None) -> tuple[Array]:  # fmt: skip
        rank, kernel, inner = x.ndim - 2, w.shape[2:], x.shape[2:]
        dilations, strides = dilations or [1] * rank, strides or [1] * rank
        pads, extra = pads or [0] * 2 * rank, output_padding or [0] * rank
        full = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in
                zip(inner, strides, kernel, dilations, extra, strict=True)]  # fmt: skip
        if auto_pad.startswith("SAME") and not output_shape:
            output_shape = [n * s for n, s in zip(inner, strides, strict=True)]
        if output_shape:
            lost = [max(0, f - o) for f, o in zip(full, output_shape, strict=True)]
            pads = [n // 2 if auto_pad == "SAME_UPPER" else n - n // 2 for n in lost]
        out = output_shape or [f - pads[k] - pads[k + rank] for k, f in enumerate(full)]
        x = x.reshape(x.shape[0], group, x.shape[1] // group, -1)
        w = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        room = [max(f, p + o) for f, p, o in zip(full, pads, out, strict=False)]
        y = np.zeros((x.shape[0], group, w.shape[2], *room))
        for tap in np.ndindex(*kernel):
            first = [t * d for t, d in zip(tap, dilations, strict=True)]
            part = _window(w, list(tap), [1] * rank, [1] * rank).reshape(*w.shape[:3])
            part = part.swapaxes(1, 2) @ x
            _window(y, first, list(inner), strides)[...] += part.reshape(*part.shape[:3], *inner)
        y = _window(y, pads[:rank], out, [1] * rank)
        return (_biased(y.reshape(y.shape[0], -1, *out), b),)


def _padding(kind: str, size: tuple[int, ...], reach: list[int], strides: list[int],
             pads: list[int]) -> tuple[list[int], list[int]]:  # fmt: skip
    """Returns the padding before and after each axis; NOTSET uses `pads`."""
    if not kind.startswith("SAME"):
        pads = pads if kind == "NOTSET" else [0] * len(pads)
        return pads[: len(size)], pads[len(size) :]
    totals = [max(0, (-(-n // s) - 1) * s + r - n)
              for n, r, s in zip(size, reach, strides, strict=True)]  # fmt: skip
    less, more = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return (less, more) if kind == "SAME_UPPER" else (more, less)


def _window(x: Array, first: list[int], count: list[int], strides: list[int]) -> Array:
    """Returns a view of the last axes: `count` elements from `first` on, `strides` apart."""
    axes = (slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(first, count, strides, strict=True))
    view: Array = x[(slice(None),) * (x.ndim - len(count)) + tuple(axes)]
    return view


def _biased(y: Array, b: Array | None) -> Array:
    return y if b is None else _channels(b, y) + y


def _channels(values: Array, x: Array) -> Array:
    """Returns one value per channel in a shape that broadcasts over x [B, C, ...]."""
    return np.asarray(values).reshape(-1, *[1] * (x.ndim - 2))


class BatchNormalization(OpRun):
    """Normalizes with the running statistics, as inference does in every opset."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array,
             epsilon: float = 1e-5, **_: object) -> tuple[Array]:  # fmt: skip
        factor = _channels(scale / np.sqrt(variance + epsilon), x)
        return (factor * (x - _channels(mean, x)) + _channels(bias, x),)


class Resize(OpRun):
    """Resizes by scales or sizes; batch and channels do not change."""

    op_domain = ""

    def _run(self, x: Array, roi: Array | None = None, scales: Array | None = None,
             sizes: Array | None = None, coordinate_transformation_mode: str = "half_pixel",
             cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
             extrapolation_value: float = 0.0, mode: str = "nearest",
             nearest_mode: str = "round_prefer_floor", **_: object) -> tuple[Array]:  # fmt: skip
        given = None if scales is None or not scales.size else [float(s) for s in scales]
        wanted = np.floor(np.multiply(x.shape, given)) if given else sizes
        assert wanted is not None and tuple(wanted[:2]) == x.shape[:2]
        y = REFERENCES["resize"](
            np.moveaxis(x, 1, -1), np.asarray(wanted[2:], np.int64), mode,
            coordinate_transformation_mode, nearest_mode, tuple(given[2:]) if given else None,
            (), extrapolation_value, cubic_coeff_a, bool(exclude_outside),
        )  # fmt: skip
        return (np.moveaxis(y, -1, 1),)


class ImageScaler(OpRun):
    """Computes x * scale + bias per channel."""

    op_domain = EARLY

    def _run(self, x: Array, bias: list[float], scale: float = 1.0) -> tuple[Array]:
        return (x * scale + _channels(np.asarray(bias), x),)


class Crop(OpRun):
    """Cuts `border` (left, top, right, bottom) off an image, or keeps `scale` (height, width)."""

    op_domain = EARLY

    def _run(self, x: Array, border: list[int], scale: list[int] | None = None) -> tuple[Array]:
        left, top, right, bottom = border
        height, width = scale or (x.shape[2] - top - bottom, x.shape[3] - left - right)
        return (x[:, :, top : top + height, left : left + width],)


class Affine(OpRun):
    """Computes alpha * x + beta."""

    op_domain = EARLY

    def _run(self, x: Array, alpha: float = 1.0, beta: float = 0.0) -> tuple[Array]:
        return (alpha * x + beta,)


class ZipMap(OpRun):
    """Returns the scores as an array in the order of the classes."""

    op_domain = "ai.onnx.ml"

    def _run(self, scores: Array, classlabels_int64s: list[int] | None = None,
             classlabels_strings: list[str] | None = None) -> tuple[Array]:  # fmt: skip
        classes = classlabels_int64s or classlabels_strings or []
        return (scores[:, np.argsort(np.asarray(classes))],)


OPERATORS = (Conv, ConvTranspose, BatchNormalization, Resize, ImageScaler, Crop, Affine, ZipMap)
