"""Builds GroupQueryAttention: the attention of language models, with fewer heads of keys and values
than of queries, and a cache of past keys and values.

`total_sequence_length` is the largest number of keys including the new ones, and `seqlens_k` is
that number for each batch, minus one: with a past, new keys follow the valid past keys of their
batch. A past tensor may be longer than the valid past; the present then has the same length, with
zeros at the end."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Refusal, ShapeRefusal, asks, integer, needs
from tflgpu_plugin.providers import Builder

from .attention import BOTH_PASTS, as_integers, gathered, heads_first, of_heads
from .presence import absent, together, unread
from .rearranging import parts
from .rotary import turned

KEY, VALUE, PAST_KEY, PAST_VALUE, LAST, TOTAL, COS, SIN = 1, 2, 3, 4, 5, 6, 7, 8


def grouped_query(e: Builder) -> list[int | None]:
    """Builds GroupQueryAttention; queries, keys and values may be packed into input 0."""
    heads, kv_heads = e.integer("num_heads"), e.integer("kv_num_heads")
    before, (batch, length, _) = _past(e), e.shape(e.x(0))
    widths = [count * _depth(e) for count in (heads, kv_heads, kv_heads)]
    q, k, v = map(e.x, (0, KEY, VALUE)) if e.has(KEY) else parts(e, e.x(0), widths)
    most = max(before + length, _buffer(e))
    lengths = gathered(e, e.reshape(as_integers(e, e.x(LAST)), (batch,)), most, first=1)
    first = e.add("sub", lengths, e.index([length])) if before else e.index([0] * batch)
    if e.integer("do_rotary"):
        turns = [_angles(e, e.x(p), first, length) for p in (COS, SIN)]
        q, k = (turned(e, t, turns, n, "rotary_interleaved")
                for t, n in ((q, heads), (k, kv_heads)))  # fmt: skip
    if not e.has(PAST_KEY) or _depth(e) % 4:
        k, v = (heads_first(e, t, kv_heads) for t in (k, v))
    if e.has(PAST_KEY):  # also where the past is empty: the next run reads it
        pasts = zip((PAST_KEY, PAST_VALUE), (k, v), strict=True)
        k, v = (_joined(e, e.x(p), new, first, most) for p, new in pasts)
    y = of_heads(e, (q, k, v), (heads, kv_heads), None, lengths, causal=True, joined=True,
                 keys=before + length, past=None if before else 0, softcap=e.number("softcap", 0.0),
                 window=max(e.integer("local_window_size", -1), 0))  # fmt: skip
    return [y, k, v]


def _angles(e: Builder, table: int, first: int, length: int) -> int:
    """Returns the rows of `table` (cosines or sines) for `length` positions of each batch, from the
    position in the tensor `first` on; with a past it is known only during a run."""
    places = e.add("add", e.reshape(first, (-1, 1)), e.counting(length))
    return e.add("gather", table, places, axis=0, raises=True)


def _joined(e: Builder, past: int, new: int, first: int, total: int) -> int:
    """Returns `past` with `new` (keys or values, whose heads may be side by side) written from
    position `first` of each batch on, extended with zeros to `total` positions."""
    batch, heads, length, depth = e.shape(past)
    if length < total:
        room = e.filled((batch, heads, total - length, depth))
        past = e.add("concat", past, room, axis=2)
    return e.add("update_slice", past, new, first, axis=2, heads=heads, ends=True, raises=True)


def _buffer(e: Builder) -> int:
    """Returns the number of positions of the past tensors, 0 without a past."""
    return e.shape(e.x(PAST_KEY))[2] if e.has(PAST_KEY) else 0


def _past(e: Builder) -> int:
    """Returns the number of valid past keys."""
    return integer(e.value(TOTAL).reshape(-1)[0]) - e.shape(e.x(0))[1]


def _depth(e: Builder) -> int:
    """Returns the head size (values per head)."""
    heads, kv_heads = e.integer("num_heads"), e.integer("kv_num_heads")
    return e.shape(e.x(0))[-1] // (heads if e.has(KEY) else heads + 2 * kv_heads)


# ---- conditions ----------------------------------------------------------------------------------


@asks("shape.mismatch")
def _divides(e: Builder) -> bool:
    """Requires queries of rank 3, and a num_heads that is divisible by kv_num_heads."""
    heads, kv_heads = e.integer("num_heads"), e.integer("kv_num_heads")
    return e.rank(e.x(0)) == 3 and kv_heads > 0 < heads and heads % kv_heads == 0 < _depth(e)


def _whole(e: Builder) -> Refusal | None:
    """Requires a past tensor that holds exactly the valid keys, or also has room for the new
    ones."""
    before, room = _past(e), _buffer(e)
    if before == room or 0 <= before <= room - e.shape(e.x(0))[1]:
        return None
    return ShapeRefusal(
        "shape.mismatch", f"{before} valid past keys do not fit a past tensor of {room} keys."
    )


@asks("shape.mismatch")
def _turns(e: Builder) -> bool:
    """Requires one shape of cos_cache and sin_cache that covers every position, with do_rotary."""
    if not e.integer("do_rotary"):
        return True
    if not (e.has(COS) and e.has(SIN)) or e.shape(e.x(COS)) != e.shape(e.x(SIN)):
        return False
    places, pairs = e.shape(e.x(COS))
    return places >= _past(e) + e.shape()[1] and 2 * pairs <= _depth(e)


GROUPED_QUERY = (
    _divides,
    needs(
        "shape.unsupported",
        "One batch, one new position, or no past.",
        lambda e: e.shape(e.x(0))[0] == 1 or e.shape(e.x(0))[1] == 1 or _past(e) == 0,
    ),
    needs(
        "shape.mismatch",
        "A seqlens_k with one value per batch.",
        lambda e: prod(e.shape(e.x(LAST))) == e.shape(e.x(0))[0],
    ),
    together("Both keys and values as inputs, or neither.", KEY, VALUE),
    together(BOTH_PASTS, PAST_KEY, PAST_VALUE),
    _whole,
    _turns,
    absent(
        "Consecutive positions (no position_ids), no attention_bias and no head_sink.", 9, 10, 11
    ),
    needs(
        "attribute.unsupported",
        "Causal attention by a standard softmax (not smooth_softmax), and keys and values that are "
        "not quantized.",
        lambda e: (
            e.integer("causal", 1) == 1
            and e.integer("smooth_softmax") <= 0
            and e.text("k_quant_type", "NONE") == e.text("v_quant_type", "NONE") == "NONE"
        ),
    ),
    unread("An output of scores (output 3) that nothing reads.", 3),
)
