"""Rows for the attention operators that onnxruntime's optimizer writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Condition, Shape, asks, needs
from tflgpu_plugin.providers import Builder

from .presence import absent, together, unread, unset
from .rearranging import part, parts

# Positions of inputs: of Attention, of QAttention, of MultiHeadAttention.
MASK, PAST, BIAS = 3, 4, 5
Q_MASK, Q_PAST = 5, 8
KEPT = 7  # the position of the mask of an EmbedLayerNormalization
KEY_BIAS, KEY_MASK, SCORE_BIAS, PAST_KEY = 3, 4, 5, 6  # the past values come next
Part = int  # a tensor of queries, keys or values


def attention(e: Builder) -> list[int | None]:
    """Builds Attention, where each head's queries, keys and values are parts of x W + b."""
    made = e.plus(e.run("MatMul", e.x(0), e.x(1)), e.get(2))
    return attended(e, made, MASK, PAST, e.get(BIAS))


def attended(
    e: Builder, made: int, mask: int, past: int, bias: int | None = None
) -> list[int | None]:
    """Builds attention of concatenated queries, keys and values; `mask` and `past` are positions of
    inputs.
    """
    heads, (batch, length, _) = e.integer("num_heads", 1), e.shape(made)
    q, k, v = parts(e, made, widths(e))
    before, present = 0, None
    if e.has(past) or e.wants(1):
        k, v = (heads_first(e, part, heads) for part in (k, v))
        if e.has(past):
            _, *held = e.shape(e.x(past))
            before = held[2]
            k, v = _behind(e, [e.reshape(t, held) for t in parts(e, e.x(past), (1, 1), 0)], k, v)
        if e.wants(1):
            present = e.add("concat", *(e.reshape(t, (1, *e.shape(t))) for t in (k, v)), axis=0)
    masked = _mask(e, mask, (batch, length, before + length), raises=True)
    y = of_heads(e, (q, k, v), (heads, heads), _sum(e, masked, bias), causal=_causal(e),
                  past=before)  # fmt: skip
    return [y, present]


def multi_head(e: Builder) -> list[int | None]:
    """Builds MultiHeadAttention: queries, keys and values are inputs, each with a bias."""
    heads, given = e.integer("num_heads", 1), [e.x(k) for k in range(3)]
    q, k, v = biased(e, given) if e.has(KEY_BIAS) else given
    k, v, before = with_past(e, k, v, heads, PAST_KEY)
    masked = _mask(e, KEY_MASK, (*e.shape(q)[:2], e.shape(k)[-2]))
    y = of_heads(e, (q, k, v), (heads, heads), _sum(e, masked, e.get(SCORE_BIAS)),
                  causal=_causal(e), past=before)  # fmt: skip
    return [y, k, v]


def with_past(e: Builder, k: Part, v: Part, heads: int, position: int) -> tuple[Part, Part, int]:
    """Returns keys and values appended to those of the past at this position and the next one, with
    the heads first where there is a past or they are results, and the number of past keys.
    """
    if e.has(position) or e.wants(1) or e.wants(2):
        k, v = (heads_first(e, t, heads) for t in (k, v))
    if not e.has(position):
        return k, v, 0
    pasts = [e.x(position), e.x(position + 1)]
    return *_behind(e, pasts, k, v), e.shape(pasts[0])[2]


def _behind(e: Builder, pasts: Sequence[Part], *new: Part) -> tuple[Part, Part]:
    """Returns keys and values appended to those of a past, [batch, heads, keys, depth]."""
    k, v = (e.add("concat", *pair, axis=2) for pair in zip(pasts, new, strict=True))
    return k, v


def of_heads(
    e: Builder, given: Sequence[Part], heads: tuple[int, int], mask: int | None,
    lengths: int | None = None, **attributes: Any,
) -> int:  # fmt: skip
    """Adds the attention op; its result is [batch, queries, values of all heads] where q has that
    rank.
    """
    return e.add("attention", *given, mask, lengths, heads=heads[0], kv_heads=heads[1],
                 scale=score_scale(e, given[0], heads[0]), **attributes)  # fmt: skip


