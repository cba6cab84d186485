"""The rewrites of a partition's graph before lowering: an ordered list of small pure `Graph ->
Graph` functions, a file each.

Every host node stays in exactly one node's `sources`, so reports and timings can name what was
merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tflgpu_plugin import log
from tflgpu_plugin.errors import debugging, defect
from tflgpu_plugin.ir import Graph, verify
from tflgpu_plugin.passes import verifier
from tflgpu_plugin.passes.canonical import canonical
from tflgpu_plugin.passes.decompose import decompose
from tflgpu_plugin.passes.fuse.attention import attend
from tflgpu_plugin.passes.fuse.branches import join_branches
from tflgpu_plugin.passes.fuse.epilogue import fuse_epilogue
from tflgpu_plugin.passes.fuse.excitation import join_excitations
from tflgpu_plugin.passes.fuse.functions import recompose
from tflgpu_plugin.passes.fuse.gates import take_gates
from tflgpu_plugin.passes.fuse.groups import group
from tflgpu_plugin.passes.fuse.layers import join_layers
from tflgpu_plugin.passes.fuse.normalization import standardize
from tflgpu_plugin.passes.fuse.pad import fuse_pad
from tflgpu_plugin.passes.fuse.rotary import turn
from tflgpu_plugin.passes.fuse.scales import fold_scales
from tflgpu_plugin.passes.fuse.turns import join_turns
from tflgpu_plugin.passes.layout.join_moves import join_moves
from tflgpu_plugin.passes.layout.reshapes import reshape_later
from tflgpu_plugin.passes.layout.rows import keep_rows
from tflgpu_plugin.passes.layout.transposes import transposes
from tflgpu_plugin.passes.quant.casts import drop_casts
from tflgpu_plugin.passes.quant.dequantize import dequantize
from tflgpu_plugin.passes.quant.fake_quantization import fake_quantize
from tflgpu_plugin.passes.quant.qdq_fusion import fuse_qdq
from tflgpu_plugin.passes.quant.share_steps import share_steps
from tflgpu_plugin.passes.quant.whole_weights import whole_weights
from tflgpu_plugin.passes.share import share
from tflgpu_plugin.passes.trim import trim
from tflgpu_plugin.registry import Registry

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    trim,
    dequantize,
    drop_casts,
    share,
    group,
    decompose,
    recompose,
    standardize,
    turn,
    attend,
    keep_rows,
    join_layers,
    join_turns,
    transposes,
    canonical,
    fuse_qdq,
    fake_quantize,
    fuse_pad,
    reshape_later,
    join_moves,
    fuse_epilogue,
    fold_scales,
    join_branches,
    join_excitations,
    take_gates,
    share_steps,
    whole_weights,
)

# Without the others a graph runs as well, only slower.
NEEDED = (trim, dequantize, decompose, canonical, fuse_qdq, fake_quantize)
OPTIONAL = tuple(each for each in PASSES if each not in NEEDED)


# Each is called after each pass, with its name and the graph before and after it, and raises an
# error when something is wrong.
watchers: Registry[str, Callable[[str, Graph, Graph], None]] = Registry()


def run(graph: Graph) -> Graph:
    """Apply all passes in order. TFLGPU_DEBUG=2 logs the nodes around each.

    A defect in an optional pass leaves the graph as it was, with a warning; with
    TFLGPU_DEBUG it is raised, and graphs are verified between passes.
    """
    watching = [*([verifier.check] if debugging() else []), *watchers.values()]
    for rewrite in PASSES:
        before, graph = graph, _applied(rewrite, graph)
        for watch in watching:
            watch(rewrite.__name__, before, graph)
        if debugging() == "2":
            log.say(f"tflgpu: pass {rewrite.__name__}: {counts(before)} -> {counts(graph)}")
    return graph


def _applied(rewrite: Callable[[Graph], Graph], graph: Graph) -> Graph:
    if rewrite not in OPTIONAL:
        return rewrite(graph)
    try:
        rewritten = rewrite(graph)
        verify(rewritten)
    except Exception as error:  # a defect of ours must not take the host down
        log.say(f"tflgpu: {defect(error, f'The pass {rewrite.__name__}')} It is left out.")
        return graph
    return rewritten


def counts(graph: Graph) -> str:
    """Number of nodes and how many of each op, for example `3 nodes (2 conv_2d, 1 relu)`."""
    by_op = Counter(node.op for node in graph.nodes)
    listed = ", ".join(f"{count} {op}" for op, count in sorted(by_op.items()))
    return f"{len(graph.nodes)} nodes ({listed})"
