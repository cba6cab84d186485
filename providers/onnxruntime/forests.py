"""Reads the decision trees of ai.onnx.ml's operators, in both forms that the domain has had, and
packs them for the op `decision_trees`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.ir import Array
from tflgpu_plugin.ops.decision_trees import COMPARISONS, FEATURE, MISSING, STARTS

NAMES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")  # of comparisons, in the order of COMPARISONS
LEAF, EQUAL, MEMBER = -1, COMPARISONS.index("=="), len(NAMES)  # kinds beside comparisons
MODES = {b"LEAF": LEAF} | {f"BRANCH_{name}".encode(): k for k, name in enumerate(NAMES)}
SLICE = 4  # classes


class Nodes(NamedTuple):
    """The inner nodes, an array per property. A child that is at least 0 is a node, -1 - k is
    leaf k."""

    comparison: Array
    feature: Array
    threshold: Array
    missing: Array
    true: Array
    false: Array


class Weights(NamedTuple):
    """The numbers that leaves give to classes, by leaf."""

    leaf: Array
    target: Array
    value: Array


class Packed(NamedTuple):
    """The constant operands of the op, and the longest path."""

    nodes: Array
    trees: Array
    starts: Array
    leaves: Array
    steps: int


@dataclass(frozen=True)
class Forest:
    """Decision trees with this many `leaves` and `classes`; `roots` are as children."""

    nodes: Nodes
    roots: Array
    weights: Weights
    leaves: int
    classes: int

    @cached_property
    def reached(self) -> tuple[Array, int]:
        """Returns the tree of each leaf, -1 for leaves of none, and the length of the longest path.
        Raises ValueError where trees share a leaf or paths have no end."""
        tree, owners = np.full(self.leaves, -1), np.arange(len(self.roots))
        front, steps, span = self.roots, 0, self.leaves + len(self.nodes.true)
        while len(front):
            ends = front < 0
            leaf, owner = -1 - front[ends], owners[ends]
            tree[leaf] = np.maximum(tree[leaf], owner)
            if (tree[leaf] != owner).any() or steps > len(self.nodes.true):
                raise ValueError("decision trees share a leaf, or a path has no end")
            at = front[~ends]
            below = np.concatenate([self.nodes.true[at], self.nodes.false[at]])
            keys = np.unique(np.tile(owners[~ends], 2) * span + below + self.leaves)
            owners, front = keys // span, keys % span - self.leaves
            steps += bool(len(front))
        return tree, steps

    @cached_property
    def scored(self) -> tuple[Array, Array]:
        """Returns for each class whether it gets a number in every run, and in any run."""
        tree = self.reached[0]
        sizes = np.bincount(tree[tree >= 0], minlength=len(self.roots))
        of = self.weights
        counts = np.zeros((len(self.roots), self.classes), np.int64)
        np.add.at(counts, (tree[of.leaf], of.target), 1)
        return (counts == sizes[:, None]).any(0), (counts > 0).any(0)

    def packed(self, reduction: str) -> Packed:
        """Returns the operands; of classes for which they have no number, leaves say what changes
        nothing."""
        tree, steps = self.reached
        order = np.argsort(tree, kind="stable")  # unreached leaves are first
        sizes = np.bincount(tree + 1, minlength=len(self.roots) + 1)
        first = np.cumsum(sizes) - sizes
        place = np.empty(self.leaves, np.int64)  # of each leaf in its tree
        place[order] = np.arange(self.leaves) - first[tree[order] + 1]
        of = self.weights
        pairs, which = np.unique(
            (of.target // SLICE) * len(self.roots) + tree[of.leaf], return_inverse=True
        )
        held = sizes[pairs % len(self.roots) + 1]
        base = np.cumsum(held) - held
        leaves = np.full((max(int(held.sum()), 1), SLICE), STARTS[reduction], np.float32)
        leaves[base[which] + place[of.leaf], of.target % SLICE] = of.value
        slices = np.arange(-(-self.classes // SLICE) + 1) * len(self.roots)
        roots = self._placed(self.roots, place)[pairs % len(self.roots)]
        trees = np.stack([roots, base], 1)
        starts = np.searchsorted(pairs, slices)
        return Packed(self._words(place), trees, starts, leaves, max(steps, 1))

    def _placed(self, child: Array, place: Array) -> Array:
        """Returns children with leaves numbered in their trees."""
        leaf = np.minimum(child, -1)
        return np.where(child < 0, -1 - place[-1 - leaf], child)

    def _words(self, place: Array) -> Array:
        """Returns the nodes as the op reads them, at least one."""
        kind = self.nodes.feature * FEATURE + self.nodes.missing * MISSING + self.nodes.comparison
        bits = self.nodes.threshold.astype(np.float32).view(np.int32)
        children = (self._placed(c, place) for c in (self.nodes.true, self.nodes.false))
        words = np.stack([bits, kind, *children], 1).astype(np.int32)
        return words if len(words) else np.asarray([[0, 0, -1, -1]], np.int32)


def _numbers(given: Mapping[str, Any], name: str, count: int = 0) -> Array:
    """Returns a list of integers, by default `count` zeros."""
    return np.asarray(given.get(name, (0,) * count), np.int64)


def reals(given: Mapping[str, Any], name: str) -> Array:
    """Returns a list of floats, which may be a tensor. Raises ValueError for another type."""
    held = given.get(f"{name}_as_tensor")
    tensor = held if held is not None and np.size(held) else given.get(name, ())
    array = np.asarray(tensor).reshape(-1)
    if hasattr(tensor, "dtype") and array.dtype != np.float32:
        raise ValueError(f"{name} is of {array.dtype}")
    return array.astype(np.float32)


def listed(given: Mapping[str, Any], what: str, classes: int) -> Forest:
    """Returns the trees of an operator up to version 3, whose leaves name `what` they are for.
    Raises ValueError for trees that hosts do not take, or take in ways of their own."""
    tree, number = _numbers(given, "nodes_treeids"), _numbers(given, "nodes_nodeids")
    kinds = np.asarray([MODES[mode] for mode in given.get("nodes_modes", ())], np.int64)
    inner, index = kinds != LEAF, _Index(tree, number)
    names = ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")
    feature, true, false = (_numbers(given, name) for name in names)
    values = reals(given, "nodes_values")
    missing = _numbers(given, "nodes_missing_value_tracks_true", len(kinds))
    if {len(a) for a in (tree, number, feature, true, false, values, missing)} != {len(kinds)}:
        raise ValueError("properties of nodes differ in number")
    places = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner))  # as children
    children = (places[index.of(tree[inner], child[inner])] for child in (true, false))
    nodes = Nodes(
        kinds[inner], feature[inner], values[inner], (missing[inner] == 1).astype(int), *children
    )
    begins = np.flatnonzero(np.diff(tree, prepend=tree[:1] - 1))
    if len(np.unique(tree)) != len(begins) or not len(tree):
        raise ValueError("nodes of a tree are not adjacent")
    weights = _weights(given, what, index, places)
    made = Forest(nodes, places[begins], weights, int((~inner).sum()), classes)
    return _checked(made)


class _Index:
    """The positions of nodes by tree and number. Raises ValueError where two have the same."""

    def __init__(self, tree: Array, number: Array) -> None:
        self.factor = int(max(number.max(initial=0), 0)) + 1
        keys = self._keys(tree, number)
        self.order = np.argsort(keys)
        self.sorted = keys[self.order]
        if (np.diff(self.sorted) == 0).any() or number.min(initial=0) < 0:
            raise ValueError("two nodes have the same number")

    def _keys(self, tree: Array, number: Array) -> Array:
        return tree * self.factor + number

    def of(self, tree: Array, number: Array) -> Array:
        """Returns positions. Raises ValueError where a node does not exist."""
        keys = self._keys(tree, number)
        at = np.minimum(np.searchsorted(self.sorted, keys), len(self.sorted) - 1)
        outside = (number < 0) | (number >= self.factor)
        if len(keys) and (outside | (self.sorted[at] != keys)).any():
            raise ValueError("a node is missing")
        found: Array = self.order[at]
        return found


def _weights(given: Mapping[str, Any], what: str, index: _Index, places: Array) -> Weights:
    tree, number, target = (
        _numbers(given, f"{what}_{name}") for name in ("treeids", "nodeids", "ids")
    )
    value = reals(given, f"{what}_weights")
    if len({len(a) for a in (tree, number, target, value)}) != 1:
        raise ValueError("properties of leaves differ in number")
    leaf = -1 - places[index.of(tree, number)]
    own = leaf >= 0  # hosts ignore numbers of inner nodes
    return Weights(leaf[own], target[own], value[own])


def _checked(forest: Forest) -> Forest:
    """Returns the trees; with one class only the first number of each leaf. Raises ValueError where
    a leaf has no number, or two for one class."""
    of, classes = forest.weights, forest.classes
    if classes < 1 or (of.target < 0).any() or (of.target >= classes).any():
        raise ValueError("a leaf is for a class that is not there")
    if classes == 1:
        firsts = np.unique(of.leaf, return_index=True)[1]
        of = Weights(of.leaf[firsts], of.target[firsts], of.value[firsts])
    if len(np.unique(of.leaf * classes + of.target)) != len(of.leaf):
        raise ValueError("a leaf has two numbers for one class")
    if len(np.unique(of.leaf)) != forest.leaves or (forest.reached[0] < 0).any():
        raise ValueError("a leaf has no number or is not reached")
    if np.isnan(of.value).any() or np.isnan(forest.nodes.threshold).any():
        raise ValueError("a threshold or a leaf is NaN")
    return replace(forest, weights=of)


def direct(given: Mapping[str, Any], classes: int) -> Forest:
    """Returns the trees of TreeEnsemble (version 5). Raises ValueError as `listed` does."""
    kinds = np.asarray(given["nodes_modes"]).reshape(-1).astype(np.int64)
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    feature, true, false, true_leaf, false_leaf = (_numbers(given, f"nodes_{n}") for n in names)
    values, count = reals(given, "nodes_splits"), len(kinds)
    missing = _numbers(given, "nodes_missing_value_tracks_true", count)
    properties = (feature, true, false, true_leaf, false_leaf, values, missing)
    roots = _numbers(given, "tree_roots")
    if {len(a) for a in properties} != {count} or not len(roots):
        raise ValueError("properties of nodes differ in number")
    weights, targets = reals(given, "leaf_weights"), _numbers(given, "leaf_targetids")
    children = [
        np.where(leaf != 0, -1 - child, child)
        for leaf, child in ((true_leaf, true), (false_leaf, false))
    ]
    limits = np.where(np.stack(children) < 0, len(weights), count)
    ids = np.stack([true, false])
    if len(weights) != len(targets) or (ids < 0).any() or (ids >= limits).any():
        raise ValueError("a child is missing")
    if (roots < 0).any() or (roots >= count).any() or (true[roots] == false[roots]).any():
        raise ValueError("a root is missing, or its children have the same number")
    nodes = Nodes(kinds, feature, values, (missing == 1).astype(int), *children)
    of = Weights(np.arange(len(weights)), targets, weights)
    members = _member_lists(reals(given, "membership_values"), int((kinds == MEMBER).sum()))
    return _checked(Forest(_compared(nodes, members), roots, of, len(weights), classes))


def _member_lists(values: Array, count: int) -> list[Array]:
    """Returns the numbers of each set, which NaN ends."""
    ends = [*np.flatnonzero(np.isnan(values)), len(values)]
    begins = [0, *(end + 1 for end in ends)]
    found = [values[a:b] for a, b in zip(begins[:count], ends[:count], strict=True)]
    if any(not len(one) for one in found):
        raise ValueError("a set has no numbers")
    return found


def _compared(nodes: Nodes, members: list[Array]) -> Nodes:
    """Returns the nodes with comparisons with each number in place of membership in a set."""
    if nodes.comparison.min(initial=0) < 0 or nodes.comparison.max(initial=0) > MEMBER:
        raise ValueError("a comparison is unknown")
    found = [column.copy() for column in nodes]
    for at, numbers in zip(np.flatnonzero(nodes.comparison == MEMBER), members, strict=True):
        more, end = len(numbers) - 1, len(found[0])
        rows = [np.concatenate([column, np.repeat(column[at], more)]) for column in found]
        chain = np.asarray([at, *range(end, end + more)])
        made = Nodes(*rows)
        made.comparison[chain] = EQUAL
        made.threshold[chain] = numbers
        made.false[chain[:-1]] = chain[1:]
        made.false[chain[-1]] = nodes.false[at]
        found = [*made]
    return Nodes(*found)
