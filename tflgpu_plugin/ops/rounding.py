"""The fixed-point precision of 8-bit results: hosts first round to a fraction of a step of the
result, which these functions compute (see `table.Rounding`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from tflgpu_plugin.ir import Graph, Node, quantization
from tflgpu_plugin.ops.table import Rounding

# Fractions of a step to which values are rounded first, so that float32 errors do not break ties:
# hosts have about 2^19 in sums, and 2^10 in the weights of a bilinear interpolation.
SUMS, WEIGHTS = 8192.0, 4096.0
MAX_PARTS = 1 << 14  # with 8 integer bits these still fit float32

Real = type[np.float32] | type[np.float64]


def _product(graph: Graph, node: Node) -> tuple[float, ...]:
    """Returns, for each output channel, the fraction of a step to which hosts round the sum of
    products of stored numbers (see `quantization.fraction`)."""
    result = graph.tensors[node.outputs[0]]
    scale, _ = quantization.parameters(result)
    given = [graph.tensors[t].quantization for t in node.inputs[:2] if t is not None]
    if len(given) != 2 or given[0] is None or given[1] is None or len(given[0].scale) != 1:
        return (1.0,)
    factors = tuple(given[0].scale[0] * other / scale for other in given[1].scale)
    parts = tuple(quantization.fraction(factor) for factor in factors)
    same = len(parts) == 1 or (result.shape and result.shape[-1] == len(parts))
    return tuple(min(p, float(MAX_PARTS)) for p in parts) if same else (1.0,)


def _factor(graph: Graph, node: Node, product: Real, quotient: Real) -> tuple[float, float] | None:
    """Returns the product of both input scales, and its ratio to the output scale; None if an input
    is not quantized per tensor. `product` and `quotient` are the types in which hosts compute
    them."""
    tensors = [graph.tensors[t] for t in node.inputs[:2] if t is not None]
    scales = quantization.scales(tensors)
    if scales is None or len(scales) != 2:
        return None
    if node.attributes.get("rounds_once"):
        product = np.float64
    elif tensors[0].dtype == "u8":
        product = np.float32  # as GetQuantizedConvolutionMultipler of lite/kernels/kernel_util.cc
    unit = product(scales[0]) * product(scales[1])
    scale, _ = quantization.parameters(graph.tensors[node.outputs[0]])
    return float(unit), float(quotient(unit) / quotient(scale))


SUM = Rounding(lambda graph, node: (SUMS,))
LAYER = Rounding(_product, factor=partial(_factor, product=np.float64, quotient=np.float64))
MATMUL = Rounding(_product, factor=partial(_factor, product=np.float32, quotient=np.float64))
PRODUCT = Rounding(_product, factor=partial(_factor, product=np.float32, quotient=np.float32))
INTERPOLATION = Rounding(lambda graph, node: (WEIGHTS,), stored=True)