def score_scale(e: Builder, q: Part, heads: int) -> float:
    depth = e.shape(q)[-1] if e.rank(q) == 4 else e.shape(q)[-1] // heads
    return e.number("scale", 0.0) or max(depth, 1) ** -0.5


def heads_first(e: Builder, x: int, heads: int) -> int:
    """Returns [batch, length, heads * depth] as [batch, heads, length, depth], or a tensor that has
    this shape already.
    """
    if e.rank(x) == 4:
        return x
    batch, length, width = e.shape(x)
    split = e.reshape(x, (batch, length, heads, width // heads))
    return e.transpose(split, (0, 2, 1, 3))


def as_integers(e: Builder, x: int) -> int:
    """Returns integers, which constants hold as int32."""
    known = e.constant(x)
    return x if known is None else e.index(known)


def listed(e: Builder, places: int, values: Sequence[int]) -> int:
    """Returns the values of a list at these indices; an index out of range is an error of the
    run.
    """
    return e.add("gather", e.index(values), places, axis=0, raises=True)


def _sum(e: Builder, *terms: int | None) -> int | None:
    """Returns the sum of the summands that are present."""
    given = [term for term in terms if term is not None]
    return e.add("add", *given) if len(given) == 2 else given[0] if given else None


def _causal(e: Builder) -> bool:
    return e.integer("unidirectional") == 1


def biased(e: Builder, given: Sequence[Part]) -> list[Part]:
    """Returns queries, keys and values with their part of the bias."""
    sizes = [e.shape(t)[-1] for t in given[:2]]
    biases = parts(e, e.x(KEY_BIAS), (*sizes, e.shape(e.x(KEY_BIAS))[0] - sum(sizes)))
    return [e.add("add", *pair) for pair in zip(given, biases, strict=True)]


def widths(e: Builder) -> tuple[int, ...]:
    """Returns the number of values per token of queries, keys and values."""
    return e.integers("qkv_hidden_sizes") or (e.shape(e.x(1))[-1] // 3,) * 3


def _masks(scores: Shape) -> dict[Shape, Shape]:
    """Returns the shapes that a mask of these scores [batch, queries, keys] may have, each with the
    shape in which it broadcasts to them.
    """
    batch, length, keys = scores
    return {
        (batch, keys): (batch, 1, 1, keys),
        (batch, length, keys): (batch, 1, length, keys),
        (batch,): (batch, 1, 1, 1),
    }


def _mask(e: Builder, position: int, scores: Shape, raises: bool = False) -> int | None:
    """Returns the summand of the scores: 0 where the mask is positive, or for as many first keys as
    it says for each batch; with `raises`, a negative length is an error of the run.
    """
    if not e.has(position):
        return None
    given, keys = e.x(position), scores[2]
    shape = e.shape(given)
    if raises and len(shape) == 1:
        most = e.add("minimum", as_integers(e, given), e.index([keys]), dtype="i32")
        given = listed(e, most, range(keys + 1))
    given = e.add("cast", given, dtype="f32")
    given = e.reshape(given, _masks(scores)[shape])
    least = 0.0 if len(shape) > 1 else e.const(np.arange(scores[2]))
    seen = e.add("greater", given, least, dtype="bool")
    return e.add("where", seen, 0.0, e.number("mask_filter_value", -10000.0), dtype="f32")


def embedding(e: Builder) -> list[int | None]:
    """Builds EmbedLayerNormalization: words, positions and segments, summed and normalized."""
    total = e.add("gather", e.x(2), e.x(0), axis=0, raises=True)
    if e.has(8):
        places = e.add("gather", e.x(3), e.x(8), axis=0, raises=True)
    else:
        places = part(e, e.x(3), 0, e.shape(total)[1], axis=0)
    total = e.add("add", total, places)
    if e.has(1):
        total = e.add("add", total, e.add("gather", e.x(4), e.x(1), axis=0, raises=True))
    epsilon = e.number("epsilon", 1e-12)
    y = e.add("layer_normalization", total, e.x(5), e.x(6), axis=2, epsilon=epsilon)
    if not e.wants(1):
        return [y, None, total]
    # The number of ones in each row of the mask.
    ones = e.add("cast", e.add("equal", e.x(KEPT), e.index([1]), dtype="bool"), dtype="i32")
    return [y, e.add("reduce_sum", ones, e.index([1]), keep_dims=False, dtype="i32"), total]


# ---- conditions ----------------------------------------------------------------------------------


def _past(e: Builder, past: int) -> int:
    """Returns the number of keys in the past of an Attention, which is [2, batch, heads, keys,
    depth].
    """
    return e.shape(e.x(past))[3] if e.has(past) and e.rank(e.x(past)) == 5 else 0


def _masked(e: Builder, position: int, scores: Shape) -> bool:
    return not e.has(position) or e.shape(e.x(position)) in _masks(scores)


def key_count(e: Builder, past: int) -> int:
    """Returns the number of keys, those of a past at this position included."""
    return (e.shape(e.x(past))[2] if e.has(past) else 0) + e.shape(e.x(1))[-2]


BOTH_PASTS = "Both a past of keys and one of values."
WHOLE_MASK = "A mask of shape [batch], [batch, keys] or [batch, queries, keys]."


@asks("shape.mismatch")
def divided(e: Builder) -> bool:
    """Queries, keys and values that divide into the heads."""
    return divides(e, widths(e)) and sum(widths(e)) == e.shape(e.x(1))[1]


def divides(e: Builder, sizes: Sequence[int]) -> bool:
    """These are three widths of so many heads."""
    heads = e.integer("num_heads", 1)
    return heads > 0 and len(sizes) == 3 and all(n > 0 and n % heads == 0 for n in sizes)


def _projected(mask: int, past: int, *buffers: int) -> tuple[Condition, ...]:
    """Returns the conditions of operators that project their input themselves. `mask` and `past`
    are positions of inputs, and `buffers` those of inputs that only a shared past buffer has."""
    return (
        needs(
            "input.unsupported",
            "No past in a buffer that is longer.",
            lambda e: not (e.integer("past_present_share_buffer") or any(map(e.has, buffers))),
        ),
        unset("No rotary positions.", "do_rotary"),
        needs(
            "rank.unsupported",
            "An input of rank 3 and a matrix of weights.",
            lambda e: e.rank(e.x(0)) == 3 and e.rank(e.x(1)) == 2,
        ),
        divided,
        needs(
            "shape.unsupported",
            "Keys and values of one width where there is a past.",
            lambda e: not (e.has(past) or e.wants(1)) or widths(e)[1] == widths(e)[2],
        ),
        needs(
            "input.unsupported",
            WHOLE_MASK,
            lambda e: _masked(e, mask, (*e.shape(e.x(0))[:2], _past(e, past) + e.shape(e.x(0))[1])),
        ),
    )


ATTENTION = _projected(MASK, PAST, 6)
QUANTIZED = _projected(Q_MASK, Q_PAST)


@asks("rank.unsupported")
def _apart_already(e: Builder) -> bool:
    """Queries of rank 3, keys and values that are not packed."""
    if e.rank() != 3 or not (e.has(1) and e.has(2)) or e.rank(e.x(1)) != e.rank(e.x(2)):
        return False
    return e.rank(e.x(1)) == 3 or (e.rank(e.x(1)) == 4 and not (e.has(KEY_BIAS) or e.has(PAST_KEY)))


MULTI_HEAD = (
    absent("No indirection of beams.", 8, 9),
    unread("Scores that nothing reads.", 3),
    _apart_already,
    together(BOTH_PASTS, PAST_KEY, PAST_KEY + 1),
    needs(
        "input.unsupported",
        WHOLE_MASK,
        lambda e: _masked(e, KEY_MASK, (*e.shape(e.x(0))[:2], key_count(e, PAST_KEY))),
    ),
)


EMBEDDING = (
    needs(
        "input.missing",
        "A mask where its lengths are read.",
        lambda e: not e.wants(1) or e.has(KEPT),
    ),
    needs(
        "input.missing",
        "Embeddings of segments where there are segments.",
        lambda e: not e.has(1) or e.has(4),
    ),
)
