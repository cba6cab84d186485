"""Runs the passes over a partition's graph before lowering: an ordered list of pure functions from
graph to graph, one per file.

The `sources` of the nodes name the host nodes that they come from, so that reports and timings can
tell what was merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tflgpu_plugin import log, ops
from tflgpu_plugin.errors import Unsupported, blaming, defect
from tflgpu_plugin.ir import Graph, Node, Target, quirks, verify
from tflgpu_plugin.ir.symbolic import is_symbolic
from tflgpu_plugin.ops.forms import Forms
from tflgpu_plugin.passes import (
    canonical,
    common_subexpressions,
    decompose,
    empty_results,
    verifier,
)  # fmt: skip
from tflgpu_plugin.passes.fuse import (
    attention,
    channel_gates,
    epilogue,
    fold_batch_norm,
    functions,
    group_normalization,
    join_convolutions,
    join_dense,
    join_rotary,
    normalization,
    pad,
    rotary,
    squeeze_excite,
)  # fmt: skip
from tflgpu_plugin.passes.layout import compose_views, dense_rows, sink_reshapes, transposes
from tflgpu_plugin.passes.quant import (
    casts,
    dequantize,
    dynamic_ranges,
    fake_quantization,
    integer_weights,
    qdq_fusion,
    unify_activations,
)  # fmt: skip
from tflgpu_plugin.registry import Registry
from tflgpu_plugin.switches import debugging

Rewrite = Callable[[Graph], Graph]

# A graph cannot run without the needed passes; the others only make it faster.
NEEDED, OPTIONAL = True, False

# Every pass, in order; docs/passes.md describes them.
LIST: tuple[tuple[Rewrite, bool], ...] = (
    (empty_results.drop_empty_results, NEEDED),
    (dequantize.dequantize, NEEDED),
    (casts.drop_casts, OPTIONAL),
    (common_subexpressions.share_common_subexpressions, OPTIONAL),
    (group_normalization.fuse_group_normalization, OPTIONAL),
    (decompose.decompose, NEEDED),
    (functions.fuse_functions, OPTIONAL),
    (normalization.fuse_normalization, OPTIONAL),
    (rotary.fuse_rotary, OPTIONAL),
    (attention.fuse_attention, OPTIONAL),
    (dense_rows.keep_dense_rows, OPTIONAL),
    (join_dense.join_dense, OPTIONAL),
    (join_rotary.join_rotary, OPTIONAL),
    (transposes.reduce_transposes, OPTIONAL),
    (dynamic_ranges.fuse_dynamic_quantization, OPTIONAL),
    (canonical.canonical, NEEDED),
    (qdq_fusion.fuse_qdq, NEEDED),
    (fake_quantization.fake_quantize, NEEDED),
    (pad.fuse_pad, OPTIONAL),
    (sink_reshapes.sink_reshapes, OPTIONAL),
    (compose_views.compose_views, OPTIONAL),
    (epilogue.fuse_epilogue, OPTIONAL),
    (fold_batch_norm.fold_batch_norm, OPTIONAL),
    (join_convolutions.join_convolutions, OPTIONAL),
    (squeeze_excite.fuse_squeeze_excite, OPTIONAL),
    (channel_gates.fuse_channel_gates, OPTIONAL),
    (unify_activations.unify_activations, OPTIONAL),
    (integer_weights.keep_integer_weights, OPTIONAL),
)
PASSES = tuple(rewrite for rewrite, _ in LIST)
LEFT_OUT = tuple(
    rewrite for rewrite, needed in LIST if not needed
)  # after a defect, or for an op that is refused


# Functions called after each pass with its name and the graph before and after; they raise an error
# when the pass broke something.
watchers: Registry[str, Callable[[str, Graph, Graph], None]] = Registry()


def run(graph: Graph, target: Target | None = None) -> Graph:
    """Applies all passes in order. TFLGPU_DEBUG=2 logs the number of nodes before and after each.

    Skips an optional pass that makes a node which its op or the target refuses; raises Unsupported
    where a needed pass makes one that its op refuses. After a defect in an optional pass, logs a
    warning and keeps the graph as it was; with TFLGPU_DEBUG, raises the error instead and verifies
    the graph after each pass."""
    watching = [*([verifier.check] if debugging() else []), *watchers.values()]
    for rewrite in PASSES:
        before, graph = graph, _applied(rewrite, graph, target or Target())
        for watch in watching:
            watch(rewrite.__name__, before, graph)
        if debugging() == "2":
            log.say(f"tflgpu: pass {rewrite.__name__}: {counts(before)} -> {counts(graph)}")
    return graph


def _applied(rewrite: Rewrite, graph: Graph, target: Target) -> Graph:
    if rewrite not in LEFT_OUT:
        rewritten = rewrite(graph)
        for node in verifier.made(graph, rewritten):
            with blaming(node):
                if reason := ops.rows()[node.op].refuse(rewritten, node, target):
                    raise Unsupported(reason)
        return rewritten
    try:
        rewritten = rewrite(graph)
        if rewritten is graph:
            return graph
        verify(rewritten)
        if any(_refused(rewritten, node, target) for node in verifier.made(graph, rewritten)):
            return graph
    except Exception as error:  # a defect of ours must not take the host down
        if any(map(is_symbolic, (tensor.shape for tensor in graph.tensors.values()))):
            raise  # there is a plan without symbols
        log.say(f"tflgpu: {defect(error, f'The pass {rewrite.__name__}')} It is left out.")
        return graph
    return rewritten


def _refused(graph: Graph, node: Node, target: Target) -> bool:
    """Whether the op of a node refuses it, or the target refuses the op or each of its forms that
    suits the node."""
    if ops.rows()[node.op].refuse(graph, node, target):
        return True
    if not quirks.refuses_some(target):
        return False
    lower = ops.traits(node.op).lower
    none_left = isinstance(lower, Forms) and not lower.any_left(graph, node, target)
    return none_left or ops.refused(graph, node, target) is not None


def counts(graph: Graph) -> str:
    """Returns the number of nodes and of each op, for example `3 nodes (2 conv_2d, 1 relu)`."""
    by_op = Counter(node.op for node in graph.nodes)
    listed = ", ".join(f"{count} {op}" for op, count in sorted(by_op.items()))
    return f"{len(graph.nodes)} nodes ({listed})"
