"""Replaces scaled dot-product attention written as separate nodes with the attention op: two matrix
products with a softmax between them, in whatever way the model applies scale and mask and splits
and joins heads.

A mask that selects between scores and -inf (or a number so low that it makes scores irrelevant)
becomes an additive mask of 0 and that number. Replacing NaN by 0 after the softmax is matched, too:
it serves queries whose keys are all masked. Nothing is replaced if another node reads an
intermediate result.

The steps between the first product and the softmax come in any order and number, so no single
pattern describes them: `STEPS` has a pattern for each kind of step and its effect on the scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.attention import lasts
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.fuse.attention_masks import Mask, Masks
from tflgpu_plugin.passes.fuse.head_layout import (
    HeadSource,
    Lead,
    counts,
    head_sources,
    joined,
    read_heads,
)
from tflgpu_plugin.passes.pattern import Match, Pattern, named, number, op, scaled
from tflgpu_plugin.passes.rewriter import Rewriter

AS_LOWEST = -1e37  # added to a score, it leaves nothing of the score

SCORES, MASK, SHARES, LOWEST = named("scores"), named("mask"), named("shares"), number("value")
WITHOUT_NAN = op("where", op("is_nan", SHARES), 0, SHARES)


def fuse_attention(graph: Graph) -> Graph:
    """Replaces two matrix products with a softmax between them by attention."""
    if not any(node.op == "softmax" for node in graph.nodes):
        return graph
    fusion = _AttentionFusion(Rewriter(graph))
    changed = [fusion.replace(node) for node in graph.nodes if node.op == "matmul"]
    if not any(changed):
        return graph
    fusion.e.drop_unused()
    return fusion.e.finish()


@dataclass(frozen=True)
class _Scores:
    """The steps that were found between the first product and the softmax: their combined effect on
    the scores, and the shapes of the scores in between."""

    steps: tuple[Node, ...] = ()
    scale: float = 1.0
    softcap: float = 0.0
    masks: tuple[Mask, ...] = ()
    shapes: tuple[Shape, ...] = ()
    mends: bool = False

    def past(self, *nodes: Node, **changed: Any) -> _Scores:
        return replace(self, steps=(*self.steps, *nodes), **changed)

    @property
    def product(self) -> Node:
        return self.steps[-1]


def _reshaped(source: Pattern) -> Pattern:
    """Returns a pattern of a reshape that keeps the last axis."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        e, node = found.uses.e, found.uses.producer[tensor]
        view, given = e.view(node), e.shape(node.operand()) if node.reads else ()
        if view and view.reshapes(given) and view.shape[-1:] == given[-1:]:
            yield from source.matches(node.operand(), found)

    return Pattern(matches)


def _scaled(found: _Scores, match: Match) -> _Scores:
    return replace(found, scale=found.scale * match.numbers["factor"])


def _capped(found: _Scores, match: Match) -> _Scores | None:
    limited = found.scale > 0 and not found.softcap
    return replace(found, softcap=found.scale, scale=1.0) if limited else None


def _masked(found: _Scores, match: Match, where: bool = True) -> _Scores | None:
    """Records an additive mask. Fails if a factor is applied after it, which would scale the mask,
    too."""
    e, node, value = match.uses.e, match.nodes[0], match.numbers.get("value")
    scores, mask = match.tensors["scores"], match.tensors["mask"]
    fits = match.uses.floats(mask) if value is None else value <= AS_LOWEST
    shape = e.shape(node.outputs[0])
    if not fits or found.scale != 1 or found.softcap or scores == mask or e.shape(scores) != shape:
        return None
    masks = (Mask(shape, mask, node, value, where), *found.masks)
    return replace(found, masks=masks, shapes=(*found.shapes, shape))


class Step(NamedTuple):
    """A kind of step between the first product and the softmax: its pattern, its effect on the
    scores, and the exporters that write it."""

    name: str
    pattern: Pattern
    effect: Callable[[_Scores, Match], _Scores | None]
    written_by: str


STEPS = (
    Step("softcap", op("tanh", SCORES), _capped, "torch.onnx of Gemma 2"),
    Step("reshape", _reshaped(SCORES), lambda found, match: found, "torch.onnx of BLOOM, OPT"),
    Step("factor", scaled(SCORES, "factor"), _scaled, "every exporter"),
    Step("mask", SCORES + MASK, _masked, "torch.onnx of BERT, Llama and their kin"),
    Step("choice of a number", op("where", MASK, LOWEST, SCORES), _masked,
         "torch.onnx (masked_fill)"),
    Step("choice of scores", op("where", MASK, SCORES, LOWEST), partial(_masked, where=False),
         "torch.onnx of GPT-2"),
)  # fmt: skip


