"""The op table: every internal op, one file per family; `conv.py` here, `kernels/conv.wgsl` and
`conformance/cases/conv.py` go together. This module is the only list of families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ir.quirks import none_left, refusal
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
    "softmax",
    "reduce",
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
    "matmul",
    "matmul_blocks",
    "gather_blocks",
    "attention",
    "rotary",
    "quantization",
    "pick",
    "arg",
    "one_hot",
    "scatter",
    "update_slice",
)


def row(op: str) -> Op | None:
    """The row of this name; None for what is no op (nodes that the host keeps, fused steps)."""
    return rows().get(op)


def traits(op: str) -> Op:
    """Returns the row of this name, or a row without traits where there is no such op."""
    return rows().get(op, NO_OP)


def weights(node: Node) -> Weights | None:
    """How the node's second input weighs its first one."""
    return traits(node.op).weights


def gates(node: Node) -> int | None:
    """Returns the gates that multiply the channels of a node's first input, if there are any."""
    gated = traits(node.op).gated and len(node.inputs) > GATES
    return node.inputs[GATES] if gated else None


def bias(node: Node) -> int | None:
    """The bias of a node with weights, where it has one."""
    biased = weights(node) is not None and len(node.inputs) > BIAS
    return node.inputs[BIAS] if biased else None


def quantizes(node: Node) -> str:
    """ "to" or "from": its result is its input, put on levels or read from them; else ""."""
    return traits(node.op).quantizes


def arranges(node: Node) -> str:
    """Returns how the result rearranges the input: its "order", its "shape", or "" (not at all)."""
    return traits(node.op).arranges


@cache
def rows() -> Mapping[str, Op]:
    """All ops by name; each family module has a tuple `OPS`, and names their `ATTRIBUTES`, the
    same of all or by op."""
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
    """Returns why the node's op, or each of its forms, is refused on this target; None where
    something is left to compute it."""
    if reason := refusal(node.op, graph, node, target):
        return reason
    forms, last = traits(node.op).forms, None
    for form in forms:
        if (last := refusal(form, graph, node, target)) is None:
            return None
    return last and none_left(node.op, forms, last)


@cache
def form_names() -> Mapping[str, tuple[str, ...]]:
    """Returns the names of all forms, each with the ops that it may compute; an op without a list
    of forms has one, which is refused by the op's name."""
    found: dict[str, tuple[str, ...]] = {}
    for op in rows().values():
        for name in dict.fromkeys(op.forms):
            found[name] = (*found.get(name, ()), op.name)
    return found
