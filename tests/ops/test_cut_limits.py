"""Tests activations that only clamp: the limits that passes give to pipelines and to stored
numbers."""

from __future__ import annotations

from math import inf

from tflgpu_plugin import ops

# By the names of TensorFlow Lite's fused activations.
LIMITS = {"relu": (0.0, inf), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}


def test_rows_that_cut_have_their_limits() -> None:
    found = {name: row.limits for name, row in ops.rows().items() if row.limits}
    assert found == LIMITS
