"""Table rows and builders for the attention operators that onnxruntime's optimizer inserts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Condition, Shape, asks, needs
from tflgpu_plugin.providers import Builder

from .presence import absent, together, unread, unset
from .rearranging import part, parts

# Input positions of Attention, then QAttention, EmbedLayerNormalization and MultiHeadAttention.
MASK, PAST, BIAS = 3, 4, 5
Q_MASK, Q_PAST = 5, 8
KEPT = 7  # the mask
KEY_BIAS, KEY_MASK, SCORE_BIAS, PAST_KEY = 3, 4, 5, 6  # past values are input 7
Part = int  # the id of a tensor of queries, keys or values


def attention(e: Builder) -> list[int | None]:
    """Builds Attention, whose queries, keys and values are slices of x W + b."""
    made = e.plus(e.run("MatMul", e.x(0), e.x(1)), e.get(2))
    return attended(e, made, MASK, PAST, e.get(BIAS))


def attended(
    e: Builder, made: int, mask: int, past: int, bias: int | None = None
) -> list[int | None]:
    """Builds attention over `made`, which holds queries, keys and values concatenated on the last
    axis. `mask` and `past` are input positions, `bias` is a tensor added to the scores."""
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
    """Builds MultiHeadAttention: queries, keys and values are inputs, with an optional bias."""
    heads, given = e.integer("num_heads", 1), [e.x(k) for k in range(3)]
    q, k, v = biased(e, given) if e.has(KEY_BIAS) else given
    k, v, before = with_past(e, k, v, heads, PAST_KEY)
    masked = _mask(e, KEY_MASK, (*e.shape(q)[:2], e.shape(k)[-2]))
    y = of_heads(e, (q, k, v), (heads, heads), _sum(e, masked, e.get(SCORE_BIAS)),
                  causal=_causal(e), past=before)  # fmt: skip
    return [y, k, v]


def with_past(e: Builder, k: Part, v: Part, heads: int, position: int) -> tuple[Part, Part, int]:
    """Returns (keys, values, number of past keys). Keys and values are appended to the past ones,
    which are inputs `position` and `position + 1`. They are [batch, heads, keys, depth] where the
    node has a past or outputs them, else as given."""
    if e.has(position) or e.wants(1) or e.wants(2):
        k, v = (heads_first(e, t, heads) for t in (k, v))
    if not e.has(position):
        return k, v, 0
    pasts = [e.x(position), e.x(position + 1)]
    return *_behind(e, pasts, k, v), e.shape(pasts[0])[2]


def _behind(e: Builder, pasts: Sequence[Part], *new: Part) -> tuple[Part, Part]:
    """Returns the new keys and values appended to the past ones, all [batch, heads, keys,
    depth]."""
    k, v = (e.add("concat", *pair, axis=2) for pair in zip(pasts, new, strict=True))
    return k, v


def of_heads(
    e: Builder, given: Sequence[Part], heads: tuple[int, int], mask: int | None,
    lengths: int | None = None, **attributes: Any,
) -> int:  # fmt: skip
    """Adds the attention op over `given` (q, k, v); `heads` is (query heads, key and value heads).
    The result is [batch, queries, heads * depth] where q is of rank 3."""
    return e.add("attention", *given, mask, lengths, heads=heads[0], kv_heads=heads[1],
                 scale=score_scale(e, given[0], heads[0]), **attributes)  # fmt: skip


def score_scale(e: Builder, q: Part, heads: int) -> float:
    depth = e.shape(q)[-1] if e.rank(q) == 4 else e.shape(q)[-1] // heads
    return e.number("scale", 0.0) or max(depth, 1) ** -0.5


def heads_first(e: Builder, x: int, heads: int) -> int:
    """Returns `x`, [batch, length, heads * depth], as [batch, heads, length, depth]; a tensor of
    rank 4 unchanged."""
    if e.rank(x) == 4:
        return x
    batch, length, width = e.shape(x)
    split = e.reshape(x, (batch, length, heads, width // heads))
    return e.transpose(split, (0, 2, 1, 3))


def as_integers(e: Builder, x: int) -> int:
    """Returns the integer tensor `x`; a constant is converted to int32."""
    known = e.constant(x)
    return x if known is None else e.index(known)


def gathered(e: Builder, places: int, count: int, first: int = 0) -> int:
    """Returns the integer tensor `places` + first, by a lookup in a table of `count` entries: a
    place that is not below `count` fails the run."""
    return e.add("gather", e.counting(count, first), places, axis=0, raises=True)


def _sum(e: Builder, *terms: int | None) -> int | None:
    """Returns the sum of at most two tensors, without those that are None; None if all are."""
    given = [term for term in terms if term is not None]
    return e.add("add", *given) if len(given) == 2 else given[0] if given else None


def _causal(e: Builder) -> bool:
    return e.integer("unidirectional") == 1


def biased(e: Builder, given: Sequence[Part]) -> list[Part]:
    """Returns queries, keys and values, each plus its slice of the bias."""
    sizes = [e.shape(t)[-1] for t in given[:2]]
    biases = parts(e, e.x(KEY_BIAS), (*sizes, e.shape(e.x(KEY_BIAS))[0] - sum(sizes)))
    return [e.add("add", *pair) for pair in zip(given, biases, strict=True)]


def widths(e: Builder) -> tuple[int, ...]:
    """Returns the widths (values per token) of queries, keys and values."""
    return e.integers("qkv_hidden_sizes") or (e.shape(e.x(1))[-1] // 3,) * 3


def _masks(scores: Shape) -> dict[Shape, Shape]:
    """Maps each shape that a mask of `scores` [batch, queries, keys] may have to the shape to
    reshape it to, so that it broadcasts to [batch, heads, queries, keys]."""
    batch, length, keys = scores
    return {
        (batch, keys): (batch, 1, 1, keys),
        (batch, length, keys): (batch, 1, length, keys),
        (batch,): (batch, 1, 1, 1),
    }


def _mask(e: Builder, position: int, scores: Shape, raises: bool = False) -> int | None:
    """Returns the tensor to add to the scores: 0 for keys that are attended to, else
    mask_filter_value. A mask [batch] holds the number of leading keys to attend to; with `raises`,
    a negative one fails the run. Other masks are positive for keys that are attended to."""
    filling = e.number("mask_filter_value", -10000.0)
    if not e.has(position):
        return None
    given, keys = e.x(position), scores[2]
    shape = e.shape(given)
    if raises and len(shape) == 1:
        most = e.add("minimum", as_integers(e, given), e.index([keys]), dtype="i32")
        given = gathered(e, most, keys + 1)
    given = e.add("cast", given, dtype="f32")
    given = e.reshape(given, _masks(scores)[shape])
    least = 0.0 if len(shape) > 1 else e.const(np.arange(scores[2]))
    seen = e.add("greater", given, least, dtype="bool")
    return e.add("where", seen, 0.0, filling, dtype="f32")


def embedding(e: Builder) -> list[int | None]:
    """Builds EmbedLayerNormalization: normalizes the sum of word, position, segment embeddings."""
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
    # Output 1 is the number of ones in each row of the mask.
    ones = e.add("cast", e.add("equal", e.x(KEPT), e.index([1]), dtype="bool"), dtype="i32")
    return [y, e.add("reduce_sum", ones, e.index([1]), keep_dims=False, dtype="i32"), total]


# ---- conditions ----------------------------------------------------------------------------------


def _past(e: Builder, past: int) -> int:
    """Returns the number of past keys; input `past` is [2, batch, heads, keys, depth]."""
    return e.shape(e.x(past))[3] if e.has(past) and e.rank(e.x(past)) == 5 else 0


def _masked(e: Builder, position: int, scores: Shape) -> bool:
    return not e.has(position) or e.shape(e.x(position)) in _masks(scores)


def key_count(e: Builder, past: int) -> int:
    """Returns the number of keys, including those of the past keys at input `past`."""
    return (e.shape(e.x(past))[2] if e.has(past) else 0) + e.shape(e.x(1))[-2]


BOTH_PASTS = "Both past keys and past values, or neither."
WHOLE_MASK = "A mask of shape [batch], [batch, keys] or [batch, queries, keys]."


@asks("shape.mismatch")
def divided(e: Builder) -> bool:
    """Requires widths of queries, keys and values that are divisible by the number of heads."""
    return divides(e, widths(e)) and sum(widths(e)) == e.shape(e.x(1))[1]


def divides(e: Builder, sizes: Sequence[int]) -> bool:
    """Whether `sizes` are three positive widths that are divisible by num_heads."""
    heads = e.integer("num_heads", 1)
    return heads > 0 and len(sizes) == 3 and all(n > 0 and n % heads == 0 for n in sizes)


def _projected(mask: int, past: int, *buffers: int) -> tuple[Condition, ...]:
    """Returns the conditions of operators that project their input to queries, keys and values.
    `mask` and `past` are input positions, `buffers` those of inputs that only a shared past buffer
    has."""
    return (
        needs(
            "input.unsupported",
            "No past buffer shared with the present (past_present_share_buffer).",
            lambda e: not (e.integer("past_present_share_buffer") or any(map(e.has, buffers))),
        ),
        unset("No rotary embedding (do_rotary).", "do_rotary"),
        needs(
            "rank.unsupported",
            "An input of rank 3 and a matrix of weights.",
            lambda e: e.rank(e.x(0)) == 3 and e.rank(e.x(1)) == 2,
        ),
        divided,
        needs(
            "shape.unsupported",
            "Keys and values of equal width where past or present is used.",
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
    """Requires queries of rank 3, and separate keys and values, not packed into one tensor."""
    if e.rank() != 3 or not (e.has(1) and e.has(2)) or e.rank(e.x(1)) != e.rank(e.x(2)):
        return False
    return e.rank(e.x(1)) == 3 or (e.rank(e.x(1)) == 4 and not (e.has(KEY_BIAS) or e.has(PAST_KEY)))


MULTI_HEAD = (
    absent("No beam search (past_sequence_length, cache_indirection).", 8, 9),
    unread("An output of scores (output 3) that nothing reads.", 3),
    _apart_already,
    together(BOTH_PASTS, PAST_KEY, PAST_KEY + 1),
    needs(
        "input.unsupported",
        WHOLE_MASK,
        lambda e: _masked(e, KEY_MASK, (*e.shape(e.x(0))[:2], key_count(e, PAST_KEY))),
    ),
    needs(
        "host.ambiguous",
        "Not more new keys than queries where keys after a query are hidden (unidirectional).",
        lambda e: not _causal(e) or e.shape(e.x(1))[-2] <= e.shape()[1],
        # onnxruntime shows the last query all keys.
        "Implementations disagree about the keys that the last query sees.",
    ),
)


EMBEDDING = (
    needs(
        "input.missing",
        "A mask where the output mask_index is read.",
        lambda e: not e.wants(1) or e.has(KEPT),
    ),
    needs(
        "input.missing",
        "A segment embedding where segment ids are given.",
        lambda e: not e.has(1) or e.has(4),
    ),
)
