"""Replaces squeeze-and-excitation gates (a spatial mean and two small layers) by one launch if a
workgroup can do it all quickly (see `ops.squeeze_excite`). For larger feature maps it replaces the
two layers only."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, merged
from tflgpu_plugin.ops import squeeze_excite
from tflgpu_plugin.ops.blocks import windows
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.table import BIAS
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_OPERANDS = 2  # of the last epilogue: the launch binds five buffers and perhaps a bias


def fuse_squeeze_excite(graph: Graph) -> Graph:
    """Joins two 1x1 convolutions of a single pixel, and the spatial mean before them, if each is
    the only reader of the one before."""
    e = Rewriter(graph)
    uses = DefUse(e)
    gone, made = set[int](), set[int]()
    for number, second in enumerate(e.nodes):
        if not _layer(uses, second):
            continue
        first = uses.producer.get(second.operand())
        if first is None or not _layer(uses, first) or not _alone(uses, first, second):
            continue
        if first.id in made:  # already the second layer of a pair
            continue
        steps = _inner(uses, first)
        x, mean = first.operand(), uses.producer.get(first.operand())
        weights, more = (e.shape(node.operand(1)) for node in (first, second))
        if mean is not None and _averages(uses, mean) and _alone(uses, mean, first):
            whole = mean.operand()
            x = whole if squeeze_excite.fits(e.shape(whole), weights[0], more[0]) else x
        joined = [first] if x == first.operand() or mean is None else [mean, first]
        if steps is None or not squeeze_excite.fits(e.shape(x), weights[0], more[0]):
            continue
        bias, inner = steps
        e.nodes[number] = replace(
            second,
            op="squeeze_excite",
            inputs=(x, first.inputs[1], bias, second.inputs[1]),
            outputs=(*second.outputs, *first.outputs),
            attributes={"inner": inner},
            **merged(second, *joined),
        )
        gone |= {node.id for node in joined}
        made.add(second.id)
    e.nodes = [node for node in e.nodes if node.id not in gone]
    return e.finish() if gone else graph


def _layer(uses: DefUse, node: Node) -> bool:
    """Whether a node is a dense convolution of a single pixel with constant weights and its bias in
    the epilogue."""
    if node.op != "conv_2d" or not uses.plain(node):
        return False
    data, x = uses.e.data(node.inputs[1]), uses.e.shape(node.operand())
    given = len(node.inputs) > BIAS and any(t is not None for t in node.inputs[BIAS:])
    one = x[1:3] == uses.e.shape(node.outputs[0])[1:3] == (1, 1)
    if data is None or data.dtype.kind != "f" or given or not one:
        return False
    if any(span.before for span in windows(uses.e.graph, node)):  # the window may miss the pixel
        return False
    few = sum(each.tensor is not None for each in node.epilogue) <= MAX_OPERANDS
    return few and data.shape[1:] == (1, 1, x[3])


def _averages(uses: DefUse, node: Node) -> bool:
    averages = ops.traits(node.op).averages
    means = averages is not None and averages(uses.e.graph, node)
    return means and uses.plain(node) and not node.epilogue


def _alone(uses: DefUse, node: Node, reader: Node) -> bool:
    """Whether `reader` is the only node that reads the node's result, and reads it once."""
    return uses.reader(node.outputs[0]) == reader


def _inner(
    uses: DefUse, node: Node
) -> tuple[int | None, tuple[tuple[str, tuple[float, ...]], ...]] | None:
    """Returns the bias and the other epilogue ops; None if those have operands."""
    bias, rest = None, node.epilogue
    if rest and rest[0].op == "add" and rest[0].tensor is not None:
        fits = uses.e.data(rest[0].tensor) is not None
        fits = fits and spread(uses.e.graph, rest[0].tensor, node.outputs[0]) is not None
        bias, rest = (rest[0].tensor if fits else None), rest[1:]
        if not fits:
            return None
    if any(each.tensor is not None for each in rest):
        return None
    return bias, tuple((each.op, each.parameters) for each in rest)
