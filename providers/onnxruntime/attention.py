"""Rows for attention: of ONNX, and as onnxruntime's own optimization writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tflgpu_plugin.ir import COUNTS, MAX_FLOAT16, MAX_FLOAT32, Condition, Shape, Unfit, needs
from tflgpu_plugin.providers import Builder

from .rearranging import cut

# Positions of inputs: of Attention, of QAttention, of MultiHeadAttention, of Attention in ONNX.
MASK, PAST, BIAS = 3, 4, 5
Q_MASK, Q_PAST = 5, 8
KEPT = 7  # the mask of an EmbedLayerNormalization
KEY_BIAS, KEY_MASK, SCORE_BIAS, PAST_KEY, PAST_VALUE = 3, 4, 5, 6, 7
ONNX_MASK, ONNX_PAST, LENGTHS = 3, 4, 6
SCORES, MODE = 3, "qk_matmul_output_mode"  # the output, and what of them: after these steps
CAPPED, MASKED, SHARED = 1, 2, 3
MOST_KEYS = 512  # whose softmax is read: values of 1 MiB for each head
Part = int  # a tensor of queries, keys or values


def attention(e: Builder) -> list[int | None]:
    """Attention: of each head, where queries, keys and values are parts of x W + b."""
    made = e.plus(e.run("MatMul", e.x(0), e.x(1)), e.get(2))
    return attended(e, made, MASK, PAST, e.get(BIAS))


def attended(
    e: Builder, made: int, mask: int, past: int, bias: int | None = None
) -> list[int | None]:
    """Of queries, keys and values beside each other; `mask` and `past` are positions of inputs."""
    heads, (batch, length, _) = e.integer("num_heads", 1), e.shape(made)
    q, k, v = parted(e, made)
    before, present = 0, None
    if e.has(past) or e.wants(1):
        k, v = (heads_first(e, part, heads) for part in (k, v))
        if e.has(past):
            before = e.shape(e.x(past))[3]
            pasts = [_nth(e, e.x(past), k) for k in range(2)]
            k, v = (e.add("concat", *pair, axis=2) for pair in zip(pasts, (k, v), strict=True))
        if e.wants(1):
            present = e.add("concat", *(e.reshape(t, (1, *e.shape(t))) for t in (k, v)), axis=0)
    masked = _mask(e, mask, (batch, length, before + length), raises=True)
    y = of_heads(e, q, k, v, heads, heads, _sum(e, masked, bias), causal=_causal(e),
                  past=before)  # fmt: skip
    return [y, present]


def multi_head(e: Builder) -> list[int | None]:
    """MultiHeadAttention: of queries, keys and values as they come, each with a bias."""
    heads, parts = e.integer("num_heads", 1), [e.x(k) for k in range(3)]
    if e.has(KEY_BIAS):
        parts = biased(e, parts)
    q, k, v = parts
    before, present = 0, [k, v]
    if e.has(PAST_KEY) or e.wants(1) or e.wants(2):
        k, v = present = [t if e.rank(t) == 4 else heads_first(e, t, heads) for t in (k, v)]
    if e.has(PAST_KEY):
        before = e.shape(e.x(PAST_KEY))[2]
        pasts = (e.x(PAST_KEY), e.x(PAST_VALUE))
        k, v = present = [e.add("concat", p, t, axis=2) for p, t in zip(pasts, (k, v), strict=True)]
    batch, length, _ = e.shape(q)
    keys = e.shape(k)[-2]
    masked = _mask(e, KEY_MASK, (batch, length, keys))
    y = of_heads(e, q, k, v, heads, heads, _sum(e, masked, e.get(SCORE_BIAS)), causal=_causal(e),
                  past=before)  # fmt: skip
    return [y, *present]


def scaled_dot_product(e: Builder) -> list[int | None]:
    """Attention of ONNX. What is masked by the lowest number is as much so as by -inf."""
    q, k, v = (e.x(k) for k in range(3))
    heads, kv_heads = e.integer("q_num_heads", 1), e.integer("kv_num_heads", 1)
    before = 0
    if e.has(ONNX_PAST) or e.wants(1) or e.wants(2):
        k, v = (t if e.rank(t) == 4 else heads_first(e, t, kv_heads) for t in (k, v))
    if e.has(ONNX_PAST):
        before = e.shape(e.x(ONNX_PAST))[2]
        pasts = (e.x(ONNX_PAST), e.x(ONNX_PAST + 1))
        k, v = (e.add("concat", p, t, axis=2) for p, t in zip(pasts, (k, v), strict=True))
    mask, lengths = _added(e, -np.inf), e.get(LENGTHS)
    lengths = None if lengths is None else listed(e, whole(e, lengths), range(e.shape(k)[-2] + 1))
    seen = partial(
        of_heads, mask=mask, lengths=lengths, causal=e.integer("is_causal") == 1,
        past=before if lengths is None else None,
        softcap=e.number("softcap", 0.0), empty=0.0,
    )  # fmt: skip
    scores = None
    if e.wants(SCORES):
        shared = e.integer(MODE) == SHARED
        scores = _shares(e, seen, q, k, heads) if shared else _scores(e, q, k, lengths, before)
    return [seen(e, q, k, v, heads, kv_heads), k, v, scores]


def _added(e: Builder, least: float) -> int | None:
    """The mask as what is added to scores, `least` where it is false; integers are numbers."""
    mask = e.get(ONNX_MASK)
    if mask is not None and e.dtype(mask) in COUNTS:
        return e.numbers(mask)
    if mask is None or e.dtype(mask) != "bool":
        return mask
    return e.add("where", mask, 0.0, least, dtype="f32")


def _scores(e: Builder, q: Part, k: Part, lengths: int | None, before: int) -> int:
    """scale * q k' of each head, [batch, heads, queries, keys]; limited and masked, as the mode
    says. Hosts limit them first, and have the lowest number for what is not seen."""
    scale, (q, k), mode = (
        _scale(e, q, e.integer("q_num_heads", 1)),
        _apart(e, q, k),
        e.integer(MODE),
    )
    (batch, heads, length, depth), (_, kv_heads, keys, _) = e.shape(q), e.shape(k)
    rows = e.reshape(q, (batch, kv_heads, heads // max(kv_heads, 1) * length, depth))
    made = e.add("matmul", e.add("mul", rows, scale), k, transpose_a=False, transpose_b=True)
    made, cap = e.reshape(made, (batch, heads, length, keys)), e.number("softcap", 0.0)
    if mode in (CAPPED, MASKED) and cap:
        made = e.add("mul", e.add("tanh", e.add("div", made, cap)), cap)
    if mode != MASKED:
        return made
    lowest = -MAX_FLOAT16 if e.dtype() == "f16" else -MAX_FLOAT32
    made, there = e.plus(made, _added(e, lowest)), _there(e, length, keys, lengths, before)
    return made if there is None else e.add("where", there, made, lowest, dtype="f32")


def _there(e: Builder, length: int, keys: int, lengths: int | None, before: int) -> int | None:
    """Which keys each query may see; None for all."""
    causal, places = e.integer("is_causal") == 1, np.arange(keys)
    after = places - np.arange(length)[:, None]
    if lengths is None:
        return e.const((after <= before)[None, None], np.bool_) if causal else None
    each = e.reshape(lengths, (-1, 1, 1, 1))
    least = after + length if causal else places + 1
    return e.add("less_equal", e.index(least.reshape(1, 1, -1, keys)), each, dtype="bool")


def _shares(e: Builder, seen: Callable[..., int], q: Part, k: Part, heads: int) -> int:
    """The softmax itself: what each query sees of values of which each key has one of its own."""
    q, k = _apart(e, q, k)
    (batch, kv_heads, keys, _), own = e.shape(k), np.eye(e.shape(k)[2], dtype=np.float32)
    values = e.add("expand", e.const(own[None, None]), e.index((batch, kv_heads, keys, keys)))
    return seen(e, q, k, values, heads, kv_heads)


def _apart(e: Builder, q: Part, k: Part) -> tuple[Part, Part]:
    """Queries and keys with their heads first."""
    heads = (e.integer(name, 1) for name in ("q_num_heads", "kv_num_heads"))
    q, k = (
        t if e.rank(t) == 4 else heads_first(e, t, n) for t, n in zip((q, k), heads, strict=True)
    )
    return q, k


def of_heads(
    e: Builder, q: Part, k: Part, v: Part, heads: int, kv_heads: int, mask: int | None,
    lengths: int | None = None, **attributes: Any,
) -> int:  # fmt: skip
    """The op; its result is [batch, queries, values of all heads] where q is so."""
    return e.add("attention", q, k, v, mask, lengths, heads=heads, kv_heads=kv_heads,
                 scale=_scale(e, q, heads), **attributes)  # fmt: skip


def _scale(e: Builder, q: Part, heads: int) -> float:
    depth = e.shape(q)[-1] if e.rank(q) == 4 else e.shape(q)[-1] // heads
    return e.number("scale", 0.0) or max(depth, 1) ** -0.5


def heads_first(e: Builder, x: int, heads: int) -> int:
    """[batch, length, heads * depth] as [batch, heads, length, depth]."""
    batch, length, width = e.shape(x)
    split = e.reshape(x, (batch, length, heads, width // heads))
    return e.transpose(split, (0, 2, 1, 3))


def _nth(e: Builder, x: int, k: int) -> int:
    """x[k]."""
    shape = e.shape(x)
    return e.reshape(cut(e, x, [slice(k, k + 1), *map(slice, shape[1:])]), shape[1:])


def whole(e: Builder, x: int) -> int:
    """Whole numbers, which constants hold as int32."""
    known = e.constant(x)
    return x if known is None else e.index(known)


def listed(e: Builder, places: int, values: Sequence[int]) -> int:
    """The values at these places of a list; a place outside of it is an error of the run."""
    return e.add("gather", e.index(values), places, axis=0, raises=True)


def _sum(e: Builder, *terms: int | None) -> int | None:
    """Of those that there are."""
    given = [term for term in terms if term is not None]
    return e.add("add", *given) if len(given) == 2 else given[0] if given else None


def _causal(e: Builder) -> bool:
    return e.integer("unidirectional") == 1


def biased(e: Builder, parts: Sequence[Part]) -> list[Part]:
    """Queries, keys and values with their part of the bias."""
    made, start, (whole,) = [], 0, e.shape(e.x(KEY_BIAS))
    for position, part in enumerate(parts):
        size = e.shape(part)[-1] if position < 2 else whole - start
        bias = cut(e, e.x(KEY_BIAS), [slice(start, start + size)])
        made.append(e.add("add", part, bias))
        start += size
    return made


def parted(e: Builder, made: int) -> list[Part]:
    """What lies beside each other on the last axis."""
    others, parts, start = [slice(None)] * (e.rank(made) - 1), [], 0
    for size in widths(e):
        parts.append(cut(e, made, [*others, slice(start, start + size)]))
        start += size
    return parts


def widths(e: Builder) -> tuple[int, ...]:
    """How many values of a place are queries, keys and values."""
    return e.integers("qkv_hidden_sizes") or (e.shape(e.x(1))[-1] // 3,) * 3


def _masks(scores: Shape) -> dict[Shape, Shape]:
    """Shapes that a mask of these scores [batch, queries, keys] may have, with those in which it
    spreads over them."""
    batch, length, keys = scores
    return {
        (batch, keys): (batch, 1, 1, keys),
        (batch, length, keys): (batch, 1, length, keys),
        (batch,): (batch, 1, 1, 1),
    }


def _mask(e: Builder, position: int, scores: Shape, raises: bool = False) -> int | None:
    """What is added to the scores: 0 where the mask is positive, or before as many keys as it says
    for each batch, where `raises` fewer than none are an error of the run."""
    if not e.has(position):
        return None
    given, keys = e.x(position), scores[2]
    shape = e.shape(given)
    if raises and len(shape) == 1:
        most = e.add("minimum", whole(e, given), e.index([keys]), dtype="i32")
        given = listed(e, most, range(keys + 1))
    given = e.add("cast", given, dtype="f32")
    given = e.reshape(given, _masks(scores)[shape])
    least = 0.0 if len(shape) > 1 else e.const(np.arange(scores[2]))
    seen = e.add("greater", given, least, dtype="bool")
    return e.add("where", seen, 0.0, e.number("mask_filter_value", -10000.0), dtype="f32")


def embedding(e: Builder) -> list[int | None]:
    """EmbedLayerNormalization: words, positions and segments, summed and normalized."""
    total = e.add("gather", e.x(2), e.x(0), axis=0, raises=True)
    if e.has(8):
        places = e.add("gather", e.x(3), e.x(8), axis=0, raises=True)
    else:
        places = cut(e, e.x(3), [slice(e.shape(total)[1]), slice(None)])
    total = e.add("add", total, places)
    if e.has(1):
        total = e.add("add", total, e.add("gather", e.x(4), e.x(1), axis=0, raises=True))
    epsilon = e.number("epsilon", 1e-12)
    y = e.add("layer_normalization", total, e.x(5), e.x(6), axis=2, epsilon=epsilon)
    return [y, _lengths(e) if e.wants(1) else None, total]


def _lengths(e: Builder) -> int:
    """How many ones each row of the mask has."""
    ones = e.add("cast", e.add("equal", e.x(KEPT), e.index([1]), dtype="bool"), dtype="i32")
    return e.add("reduce_sum", ones, e.index([1]), keep_dims=False, dtype="i32")


# ---- what they need ------------------------------------------------------------------------------


def _past(e: Builder, past: int) -> int:
    """Keys before those of an Attention, whose past is [2, batch, heads, keys, depth]."""
    return e.shape(e.x(past))[3] if e.has(past) and e.rank(e.x(past)) == 5 else 0


def _masked(e: Builder, position: int, scores: Shape) -> bool:
    return not e.has(position) or e.shape(e.x(position)) in _masks(scores)


def _keys(e: Builder) -> int:
    """Of a MultiHeadAttention."""
    past = e.shape(e.x(PAST_KEY))[2] if e.has(PAST_KEY) else 0
    return past + e.shape(e.x(1))[-2]


def _few(e: Builder) -> bool:
    """Values of the keys' own take no more memory than they may."""
    past = e.shape(e.x(ONNX_PAST))[2] if e.has(ONNX_PAST) else 0
    return e.integer(MODE) != SHARED or past + e.shape(e.x(1))[-2] <= MOST_KEYS


