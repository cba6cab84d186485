"""Variances: where SQUARED_DIFFERENCE belongs on the device.

Instance normalization comes from converters as MEAN, SQUARED_DIFFERENCE, MEAN and a few more, all
on the device. By itself a squared difference stays with the host, as in the example of the host's
guide for delegates (convolution and mean taken, squared difference not).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tflgpu_plugin.graph import Node

from .ops import SQUARED_DIFFERENCE

ALONE = (
    "SQUARED_DIFFERENCE is supported within a variance: between a tensor and its MEAN, and read "
    "by a MEAN only."
)


def settle(nodes: Sequence[Node], outputs: Collection[int]) -> list[Node]:
    """The nodes, squared differences that make no variance refused. `outputs` of the host's graph
    are read by its user."""
    means = [n for n in nodes if n.op == "mean" and n.refusal is None]
    of: dict[int | None, int | None] = {n.outputs[0]: n.inputs[0] for n in means}
    others = {t for n in nodes if n.op != "mean" or n.refusal is not None for t in n.reads}
    averaged = {n.inputs[0] for n in means} - others - set(outputs)

    def belongs(node: Node) -> bool:
        a, b = node.inputs[:2]
        return node.outputs[0] in averaged and (of.get(a, -1) == b or of.get(b, -1) == a)

    return [
        replace(node, refusal=ALONE)
        if node.form is SQUARED_DIFFERENCE and node.refusal is None and not belongs(node)
        else node
        for node in nodes
    ]
