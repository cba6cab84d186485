"""Builders for rotary position embedding: pairs of values of each head are rotated by an angle that
depends on the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tflgpu_plugin.ir import Condition, Shape, ShapeRefusal, needs
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


def sectioned(e: Builder) -> int:
    """Builds MRotaryEmbedding: each pair of values has the angle at one of three positions."""
    places, columns = as_integers(e, e.x(PLACES)), e.index(_columns(e))
    turns = []
    for turn in (e.x(COS), e.x(COS + 1)):
        every = e.add("gather", turn, places, axis=0, raises=True)  # [3, batch, length, pairs]
        _, batch, length, pairs = e.shape(every)
        beside = e.reshape(e.transpose(every, (1, 2, 0, 3)), (batch, length, 3 * pairs))
        turns.append(e.add("gather", beside, columns, axis=2))
    return turned(e, e.x(0), turns, _split(e, COS)[1], "interleaved")


def _columns(e: Builder) -> list[int]:
    """Returns for each pair its place among those of the first, second and third position."""
    sections, pairs = e.integers("mrope_section") or (), e.shape(e.x(COS))[-1]
    if not e.integer("mrope_layout"):
        sources = [k for k, count in enumerate(sections) for _ in range(count)]
    else:
        sources = [k % 3 if k < 3 * sections[k % 3] else 0 for k in range(pairs)]
    return [source * pairs + k for k, source in enumerate(sources)]


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
    return needs("shape.mismatch", page, lambda e: _fits(e, first, places), kind=ShapeRefusal)


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


def _in_sections(e: Builder) -> bool:
    """Whether there are three sections, which together are all rotated pairs."""
    sections, rows = e.integers("mrope_section") or (), e.shape(e.x(COS))
    return len(sections) == 3 and min(sections) >= 0 and sum(sections) == rows[-1]


def _three_fit(e: Builder) -> bool:
    """Whether there are three positions per token, and a cosine and a sine for every pair."""
    shape, turns = e.shape(e.x(0)), [e.shape(e.x(k)) for k in (COS, COS + 1)]
    if len(shape) not in (3, 4) or turns[0] != turns[1] or len(turns[0]) != 2:
        return False
    batch, heads, length, depth = _split(e, COS)
    turning = e.integer("rotary_embedding_dim") or depth
    return (
        2 * turns[0][-1] == turning <= depth
        and (len(shape) == 4 or heads == e.integer("num_heads") == shape[2] // depth)
        and e.shape(e.x(PLACES)) == (3, batch, length)
    )


_PLAIN = (
    unset("No packed batches (is_packed_batching).", "is_packed_batching"),
    needs("attribute.unsupported", "A scale of 1.", lambda e: e.number("scale", 1.0) == 1),
)
CONTRIB = (*_PLAIN, _angles(COS, PLACES))
SECTIONED = (
    *_PLAIN,
    needs("attribute.unsupported", "A layout of 0 or 1 (mrope_layout).",
          lambda e: e.integer("mrope_layout") in (0, 1)),
    needs("shape.mismatch", "Cosines and sines for every pair, three positions for every token, "
          "and the number of heads of an input of rank 3.", _three_fit, kind=ShapeRefusal),
    needs("attribute.invalid", "Three sections that are all pairs (mrope_section).", _in_sections),
)  # fmt: skip
ROTARY = _angles(ONNX_COS, ONNX_PLACES)
