"""Operands of fused steps."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir.graph import Graph, planar


def spread(graph: Graph, operand: int, output: int) -> str | None:
    """Returns how a fused operand is indexed ("same", "channel" or "scalar"), or None when it
    cannot be fused."""
    shape, target = graph.shape(operand), graph.shape(output)
    if prod(shape) == 1 and len(shape) <= max(len(target), 1):
        return "scalar"
    if len(shape) == len(target) and shape == target:  # shapes of unequal ranks are not compared
        return "same"
    if (
        planar(target)
        and len(shape) <= len(target)
        and shape[-1] == target[-1]
        and prod(shape) == shape[-1]
    ):
        return "channel"
    return None
