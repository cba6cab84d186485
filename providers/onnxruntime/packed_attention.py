"""Builders for attention over packed tokens [tokens, width]: the tokens of all sequences, one after
the other, without padding. onnxruntime has no CPU kernels for these operators. They are supported
if no padding was removed: there is a token for every position, in order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tflgpu_plugin.ir import Condition, ShapeRefusal, asks, needs
from tflgpu_plugin.providers import Builder

from .attention import KEY_BIAS, Part, biased, divided, divides, of_heads, widths
from .rearranging import parts

# Input positions of PackedMultiHeadAttention, then of PackedAttention.
OFFSETS, SCORE_BIAS = 4, 6
OWN_OFFSETS, OWN_SCORE_BIAS = 3, 5


def multi_head(e: Builder) -> int:
    """Builds PackedMultiHeadAttention; queries, keys and values may be packed into input 0."""
    given = [e.x(k) for k in range(3)] if e.has(1) else _thirds(e, e.x())
    given = biased(e, given) if e.has(KEY_BIAS) else given
    return _attended(e, given, OFFSETS, e.get(SCORE_BIAS))


def attention(e: Builder) -> int:
    """Builds PackedAttention, whose queries, keys and values are slices of x W + b."""
    made = e.plus(e.run("MatMul", e.x(0), e.x(1)), e.x(2))
    return _attended(e, [*parts(e, made, widths(e))], OWN_OFFSETS, e.get(OWN_SCORE_BIAS))


def _thirds(e: Builder, x: int) -> list[Part]:
    """Returns the queries, keys and values in `x` [tokens, heads, 3, depth]."""
    tokens, heads, _, depth = e.shape(x)
    return [e.reshape(t, (tokens, heads * depth)) for t in parts(e, x, (1, 1, 1), axis=2)]


def _attended(e: Builder, given: Sequence[Part], offsets: int, bias: int | None) -> int:
    """Returns the attention of q, k and v [tokens, width] within each sequence. `offsets` is the
    position of token_offset [batch, sequence]."""
    heads, places = e.integer("num_heads"), e.shape(e.x(offsets))
    q, k, v = (e.reshape(t, (*places, e.shape(t)[1])) for t in given)
    return e.reshape(of_heads(e, (q, k, v), (heads, heads), bias), e.shape(given[2]))


# ---- conditions ------------------------------------------------------------------------------


def _split(e: Builder) -> Sequence[int]:
    """Returns the widths of queries, keys and values, empty if their shapes are not supported."""
    given = [e.shape(e.x(k)) for k in range(3) if e.has(k)]
    if len(given) == 1 and len(given[0]) == 4:
        _, heads, three, depth = given[0]
        return (heads * depth,) * 3 if (heads, three) == (e.integer("num_heads"), 3) else ()
    fits = len(given) == 3 and all(len(s) == 2 and s[0] == given[0][0] for s in given)
    return [shape[1] for shape in given] if fits else ()


def _dense(position: int) -> Condition:
    """Returns the condition that token_offset, input `position`, has one entry per token."""
    return needs(
        "shape.unsupported",
        "A token for every position of its token_offset [batch, sequence], so that no padding "
        "was removed.",
        lambda e: e.rank(e.x(position)) == 2 and prod(e.shape(e.x(position))) == e.shape()[0],
        kind=ShapeRefusal,
    )  # fmt: skip


@asks("shape.mismatch")
def _tokens(e: Builder) -> bool:
    """Requires queries, keys and values [tokens, width], or all in one tensor [tokens, heads, 3,
    depth], with widths that are divisible by num_heads."""
    return divides(e, _split(e))


MULTI_HEAD = (
    _tokens,
    needs(
        "shape.mismatch",
        "A bias for all queries, keys and values.",
        lambda e: not e.has(KEY_BIAS) or e.shape(e.x(KEY_BIAS)) == (sum(_split(e)),),
    ),
    _dense(OFFSETS),
)
ATTENTION = (
    needs(
        "shape.mismatch",
        "An input [tokens, width], a matrix of weights, and one bias per column.",
        lambda e: e.rank() == e.rank(e.x(1)) == 2 and e.shape(e.x(2)) == e.shape(e.x(1))[1:],
    ),
    divided,
    _dense(OWN_OFFSETS),
)
