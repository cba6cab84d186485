"""The row for attention as language models have it: grouped heads, and keys and values of before.

One batch, of which `total_sequence_length` says how many keys there are with what is new. A past
may be longer than what was before, and the present is as long then, with zeros at the end.
"""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.host_op import Unfit, needs

from .attention import heads_first, of_heads, whole
from .expansion import Expansion
from .rearranging import cut
from .rotary import turned

KEY, VALUE, PAST_KEY, PAST_VALUE, LAST, TOTAL, COS, SIN = 1, 2, 3, 4, 5, 6, 7, 8


def grouped_query(e: Expansion) -> list[int | None]:
    """GroupQueryAttention, whose queries, keys and values may be one tensor."""
    heads, kv_heads = e.integer("num_heads"), e.integer("kv_num_heads")
    before, (batch, length, _) = _past(e), e.shape(e.x(0))
    depth, parts, start = _depth(e), [], 0
    for position, count in enumerate((heads, kv_heads, kv_heads)):
        end = start + count * depth
        ranges = [slice(batch), slice(length), slice(start, end)]
        part = e.x(position) if e.has(KEY) else cut(e, e.x(0), ranges)
        parts.append(heads_first(e, part, count))
        start = end
    q, k, v = parts
    if e.integer("do_rotary"):
        half = e.shape(e.x(COS))[1]
        rows = [cut(e, e.x(p), [slice(before, before + length), slice(half)]) for p in (COS, SIN)]
        cos, sin = (e.reshape(row, (1, 1, length, half)) for row in rows)
        together = e.integer("rotary_interleaved") == 1
        q, k = (turned(e, part, cos, sin, together) for part in (q, k))
    k, v = (_joined(e, p, t, before) for p, t in zip((PAST_KEY, PAST_VALUE), (k, v), strict=True))
    lengths = e.add("add", whole(e, e.x(LAST)), e.index([1]))  # fewer where there is padding
    y = of_heads(e, q, k, v, heads, kv_heads, None, lengths, causal=True, past=before,
                 window=max(e.integer("local_window_size", -1), 0),
                 softcap=e.number("softcap", 0.0))  # fmt: skip
    joined = e.reshape(e.transpose(y, (0, 2, 1, 3)), (batch, length, heads * depth))
    return [joined, *(_filled(e, t) for t in (k, v))]


def _joined(e: Expansion, past: int, new: int, before: int) -> int:
    """What was before and what is new."""
    batch, heads, length, depth = e.shape(new)
    if not before and not _buffer(e):
        return new
    if not before:  # another run reads the past
        whole = e.add("concat", new, e.x(past), axis=2)
        return cut(e, whole, [*map(slice, (batch, heads, length, depth))])
    ranges = [*map(slice, (batch, heads, before, depth))]
    held = e.x(past) if before == _buffer(e) else cut(e, e.x(past), ranges)
    return e.add("concat", held, new, axis=2)


def _filled(e: Expansion, t: int) -> int:
    """As long as the buffer of the past."""
    batch, heads, length, depth = e.shape(t)
    if length >= _buffer(e):
        return t
    rest = np.zeros((batch, heads, _buffer(e) - length, depth))
    return e.add("concat", t, e.const(rest), axis=2)


def _buffer(e: Expansion) -> int:
    """How many keys a past has room for."""
    return e.shape(e.x(PAST_KEY))[2] if e.has(PAST_KEY) else 0


def _past(e: Expansion) -> int:
    """How many keys there were before."""
    return int(e.value(TOTAL).reshape(-1)[0]) - e.shape(e.x(0))[1]


def _depth(e: Expansion) -> int:
    """Of a head."""
    heads, kv_heads = e.integer("num_heads"), e.integer("kv_num_heads")
    return e.shape(e.x(0))[-1] // (heads if e.has(KEY) else heads + 2 * kv_heads)


# ---- what it needs -------------------------------------------------------------------------------


def _divides(e: Expansion) -> bool:
    heads, kv_heads = e.integer("num_heads"), e.integer("kv_num_heads")
    return e.rank(e.x(0)) == 3 and kv_heads > 0 < heads and heads % kv_heads == 0 < _depth(e)


def _whole(e: Expansion) -> str | None:
    if 0 <= _past(e) <= _buffer(e):
        return None
    return Unfit(f"{_past(e)} keys of before in a past of {_buffer(e)}.")


def _turns(e: Expansion) -> bool:
    """Angles of every place."""
    if not e.integer("do_rotary"):
        return True
    rows = [e.shape(e.x(k)) for k in (COS, SIN) if e.has(k)]
    until = _past(e) + e.shape(e.x(0))[1]
    return (
        len(rows) == 2 and rows[0] == rows[1] and rows[0][0] >= until
        and 2 * rows[0][1] <= _depth(e)
    )  # fmt: skip


GROUPED_QUERY = (
    needs("Heads that divide into those of its keys.", _divides),
    needs("One batch.", lambda e: e.shape(e.x(0))[0] == 1),
    needs("Keys and values, or none.", lambda e: e.has(KEY) == e.has(VALUE)),
    needs("Both a past of keys and one of values.", lambda e: e.has(PAST_KEY) == e.has(PAST_VALUE)),
    _whole,
    needs("Angles of every place.", _turns),
    needs(
        "Positions that follow each other, no bias and no sink.",
        lambda e: not any(e.has(k) for k in range(9, len(e.inputs))),
    ),
    needs(
        "A softmax as usual, of numbers that are not quantized.",
        lambda e: (
            e.integer("smooth_softmax") <= 0
            and e.text("k_quant_type", "NONE") == e.text("v_quant_type", "NONE") == "NONE"
        ),
    ),
    needs("Scores that nothing reads.", lambda e: not e.wants(3)),
)
