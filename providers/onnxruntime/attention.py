"""Rows for the operators of a transformer that onnxruntime's own optimization makes of many."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.graph import Shape
from tflgpu_plugin.ir.host_op import needs

from .expansion import Expansion
from .rearranging import cut

LOWEST = float(np.finfo(np.float32).min)
MASK, PAST, BIAS = 3, 4, 5


def attention(e: Expansion) -> int:
    """Attention: softmax(scale * Q K' + mask) V of each head, where Q, K and V are parts of
    x W + b; without a past."""
    x, heads = e.x(0), e.integer("num_heads", 1)
    batch, length, _ = e.shape(x)
    made = e.plus(e.run("MatMul", x, e.x(1)), e.get(2))
    sizes = _widths(e)
    parts, start = [], 0
    for size in sizes:
        part = cut(e, made, [slice(0, batch), slice(0, length), slice(start, start + size)])
        split = e.reshape(part, (batch, length, heads, size // heads))
        parts.append(e.transpose(split, (0, 2, 1, 3)))
        start += size
    scale = e.number("scale", 0.0) or (sizes[0] // heads) ** -0.5
    scores = e.add("mul", e.add("matmul", *parts[:2], transpose_b=True), scale)
    scores = e.plus(e.plus(scores, _mask(e)), e.get(BIAS))
    if e.integer("unidirectional"):
        after = np.triu(np.full((length, length), LOWEST, np.float32), 1)
        scores = e.add("add", scores, e.const(after))
    shares = e.add("softmax", scores, beta=1.0, axis=3)
    mixed = e.add("matmul", shares, parts[2])
    return e.reshape(e.transpose(mixed, (0, 2, 1, 3)), (batch, length, sizes[2]))


def _widths(e: Expansion) -> tuple[int, ...]:
    """How many values of a place are queries, keys and values."""
    return e.integers("qkv_hidden_sizes") or (e.shape(e.x(1))[-1] // 3,) * 3


def _masks(e: Expansion) -> dict[Shape, Shape]:
    """Shapes that a mask may have, with those in which it spreads over the scores."""
    batch, length, _ = e.shape(e.x(0))
    return {
        (batch, length): (batch, 1, 1, length),
        (batch, length, length): (batch, 1, length, length),
    }


def _mask(e: Expansion) -> int | None:
    """What is added to the scores: 0 where the mask is positive."""
    if not e.has(MASK):
        return None
    spread = _masks(e)[e.shape(e.x(MASK))]
    given = e.reshape(e.add("cast", e.x(MASK), dtype="f32"), spread)
    seen = e.add("greater", given, 0.0, dtype="bool")
    return e.add("where", seen, 0.0, e.number("mask_filter_value", -10000.0), dtype="f32")


def embedding(e: Expansion) -> list[int | None]:
    """EmbedLayerNormalization: words, positions and segments, summed and normalized."""
    total = e.add("gather", e.x(2), e.x(0), axis=0)
    if e.has(8):
        places = e.add("gather", e.x(3), e.x(8), axis=0)
    else:
        places = cut(e, e.x(3), [slice(e.shape(total)[1]), slice(None)])
    total = e.add("add", total, places)
    if e.has(1):
        total = e.add("add", total, e.add("gather", e.x(4), e.x(1), axis=0))
    epsilon = e.number("epsilon", 1e-12)
    y = e.add("layer_normalization", total, e.x(5), e.x(6), axis=2, epsilon=epsilon)
    return [y, None, total]


# ---- what they need ------------------------------------------------------------------------------

ATTENTION = (
    needs(
        "No past.",
        lambda e: not (e.has(PAST) or e.wants(1) or any(e.has(k) for k in range(6, len(e.inputs)))),
    ),
    needs("No rotary positions.", lambda e: not e.integer("do_rotary")),
    needs(
        "An input of rank 3 and a matrix of weights.",
        lambda e: e.rank(e.x(0)) == 3 and e.rank(e.x(1)) == 2,
    ),
    needs(
        "Queries, keys and values that divide into the heads.",
        lambda e: (
            e.integer("num_heads", 1) > 0
            and len(_widths(e)) == 3
            and sum(_widths(e)) == e.shape(e.x(1))[1]
            and all(n > 0 and n % e.integer("num_heads", 1) == 0 for n in _widths(e))
        ),
    ),
    needs(
        "A mask of shape [batch, length] or [batch, length, length].",
        lambda e: not e.has(MASK) or e.shape(e.x(MASK)) in _masks(e),
    ),
)
EMBEDDING = (
    needs("A mask that nothing reads.", lambda e: not e.wants(1)),
    needs("Embeddings of segments where there are segments.", lambda e: not e.has(1) or e.has(4)),
)
