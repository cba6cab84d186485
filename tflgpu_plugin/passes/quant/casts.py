"""Removes casts of integer values, such as sums of integer products, to integers and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import NUMPY_DTYPES, Graph, Node, Tensor, quantization
from tflgpu_plugin.ops import stored_numbers
from tflgpu_plugin.passes.rewriter import Rewriter


def drop_casts(graph: Graph) -> Graph:
    """Removes casts to an integer type and back, of values that are integers already."""
    made = {n.outputs[0]: n.inputs[0] for n in graph.nodes if ops.traits(n.op).converts}
    found: dict[int, Node] = {}
    for number, node in enumerate(graph.nodes) if made else ():
        source = made.get(node.operand()) if ops.traits(node.op).converts else None
        if source is None:
            continue
        held, between, result = (
            graph.tensors[t] for t in (source, node.operand(), node.outputs[0])
        )
        if _kept(held, between) and not _saturates(held, between, result):
            found[number] = replace(node, inputs=(source,))
    if not found:
        return graph
    e = Rewriter(graph)
    e.nodes = [found.get(number, node) for number, node in enumerate(e.nodes)]
    e.drop_unused()
    return e.finish()


def _kept(source: Tensor, between: Tensor) -> bool:
    """Whether a cast to the intermediate type preserves every number of the source; bool, float16
    and smaller integers do not."""
    wide = between.dtype in (source.dtype, "f32", *quantization.COUNTS)
    return wide and quantization.real(source)


def _saturates(source: Tensor, between: Tensor, result: Tensor) -> bool:
    """Whether a cast of floats to integers of 8 or 16 bits cuts off numbers of the source, of which
    a cast from integers would keep the low bits."""
    if between.dtype != "f32" or result.dtype not in stored_numbers.COUNTED:
        return False
    held, made = (np.iinfo(NUMPY_DTYPES[t.dtype]) for t in (source, result))
    return held.min < made.min or held.max > made.max
