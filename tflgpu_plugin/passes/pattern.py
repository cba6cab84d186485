"""A small language for formulas in a graph, and its matcher.

A pattern describes how a tensor is computed: `X * op("logistic", X)` is a product, in either order,
of a tensor and its logistic function, where `X = named("x")` stands for the same tensor wherever it
appears. A `Rule` pairs a pattern with the nodes that replace what it matches.

A replacement gives the same value up to rounding. Intermediate nodes that other nodes read, too,
stay in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from types import MappingProxyType
from typing import NamedTuple

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.rewriter import Rewriter


class Match(NamedTuple):
    """The tensors and numbers bound to the names of a pattern, and the matched nodes, the root
    first."""

    uses: DefUse
    tensors: Mapping[str, int] = MappingProxyType({})
    numbers: Mapping[str, float] = MappingProxyType({})
    nodes: tuple[Node, ...] = ()


# Yields every way to match a tensor, each an extension of the match so far.
Matches = Callable[[int, Match], Iterator[Match]]
Condition = Callable[[DefUse, Node], bool]
ViewCondition = Callable[[View, Shape], bool]


@dataclass(frozen=True)
class Pattern:
    """Describes how a tensor is computed; `roots` are the ops that its last node may have."""

    matches: Matches
    roots: tuple[str, ...] = ()

    def __add__(self, other: Pattern | float) -> Pattern:
        return op("add", self, other, commutes=True)

    def __mul__(self, other: Pattern | float) -> Pattern:
        times = op("mul", self, other, commutes=True)
        return times if isinstance(other, Pattern) else times | self / (1 / other)

    def __sub__(self, other: Pattern) -> Pattern:
        return op("sub", self, other)

    def __truediv__(self, other: Pattern | float) -> Pattern:
        return op("div", self, other)

    def __rtruediv__(self, other: float) -> Pattern:
        return op("div", other, self)

    def __neg__(self) -> Pattern:
        return op("neg", self)

    def __or__(self, other: Pattern) -> Pattern:
        def either(tensor: int, found: Match) -> Iterator[Match]:
            yield from self.matches(tensor, found)
            yield from other.matches(tensor, found)

        return Pattern(either, self.roots + other.roots)

    __radd__, __rmul__ = __add__, __mul__


def named(name: str, pattern: Pattern | None = None) -> Pattern:
    """Returns a pattern of a tensor that is the same wherever the name appears. With `pattern`, the
    tensor must match that, too."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        if name in found.tensors:
            yield from (found,) if found.tensors[name] == tensor else ()
            return
        for each in pattern.matches(tensor, found) if pattern else (found,):
            yield each._replace(tensors={**each.tensors, name: tensor})

    return Pattern(matches, pattern.roots if pattern else ())


def constant(name: str) -> Pattern:
    """Returns a pattern of a constant of any shape."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        return iter(() if found.uses.e.data(tensor) is None else (found,))

    return named(name, Pattern(matches))


def number(name: str) -> Pattern:
    """Returns a pattern of a constant with one element."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        value = found.uses.number(tensor)
        if value is not None:
            yield found._replace(numbers={**found.numbers, name: value})

    return Pattern(matches)


