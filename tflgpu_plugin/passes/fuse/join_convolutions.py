"""Joins small convolutions that read the same tensor (heads of a detector, branches of a block)
into one convolution with concatenated output channels; each original result becomes a view of the
joint result. Alone, each would leave most of a GPU idle and wait for the launch before.

Requires that the views can be read in place: a batch of one, and parts that start at a vec4.
Padding channels between the parts are zero for every input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, EpilogueOp, Geometry, Graph, Node, geometry
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops import concat, io_layout, movement
from tflgpu_plugin.ops.table import BIAS
from tflgpu_plugin.ops.tiles import WAITING_THREADS
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.fuse.epilogue import MAX_OPERANDS
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_JOINED = 1 << 22  # total elements of weights, which are copied
MAX_VECTORS = 4 * WAITING_THREADS  # of a result; for larger ones each thread makes at least four


@dataclass(frozen=True)
class _Branch:
    """A convolution with its filters and the operands of its epilogue, one value per channel each.
    `into` is a concatenation that the branch's result can be written into directly, as its last
    part."""

    node: Node
    weights: Array
    operands: tuple[Array, ...]
    into: Node | None = None

    @property
    def channels(self) -> int:
        return len(self.weights)


def join_convolutions(graph: Graph) -> Graph:
    """Joins small convolutions that read the same tensor with equal windows and epilogues."""
    e = Rewriter(graph)
    uses = DefUse(e)
    groups: dict[tuple[object, ...], list[_Branch]] = {}
    for node in graph.nodes:
        branch = _branch(uses, node) if node.op == "conv_2d" else None
        if branch is None:
            continue
        into = _last_of(uses, branch)
        if into is not None or not _placed(uses, node.outputs[0]):
            groups.setdefault(_kind(e, branch), []).append(replace(branch, into=into))
    for found in groups.values():
        branches = _together(uses.readers, found)
        if len(branches) < 2 or sum(each.weights.size for each in branches) > MAX_JOINED:
            continue
        if geometry(e.shape(branches[0].node.outputs[0])).batch == 1:  # asked last: it may guard
            _join(e, branches)
    return graph if e.nodes == list(graph.nodes) else e.finish()


def _kind(e: Rewriter, branch: _Branch) -> tuple[object, ...]:
    """Returns the grouping key: convolutions with equal keys can be joined."""
    node, made = branch.node, e.tensors[branch.node.outputs[0]]
    steps = tuple((each.op, each.parameters, each.tensor is None) for each in node.epilogue)
    attributes = repr(sorted(node.attributes.items()))
    weights = branch.weights.shape[1:], branch.weights.dtype
    return node.operand(), attributes, *weights, steps, made.dtype, made.keep_f32


def _branch(uses: DefUse, node: Node) -> _Branch | None:
    """Returns a small, dense convolution as a branch, None for any other node."""
    e, output, weights = uses.e, node.outputs[0], uses.e.data(node.operand(1))
    x, made = e.shape(node.operand()), e.shape(output)
    if weights is None or weights.dtype.kind != "f":
        return None
    if not uses.plain(node) or any(t is not None for t in node.inputs[BIAS:]):
        return None
    if not _is_small(geometry(made)) or weights.shape[-1] != x[-1] or e.tensors[output].counted:
        return None
    if kernels.sums_integers(node.epilogue):
        return None
    given = [each.tensor for each in node.epilogue if each.tensor is not None]
    found = [e.per_channel(tensor, output) for tensor in given]
    operands = tuple(each for each in found if each is not None and each.dtype == np.float32)
    fits = len(operands) == len(given) < MAX_OPERANDS  # one more marks the padding channels
    return _Branch(node, weights, operands) if fits else None


@heuristic
def _is_small(made: Geometry) -> bool:
    return made.vectors < MAX_VECTORS


def _last_of(uses: DefUse, branch: _Branch) -> Node | None:
    """Returns the concatenation that is the only reader of a branch, if the branch is its last
    input and the joint result can be written into the concatenation's result in place, with the
    other branches after its end."""
    tensor = branch.node.outputs[0]
    node = uses.reader(tensor)
    if node is None or node.op != "concat" or branch.channels % 4:
        return None
    if node.inputs[-1] != tensor:
        return None
    able = tensor in concat.in_place(uses.e.now, node)
    return node if able and not _placed(uses, node.outputs[0]) else None


def _together(readers: Mapping[int, list[Node]], branches: list[_Branch]) -> list[_Branch]:
    """Returns the branches of one kind to join: all that are not the last input of a concatenation,
    and at most one that is, unless the concatenation also contains results of the others."""
    ends = [branch for branch in branches if branch.into]
    free = [branch for branch in branches if not branch.into]
    near = {t for b in free for n in readers.get(b.node.outputs[0], []) for t in n.outputs}
    fitting = [b for b in ends if b.into and near.isdisjoint(b.into.inputs)]
    return [*fitting[:1], *free]


def _placed(uses: DefUse, tensor: int) -> bool:
    """Whether the node that computes a tensor can write it in place: to the host's buffer or into a
    concatenation. As a part of a joint result, the tensor would be copied there instead."""
    e = uses.e
    if tensor in e.needed and io_layout.in_host_order(geometry(e.shape(tensor))):
        return True
    for node in uses.readers.get(tensor, []):
        if node.op == "concat" and tensor in concat.in_place(e.now, node):
            return True
        if _alias(e, node) and _placed(uses, node.outputs[0]):
            return True
    return False


def _alias(e: Rewriter, node: Node) -> bool:
    """Whether a node's result is stored like its input, so that it needs no copy."""
    view = e.view(node)
    if view is None:
        return False
    inside, stored = geometry(e.shape(node.operand())), geometry(view.shape)
    return movement.read(view, inside, stored).in_place(inside, stored)


