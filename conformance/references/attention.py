"""Attention and rotary embedding in numpy."""

from __future__ import annotations

from math import nan

import numpy as np

from conformance.references.rounding import rounded
from tflgpu_plugin.ir import Array

LOWEST = float(np.finfo(np.float32).min)


def _rounded(x: Array, terms: int = 1) -> Array:
    """Returns the values with rounding applied; infinities are exact."""
    return np.where(np.isfinite(x), rounded(x, terms), x)


def _masked(scores: Array, mask: Array) -> Array:
    """Returns masked scores: if one is the lowest float32 number, all scores are equal."""
    lowest = np.isfinite(mask) & (mask < 0.99 * LOWEST)
    return np.where(lowest, LOWEST, _rounded(scores + mask))


def _split(x: Array, heads: int) -> Array:
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _shares(row: Array) -> Array:
    """Returns the exponentials of scores, not yet divided by their sum."""
    return np.asarray(np.exp(_rounded(row - row.max())))


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, lengths: Array | None = None,
    scale: float = 1.0, softcap: float = 0.0, causal: bool = False, past: int | None = 0,
    window: int = 0, heads: int = 1, kv_heads: int = 0, joined: bool | None = None,
    empty: float = nan, mends: bool = False, keys: int | None = None,
) -> Array:  # fmt: skip
    packed = q.ndim == 3 if joined is None else joined
    q, k, v = (
        _split(x, n) for x, n in ((q, heads), (k, kv_heads or heads), (v, kv_heads or heads))
    )
    k, v = (np.repeat(x[:, :, :keys], q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = rounded(rounded(scale * (q @ k.swapaxes(2, 3))), q.shape[3])
    if softcap:
        scores = rounded(softcap * np.tanh(scores / softcap))
    scores = scores if mask is None else _masked(scores, mask)
    found = np.full((*q.shape[:3], v.shape[3]), empty)
    for b, h, i in np.ndindex(*q.shape[:3]):
        held = np.arange(k.shape[2]) < (k.shape[2] if lengths is None else int(lengths[b]))
        seen = held.copy()
        if causal:
            before = int(held.sum()) - q.shape[2] if past is None else past
            apart = i + before - np.arange(k.shape[2])
            seen &= (apart >= 0) & ((apart < window) | (window <= 0))
        if empty == 0 and not mends:
            seen &= ~(scores[b, h, i] <= LOWEST)
        row = scores[b, h, i][seen]
        if row.size and not (mends and np.isnan(_shares(row)).any()):
            e = _shares(row)
            found[b, h, i] = e / rounded(e.sum(), row.size) @ v[b, h][seen]
        elif mends:
            found[b, h, i] = np.where(np.isfinite(v[b, h][held]).all(axis=0), empty, nan)
    return found.swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1) if packed else found


def rotary(
    x: Array, cos: Array, sin: Array, heads: int = 1, joined: bool | None = None,
    paired: bool = False, together: bool = False,
) -> Array:  # fmt: skip
    packed, x = x.ndim == 3 if joined is None else joined, _split(x, heads)
    if paired:
        cos, sin = (np.repeat(t, 2, -1) if together else np.concatenate([t, t], -1)
                    for t in (cos, sin))  # fmt: skip
    turning, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    if together:
        a, b = turning[..., ::2], turning[..., 1::2]
        crossed = np.stack([-b, a], -1).reshape(turning.shape)
    else:
        a, b = np.split(turning, 2, -1)
        crossed = np.concatenate([-b, a], -1)
    made = np.concatenate([turning * cos + crossed * sin, rest], -1)
    if packed:
        made = made.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
    return np.asarray(made)