WHOLE_MASK = "A mask of shape [batch], [batch, keys] or [batch, queries, keys]."


def _projected(mask: int, past: int) -> tuple[Condition, ...]:
    """What takes its own product with weights needs, with its mask and past in these places."""
    return (
        needs(
            "attribute.unsupported", "No rotary positions.", lambda e: not e.integer("do_rotary")
        ),
        needs(
            "rank.unsupported",
            "An input of rank 3 and a matrix of weights.",
            lambda e: e.rank(e.x(0)) == 3 and e.rank(e.x(1)) == 2,
        ),
        needs(
            "shape.mismatch",
            "Queries, keys and values that divide into the heads.",
            lambda e: (
                e.integer("num_heads", 1) > 0
                and len(widths(e)) == 3
                and sum(widths(e)) == e.shape(e.x(1))[1]
                and all(n > 0 and n % e.integer("num_heads", 1) == 0 for n in widths(e))
            ),
        ),
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


ATTENTION = (
    needs(
        "input.unsupported",
        "No past in a buffer that is longer.",
        lambda e: not (e.integer("past_present_share_buffer") or e.has(6)),
    ),
    *_projected(MASK, PAST),
)
QUANTIZED = (
    needs(
        "input.unsupported",
        "No past in a buffer that is longer.",
        lambda e: not e.integer("past_present_share_buffer"),
    ),
    *_projected(Q_MASK, Q_PAST),
)
MULTI_HEAD = (
    needs("input.unsupported", "No indirection of beams.", lambda e: not (e.has(8) or e.has(9))),
    needs("output.unsupported", "Scores that nothing reads.", lambda e: not e.wants(3)),
    needs(
        "rank.unsupported",
        "Queries of rank 3, keys and values that are not packed.",
        lambda e: (
            e.rank(e.x(0)) == 3
            and e.has(1)
            and e.has(2)
            and e.rank(e.x(1)) == e.rank(e.x(2)) in (3, 4)
            and (e.rank(e.x(1)) == 3 or not (e.has(KEY_BIAS) or e.has(PAST_KEY)))
        ),
    ),
    needs(
        "input.missing",
        "Both a past of keys and one of values.",
        lambda e: e.has(PAST_KEY) == e.has(PAST_VALUE),
    ),
    needs(
        "input.unsupported",
        WHOLE_MASK,
        lambda e: _masked(e, KEY_MASK, (*e.shape(e.x(0))[:2], _keys(e))),
    ),
)


def _masks_scores(e: Builder) -> bool:
    """Hosts spread a mask over batches and heads, but not over queries and keys."""
    past = e.shape(e.x(ONNX_PAST))[2] if e.has(ONNX_PAST) else 0
    scores = (e.shape(e.x(0))[-2], past + e.shape(e.x(1))[-2])
    return e.rank(e.x(ONNX_MASK)) in (2, 3, 4) and e.shape(e.x(ONNX_MASK))[-2:] == scores


def _elements(e: Builder) -> bool:
    """Whether query, key and value have elements. onnxruntime reports an error for empty ones, but
    its kernel ends the process when there are no heads: such a node is accepted."""
    shapes = [e.shape(e.x(k)) for k in range(3)]
    return not any(0 in shape for shape in shapes) or any(s[1] == 0 for s in shapes if len(s) == 4)


SCALED_DOT_PRODUCT = (
    needs(
        "shape.mismatch",
        "Heads of its queries, keys and values.",
        lambda e: (
            all(e.rank(e.x(k)) == 4 for k in range(3))
            or (
                all(e.rank(e.x(k)) == 3 for k in range(3))
                and e.integer("q_num_heads") > 0
                and e.integer("kv_num_heads") > 0
            )
        ),
    ),
    needs(
        "input.missing",
        "Both a past of keys and one of values.",
        lambda e: e.has(ONNX_PAST) == e.has(ONNX_PAST + 1),
    ),
    needs(
        "shape.mismatch",
        "A mask with a value for each query and key.",
        lambda e: not e.has(ONNX_MASK) or _masks_scores(e),
        kind=Unfit,
    ),
    needs(
        "output.unsupported",
        "Scores that nothing reads, before the softmax (modes 0, 1 and 2), or after it (mode 3) of "
        "up to 512 keys.",
        lambda e: not e.wants(SCORES) or _few(e),
    ),
    needs("shape.empty", "Queries, keys and values with elements.", _elements, kind=Unfit),
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