class _AttentionFusion:
    """Replaces the second product of each attention in a graph by the attention op."""

    def __init__(self, e: Rewriter) -> None:
        self.e, self.uses = e, DefUse(e)
        self.masks = Masks(e, self.uses)

    def replace(self, product: Node) -> bool:
        """Replaces a matrix product by attention if it is the second product of one. Returns
        whether it was."""
        if product.epilogue or not self.uses.plain(product):
            return False
        found = self._shares(product.operand(), _Scores())
        if found is None:
            return False
        return any(self._made(product, found, lead) for lead in self._leads(found))

    def _made_by(self, tensor: int | None, readers: int = 1) -> Node | None:
        """Returns the node that makes a tensor if exactly `readers` nodes read it, once each, else
        None."""
        node = None if tensor is None else self.uses.producer.get(tensor)
        if tensor is None or node is None or tensor in self.e.needed:
            return None
        near = self.uses.readers.get(tensor, [])
        if len(near) != readers or any(n.inputs.count(tensor) != 1 or n.epilogue for n in near):
            return None
        return self.uses.made_by(tensor, node.op)

    def _shares(self, tensor: int, found: _Scores, readers: int = 1) -> _Scores | None:
        """Walks from the second product's first operand back through the softmax to the first
        product. Returns None at a node that does not belong to attention."""
        node = self._made_by(tensor, readers)
        if node is None:
            return None
        x = node.operand()
        if node.op == "softmax":
            shape = self.e.shape(x)
            if int(node.attributes.get("axis", -1)) not in (-1, len(shape) - 1):
                return None
            beta = float(node.attributes["beta"])
            return self._scores(x, found.past(node, scale=beta, shapes=(shape,)))
        for match in WITHOUT_NAN.matches(tensor, Match(self.uses)):
            if found.mends or self._made_by(x) is None:
                return None
            mended = found.past(*match.nodes, mends=True)
            return self._shares(match.tensors["shares"], mended, readers=2)
        for _ in _reshaped(SCORES).matches(tensor, Match(self.uses)):
            return self._shares(x, found.past(node), readers)
        return None

    def _scores(self, tensor: int, found: _Scores) -> _Scores | None:
        """Walks back from the softmax to the first product. Returns None at a node that does not
        belong to attention."""
        node = self._made_by(tensor)
        if node is None:
            return None
        if node.op == "matmul":
            return found.past(node, shapes=(*found.shapes, self.e.shape(tensor)))
        for step in STEPS:
            for match in step.pattern.matches(tensor, Match(self.uses)):
                changed = step.effect(found, match)
                before = changed and self._scores(match.tensors["scores"], changed.past(node))
                if before is not None:
                    return before
        return None

    def _leads(self, found: _Scores) -> Iterator[Lead]:
        """Yields pairs (batch, heads) that the shapes of the scores allow."""
        outer, (rows, keys) = (s := self.e.shape(found.product.outputs[0]))[:-2], s[-2:]
        masked = [mask.scores for mask in found.masks]
        shapes = [s[:-2] for s in (*masked, *found.shapes) if s[-2:] == (rows, keys)]
        yield from ((s[0], s[1]) for s in shapes if len(s) == 2)
        yield from ((prod(s[:-1]), s[-1]) for s in shapes if len(s) > 2)
        if len(outer) < 2:
            every = prod(outer)
            yield from counts(self.uses, found.product.operand(), every)
            yield every, 1

    def _made(self, product: Node, found: _Scores, lead: Lead) -> bool:
        """Inserts attention with this batch and number of heads. Returns False if the op does not
        support the layout."""
        first = found.product
        *outer, rows, keys = self.e.shape(first.outputs[0])
        depth, width = self.e.shape(first.operand())[-1], self.e.shape(product.outputs[0])[-1]
        if prod(outer) != prod(lead) or prod(self.e.shape(product.outputs[0])) != prod(
            (*lead, rows, width)
        ):
            return False
        if not lasts(keys, depth):
            return False
        straight, swapped = (bool(n.attributes.get("transpose_b")) for n in (first, product))
        queries = head_sources(self.uses, first.operand(), (*lead, rows, depth), scaled=True)
        asked = (*lead, keys, depth), (*lead, keys, width)
        ks = head_sources(self.uses, first.operand(1), asked[0], swapped=not straight, scaled=True)
        vs = head_sources(self.uses, product.operand(1), asked[1], swapped=swapped)
        q = next((q for q in queries if q.heads == lead[1]), None)
        pair = next(((k, v) for k in ks for v in vs if k.heads == v.heads), None)
        mask = self.masks.joined(found.masks, (*lead, rows, keys)) if q and pair else None
        if q is None or pair is None or mask is None:
            return False
        self._put(product, found, (q, *pair), mask, (*lead, rows, width))
        return True

    def _put(
        self, product: Node, found: _Scores, parts: tuple[HeadSource, HeadSource, HeadSource],
        mask: tuple[list[Node], int | None], heads: tuple[int, int, int, int],
    ) -> None:  # fmt: skip
        """Replaces the second product, and the nodes that join its heads, by the op."""
        e, (q, k, _) = self.e, parts
        steps, tail = (product, *found.steps), joined(self.uses, product, heads)
        nodes = list(mask[0])
        added = [read_heads(e, nodes, part, product) for part in parts]
        output = (tail or [product])[-1].outputs[0]
        batch, count, rows, width = heads
        shape = (batch, rows, count * width) if tail else heads
        y = output if e.shape(output) == shape else e.tensor(shape, like=output)
        attributes: dict[str, Any] = {
            "heads": count, "kv_heads": k.heads, "joined": bool(tail),
            "scale": found.scale * q.factor * k.factor * (found.softcap or 1.0),
        }  # fmt: skip
        attributes |= {"softcap": found.softcap} if found.softcap else {}
        attributes |= {"empty": 0.0, "mends": True} if found.mends else {}
        nodes.append(e.node("attention", (*added, mask[1]), (y,), (*steps, *tail), **attributes))
        if y != output:
            nodes.append(e.layout("reshape", y, output, product, shape=e.shape(output)))
        e.put(nodes, product)
        e.put((), *found.steps, *tail)
