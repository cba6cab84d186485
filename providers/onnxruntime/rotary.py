"""Builders for rotary position embedding: pairs of values of each head are rotated by an angle that
depends on the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tflgpu_plugin.ir import Condition, Shape, Unfit, needs
from tflgpu_plugin.providers import Builder

from .attention import as_integers
from .presence import unset

# Input positions of the operator of com.microsoft, then of ONNX.
PLACES, COS = 1, 2
ONNX_COS, ONNX_PLACES = 1, 3


def contrib(e: Builder) -> int:
    """Builds RotaryEmbedding of com.microsoft; position_ids has one position per token, or the
    first position alone."""
    return _of_host(e, COS, as_integers(e, e.x(PLACES)))


def rotary(e: Builder) -> int:
    """Builds RotaryEmbedding of ONNX; without position_ids, caches have one row per token."""
    return _of_host(e, ONNX_COS, as_integers(e, e.x(ONNX_PLACES)) if e.has(ONNX_PLACES) else None)


def _of_host(e: Builder, first: int, places: int | None) -> int:
    """Builds the rotation. Cosines are input `first` and sines the next one; `places` are position
    ids of their rows, None for one row per token."""
    _, heads, length, _ = _split(e, first)
    turns = [e.x(first), e.x(first + 1)]
    if places is not None:
        if e.rank(places) == 1:
            places = e.add("add", places, e.counting(length))
        turns = [e.add("gather", turn, places, axis=0, raises=True) for turn in turns]
    return turned(e, e.x(0), turns, heads, "interleaved")


def turned(e: Builder, x: int, turns: Sequence[int], heads: int, together: str, **more: Any) -> int:
    """Adds the op that rotates `x`. `turns` are (cosines, sines), [positions, pairs] or [batch,
    positions, pairs]. `together` names the attribute that makes neighbors a pair (interleaved)."""
    length, pairs = e.shape(turns[0])[-2:]
    cos, sin = (e.reshape(turn, (-1, 1, length, pairs)) for turn in turns)
    beside = e.integer(together) == 1
    return e.add("rotary", x, cos, sin, heads=heads, paired=True, together=beside, **more)


def _split(e: Builder, first: int) -> Shape:
    """Returns (batch, heads, positions, depth) of input 0. For com.microsoft, the depth is twice
    the width of the cosines unless only a part of each head is rotated (rotary_embedding_dim)."""
    shape = e.shape(e.x(0))
    if len(shape) == 4:
        return shape
    batch, length, width = shape
    if first == COS and not e.integer("rotary_embedding_dim"):
        depth = 2 * e.shape(e.x(first))[-1]
    else:
        depth = width // max(e.integer("num_heads"), 1)
    return batch, width // max(depth, 1), length, depth


# ---- conditions ----------------------------------------------------------------------------------


def _angles(first: int, places: int) -> Condition:
    page = "Cosines and sines for every pair and position."
    return needs("shape.mismatch", page, lambda e: _fits(e, first, places), kind=Unfit)


def _fits(e: Builder, first: int, places: int) -> bool:
    """Whether there is a cosine and a sine for every rotated pair and every position."""
    shape, has_places = e.shape(e.x(0)), e.has(places)
    cos, sin = (e.shape(e.x(k)) for k in (first, first + 1))
    if len(shape) not in (3, 4) or cos != sin or len(cos) != (2 if has_places else 3):
        return False
    if first == ONNX_COS and len(shape) == 3 and e.integer("num_heads") < 1:
        return False
    batch, heads, length, depth = _split(e, first)
    turning = e.integer("rotary_embedding_dim") or depth
    follow = first == COS and has_places and e.shape(e.x(places)) == (1,)
    rows = e.shape(e.x(places)) if has_places and not follow else cos[:2]
    return (
        2 * cos[-1] == turning <= depth
        and (len(shape) == 4 or heads * depth == shape[2])
        and (follow or tuple(rows) == (batch, length))
    )


CONTRIB = (
    unset("No packed batches (is_packed_batching).", "is_packed_batching"),
    needs("attribute.unsupported", "A scale of 1.", lambda e: e.number("scale", 1.0) == 1),
    _angles(COS, PLACES),
)
ROTARY = _angles(ONNX_COS, ONNX_PLACES)