def _join(e: Rewriter, branches: list[_Branch]) -> None:
    """Adds the joint node, and a view of its result for each branch. Branches that do not fill a
    vec4 come last."""
    branches = sorted(branches, key=lambda branch: branch.channels % 4 > 0)
    origin, starts = [b.node for b in branches], list(_starts(branches))
    first = next(node for node in e.graph.nodes if node in origin)
    shape = (*e.shape(first.outputs[0])[:-1], starts[-1] + branches[-1].channels)
    whole = e.tensor(shape, like=first.outputs[0])
    filters = _side_by_side(branches, [b.weights for b in branches])
    inputs = first.operand(), e.constant(filters, name=e.tensors[first.operand(1)].name), None
    node = e.node("conv_2d", inputs, (whole,), origin, **first.attributes)
    made = [replace(node, epilogue=_epilogue(e, first, branches))]
    for branch, start in zip(branches, starts, strict=True):
        made.append(e.cut(whole, branch.node.outputs[0], start, branch.node, zeros=True))
    e.put(made, *origin)


def _epilogue(e: Rewriter, first: Node, branches: list[_Branch]) -> tuple[EpilogueOp, ...]:
    """Returns the joint epilogue, with concatenated operands. Its last step sets padding channels
    to zero."""
    steps, operands = [], zip(*(branch.operands for branch in branches), strict=True)
    for each in first.epilogue:
        if each.tensor is not None:
            each = replace(each, tensor=e.constant(_side_by_side(branches, next(operands))))
        steps.append(each)
    there = _side_by_side(branches, [np.ones(b.channels, np.float32) for b in branches])
    if not there.all():
        steps.append(EpilogueOp("there", e.constant(there)))
    return tuple(steps)


def _starts(branches: Sequence[_Branch]) -> Iterator[int]:
    """Yields the first channel of each part, rounded up to a multiple of four."""
    return accumulate((-(-b.channels // 4) * 4 for b in branches[:-1]), initial=0)


def _side_by_side(branches: Sequence[_Branch], parts: Sequence[Array]) -> Array:
    """Concatenates the parts, with zeros up to the start of the next."""
    gaps = [-branch.channels % 4 for branch in branches[:-1]] + [0]
    filled = [
        np.pad(part, [(0, gap)] + [(0, 0)] * (part.ndim - 1))
        for part, gap in zip(parts, gaps, strict=True)
    ]
    return np.concatenate(filled)
