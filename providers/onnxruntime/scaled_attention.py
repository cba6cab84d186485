"""Builder of the operator Attention of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tflgpu_plugin.ir import COUNTS, MAX_FLOAT16, MAX_FLOAT32, ShapeRefusal, asks
from tflgpu_plugin.providers import Builder

from .attention import (
    BOTH_PASTS,
    Part,
    as_integers,
    gathered,
    heads_first,
    key_count,
    of_heads,
    score_scale,
    with_past,
)  # fmt: skip
from .presence import together

MASK, PAST, LENGTHS = 3, 4, 6  # positions of inputs
SCORES, MODE = 3, "qk_matmul_output_mode"  # the output of scores, and the step after which
CAPPED, MASKED, SHARED = 1, 2, 3  # modes: after softcap, mask, softmax
MAX_KEYS = 512  # limit of keys if the softmax is output: one-hot values of 1 MiB per head


def attention(e: Builder) -> list[int | None]:
    """Builds Attention of ONNX. A mask value of the lowest finite float masks like -inf."""
    q, k, v = (e.x(k) for k in range(3))
    heads, kv_heads = e.integer("q_num_heads", 1), e.integer("kv_num_heads", 1)
    k, v, before = with_past(e, k, v, kv_heads, PAST)
    mask, lengths = _added(e, -np.inf), e.get(LENGTHS)
    lengths = None if lengths is None else gathered(e, as_integers(e, lengths), e.shape(k)[-2] + 1)
    seen = partial(
        of_heads, mask=mask, lengths=lengths, causal=e.integer("is_causal") == 1,
        past=before if lengths is None else None,
        softcap=e.number("softcap", 0.0), empty=0.0,
    )  # fmt: skip
    scores = None
    if e.wants(SCORES):
        shared = e.integer(MODE) == SHARED
        scores = _shares(e, seen, q, k, heads) if shared else _scores(e, q, k, lengths, before)
    return [seen(e, (q, k, v), (heads, kv_heads)), k, v, scores]


def _added(e: Builder, least: float) -> int | None:
    """Returns the mask as a tensor to add to the scores: `least` where a bool mask is false;
    integers become floats."""
    mask = e.get(MASK)
    if mask is not None and e.dtype(mask) in COUNTS:
        return e.numbers(mask)
    if mask is None or e.dtype(mask) != "bool":
        return mask
    return e.add("where", mask, 0.0, least, dtype="f32")


def _scores(e: Builder, q: Part, k: Part, lengths: int | None, before: int) -> int:
    """Returns the scores scale * q k' [batch, heads, queries, keys], with softcap and mask applied
    as the mode says. As in hosts, softcap comes first, and masked keys get the lowest float."""
    scale, mode = score_scale(e, q, e.integer("q_num_heads", 1)), e.integer(MODE)
    q, k = _apart(e, q, k)
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
    """Returns a bool tensor of the keys that each query may attend to; None for all keys."""
    causal = e.integer("is_causal") == 1
    if lengths is None and not causal:
        return None
    places = e.index(np.arange(keys)[None, None, None])
    last = np.arange(length)[None, None, :, None] if causal else np.zeros((1, 1, 1, 1), np.int64)
    if lengths is None:
        return e.add("less_equal", places, e.index(last + before), dtype="bool")
    ends = e.index(last - (length if causal else 1))
    each = e.add("add", e.reshape(lengths, (-1, 1, 1, 1)), ends)
    return e.add("less_equal", places, each, dtype="bool")


def _shares(e: Builder, seen: Callable[..., int], q: Part, k: Part, heads: int) -> int:
    """Returns the softmax of the scores, computed as attention over one-hot values."""
    q, k = _apart(e, q, k)
    (batch, kv_heads, keys, _), own = e.shape(k), np.eye(e.shape(k)[2], dtype=np.float32)
    values = e.add("expand", e.const(own[None, None]), e.index((batch, kv_heads, keys, keys)))
    return seen(e, (q, k, values), (heads, kv_heads))


def _apart(e: Builder, q: Part, k: Part) -> tuple[Part, Part]:
    """Returns (queries, keys) as [batch, heads, length, depth]."""
    q = heads_first(e, q, e.integer("q_num_heads", 1))
    return q, heads_first(e, k, e.integer("kv_num_heads", 1))


# ---- conditions ----------------------------------------------------------------------------------


@asks("shape.mismatch")
def _headed(e: Builder) -> bool:
    """Requires queries, keys and values of rank 4, or of rank 3 with q_num_heads and
    kv_num_heads."""
    ranks = {e.rank(e.x(k)) for k in range(3)}
    has_heads = e.integer("q_num_heads") > 0 < e.integer("kv_num_heads")
    return ranks == {4} or (ranks == {3} and has_heads)


@asks("shape.mismatch", kind=ShapeRefusal)
def _masks_scores(e: Builder) -> bool:
    """Requires a mask with a value for each query and key."""
    if not e.has(MASK):
        return True
    # Hosts broadcast a mask over batches and heads, but not over queries and keys.
    mask, scores = e.shape(e.x(MASK)), (e.shape()[-2], key_count(e, PAST))
    return len(mask) in (2, 3, 4) and mask[-2:] == scores


@asks("shape.mismatch", kind=ShapeRefusal)
def _has_lengths(e: Builder) -> bool:
    """Requires a number of keys for each example, where it is given."""
    return not e.has(LENGTHS) or e.shape(e.x(LENGTHS)) == e.shape()[:1]


@asks("output.unsupported")
def _few(e: Builder) -> bool:
    """Requires an output of scores (output 3) that nothing reads, of qk_matmul_output_mode 0, 1 or
    2, or of mode 3 with at most 512 keys."""
    # One-hot values of the keys must stay within the memory limit.
    few = e.integer(MODE) != SHARED or key_count(e, PAST) <= MAX_KEYS
    return few or not e.wants(SCORES)


@asks("shape.empty", kind=ShapeRefusal)
def _elements(e: Builder) -> bool:
    """Requires queries, keys and values with elements."""
    # onnxruntime reports an error for empty ones, but its kernel crashes the process when there are
    # no heads: such a node is accepted.
    shapes = [e.shape(e.x(k)) for k in range(3)]
    return not any(0 in shape for shape in shapes) or any(s[1] == 0 for s in shapes if len(s) == 4)


ATTENTION = (
    _headed,
    together(BOTH_PASTS, PAST, PAST + 1),
    _masks_scores,
    _has_lengths,
    _few,
    _elements,
)
