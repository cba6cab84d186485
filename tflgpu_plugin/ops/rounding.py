"""To which parts of one step of an 8-bit result hosts round first, in fixed point (see
`table.Rounding`)."""

from __future__ import annotations

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ops.table import Rounding

# Parts that take rounding errors of float32 away, so that halves are halves: of the hosts' 2^19 or
# so in sums, and of the weights of a bilinear interpolation, where hosts have 2^10.
SUMS, WEIGHTS = 8192.0, 4096.0
MOST_PARTS = 1 << 14  # with 8 bits before them they still fit float32


def _sum(graph: Graph, node: Node) -> tuple[float, ...]:
    return (SUMS,)


def _interpolation(graph: Graph, node: Node) -> tuple[float, ...]:
    return (WEIGHTS,)


def _product(graph: Graph, node: Node) -> tuple[float, ...]:
    """Of the factor from a product of stored numbers to a result, by channel of the weights."""
    result = graph.tensors[node.outputs[0]]
    scale, _ = quantization.parameters(result)
    given = [graph.tensors[t].quantization for t in node.inputs[:2] if t is not None]
    if len(given) != 2 or given[0] is None or given[1] is None or len(given[0].scale) != 1:
        return (1.0,)
    factors = tuple(given[0].scale[0] * other / scale for other in given[1].scale)
    parts = tuple(quantization.fraction(factor) for factor in factors)
    same = len(parts) == 1 or (result.shape and result.shape[-1] == len(parts))
    return tuple(min(p, float(MOST_PARTS)) for p in parts) if same else (1.0,)


def _ratio(graph: Graph, node: Node) -> tuple[float, ...]:
    """Of the factor between the scales of input and result."""
    given = graph.tensors[node.operand()].quantization
    scale, _ = quantization.parameters(graph.tensors[node.outputs[0]])
    return (1.0,) if given is None else (quantization.fraction(given.scale[0] / scale),)


SUM = Rounding(_sum)
PRODUCT, RATIO = Rounding(_product, up=True), Rounding(_ratio, up=True)
INTERPOLATION = Rounding(_interpolation, stored=True)
