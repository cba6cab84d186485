"""Evaluates one node in numpy: the meaning of its op, its activation, its fused steps, and the
levels of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import Parameter, signature
from math import prod
from typing import Any

import numpy as np

from conformance.evaluation import steps
from conformance.evaluation.numbers import (
    SMALL,
    away,
    is_real,
    levels,
    on_levels,
)
from conformance.references.truth import REFERENCES, padding
from tflgpu_plugin import ops
from tflgpu_plugin.ir import (
    BFLOAT16,
    NUMPY_DTYPES,
    Array,
    Graph,
    Node,
    Tensor,
    bfloat16,
    quantization,
)
from tflgpu_plugin.ops import quantization as quantize, quantized, svdf
from tflgpu_plugin.ops.binary import COMPARED_UNIT
from tflgpu_plugin.ops.table import BIAS, Op


class NoMeaning(Exception):
    """An error for an op that has no meaning here, and none by decomposition; the text names it."""


def _space_to_batch(x: Array, blocks: Array, paddings: Array) -> Array:
    pads = np.asarray(paddings).reshape(-1, 2)
    count = len(pads)
    x = np.pad(x, [(0, 0), *map(tuple, pads), *[(0, 0)] * (x.ndim - 1 - count)])
    sides = [n // int(b) for n, b in zip(x.shape[1:], blocks, strict=False)]
    inner = [k for n, b in zip(sides, blocks, strict=True) for k in (n, int(b))]
    x = x.reshape(x.shape[0], *inner, *x.shape[1 + count :])
    places = [2 * k + 2 for k in range(count)], [2 * k + 1 for k in range(count)]
    rest = range(1 + 2 * count, x.ndim)
    batch = prod(int(b) for b in blocks) * x.shape[0]
    x = x.transpose(*places[0], 0, *places[1], *rest)
    return np.asarray(x.reshape(batch, *sides, *x.shape[1 + 2 * count :]))


def _batch_to_space(x: Array, blocks: Array, crops: Array) -> Array:
    cuts, sizes = np.asarray(crops).reshape(-1, 2), [int(b) for b in blocks]
    count = len(sizes)
    batch = x.shape[0] // prod(sizes)
    y = x.reshape(*sizes, batch, *x.shape[1:])
    order = [k for n in range(count) for k in (count + 1 + n, n)]
    y = y.transpose(count, *order, *range(2 * count + 1, y.ndim))
    y = y.reshape(batch, *(n * b for n, b in zip(x.shape[1:], sizes, strict=False)), *y.shape[1 + 2 * count:])  # fmt: skip  # noqa: E501
    index = [slice(None), *(slice(a, n - b) for (a, b), n in zip(cuts, y.shape[1:], strict=False))]
    return np.asarray(y[tuple(index)])


def _squeeze_excite(
    x: Array, w: Array, bias: Array | None, v: Array, inner: Sequence[tuple[str, Sequence[float]]]
) -> tuple[Array, Array]:
    hidden = x.mean(tuple(range(1, x.ndim - 1)), keepdims=True) @ w[:, 0, 0].T
    hidden = hidden if bias is None else hidden + bias
    for name, numbers in inner:
        hidden = (steps.STEPS.get(name) or REFERENCES[name])(hidden, *numbers)
    return hidden @ v[:, 0, 0].T, hidden


MORE: dict[str, Callable[..., Any]] = {
    **steps.QUANTIZED, "times_factor": steps.times_factor,
    "lookup": steps.lookup,
    **{name: REFERENCES[name] for name in ("softmax_place", "softmax_share")},
    **{name: REFERENCES[name] for name in ("wide_total", "wide_product")},
    "concat": lambda *parts, axis: np.concatenate(parts, axis=axis),
    "stack": lambda *parts, axis: np.stack(parts, axis=axis),
    "logical_and": np.logical_and,
    "right_shift": lambda x, by: np.right_shift(x, np.clip(by, 0, 31)),
    "space_to_batch": _space_to_batch, "batch_to_space": _batch_to_space,
    "dequantize": np.asarray, "squeeze_excite": _squeeze_excite,
}  # fmt: skip
# Ops whose meaning is that of the ops that they are made of, and why.
BY_DECOMPOSITION = {
    "lstm_full": "its gates, peepholes, projections and layer norms are an op for each",
}
# The numbers of these are inputs of the computation, or parameters other than arguments.
NUMBERED = {*steps.QUANTIZED, "times_factor"}
# Families of layers over time, whose activation is that of each step, within their meaning.
SEQUENCES = {"lstm", "recurrent", "recurrent_layer", "rnn_basic", "bidirectional", "svdf"}
COMPUTED = {"lstm_basic": 2}  # results, before those that are a host's scratch memory
# Attributes that say nothing of numbers.
IDLE = {"fixed_point", "nan", "negates", "one_way", "powers", "raises", "rescales", "rounds_once",
        "saturates", "split", "unchecked", "whole", "zeros"}  # fmt: skip


def known_ops() -> dict[str, str]:
    """Returns how the meaning of each op is known: "reference", "views", "decomposition" or ""."""
    found = {}
    for name, row in ops.rows().items():
        if name in MORE or name in REFERENCES or name in ("quantize", "cast"):
            found[name] = "reference"
        elif row.views:
            found[name] = "views"
        else:
            found[name] = "decomposition" if name in BY_DECOMPOSITION else ""
    return found


def run(graph: Graph, node: Node, given: Sequence[Array | None]) -> list[Array]:
    """Returns the results of a node for the values of its inputs. Raises NoMeaning."""
    results = _made(graph, node, given)
    inside = ops.rows()[node.op].family in SEQUENCES
    activation = "none" if inside else str(node.attributes.get("activation", "none"))
    found = []
    outputs = node.outputs[: COMPUTED.get(node.op)]
    for k, (value, tensor) in enumerate(zip(results, outputs, strict=False)):
        held = graph.tensors[tensor]
        if activation != "none":
            value = _limited(activation, value, held) if k == 0 else value
        found.append(value)
    return found


def finished(graph: Graph, node: Node, value: Array, operands: Mapping[int, Array]) -> Array:
    """Returns a first result after its epilogue ops, in the type of its tensor."""
    held = graph.tensors[node.outputs[0]]
    for place, each in enumerate(node.epilogue):
        last = place == len(node.epilogue) - 1
        if last and each.tensor is None and not each.parameters:
            value = _limited(each.op, value, held)
            continue
        operand = None if each.tensor is None else _operand(operands[each.tensor], value)
        value = steps.apply(graph, each, np.asarray(value, np.float64), operand)
    return on_levels(value, held)


def _operand(operand: Array, value: Array) -> Array:
    """Returns the operand of an epilogue op: of the result's shape, one value per channel, or a
    single one."""
    if operand.size == value.size:
        return operand.reshape(value.shape)
    return operand.astype(np.float64) if operand.dtype.kind == "b" else operand


def _limited(op: str, value: Array, tensor: Tensor) -> Array:
    """Returns the value after an activation. Limits are levels, where the result has some."""
    row, found = ops.row(op), levels(tensor)
    if row is None or row.limits is None or found is None:
        return np.asarray((steps.STEPS.get(op) or REFERENCES[op])(value))
    low, high = (quantization.nearest(limit, found.scale) * found.scale for limit in row.limits)
    return np.clip(value, low, high)


def _made(graph: Graph, node: Node, given: Sequence[Array | None]) -> list[Array]:
    """Returns the results without activation and epilogue ops."""
    row = ops.rows()[node.op]
    if row.stored and any(_scaled(graph.tensors[t]) for t in (*node.reads, *node.outputs)):
        return [_of_stored(graph, node, given)]
    if node.attributes.get("fixed_point"):
        given = [_in_fixed_point(graph, *one) for one in zip(node.reads, given, strict=True)]
    if node.op == "quantize":
        return [_quantized(graph, node, given)]
    if node.op == "cast":
        return [_cast(graph, node, given)]
    if node.op == "svdf" and quantization.quantized(graph.tensors[node.operand()]):
        return _stored_svdf(graph, node, given)
    if node.op not in MORE and node.op not in REFERENCES:
        if row.views is None or given[0] is None:
            raise NoMeaning(node.op)
        return [view.of(given[0]) for view in row.views(graph, node)]
    function = MORE.get(node.op) or REFERENCES[node.op]
    settings = {k: v for k, v in node.attributes.items() if k not in _ignored(row)}
    if node.op in NUMBERED:
        return [function(*(v for v in given if v is not None), *settings["numbers"])]
    if isinstance(settings.get("padding"), str) and "strides" in settings:
        settings |= padding(graph, node)
    values = list(given)
    if node.op == "transpose_conv" and len(values) == 3:
        values.append(np.array(graph.shape(node.outputs[0])))
    found = function(*values, **settings)
    return list(found) if isinstance(found, tuple) else [np.asarray(found)]


def _ignored(row: Op) -> set[str]:
    """Returns the attributes that are no argument of the op's meaning."""
    return IDLE if row.family in SEQUENCES else IDLE | {"activation"}


