"""The table of all internal ops, and the only list of families. A family has one file here, one in
`kernels/` and one in `conformance/cases/`: conv.py, conv.wgsl and conv.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ir.quirks import none_left, refusal, refuses_some
from tflgpu_plugin.ops.attributes import declared
from tflgpu_plugin.ops.table import BIAS, GATES, NO_OP, Op, Weights

FAMILIES = (
    "conv",
    "depthwise",
    "transpose_conv",
    "conv_3d",
    "fully_connected",
    "pool",
    "unpool",
    "binary",
    "unary",
    "lookup",
    "wide_total",
    "wide_product",
    "softmax",
    "reduce",
    "range_reduce",
    "group_moments",
    "scan",
    "reverse_sequence",
    "spectrum",
    "top_k",
    "nonzero",
    "non_max_suppression",
    "detection",
    "reshape",
    "transpose",
    "rearrange",
    "strided_slice",
    "split",
    "squeeze_excite",
    "pad",
    "concat",
    "resize",
    "lstm",
    "recurrent",
    "recurrent_layer",
    "rnn_basic",
    "bidirectional",
    "svdf",
    "normalization",
    "grid_sample",
    "roi_align",
    "lrn",
    "decision_trees",
    "squared_distances",
    "matmul",
    "matmul_blocks",
    "gather_blocks",
    "attention",
    "rotary",
    "quantization",
    "dynamic_quantize",
    "pick",
    "arg",
    "one_hot",
    "scatter",
    "update_slice",
)


def row(op: str) -> Op | None:
    """Returns the row of this op; None for nodes without an op (those that the host runs, and fused
    dispatches)."""
    return rows().get(op)


def traits(op: str) -> Op:
    """Returns the row of this name, or a row without traits where there is no such op."""
    return rows().get(op, NO_OP)


def weights(node: Node) -> Weights | None:
    """Returns how the node's second input is used as weights of its first; None without weights."""
    return traits(node.op).weights


def gates(node: Node) -> int | None:
    """Returns the gates that multiply the channels of a node's first input, if there are any."""
    gated = traits(node.op).gated and len(node.inputs) > GATES
    return node.inputs[GATES] if gated else None


def bias(node: Node) -> int | None:
    """Returns the bias of a node with weights, or None."""
    biased = weights(node) is not None and len(node.inputs) > BIAS
    return node.inputs[BIAS] if biased else None


def quantizes(node: Node) -> str:
    """Returns "to" for a node that quantizes its input, "from" if it dequantizes it, else ""."""
    return traits(node.op).quantizes


def arranges(node: Node) -> str:
    """Returns how the result rearranges the input: its "order", its "shape", or "" (not at all)."""
    return traits(node.op).arranges


@cache
def rows() -> Mapping[str, Op]:
    """Returns all ops by name, from the tuple `OPS` of each family's module. Its `ATTRIBUTES` are
    one text for all its ops, or one for each op."""
    found: dict[str, Op] = {}
    for family in FAMILIES:
        module = import_module(f"tflgpu_plugin.ops.{family}")
        named = getattr(module, "ATTRIBUTES", "")
        for op in module.OPS:
            if op.name in found:
                raise ValueError(
                    f"op {op.name} is in two families, {found[op.name].family} and {family}"
                )
            words = named if isinstance(named, str) else named.get(op.name, "")
            found[op.name] = replace(op, family=family, attributes=declared(words))
    return found


def refused(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Returns why the node's op, or every form of it, is refused on this target; None if a form is
    left."""
    if not refuses_some(target):
        return None
    if reason := refusal(node.op, graph, node, target):
        return reason
    forms, last = traits(node.op).forms, None
    for form in forms:
        if (last := refusal(form, graph, node, target)) is None:
            return None
    return last and none_left(node.op, forms, last)


@cache
def form_names() -> Mapping[str, tuple[str, ...]]:
    """Returns the names of all forms, each with the ops that it may compute. An op without a list
    of forms has none here: it is refused by its own name."""
    found: dict[str, tuple[str, ...]] = {}
    for op in rows().values():
        for name in dict.fromkeys(op.forms):
            found[name] = (*found.get(name, ()), op.name)
    return found
