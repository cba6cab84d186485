"""Maxima with their indices, and values put back to these, as nodes. As the host's operators they
need each other: those are in `unpool_graphs`."""

from __future__ import annotations

from typing import Any

from conformance.cases import Input
from conformance.node_cases import NodeCase

Pair = tuple[int, int]


def node(op: str, name: str, shape: tuple[int, ...], window: Pair, padding: str = "same",
         **more: Any) -> NodeCase:  # fmt: skip
    """Returns a node case with fractional indices, which are truncated, from 0 up to the number of
    positions."""
    indices = Input(shape, low=0.0, high=float(window[0] * window[1]))
    inputs = (Input(shape), *((indices,) if op == "max_unpool" else ()))
    attributes = {"window": window, "padding": padding}
    return NodeCase(name, op, inputs, attributes, 2 - len(inputs) + 1, **more)


NODES = [
    node("max_pool_argmax", "2x2", (2, 6, 4, 5), (2, 2)),
    node("max_pool_argmax", "over_the_edge", (1, 5, 7, 8), (2, 2)),
    node("max_pool_argmax", "valid_3x2", (1, 7, 5, 3), (3, 2), "valid"),
    node("max_pool_argmax", "in_the_padding", (1, 7, 7, 3), (3, 3), refused=True),
    node("max_pool_argmax", "line", (2, 6, 4), (2, 2), refused=True),
    node("max_unpool", "2x2", (2, 3, 4, 5), (2, 2)),
    node("max_unpool", "3x2_channels_17", (1, 3, 4, 17), (3, 2)),
    node("max_unpool", "1x1", (1, 3, 4, 4), (1, 1)),
    NodeCase("other_places", "max_unpool", (Input((1, 2, 2, 4)), Input((1, 2, 3, 4))),
             {"window": (2, 2), "padding": "same"}, refused=True),
]  # fmt: skip
