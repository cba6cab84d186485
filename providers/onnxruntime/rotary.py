"""Rows for rotary positions: pairs of values of a head, turned by an angle of their place."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.graph import Shape
from tflgpu_plugin.ir.host_op import needs

from .attention import whole
from .expansion import Expansion
from .rearranging import cut

# Positions of inputs: of com.microsoft, of ONNX.
PLACES, COS = 1, 2
ONNX_COS, ONNX_PLACES = 1, 3


def contrib(e: Expansion) -> int:
    """RotaryEmbedding of com.microsoft, whose places are each told or follow a first one."""
    return _of_host(e, COS, whole(e, e.x(PLACES)))


def rotary(e: Expansion) -> int:
    """RotaryEmbedding of ONNX: a row of angles of each place, or of each number of a place."""
    return _of_host(e, ONNX_COS, whole(e, e.x(ONNX_PLACES)) if e.has(ONNX_PLACES) else None)


def _of_host(e: Expansion, first: int, places: int | None) -> int:
    """With the cosines at this position and the sines after them."""
    x, (batch, heads, length, depth) = e.x(0), _split(e, first)
    axis = 2 if e.rank(x) == 4 else 1  # of places
    turns = [e.x(first), e.x(first + 1)]
    if places is not None:
        if e.rank(places) == 1:
            places = e.add("add", places, e.index(np.arange(length)))
        turns = [e.add("gather", turn, places, axis=0) for turn in turns]
    half = e.shape(turns[0])[-1]
    spread = [batch if e.rank(turns[0]) == 3 else 1, 1, 1, half]
    spread[axis] = length
    cos, sin = (e.reshape(turn, spread) for turn in turns)
    given = e.reshape(x, (batch, length, heads, depth)) if axis == 1 else x
    together = e.integer("interleaved") == 1
    return e.reshape(turned(e, given, cos, sin, together), e.shape(x))


def turned(e: Expansion, x: int, cos: int, sin: int, together: bool) -> int:
    """The first values of the last of 4 axes in pairs: neighbours if `together`, or one of each
    half."""
    shape, half = e.shape(x), e.shape(cos)[-1]
    pairs = _part(e, x, 0, 2 * half)
    if together:
        pairs = e.reshape(pairs, (*shape[:3], half, 2))
        cos, sin = (e.reshape(turn, (*e.shape(turn), 1)) for turn in (cos, sin))
    size = 1 if together else half
    a, b = (_part(e, pairs, start, start + size) for start in (0, size))
    real = e.add("sub", e.add("mul", a, cos), e.add("mul", b, sin))
    other = e.add("add", e.add("mul", a, sin), e.add("mul", b, cos))
    made = e.add("concat", real, other, axis=e.rank(real) - 1)
    if together:
        made = e.reshape(made, (*shape[:3], 2 * half))
    if 2 * half == shape[3]:
        return made
    return e.add("concat", made, _part(e, x, 2 * half, shape[3]), axis=3)


def _part(e: Expansion, x: int, start: int, end: int) -> int:
    """Of the last axis."""
    return cut(e, x, [*map(slice, e.shape(x)[:-1]), slice(start, end)])


def _split(e: Expansion, first: int) -> Shape:
    """[batch, heads, places, depth]; com.microsoft has as many heads as have angles where the whole
    of a head turns."""
    shape = e.shape(e.x(0))
    if len(shape) == 4:
        return shape
    batch, length, width = shape
    if first == COS and not e.integer("rotary_embedding_dim"):
        depth = 2 * e.shape(e.x(first))[-1]
    else:
        depth = width // max(e.integer("num_heads"), 1)
    return batch, width // max(depth, 1), length, depth


# ---- what they need ------------------------------------------------------------------------------


def _fits(e: Expansion, first: int, places: int) -> bool:
    """Angles of every pair that turns, of every place."""
    shape, told = e.shape(e.x(0)), e.has(places)
    cos, sin = (e.shape(e.x(k)) for k in (first, first + 1))
    if len(shape) not in (3, 4) or cos != sin or len(cos) != (2 if told else 3):
        return False
    if first == ONNX_COS and len(shape) == 3 and e.integer("num_heads") < 1:
        return False
    batch, heads, length, depth = _split(e, first)
    turning = e.integer("rotary_embedding_dim") or depth
    follow = first == COS and told and e.shape(e.x(places)) == (1,)
    rows = e.shape(e.x(places)) if told and not follow else cos[:2]
    return (
        2 * cos[-1] == turning <= depth
        and heads * depth == (shape[2] if len(shape) == 3 else heads * shape[3])
        and (follow or tuple(rows) == (batch, length))
    )


CONTRIB = (
    needs("Batches that are not packed.", lambda e: not e.integer("is_packed_batching")),
    needs("A scale of 1.", lambda e: e.number("scale", 1.0) == 1),
    needs("Angles of every pair and place.", lambda e: _fits(e, COS, PLACES)),
)
ROTARY = (needs("Angles of every pair and place.", lambda e: _fits(e, ONNX_COS, ONNX_PLACES)),)
