"""The variants of kernels that have many: what a launch selects besides operands and parameters.

The header of a kernel's WGSL file explains the fields."""

from __future__ import annotations

from typing import NamedTuple


class Conv(NamedTuple):
    """The variant of conv.wgsl."""

    pixels: int
    slices: int
    step: int
    ahead: int
    lanes: int
    shared: bool
    memory: bool
    stage: int
    taps: str
    strided: bool
    split: bool
    grouped: bool
    run: int
    across: int
    gated: bool
    parts: bool
    eights: bool
    dots: bool = False
    shifted: bool = False
    integers: bool = False
    full: bool = False


class Depthwise(NamedTuple):
    """The variant of depthwise.wgsl."""

    form: str
    height: int
    pixels: int
    lanes: int = 0
    shared: bool = False
    width: int = 1
    stride: int = 1
    words: bool = False
    dots: bool = False
    shifted: bool = False


class Attention(NamedTuple):
    """The variant of attention.wgsl."""

    lanes: int
    rows: int
    parts: int
    masked: bool
    lengths: bool
    softcap: bool
    mends: bool
    shared: bool
    teams: int
    ahead: int
