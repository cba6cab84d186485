"""Nodes of ONNX that count: the rows of `x` whose first column is above a half, and how many."""

from __future__ import annotations

from tests.support.onnx_models import node

# `x` is [n, 4], `half` 0.5 and `first` 0. `at` [count, 1] has the places, `rows` [count, 4] the
# rows there, and `s` [count] their first column.
FOUND = [
    node("Gather", ["x", "first"], ["scores"], axis=1), node("Greater", ["scores", "half"], ["m"]),
    node("NonZero", ["m"], ["z"]), node("Transpose", ["z"], ["at"]),
    node("GatherND", ["x", "at"], ["rows"]), node("GatherND", ["scores", "at"], ["s"]),
]  # fmt: skip
# `n` is the count and `length` [1] has it; `zero` is [0].
LENGTH = [
    node("Shape", ["s"], ["shape"]), node("Gather", ["shape", "first"], ["n"]),
    node("Unsqueeze", ["n", "zero"], ["length"]),
]  # fmt: skip
