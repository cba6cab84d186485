"""Conditions and builders of the operators for decision trees of ai.onnx.ml, with the special cases
of onnxruntime's kernels for two classes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, asks
from tflgpu_plugin.providers import Builder

from . import scores
from .features import whole
from .forests import Forest, direct, listed, reals
from .rearranging import parts

# Reductions by the operators' names; the average is a sum that is divided.
REDUCTIONS = {"SUM": "sum", "AVERAGE": "sum", "MIN": "minimum", "MAX": "maximum"}
NUMBERED = ("AVERAGE", "SUM", "MIN", "MAX")  # by the numbers of version 5
LABELS = "classlabels_int64s"
DEFAULT = np.asarray([0, 1])  # labels where the model's are not used


# ---- what a node says ----------------------------------------------------------------------------


def _is_classifier(e: Builder) -> bool:
    return e.host.op == "TreeEnsembleClassifier"


def _classes(e: Builder) -> int:
    return len(whole(e, LABELS)) if _is_classifier(e) else e.integer("n_targets", 0)


def _aggregate(e: Builder) -> str:
    if e.host.op == "TreeEnsemble":
        return dict(enumerate(NUMBERED)).get(e.integer("aggregate_function", 1), "")
    return "SUM" if _is_classifier(e) else e.text("aggregate_function", "SUM")


def _transform(e: Builder) -> str:
    if e.host.op == "TreeEnsemble":  # of 1 and 2 the host makes the other function
        return {0: "NONE", 3: "SOFTMAX_ZERO", 4: "PROBIT"}.get(e.integer("post_transform"), "")
    return scores.transform(e)


class _Attributes(dict[str, Any]):
    """A node's attributes, equal to others where these are the same objects."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple((name, id(value)) for name, value in self.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and all(other.get(k, self) is v for k, v in self.items())


@lru_cache(1)  # conditions and builders of a node read its trees in turn
def _read(given: _Attributes, op: str, classes: int) -> Forest:
    if op == "TreeEnsemble":
        return direct(given, classes)
    return listed(given, "class" if op == "TreeEnsembleClassifier" else "target", classes)


def _forest(e: Builder) -> Forest:
    """Returns the trees. Raises ValueError or KeyError for ones that hosts take in ways of their
    own, or not at all."""
    return _read(_Attributes(e.host.attributes), e.host.op, _classes(e))


def _base(e: Builder) -> Array:
    return reals(e.host.attributes, "base_values")


# ---- conditions ----------------------------------------------------------------------------------


@asks("attribute.invalid")
def whole_trees(e: Builder) -> bool:
    """Requires trees whose nodes are listed one tree after the other, without NaN, and whose leaves
    each have one number for a class or more; an aggregate_function and a post_transform of the
    standard."""
    try:
        forest, base = _forest(e), _base(e)
    except (ValueError, KeyError):
        return False
    features = int(forest.nodes.feature.max(initial=0))
    known = _aggregate(e) in REDUCTIONS and _transform(e) in scores.TRANSFORMS
    fits = not (forest.nodes.feature < 0).any() and features < e.shape()[-1]
    return known and fits and not np.isnan(base).any()


@asks("attribute.unsupported")
def covered(e: Builder) -> bool:
    """Requires leaves with which every run gives numbers to the same classes, where the host tells
    classes without numbers from those of 0; at most as many base values as classes. For two classes
    of which only the first has numbers, no PROBIT, and no LOGISTIC of numbers of at least 0."""
    forest, base = _forest(e), len(_base(e))
    always, ever = forest.scored
    same, classes = always == ever, forest.classes
    if classes == 1:
        return base <= 1
    if not _is_classifier(e):
        plain = _aggregate(e) in ("SUM", "AVERAGE") and base != classes
        return plain or bool(same.all())
    if classes > 2:
        return base <= classes and bool(same[base:].all())
    alone = base < 2 and not ever[1]
    plain = bool(same[1] and (not base or same[0]))
    return base <= 2 and plain and (not alone or _is_written(e))


def _is_written(e: Builder) -> bool:
    """Whether hosts make scores of both classes of the first one's, and all versions alike."""
    name = scores.transform(e)
    return _is_single(e) and name != "PROBIT" and not (name == "LOGISTIC" and _is_positive(e))


