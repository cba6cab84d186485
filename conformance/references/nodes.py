"""Internal ops in numpy: functions of float64 arrays and the node's attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, inf
from typing import Any

import numpy as np

from conformance.references import (
    attention as references_attention,
    boxes as references_boxes,
    convolutions,
    normalization,
    pools as references_pools,
    recurrent as references_recurrent,
    resize,
    samples as references_samples,
    scatter as references_scatter,
    trees as references_trees,
)
from conformance.references.rounding import (
    dynamic_quantize,
    rounded,
    rounds,
    times_factor,
    wide_product,
)
from tflgpu_plugin.ir import FLOAT8, Array, bfloat16, float8

_erf = np.vectorize(erf, otypes=[np.float64])


def _clip(x: Array, low: float | None = None, high: float | None = None) -> Array:
    return np.asarray(np.clip(x, -inf if low is None else low, inf if high is None else high))


def _negative_part(x: Array, alpha: float) -> Array:
    return np.asarray(alpha * np.expm1(np.minimum(x, 0)))


def _shrink(x: Array, lambd: float = 0.5, bias: float = 0.0) -> Array:
    return np.where(x > lambd, x - bias, np.where(x < -lambd, x + bias, 0))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + rounded(np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _infinite(x: Array, negative: float = 1, positive: float = 1) -> Array:
    return (np.isneginf(x) & bool(negative)) | (np.isposinf(x) & bool(positive))


def _argument(sign: float) -> Any:
    def indices(x: Array, axes: Array, keep_dims: bool, last: bool = False) -> Array:
        (axis,) = (int(a) for a in axes.reshape(-1))
        given = np.flip(x, axis) if last else x
        found = np.argmax(sign * given, axis, keepdims=keep_dims)
        return np.asarray(x.shape[axis] - 1 - found if last else found)

    return indices


def _pick(x: Array, indices: Array, axis: int, wraps: bool = False) -> Array:
    rows = np.moveaxis(x, range(axis, axis + indices.shape[1]), range(indices.shape[1]))
    return np.moveaxis(rows[tuple(indices.astype(np.int64).T)], 0, axis)


def _gather_nd(x: Array, indices: Array, batch: int = 0, wraps: bool = False) -> Array:
    count, batches = indices.shape[-1], list(np.ndindex(x.shape[:batch]))
    rows = [x[at][tuple(indices[at].reshape(-1, count).T)] for at in batches]
    return np.asarray(rows).reshape(indices.shape[:-1] + x.shape[batch + count :])


def _gather_elements(x: Array, indices: Array, axis: int, wraps: bool = False) -> Array:
    corner = tuple(slice(None if k == axis else n) for k, n in enumerate(indices.shape))
    return np.take_along_axis(x[corner], indices, axis)


def _lookup(x: Array, table: Array, scale: float) -> Array:
    """Returns the entry for each multiple of the scale, counted from the least int16."""
    places = np.clip(np.rint(x / scale), -(2**15), 2**15 - 1).astype(np.int64) + 2**15
    return np.asarray(table[places])


def _digit(x: Array, numbers: Sequence[float]) -> Array:
    """Returns the digit after this many bits, of a number with signed digits."""
    scale, before, bits, last = numbers
    left = np.rint(x / scale).astype(np.int64)
    base = 1 << int(bits)
    for _ in range(int(before // bits)):
        left = (left + base // 2) // base
    rest = (left + base // 2) // base
    return np.asarray(left if last else left - rest * base, np.float64)


def _wide_total(
    rows: Array,
    *sums: Array,
    bits: int,
    numbers: Sequence[float],
    away: bool = False,
    places: Sequence[int] = range(4),
) -> Array:
    """Computes with integers of any size, of whose results int32 keeps 32 bits, or `away` its least
    number for those beyond it."""
    scale, least, most = numbers
    halves = [row.astype(np.int64).astype(object) for row in rows]
    low, by_low = (half % 2**32 for half in (halves[0], halves[2]))
    bias, by, power = low + halves[1] * 2**32, by_low + halves[3] * 2**32, halves[4]
    whole = [np.rint(part).astype(np.int64).astype(object) for part in sums]
    total = bias + sum(part * 2 ** (bits * k) for k, part in zip(places, whole, strict=False))
    sign = np.where(total < 0, -1, 1) if away else 1
    found = sign * ((sign * total * by + 2 ** (power - 1)) // 2**power)
    within = (found + 2**31) % 2**32 - 2**31
    found = np.where(found == within, found, -(2**31)) if away else within
    return np.asarray(np.clip(found, int(least), int(most)).astype(np.float64) * scale)


def _softmax_place(sums: Array) -> Array:
    """Returns the place of a sum in the reciprocals of the numbers from 1 to 2: the first 17 bits
    after its leading zeros, rounded."""
    wide = sums.astype(np.int64)
    left = 31 - np.floor(np.log2(wide)).astype(np.int64) - 1
    return np.asarray(np.clip(((wide << left) + (1 << 13) >> 14) - 98304, -(2**15), 2**15 - 1))


def _softmax_share(powers: Array, parts: Array, sums: Array, scale: float) -> Array:
    right = np.floor(np.log2(sums.astype(np.float64))).astype(np.int64)
    product = np.rint(powers).astype(np.int64) * np.rint(parts).astype(np.int64)
    return np.asarray(np.clip(product + (1 << right - 1) >> right, 0, 2**15 - 1) * scale)


def _one_hot(indices: Array, depth: Array, on: Array, off: Array, axis: int,
             wraps: bool = False) -> Array:  # fmt: skip
    count = int(depth.reshape(-1)[0])
    indices = np.where((indices < 0) & wraps, indices + count, indices)
    there = np.expand_dims(indices, -1) == np.arange(count)
    return np.moveaxis(np.where(there, on, off), -1, axis)


def _of_8_bits(mantissa: int, bias: int, **others: float) -> str:
    """Returns the type with these bits of the mantissa and this bias of the exponent."""
    return next(k for k, held in FLOAT8.items() if (held.mantissa, held.bias) == (mantissa, bias))


UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "neg": np.negative, "ceil": np.ceil, "floor": np.floor, "round": np.round,
    "sign": np.sign, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square,
    "cube": lambda x: x**3, "reciprocal": lambda x: 1 / x, "log": np.log,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    "gelu": lambda x, approximate=False:
        _gelu_tanh(x) if approximate else 0.5 * x * (1 + rounded(_erf(x / np.sqrt(2)))),
    "gelu_tanh": _gelu_tanh,
    "elu": lambda x, alpha=1.0: np.where(x < 0, _negative_part(x, alpha), x),
    "selu": lambda x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875:
        gamma * np.where(x < 0, _negative_part(x, alpha), x),
    "celu": lambda x, alpha=1.0: np.where(x < 0, _negative_part(x / alpha, alpha), x),
    "leaky_relu": lambda x, alpha=0.01: np.where(x < 0, alpha * x, x),
    "thresholded_relu": lambda x, alpha=1.0: np.where(x > alpha, x, 0),
    "clip": _clip,
    "hard_sigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "swish": lambda x, alpha=1.0: x / (1 + np.exp(-alpha * x)),
    "softplus": _softplus, "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(_softplus(x)), "shrink": _shrink,
    "to_bfloat16": lambda x: bfloat16.bits(x.astype(np.float32)), "from_bfloat16": bfloat16.values,
    "to_float8": lambda x, greatest, above, **form: float8.bits(
        x.astype(np.float32), _of_8_bits(**form), saturates=above == greatest
    ),
    "from_float8": lambda x, **form: float8.values(x.astype(np.uint8), _of_8_bits(**form)),
    "is_nan": np.isnan, "is_infinite": _infinite, "logical_not": np.logical_not,
    "bitwise_not": np.invert,
}  # fmt: skip


def _pow(a: Array, b: Array) -> Array:
    """Computes powers; exponents of negative numbers must be integers, which rounding must not
    change."""
    y, size = np.power(a, b), np.abs(a) ** b
    lost = np.isnan(y) & (a < 0) & rounds()
    return np.where(lost, np.where(np.round(b) % 2 == 1, -size, size), y)


def _log_sum_exp(x: Array, **where: Any) -> Array:
    top = np.max(x, axis=where["axis"], keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.sum(np.exp(rounded(x - top)), axis=where["axis"], keepdims=True)
    y = top + rounded(np.log(total))
    return y if where["keepdims"] else np.squeeze(y, where["axis"])


BINARY: dict[str, Callable[..., Any]] = {
    "div": np.divide, "pow": _pow, "squared_difference": lambda a, b: (a - b) ** 2,
    "atan2": np.arctan2, "hypot": np.hypot,
    "left_shift": lambda x, by: np.left_shift(x, np.clip(by, 0, 31)),
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "floor_div": np.floor_divide, "floor_mod": np.mod, "fmod": np.fmod,
    "checked": lambda x, near: x,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "equal": np.equal,
    "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "where": np.where,
}  # fmt: skip


def _depth_to_space(x: Array, block: int, mode: str = "DCR") -> Array:
    b, h, w, c = x.shape
    depth = c // block**2
    if mode == "DCR":
        y = x.reshape(b, h, w, block, block, depth).transpose(0, 1, 3, 2, 4, 5)
    else:
        y = x.reshape(b, h, w, depth, block, block).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(b, h * block, w * block, depth)


def _space_to_depth(x: Array, block: int, mode: str = "DCR") -> Array:
    b, h, w, c = x.shape
    y = x.reshape(b, h // block, block, w // block, block, c)
    y = y.transpose((0, 1, 3, 2, 4, 5) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return y.reshape(b, h // block, w // block, c * block**2)


def _dilate(x: Array, steps: Array, value: Array) -> Array:
    made = np.full([(n - 1) * k + 1 for n, k in zip(x.shape, steps, strict=True)], value, x.dtype)
    made[tuple(slice(None, None, k) for k in steps)] = x
    return made


def _pad(x: Array, amounts: Array | None, value: Array | None = None, mode: str = "constant",
         paddings: Any = ()) -> Array:  # fmt: skip
    given = np.asarray(paddings[: x.ndim]) if amounts is None else amounts
    value = None if value is None else np.reshape(value, ())
    more: dict[str, Any] = {"mode": mode}
    if value is not None and mode == "constant":
        more["constant_values"] = value
    return np.asarray(np.pad(x, given.reshape(-1, 2), **more))


def _gather(x: Array, indices: Array, axis: int, wraps: bool = False, batch_dims: int = 0) -> Array:
    if not batch_dims:
        return np.take(x, indices, axis=axis)
    batch, axis = batch_dims % indices.ndim, axis % x.ndim
    rows = [_gather(a, b, axis - 1, wraps, batch - 1) for a, b in zip(x, indices, strict=True)]
    return np.stack(rows)


MOVEMENT: dict[str, Callable[..., Any]] = {
    "transpose": lambda x, perm: np.transpose(x, perm),
    "view": lambda x, view, zeros=False: view.of(x),
    "pad": _pad,
    "dilate": _dilate,
    "tile": lambda x, repeats: np.tile(x, repeats),
    "expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "reverse": lambda x, axes: np.flip(x, tuple(int(a) for a in axes)),
    "gather": _gather,
    "depth_to_space": _depth_to_space,
    "space_to_depth": _space_to_depth,
}


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Array, axes: Array, centre: Array | float = 0, *, keep_dims: bool) -> Any:
        x = x - centre if np.ndim(centre) else x
        over = tuple(sorted({int(a) % x.ndim for a in axes.reshape(-1)})) if x.ndim else ()
        return function(x, axis=over, keepdims=keep_dims)

    return reduced


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": lambda x, **w: np.trunc(np.mean(x, **w)) if x.dtype.kind == "i" else np.mean(x, **w),
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min,
    "reduce_l1": lambda x, **w: np.sum(np.abs(x), **w),
    "reduce_l2": lambda x, **w: np.sqrt(np.sum(x * x, **w)),
    "reduce_sum_square": lambda x, **w: np.sum(x * x, **w),
    "reduce_mean_square": lambda x, **w: np.mean(x * x, **w),
    "reduce_log_sum": lambda x, **w: np.log(np.sum(x, **w)),
    "reduce_log_sum_exp": _log_sum_exp,
}  # fmt: skip


def _matmul(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    a = a.swapaxes(-1, -2) if transpose_a else a
    return np.asarray(np.matmul(a, b.swapaxes(-1, -2) if transpose_b else b))


def _wide(weights: Array, scales: Array, zeros: Array | None, bits: int, block: int) -> Array:
    """Returns rows of words of this many bits as the numbers that they represent."""
    words = weights.astype(np.int64)[..., None] >> np.arange(0, 32, bits)
    numbers = (words & (2**bits - 1)).reshape(*scales.shape, block)
    middle = np.full(scales.shape, 2 ** (bits - 1)) if zeros is None else zeros
    wide = (numbers - middle[..., None]) * scales[..., None]
    return np.asarray(wide.reshape(len(scales), -1))


def _matmul_blocks(x: Array, weights: Array, scales: Array, zeros: Array | None = None, *,
                   bits: int, block: int) -> Array:  # fmt: skip
    return np.asarray(x @ _wide(weights, scales, zeros, bits, block)[:, : x.shape[-1]].T)


def _gather_blocks(indices: Array, weights: Array, scales: Array, zeros: Array | None = None, *,
                   bits: int, block: int, width: int) -> Array:  # fmt: skip
    rows = np.clip(np.where(indices < 0, indices + len(scales), indices), 0, len(scales) - 1)
    return _wide(weights, scales, zeros, bits, block)[rows, :width]


def _pool_argmax(x: Array, window: tuple[int, int], padding: str) -> tuple[Array, Array]:
    """Returns the largest element of each window and its index; windows do not overlap and begin at
    the first element."""
    (b, h, w, c), (rows, columns) = x.shape, window
    over = padding == "same"
    counts = [(n + (k - 1) * over) // k for n, k in ((h, rows), (w, columns))]
    values, indices = np.zeros((2, b, *counts, c))
    for y, z in np.ndindex(*counts):
        part = x[:, y * rows : (y + 1) * rows, z * columns : (z + 1) * columns]
        best = part.reshape(b, -1, c).argmax(1)
        values[:, y, z] = part.max((1, 2))
        indices[:, y, z] = best // part.shape[2] * columns + best % part.shape[2]
    return values, indices


def _unpool(x: Array, indices: Array, window: tuple[int, int], padding: str) -> Array:
    b, h, w, c = x.shape
    y = np.zeros((b, h, window[0], w, window[1], c))
    for n, i, j, k in np.ndindex(b, h, w, c):
        at = divmod(int(indices[n, i, j, k]), window[1])
        y[n, i, at[0], j, at[1], k] = x[n, i, j, k]
    return y.reshape(b, h * window[0], w * window[1], c)


def _reverse_sequence(x: Array, lengths: Array, batch_axis: int, time_axis: int) -> Array:
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1)).copy()
    for sequence, length in zip(moved, np.ravel(lengths), strict=True):
        sequence[: int(length)] = sequence[: int(length)][::-1].copy()
    return np.moveaxis(moved, (0, 1), (batch_axis, time_axis))


def _top_k(x: Array, k: Array, axis: int = -1, largest: int = 1) -> tuple[Array, Array]:
    """Returns the first k elements; NaN counts as the worst possible value."""
    worst = -np.inf if largest else np.inf
    keys = np.where(np.isnan(x), worst, x)
    order = np.argsort(-keys if largest else keys, axis, kind="stable")
    indices = np.take(order, np.arange(int(np.ravel(k)[0])), axis)
    return np.take_along_axis(x, indices, axis), indices


def _nonzero(flags: Array) -> tuple[Array, Array]:
    """Returns the indices of nonzero elements, followed by the number of elements."""
    found = np.flatnonzero(flags)
    behind = np.full(flags.size - found.size, flags.size)
    return np.concatenate([found, behind]), np.asarray(found.size)


def _nonzero_places(sums: Array) -> Array:
    return np.searchsorted(sums, np.arange(sums.size), side="right")


def _cumsum(x: Array, axis: Array, exclusive: bool = False, reverse: bool = False) -> Array:
    along = int(np.ravel(axis)[0])
    y = np.cumsum(np.flip(x, along) if reverse else x, along)
    y = np.flip(y, along) if reverse else y
    return np.asarray(y - x if exclusive else y)


def _cumprod(x: Array, axis: Array, exclusive: bool = False, reverse: bool = False) -> Array:
    along = int(np.ravel(axis)[0])
    rows = np.moveaxis(np.flip(x, along) if reverse else x, along, 0)
    if exclusive:
        rows = np.concatenate([np.ones_like(rows[:1]), rows[:-1]])
    y = np.moveaxis(np.cumprod(rows, 0), 0, along)
    return np.asarray(np.flip(y, along) if reverse else y)


def _reshape(x: Array, wanted: Any = None, shape: Any = None, squeeze: Any = (),
             expand: int | None = None) -> Array:  # fmt: skip
    shape = wanted if shape is None else shape
    if expand is not None:
        return np.expand_dims(x, expand)
    return np.squeeze(x, squeeze or None) if shape is None else x.reshape([int(n) for n in shape])


REFERENCES: dict[str, Callable[..., Any]] = {
    **normalization.REFERENCES, **references_pools.REFERENCES,
    "add_n": lambda *values: sum(values),
    "cumsum": _cumsum, "cumprod": _cumprod, "reverse_sequence": _reverse_sequence,
    "non_max_suppression": references_boxes.non_max_suppression,
    "soft_non_max_suppression": references_boxes.soft_non_max_suppression,
    "detections": references_boxes.detections, "class_boxes": references_boxes.class_boxes,
    "chosen_boxes": references_boxes.chosen_boxes,
    "nonzero": _nonzero, "nonzero_places": _nonzero_places,
    "top_k": _top_k, "resize": resize.resize, "matmul": _matmul,
    "attention": references_attention.attention, "rotary": references_attention.rotary,
    "matmul_blocks": _matmul_blocks, "gather_blocks": _gather_blocks,
    "decision_trees": references_trees.decision_trees,
    "squared_distances": lambda x, y: ((x[:, None] - y) ** 2).sum(-1),
    "grid_sample": references_samples.grid_sample, "roi_align": references_samples.roi_align,
    "roi_max_pool": references_samples.roi_max_pool,
    "max_pool_argmax": _pool_argmax, "max_unpool": _unpool,
    **convolutions.REFERENCES, **references_recurrent.REFERENCES,
    **UNARY, **BINARY, **MOVEMENT,
    "digit": _digit, "lookup": _lookup, "wide_total": _wide_total, "wide_product": wide_product,
    "softmax_place": _softmax_place, "softmax_share": _softmax_share,
    "one_hot": _one_hot, "times_factor": times_factor, "dynamic_quantize": dynamic_quantize,
    "reshape": _reshape,
    "rfft": lambda x, lengths: np.fft.rfft2(x, tuple(int(n) for n in lengths)),
    "real": np.real, "imaginary": np.imag, "complex_abs": np.abs,
    "gather_elements": _gather_elements,
    **references_scatter.REFERENCES,
    "pick": _pick, "gather_nd": _gather_nd,
    "arg_max": _argument(1), "arg_min": _argument(-1),
    **{name: _reduction(function) for name, function in REDUCTIONS.items()},
}  # fmt: skip
