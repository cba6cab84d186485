"""Rows for rotary position embedding: pairs of values of a head, rotated by an angle that depends
on the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Condition, Shape, needs
from tflgpu_plugin.providers import Builder

from .attention import as_integers
from .presence import unset

# Positions of inputs: of com.microsoft, of ONNX.
PLACES, COS = 1, 2
ONNX_COS, ONNX_PLACES = 1, 3


def contrib(e: Builder) -> int:
    """Builds RotaryEmbedding of com.microsoft, with a position for each token or one first
    position.
    """
    return _of_host(e, COS, as_integers(e, e.x(PLACES)))


def rotary(e: Builder) -> int:
    """Builds RotaryEmbedding of ONNX: a row of angles for each token, or for each position id."""
    return _of_host(e, ONNX_COS, as_integers(e, e.x(ONNX_PLACES)) if e.has(ONNX_PLACES) else None)


def _of_host(e: Builder, first: int, places: int | None) -> int:
    """Builds the rotation with the cosines at this input position and the sines after them."""
    _, heads, length, _ = _split(e, first)
    turns = [e.x(first), e.x(first + 1)]
    if places is not None:
        if e.rank(places) == 1:
            places = e.add("add", places, e.index(np.arange(length)))
        turns = [e.add("gather", turn, places, axis=0, raises=True) for turn in turns]
    return turned(e, e.x(0), turns, heads, "interleaved")


def turned(e: Builder, x: int, turns: Sequence[int], heads: int, together: str, **more: Any) -> int:
    """Adds the op, with cosines and sines of each pair of values by position, or by batch and
    position. `together` names the attribute by which pairs are neighbours.
    """
    length, pairs = e.shape(turns[0])[-2:]
    cos, sin = (e.reshape(turn, (-1, 1, length, pairs)) for turn in turns)
    beside = e.integer(together) == 1
    return e.add("rotary", x, cos, sin, heads=heads, paired=True, together=beside, **more)


def _split(e: Builder, first: int) -> Shape:
    """Returns [batch, heads, positions, depth]; for com.microsoft the number of heads follows from
    the number of angles where all of a head is rotated.
    """
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
    page = "Angles of every pair and position."
    return needs("shape.mismatch", page, lambda e: _fits(e, first, places))


def _fits(e: Builder, first: int, places: int) -> bool:
    """Angles of every rotated pair and every position."""
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
    unset("Batches that are not packed.", "is_packed_batching"),
    needs("attribute.unsupported", "A scale of 1.", lambda e: e.number("scale", 1.0) == 1),
    _angles(COS, PLACES),
)
ROTARY = _angles(ONNX_COS, ONNX_PLACES)