def untaken(op: str) -> set[str]:
    """Returns the attributes that nodes of an op may have and its meaning does not take."""
    row, function = ops.rows()[op], MORE.get(op) or REFERENCES.get(op)
    if function is None or op in NUMBERED:
        return set()
    parameters: Iterable[Parameter] = ()
    with suppress(ValueError):  # a function of numpy, which takes operands alone
        parameters = signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return set()
    return {*row.attributes} - {each.name for each in parameters} - _ignored(row)


def _stored_svdf(graph: Graph, node: Node, given: Sequence[Array | None]) -> list[Array]:
    """Computes an 8-bit SVDF layer: the memory is rounded to its levels before it is weighted,
    and there is no activation (`EvalIntegerSVDF` of
    tensorflow/lite/kernels/internal/reference/svdf.h)."""
    x, features, times, bias, memory = given
    assert x is not None and features is not None and times is not None and memory is not None
    count, length = times.shape
    held = graph.tensors[node.operand(svdf.MEMORY)].quantization
    step = held.scale[0] if held else 1.0
    new = np.clip(away(x @ features.T / step), -(2**15), 2**15 - 1) * step
    old = memory.reshape(-1, count, length)[:, :, 1:]
    kept = np.concatenate([old, new[:, :, None]], axis=2)
    sums = (kept * times).reshape(len(x), -1, int(node.attributes["rank"]) * length).sum(axis=2)
    return [sums if bias is None else sums + bias, kept.reshape(len(x), -1)]


