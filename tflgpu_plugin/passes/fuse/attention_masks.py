"""Combines everything that a model adds to attention scores into one mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Node, Shape
from tflgpu_plugin.ir.symbolic import hashed
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_KNOWN = 1 << 24  # elements of constant masks that are combined before a run


class Mask(NamedTuple):
    """A tensor added to scores of this shape; or, with `value`, a condition that replaces scores by
    that value where it is true (false unless `where`). `origin` is the node that applies it."""

    scores: Shape
    tensor: int
    origin: Node
    value: float | None = None
    where: bool = True


class Masks:
    """Combined masks, cached so that layers share them."""

    def __init__(self, e: Rewriter, uses: DefUse) -> None:
        self.e, self.uses = e, uses
        self.made: dict[object, int] = {}

    def joined(
        self, masks: Sequence[Mask], scores: tuple[int, int, int, int]
    ) -> tuple[list[Node], int | None] | None:
        """Returns the new nodes and the tensor to add to scores of [batch, heads, queries, keys]
        for all masks, in order of application. Returns None if a mask does not broadcast to these
        scores or has no value for every key."""
        nodes: list[Node] = []
        masks = [self._narrow(mask) for mask in masks]
        shapes = [_spread(self.e.shape(mask.tensor), mask.scores, scores) for mask in masks]
        if any(shape is None or shape[-1:] != scores[-1:] for shape in shapes):
            return None
        total: int | None = None
        for mask, shape in zip(masks, shapes, strict=True):
            assert shape is not None
            key = total, mask.tensor, mask.value, mask.where, hashed(shape)
            if key not in self.made:
                self.made[key] = self._with(nodes, total, mask, shape)
            total = self.made[key]
        return nodes, total

    def _narrow(self, mask: Mask) -> Mask:
        """Returns the mask as it was before a node broadcast it; added to the scores, it gives the
        same result."""
        while (node := self.uses.made_by(mask.tensor, "expand")) is not None:
            mask = mask._replace(tensor=node.operand())
        return mask

    def _with(self, nodes: list[Node], total: int | None, mask: Mask, shape: Shape) -> int:
        """Returns the sum of the masks so far (`total`, if any) and this one."""
        tensor = self._seen(nodes, mask, shape)
        if mask.value is not None:
            value = self.e.constant(np.float32(mask.value))
            rest = self.e.constant(np.float32(0)) if total is None else total
            pair = (value, rest) if mask.where else (rest, value)
            return self._made(nodes, "where", mask.origin, tensor, *pair)
        return tensor if total is None else self._made(nodes, "add", mask.origin, total, tensor)

    def _seen(self, nodes: list[Node], mask: Mask, shape: Shape) -> int:
        """Returns a mask as a tensor of this shape."""
        tensor = mask.tensor
        if self.e.shape(tensor) == shape:
            return tensor
        known = self.e.data(tensor) is not None
        if known and (moved := self.e.moved(tensor, lambda each: each.reshape(shape))) is not None:
            return moved
        made = self.e.tensor(shape, like=tensor)
        nodes.append(self.e.node("reshape", (tensor,), (made,), [mask.origin], shape=shape))
        return made

    def _made(self, nodes: list[Node], op: str, origin: Node, *inputs: int) -> int:
        """Returns the result of an op, folded to a constant if its inputs are constants."""
        shape = broadcast(*(self.e.shape(t) for t in inputs))
        known = [data for t in inputs if (data := self.e.data(t)) is not None]
        if len(known) == len(inputs) and prod(shape) <= MAX_KNOWN:
            with np.errstate(over="ignore"):
                found = np.add(*known) if op == "add" else np.where(*known)
                return self.e.constant(np.asarray(found, np.float32))
        made = self.e.tensor(shape, like=origin.outputs[0])
        self.e.tensors[made] = replace(self.e.tensors[made], keep_f32=True)  # beyond float16
        nodes.append(self.e.node(op, inputs, (made,), [origin]))
        return made


def _spread(shape: Shape, outer: Shape, scores: tuple[int, int, int, int]) -> Shape | None:
    """Converts a mask's shape from scores of shape `outer`, which may arrange batch and heads on
    other axes, to scores of [batch, heads, queries, keys]. Returns None if it does not
    broadcast."""
    outer, lead = outer[:-2], scores[:2]
    if len(shape) < 3 or outer == lead:
        return shape
    own = (1,) * (len(outer) + 2 - len(shape)) + shape
    own, rest = own[: len(outer)], own[len(outer) :]
    if prod(own) == 1:
        return rest
    if own == outer:
        return (*lead, *rest)
    for split in range(len(outer) + 1):
        if (prod(outer[:split]), prod(outer[split:])) == lead:
            groups = (slice(split), slice(split, None))
            if all(prod(own[g]) == 1 or own[g] == outer[g] for g in groups):
                return (prod(own[groups[0]]), prod(own[groups[1]]), *rest)
    return None