# ---- builders ------------------------------------------------------------------------------------


def _summed(e: Builder, forest: Forest) -> int:
    """Returns the results of the trees for each row, reduced over the trees: [n, classes]."""
    reduction = REDUCTIONS[_aggregate(e)]
    packed = forest.packed(reduction)
    constants = [e.const(a, np.int32) for a in packed[:3]]
    y = e.add(
        "decision_trees", e.exact(scores.rows(e)), *constants, e.const(packed.leaves),
        classes=forest.classes, reduction=reduction, steps=packed.steps,
    )  # fmt: skip
    return e.add("div", y, float(len(forest.roots))) if _aggregate(e) == "AVERAGE" else y


def _shown(e: Builder, y: int, scored: Array) -> int:
    """Returns the scores, with 0 for classes to which no tree contributes."""
    return y if scored.all() else e.add("where", e.const(scored, np.bool_), y, 0.0, dtype="f32")


def _plus(e: Builder, y: int, base: Array) -> int:
    return e.add("add", y, e.const(base)) if base.any() else y


def regressor(e: Builder) -> int:
    """Builds TreeEnsembleRegressor and TreeEnsemble. With one target, the host applies no function
    but PROBIT."""
    forest, base, name = _forest(e), _base(e), _transform(e)
    y = _summed(e, forest)
    if len(base) == forest.classes:
        y = _plus(e, y, base)
    y = _shown(e, y, forest.scored[1])
    return y if forest.classes == 1 and name != "PROBIT" else scores.transformed(e, y, name)


def classifier(e: Builder) -> list[int]:
    """Builds TreeEnsembleClassifier: labels and scores."""
    forest = _forest(e)
    y = _summed(e, forest)
    if forest.classes == 2:
        return _two(e, forest, y)
    base, labels, name = _base(e), whole(e, LABELS), scores.transform(e)
    y = _plus(e, y, np.pad(base, (0, forest.classes - len(base))))
    if forest.classes == 1:
        label = scores.either(e, scores.above(e, y, 0.0), DEFAULT)
        return [label, scores.transformed(e, y, name) if name == "PROBIT" else y]
    counts = forest.scored[1] | (np.arange(forest.classes) < len(base))
    ranked = y
    if not counts.all():
        ranked = e.add("where", e.const(counts, np.bool_), y, -np.inf, dtype="f32")
    return [scores.chosen(e, ranked, labels), scores.transformed(e, y, name)]


def _is_single(e: Builder) -> bool:
    """Whether all numbers of leaves are for one of two classes."""
    return len(whole(e, LABELS)) == 2 and len({*whole(e, "class_ids").tolist()}) == 1


def _is_positive(e: Builder) -> bool:
    return not (reals(e.host.attributes, "class_weights") < 0).any()


def _two(e: Builder, forest: Forest, y: int) -> list[int]:
    """Returns labels and scores of two classes. Where only the first one has numbers, and there are
    not two base values, its score gives both."""
    base, name, single = _base(e), scores.transform(e), _is_single(e)
    first, second = map(bool, forest.scored[1])
    scored, other = parts(e, y, (1, 1), axis=1)
    if len(base) == 2 and second:  # the host takes the first score for the second
        other = _plus(e, scored, base[1:])
        scored = e.add("neg", other)
    elif len(base):
        scored = _plus(e, scored, base[:1])
    share = single and _is_positive(e)
    over = scores.above(e, other if second else scored, 0.5 if share else 0.0)
    label = scores.either(e, over, whole(e, LABELS) if single else DEFAULT)
    if not second and len(base) < 2:
        return [label, _both(e, scored, name, share)]
    both = e.add("concat", scored, other, axis=1)
    return [label, scores.transformed(e, _shown(e, both, np.asarray([first, second])), name)]


def _both(e: Builder, score: int, name: str, share: bool) -> int:
    """Returns the scores of both classes where only one has numbers: `share`s of 1, or of opposite
    sign."""
    if share:
        return e.add("concat", e.add("sub", e.const([1.0]), score), score, axis=1)
    both = e.add("concat", e.add("neg", score), score, axis=1)
    return scores.transformed(e, both, name) if name == "LOGISTIC" else both