def _quantized(graph: Graph, node: Node, given: Sequence[Array | None]) -> Array:
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    value = np.asarray(given[0], np.float64)
    if quantization.is_integer(source):
        scale, zero = quantization.parameters(source)
        value = (value - zero) * scale
    if quantization.is_integer(result):
        scale, zero = quantization.parameters(result)
        return np.asarray(np.rint(value / scale) + zero)
    return steps.apply(graph, quantize.step(graph, node), value, None)


def _in_fixed_point(graph: Graph, tensor: int, value: Array | None) -> Array:
    """Returns the integers that hosts compare instead of the values of an 8-bit tensor."""
    scale, _ = quantization.parameters(graph.tensors[tensor])
    numbers = quantized.factor_numbers(scale / COMPARED_UNIT, scale, 1.0)
    return steps.times_factor(np.asarray(value), *numbers)


def _scaled(tensor: Tensor) -> bool:
    """Whether the stored numbers of small integers differ from their values."""
    held = quantization.parameters(tensor) if tensor.dtype in SMALL else (1.0, 0.0)
    return held != (1.0, 0.0)


def _of_stored(graph: Graph, node: Node, given: Sequence[Array | None]) -> Array:
    """Computes an op with stored numbers: that of tensors without a scale."""
    plain = {t: replace(graph.tensors[t], quantization=None) if _scaled(graph.tensors[t])
             else graph.tensors[t] for t in (*node.reads, *node.outputs)}  # fmt: skip
    numbers = []
    for tensor, value in zip(node.inputs, given, strict=True):
        if tensor is not None and value is not None and _scaled(graph.tensors[tensor]):
            scale, zero = quantization.parameters(graph.tensors[tensor])
            value = np.rint(value / scale) + zero
        numbers.append(value)
    (found,), result = _made(Graph.over(plain, node), node, numbers), graph.tensors[node.outputs[0]]
    if not _scaled(result):
        return found
    scale, zero = quantization.parameters(result)
    kind = np.iinfo(NUMPY_DTYPES[result.dtype])
    first = graph.tensors[node.operand()]
    floats = not (first.dtype in SMALL or quantization.is_integer(first) or first.dtype == "bool")
    held = np.clip(found, kind.min, kind.max) if floats else found
    return np.asarray(((held - kind.min) % (1 << kind.bits) + kind.min - zero) * scale)


def _cast(graph: Graph, node: Node, given: Sequence[Array | None]) -> Array:
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    value = given[0]
    assert value is not None
    if source.dtype == BFLOAT16 and result.dtype != BFLOAT16:
        value = bfloat16.values(value.astype(np.uint16)).astype(np.float64)
    if result.dtype == BFLOAT16 and source.dtype != BFLOAT16:
        return bfloat16.bits(value.astype(np.float32)).astype(np.int64)
    if result.dtype == "bool":
        return np.asarray(value != 0)
    if value.dtype.kind == "f" and (quantization.is_integer(result) or is_real(result)):
        return np.trunc(value)
    return value


def bias_place(node: Node) -> int:
    """Returns the position of a bias among the inputs of a node."""
    return svdf.BIAS if node.op == "svdf" else BIAS


def bias_of(graph: Graph, node: Node) -> Array | None:
    """Returns an int32 bias as hosts take it, in units of the products to which it is added; None
    for no bias."""
    place = bias_place(node)
    bias = node.inputs[place] if len(node.inputs) > place else None
    has = ops.bias(node) is not None or node.op == "svdf"
    tensor = None if bias is None or not has else graph.tensors[bias]
    if tensor is None or tensor.dtype != "i32" or tensor.data is None:
        return None
    factors = (svdf.TIMES, svdf.MEMORY) if node.op == "svdf" else (0, 1)
    x, weights = (graph.tensors[node.operand(k)].quantization for k in factors)
    if x is None or weights is None or len(x.scale) != 1:
        return None
    scales = np.float64(x.scale[0]) * np.asarray(weights.scale, np.float64)
    return tensor.data * scales if scales.size in (1, tensor.data.size) else None