def _equal(wanted: float) -> Pattern:
    """Returns a pattern of a constant with one element that equals this value up to rounding."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        value = found.uses.number(tensor)
        fits = value is not None and found.uses.close(found.nodes[0], value, wanted)
        yield from (found,) if fits else ()

    return Pattern(matches)


def op(
    name: str,
    *operands: Pattern | float,
    where: Condition | None = None,
    commutes: bool = False,
    activation: str = "none",
) -> Pattern:
    """Returns a pattern of the result of a floating-point op with this activation and no epilogue.
    Operands beyond the patterns that are given may be anything."""
    patterns = [each if isinstance(each, Pattern) else _equal(each) for each in operands]

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        node = found.uses.made_by(tensor, name, activation=activation)
        if node is None or (where and not where(found.uses, node)):
            return
        given, found = [t for t in node.inputs if t is not None], _covering(found, node)
        yield from _in_order(patterns, given, found)
        if commutes and given[0] != given[1]:
            yield from _in_order(patterns, given[::-1], found)

    return Pattern(matches, (name,))


def product(factor: float, *factors: Pattern) -> Pattern:
    """Returns a pattern of a product in any order and nesting whose constant numbers multiply to
    `factor`."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        uses, node = found.uses, found.uses.made_by(tensor, *roots)
        value, rest = uses.product(tensor) if node else (0.0, [])
        if node and len(rest) == len(factors) and uses.close(node, value, factor):
            for order in permutations(rest):
                yield from _in_order(factors, order, _covering(found, node))

    roots = op("mul").roots + op("div").roots
    return Pattern(matches, roots)


def moved(source: Pattern, where: ViewCondition, factor: float = 1.0) -> Pattern:
    """Returns a pattern of a view of a tensor, times a factor; `where` is a condition on the view
    and on the tensor's shape."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        for origin, view, times in found.uses.sources(tensor, scaled=True):
            if times == factor and where(view, found.uses.e.shape(origin)):
                yield from source.matches(origin, found)

    return Pattern(matches)


def scaled(source: Pattern, name: str) -> Pattern:
    """Returns a pattern of a tensor multiplied by any number, in one node."""

    def matches(tensor: int, found: Match) -> Iterator[Match]:
        node = found.uses.producer.get(tensor)
        times = node and found.uses.scaling(node)
        if node and times:
            factors = {**found.numbers, name: times[1]}
            yield from source.matches(times[0], _covering(found, node)._replace(numbers=factors))

    return Pattern(matches)


def _covering(found: Match, node: Node) -> Match:
    return found._replace(nodes=(*found.nodes, node))


def _in_order(patterns: Sequence[Pattern], tensors: Sequence[int], found: Match) -> Iterator[Match]:
    """Yields every way to match tensors, each by its pattern."""
    if not patterns:
        yield found
    elif tensors:
        for each in patterns[0].matches(tensors[0], found):
            yield from _in_order(patterns[1:], tensors[1:], each)


# Returns the nodes that replace the root of a match; None to decline the match.
Replacement = Callable[[Node, Match], Sequence[Node] | None]


class Rule(NamedTuple):
    """A pattern, the replacement of its root node, and the exporter that writes the formula this
    way."""

    name: str
    pattern: Pattern
    replacement: Replacement
    written_by: str


def rewrite(
    graph: Graph, rules: Sequence[Rule], finish: Callable[[Rewriter], None] = clean
) -> Graph:
    """Returns the graph with the rules applied wherever they match, and `finish` run afterwards.
    The first rule that matches a node replaces it; later nodes see the replacement."""
    rooted: dict[str, list[Rule]] = {}
    for rule in rules:
        for root in dict.fromkeys(rule.pattern.roots):
            rooted.setdefault(root, []).append(rule)
    if not any(node.op in rooted for node in graph.nodes):
        return graph
    uses, made = DefUse(Rewriter(graph)), dict[int, Sequence[Node]]()
    for node in graph.nodes:
        found = _replaced(uses, node, rooted[node.op]) if node.op in rooted else None
        if found:
            made[node.id] = found
            uses.producer |= {t: each for each in found for t in each.outputs}
    if not made:
        return graph
    uses.e.nodes = [each for node in graph.nodes for each in made.get(node.id, (node,))]
    finish(uses.e)
    return uses.e.finish()


def _replaced(uses: DefUse, node: Node, rules: Sequence[Rule]) -> Sequence[Node] | None:
    matches = (
        rule.replacement(node, match)
        for rule in rules
        for match in rule.pattern.matches(node.outputs[0], Match(uses))
    )
    return next(filter(None, matches), None)
