"""Blocks for `random_onnx` around operators that select, place and order elements, and around those
that newer opsets have: attention as one operator, einsum, products of many axes.

Indices are computed from values without rounding errors, so that the hosts find the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.random.onnx_maker import OWN, Maker, Value
from tflgpu_plugin.ir import Array

EQUATIONS = {2: ("ij->ji", "ij,ij->i", "ij->j"), 3: ("bij,bkj->bik", "bij->bj", "bij,bij->bi"),
             4: ("bhij,bhkj->bhik", "bhij->bhj", "nchw->nhwc")}  # fmt: skip


def _axis(m: Maker, x: Value) -> int:
    return m.choose.randrange(-len(x.shape), len(x.shape))


def _indices(m: Maker, shape: tuple[int, ...], extent: int) -> str:
    """Adds constant indices, counted from the front or from the end."""
    low = -extent if m.choose.random() < 0.5 else 0
    return m.const(m.numbers.integers(low, extent, shape), np.int64)


def _gathered(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4, exact=m.choose.random() < 0.5)
    axis = _axis(m, x)
    if x.exact:  # each with the place of the largest
        op = m.choose.choice(("ArgMax", "ArgMin"))
        found = m.step(op, x, axis=axis, keepdims=1)
        return m.add("GatherElements", x, found, axis=axis, exact=True)
    shape = tuple(m.choose.randint(1, n) for n in x.shape)
    m.add("GatherElements", x, _indices(m, shape, x.shape[axis]), axis=axis)


def _gathered_rows(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    width = m.choose.randint(1, len(x.shape))
    rows = [m.numbers.integers(0, n, (3, 2)) for n in x.shape[:width]]
    m.add("GatherND", x, m.const(np.stack(rows, -1), np.int64), exact=x.exact)


def _scattered(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4)
    axis, shape = _axis(m, x), tuple(m.choose.randint(1, n) for n in x.shape)
    reduction = m.choose.choice(("none", "add", "max")) if m.opset >= 18 else "none"
    count = shape[axis]
    if reduction == "none":  # an element twice would have no one value
        order = m.choose.sample(range(x.shape[axis]), count)
        rows = np.moveaxis(np.broadcast_to(order, (*np.delete(shape, axis), count)), -1, axis)
        indices = m.const(rows, np.int64)
    else:
        indices = _indices(m, shape, x.shape[axis])
    more: dict[str, Any] = {} if reduction == "none" else {"reduction": reduction}
    m.add("ScatterElements", x, indices, m.weights(*shape), axis=axis, **more)


def _scattered_rows(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    rows = m.choose.sample(range(x.shape[0]), m.choose.randint(1, x.shape[0]))
    indices = m.const(np.array(rows)[:, None], np.int64)
    m.add("ScatterND", x, indices, m.weights(len(rows), *x.shape[1:]))


def _triangle(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    k = m.const(np.array(m.choose.randint(-2, 2)), np.int64)
    m.add("Trilu", x, k, upper=m.choose.choice((0, 1)), exact=x.exact)


def _running_sum(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4)
    flags: dict[str, Any] = {name: m.choose.choice((0, 1)) for name in ("exclusive", "reverse")}
    m.add("CumSum", x, m.const(np.array(_axis(m, x)), np.int64), **flags)


def _largest(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4, exact=True)
    axis = _axis(m, x)
    count = m.ints(m.choose.randint(1, x.shape[axis]))
    largest = m.choose.choice((0, 1))
    values, _ = m.node("TopK", (x, count), 2, {"axis": axis, "largest": largest})
    m.keep([values], exact=True)


def _one_hot(m: Maker) -> None:
    x = m.pick(2, 3, exact=True)
    axis = _axis(m, x)
    depth = m.ints(x.shape[axis] + m.choose.choice((0, 1)))
    place = m.step("ArgMax", x, axis=axis, keepdims=0)
    m.add("OneHot", place, depth, m.const([-0.5, 1.5]), axis=m.choose.choice((-1, 0, 1)))


def _hardmax(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4, exact=True)
    m.add("Hardmax", x, axis=_axis(m, x), exact=True)


def _einsum(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    equation = m.choose.choice(EQUATIONS[len(x.shape)])
    others = [m.weights(*x.shape)] if "," in equation else []
    m.add("Einsum", x, *others, equation=equation)


def _sampled(m: Maker) -> None:
    x = m.pick(4, 5) if m.opset >= 20 else m.pick(4)
    batch, _, height, *others = x.shape
    places = m.numbers.integers(-80, 81, (batch, height + 1, *others, len(x.shape) - 2)) / 64
    cubic_too = len(x.shape) == 4
    linear, cubic = ("linear", "cubic") if m.opset >= 20 else ("bilinear", "bicubic")
    padding = m.choose.choice(("zeros", "border", "reflection"))
    m.add("GridSample", x, m.const(places),
          mode=m.choose.choice((linear, cubic)) if cubic_too else linear,
          padding_mode=padding, align_corners=m.choose.choice((0, 1)))  # fmt: skip


def _regions(m: Maker) -> None:
    x = m.pick(4)
    batch, _, height, width = x.shape
    low = m.numbers.uniform(-2, 3, (3, 2))
    rois = np.concatenate([low, low + m.numbers.uniform(0.3, max(height, width), (3, 2))], 1)
    numbers = m.const(m.numbers.integers(0, batch, 3), np.int64)
    m.add(
        "RoiAlign",
        x,
        m.const(rois),
        numbers,
        output_height=2,
        output_width=3,
        mode=m.choose.choice(("avg", "max")),
        sampling_ratio=m.choose.choice((0, 1, 2)),
    )


def _deformed(m: Maker) -> None:
    x = m.pick(4)
    batch, channels, height, width = x.shape
    shifted = m.choose.choice([n for n in (1, 2, 3) if channels % n == 0])
    groups = m.choose.choice([n for n in (1, 2, 4) if channels % n == 0])
    made = (height + 1, width)  # of windows of 2 x 3, padded by 1
    weights = m.weights(2 * groups, channels // groups, 2, 3, spread=(1 / channels) ** 0.5)
    offsets = m.weights(batch, shifted * 12, *made, spread=1.7)
    mask = [m.weights(2 * groups), m.weights(batch, shifted * 6, *made)]
    m.add(
        "DeformConv",
        x,
        weights,
        offsets,
        *(mask if m.choose.random() < 0.5 else []),
        pads=[1, 1, 1, 1],
        group=groups,
        offset_group=shifted,
    )


def _columns(m: Maker) -> None:
    """Adds a Col2Im that sums overlapping patches of 2 x 3, one for each position."""
    x = m.pick(4)
    batch, channels, height, width = x.shape
    taps = m.step("Reshape", x, m.ints(batch, channels, height * width))
    spread = m.step("Tile", taps, m.ints(1, 6, 1))
    m.add("Col2Im", spread, m.ints(height + 1, width + 2), m.ints(2, 3))


def _unpooled(m: Maker) -> None:
    x = m.pick(4, exact=True)
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    most, places = m.node("MaxPool", (x,), 2, window)
    m.add("MaxUnpool", m.step("Mul", most, m.const(0.5)), places, **window)


def _unit(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    m.add("LpNormalization", x, axis=_axis(m, x), p=m.choose.choice((1, 2)))


def _many_axes(m: Maker) -> None:
    """Adds a product between axes of extent 1."""
    x = m.pick(3, 4)
    *outer, width = x.shape
    wide = m.step("Reshape", x, m.ints(1, *outer[:-1], 1, *[1] * (5 - len(x.shape)),
                                       outer[-1], width))  # fmt: skip
    made = m.step("MatMul", wide, m.weights(width, width, spread=(1 / width) ** 0.5))
    m.add("Reshape", made, m.ints(*x.shape))


def _attention(m: Maker) -> None:
    x = m.pick(3)
    width = x.shape[2]
    heads = m.choose.choice([n for n in range(1, width + 1) if width % n == 0])
    spread = (3 / width) ** 0.5
    parts = [m.step("MatMul", x, m.weights(width, width, spread=spread)) for _ in range(3)]
    length = x.shape[1]
    if m.choose.random() < 0.5:
        parts.append(m.weights(length, length))
    m.add("Attention", *parts, q_num_heads=heads, kv_num_heads=heads,
          is_causal=m.choose.choice((0, 1)))  # fmt: skip


def _in_blocks(m: Maker, rows: int, width: int) -> tuple[Array, str, dict[str, Any]]:
    """Adds a matrix [rows, width] in 4 or 8 bits, as bytes of [row, block], with a scale for each
    block; returns what the host's operators need to know of it."""
    bits, block = m.choose.choice((4, 8)), m.choose.choice((16, 32))
    blocks = -(-width // block)
    data = m.numbers.integers(0, 256, (rows, blocks, block * bits // 8))
    scales = m.numbers.uniform(0.01, 0.1, (rows, blocks))
    how = {"bits": bits, "block_size": block, "domain": OWN}
    return data, m.const(scales), how


def _rows_in_blocks(m: Maker) -> None:
    """Adds rows of a table, at the indices of largest elements."""
    x = m.pick(2, 3, 4, exact=True)
    rows, width = x.shape[-1], 32 * m.choose.randint(1, 3)
    data, scales, how = _in_blocks(m, rows, width)
    table = m.const(data.reshape(rows, -1), np.uint8)
    indices = m.step("ArgMax", x, axis=-1, keepdims=m.choose.choice((0, 1)))
    m.add("GatherBlockQuantized", table, indices, scales, gather_axis=0, quantize_axis=1, **how)


def _product_in_blocks(m: Maker) -> None:
    x = m.pick(2, 3)
    width, made = x.shape[-1], m.choose.choice((3, 8, 20))
    data, scales, how = _in_blocks(m, made, width)
    m.add("MatMulNBits", x, m.const(data, np.uint8), scales, K=width, N=made, **how)


BLOCKS: tuple[Callable[[Maker], None], ...] = (
    _gathered, _gathered_rows, _scattered, _scattered_rows, _triangle, _running_sum, _largest,
    _one_hot, _hardmax, _einsum, _sampled, _regions, _deformed, _columns,
    _unpooled, _unit, _many_axes, _attention, _rows_in_blocks, _product_in_blocks,
)  # fmt: skip
