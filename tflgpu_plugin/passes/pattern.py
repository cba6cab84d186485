"""A small language for formulas in a graph, and the one matcher of it.

A pattern describes how a tensor is computed: `X * op("logistic", X)` is a product, in either order,
of some tensor and its logistic function. `X` is a `tensor("x")`, which stands for the same tensor
wherever it appears. A `Rule` pairs a pattern with the nodes that replace what it matches.

What is matched gives the same value up to rounding. A node in between that something else reads
stays beside the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from math import isfinite
from typing import NamedTuple

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.rewriter import Rewriter


class Match(NamedTuple):
    """What the names of a pattern stand for, and the nodes that it covers, the root first."""

    tensors: Mapping[str, int] = {}
    numbers: Mapping[str, float] = {}
    nodes: tuple[Node, ...] = ()

    def covering(self, node: Node) -> Match:
        return self._replace(nodes=(*self.nodes, node))


Condition = Callable[[DefUse, Node], bool]


class Pattern:
    """How a tensor is computed. Numbers may stand for patterns of constants in formulas."""

    def __add__(self, other: Pattern | float) -> Pattern:
        return Op("add", (self, _pattern(other)), commutes=True)

    def __radd__(self, other: float) -> Pattern:
        return self + other

    def __mul__(self, other: Pattern | float) -> Pattern:
        if isinstance(other, Pattern):
            return Op("mul", (self, other), commutes=True)
        return Op("mul", (self, Number(other)), commutes=True) | self / (1 / other)

    def __rmul__(self, other: float) -> Pattern:
        return self * other

    def __sub__(self, other: Pattern) -> Pattern:
        return Op("sub", (self, other))

    def __truediv__(self, other: Pattern | float) -> Pattern:
        return Op("div", (self, _pattern(other)))

    def __rtruediv__(self, other: float) -> Pattern:
        return Number(other) / self

    def __neg__(self) -> Pattern:
        return Op("neg", (self,))

    def __or__(self, other: Pattern) -> Pattern:
        return Either((self, other))

    @property
    def roots(self) -> tuple[str, ...]:
        """The ops that the last node of a match may have."""
        raise NotImplementedError

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        """Yields every way to match a tensor that `reader` reads, beyond what was found so far."""
        raise NotImplementedError


@dataclass(frozen=True)
class Named(Pattern):
    """A tensor of this name, the same everywhere; of a pattern, where there is one."""

    name: str
    pattern: Pattern | None = None

    @property
    def roots(self) -> tuple[str, ...]:
        return self.pattern.roots if self.pattern else ()

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        known = found.tensors.get(self.name)
        if known is not None:
            if known == tensor:
                yield found
            return
        inside = self.pattern.matches(uses, tensor, reader, found) if self.pattern else (found,)
        for each in inside:
            yield each._replace(tensors={**each.tensors, self.name: tensor})


@dataclass(frozen=True)
class Constant(Named):
    """A constant of any shape."""

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        if uses.e.data(tensor) is not None:
            yield from super().matches(uses, tensor, reader, found)


@dataclass(frozen=True)
class Number(Pattern):
    """A constant with one element: this value, up to rounding, or any finite one, by name."""

    value: float | None = None
    name: str = ""

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        number = uses.number(tensor)
        if number is None or not isfinite(number):
            return
        if self.value is None:
            yield found._replace(numbers={**found.numbers, self.name: number})
        elif uses.close(reader, number, self.value):
            yield found


@dataclass(frozen=True)
class Op(Pattern):
    """The result of a node of this op, of floats, with this activation and without an epilogue."""

    op: str
    operands: tuple[Pattern, ...]
    where: Condition | None = None
    commutes: bool = False
    activation: str = "none"

    @property
    def roots(self) -> tuple[str, ...]:
        return (self.op,)

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        node = uses.made_by(tensor, self.op, activation=self.activation)
        if node is None or (self.where and not self.where(uses, node)):
            return
        given = [t for t in node.inputs if t is not None]
        yield from _in_order(uses, self.operands, given, node, found.covering(node))
        if self.commutes and given[0] != given[1]:
            yield from _in_order(uses, self.operands, given[::-1], node, found.covering(node))


@dataclass(frozen=True)
class Either(Pattern):
    """One of several patterns, the first that leads to a match."""

    choices: tuple[Pattern, ...]

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(op for each in self.choices for op in each.roots)

    def __or__(self, other: Pattern) -> Pattern:
        return Either((*self.choices, other))

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        for each in self.choices:
            yield from each.matches(uses, tensor, reader, found)


@dataclass(frozen=True)
class Product(Pattern):
    """A number times these factors, multiplied and divided in any order."""

    number: float
    factors: tuple[Pattern, ...]

    @property
    def roots(self) -> tuple[str, ...]:
        return _products()

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        node = uses.made_by(tensor, *self.roots)
        number, rest = uses.product(tensor) if node else (0.0, [])
        if node and len(rest) == len(self.factors) and uses.close(reader, number, self.number):
            for order in permutations(rest):
                yield from _in_order(uses, self.factors, order, node, found.covering(node))


Where = Callable[[View, Shape], bool]


@dataclass(frozen=True)
class Moved(Pattern):
    """The elements of a tensor in other places, times a factor; `where` is a condition on the view
    of the tensor and on its shape."""

    source: Pattern
    where: Where
    factor: float = 1.0

    def matches(self, uses: DefUse, tensor: int, reader: Node, found: Match) -> Iterator[Match]:
        for source, view, factor in uses.sources(tensor, scaled=True):
            if factor == self.factor and self.where(view, uses.e.shape(source)):
                yield from self.source.matches(uses, source, reader, found)


def op(
    name: str,
    *operands: Pattern | float,
    where: Condition | None = None,
    commutes: bool = False,
    activation: str = "none",
) -> Pattern:
    """Returns the pattern of a node of one op; operands behind those given may be anything."""
    return Op(name, tuple(map(_pattern, operands)), where, commutes, activation)


def product(number: float, *factors: Pattern) -> Pattern:
    """Returns the pattern of a product in any order and nesting."""
    return Product(number, factors)


@cache
def _products() -> tuple[str, ...]:
    """Returns the ops that multiply or divide."""
    return tuple(name for name in ops.rows() if ops.traits(name).affine in ("factor", "divisor"))


def _pattern(given: Pattern | float) -> Pattern:
    return given if isinstance(given, Pattern) else Number(given)


def _in_order(
    uses: DefUse, patterns: Sequence[Pattern], tensors: Sequence[int], node: Node, found: Match
) -> Iterator[Match]:
    """Yields every way to match tensors that a node reads, each by its pattern."""
    if not patterns:
        yield found
    elif tensors:
        for each in patterns[0].matches(uses, tensors[0], node, found):
            yield from _in_order(uses, patterns[1:], tensors[1:], node, each)


Replacement = Callable[[Rewriter, Node, Match], Sequence[Node] | None]


@dataclass(frozen=True)
class Rule:
    """A formula, the nodes that replace its last one (None: this match does not fit after all), and
    who writes it so."""

    name: str
    pattern: Pattern
    replacement: Replacement
    written_by: str = field(compare=False)


def rewrite(
    graph: Graph, rules: Sequence[Rule], finish: Callable[[DefUse], None] | None = None
) -> Graph:
    """Returns the graph with each rule applied wherever it matches, and with what `finish` does
    then (None: `clean`). A node is replaced by the first rule that does; later nodes see what
    replaced earlier ones."""
    rooted: dict[str, list[Rule]] = {}
    for rule in rules:
        for root in dict.fromkeys(rule.pattern.roots):
            rooted.setdefault(root, []).append(rule)
    if not any(node.op in rooted for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    uses, made = DefUse(e), dict[int, Sequence[Node]]()
    for node in graph.nodes:
        found = _replaced(uses, node, rooted.get(node.op, ()))
        if found:
            made[node.id] = found
            uses.producer |= {t: each for each in found for t in each.outputs}
    if not made:
        return graph
    e.nodes = [each for node in graph.nodes for each in made.get(node.id, (node,))]
    clean(e) if finish is None else finish(uses)
    return e.finish()


def _replaced(uses: DefUse, node: Node, rules: Sequence[Rule]) -> Sequence[Node] | None:
    for rule in rules:
        for match in rule.pattern.matches(uses, node.outputs[0], node, Match()):
            found = rule.replacement(uses.e, node, match)
            if found:
                return found
    return None
