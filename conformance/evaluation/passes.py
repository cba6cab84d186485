"""Checks that no pass changes what a graph computes: the graph is evaluated before and after each
pass that changed it, on the same values, and outputs must agree within what roundings of float32
explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from conformance.evaluation import feeds, graphs
from conformance.evaluation.nodes import NoMeaning
from conformance.evaluation.numbers import rounding
from tflgpu_plugin.ir import COMPLEX, Array, Graph, quantization
from tflgpu_plugin.ops import rows
from tflgpu_plugin.passes import pipeline, verifier

Pass = Callable[[Graph], Graph]

# Constants that passes work out are float32. Of an output's largest magnitude, and times what it
# moves by when its inputs are off by one rounding.
CLOSE, MOVED, FLOOR = 2e-5, 32.0, 1e-30
TRIALS = 2  # of inputs that are off
# Factors of quantized steps have 15 bits at least: of a level. Where limits are levels, too, they
# may differ by what rounding brings about, and are compared with it: a share, by this many levels.
STEP, FEW, LEVELS = 0.05, 0.03, 2.0
LARGE = 1 << 28  # multiply-adds of a graph that is evaluated before and after all passes first


@dataclass(frozen=True)
class Finding:
    """A pass that changes an answer."""

    rewrite: str
    text: str

    def __str__(self) -> str:
        return f"{self.rewrite}: {self.text}"


FAILURES = (
    NoMeaning, IndexError, ValueError, TypeError, MemoryError, KeyError, AssertionError,
)  # fmt: skip


# Attributes for errors of the host, and for one level of a rounded result.
UNSEEN = ("raises", "rounds_once")


@dataclass
class Checked:
    """The result for a graph: findings, why it was not evaluated, and passes that changed it."""

    findings: list[Finding] = field(default_factory=list)
    skipped: str = ""
    applied: list[str] = field(default_factory=list)


def check(
    graph: Graph, passes: Sequence[Pass] = pipeline.PASSES, fed: dict[int, Array] | None = None
) -> Checked:
    """Applies these passes to a graph one after the other, and evaluates the graph before and after
    each pass that changes it. A graph with much work is evaluated at the start and the end, and
    around each pass only if these differ."""
    checked = Checked()
    stages = list(_stages(graph, passes, checked))
    answers = _Answers(graph, fed)
    try:
        answers.of(graph)
        ends = [stages[0], stages[-1]]
        if len(stages) > 2 and _work(graph) > LARGE and not _differences(answers, ends):
            return checked
        checked.findings += _differences(answers, stages)
    except FAILURES as error:
        text = f"not evaluated: {type(error).__name__}: {error}"
        if answers.known:  # the graph before all passes was evaluated
            checked.findings.append(Finding(_unevaluable(answers, stages), text))
        else:
            checked.skipped = text
    return checked


def _unevaluable(answers: _Answers, stages: Sequence[_Stage]) -> str:
    """Returns the pass that made the first graph that cannot be evaluated."""
    for stage in stages:
        try:
            answers.of(stage.graph)
        except FAILURES:
            return stage.name
    return stages[-1].name


@dataclass(frozen=True)
class _Stage:
    """A graph, and the pass that made it."""

    name: str
    graph: Graph


def _stages(graph: Graph, passes: Sequence[Pass], checked: Checked) -> Iterator[_Stage]:
    yield _Stage("", graph)
    for rewrite in passes:
        before, graph = graph, rewrite(graph)
        try:
            verifier.check(rewrite.__name__, before, graph)
        except verifier.BrokenGraph as error:
            checked.findings.append(Finding(rewrite.__name__, str(error)))
        checked.findings += [Finding(rewrite.__name__, text) for text in _lost(before, graph)]
        if _changed(before, graph):
            checked.applied.append(rewrite.__name__)
            yield _Stage(rewrite.__name__, graph)


def _changed(before: Graph, after: Graph) -> bool:
    """Whether the graphs differ in more than identity. Constants are compared by identity."""
    if before.nodes is after.nodes and before.tensors is after.tensors:
        return False
    if len(before.nodes) != len(after.nodes):
        return True
    pairs: list[tuple[Any, Any]] = [*zip(before.nodes, after.nodes, strict=True)]
    pairs += [(before.tensors.get(t), held) for t, held in after.tensors.items()]
    return not all(a is b or _equal(a, b) for a, b in pairs)


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or not is_dataclass(one):
        return False
    values = ((getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    try:
        return all(a is b or bool(a == b) for a, b in values)
    except ValueError:  # arrays have no one truth value
        return False


def _lost(before: Graph, after: Graph) -> Iterator[str]:
    """Yields attributes that no evaluation reads, and that a node no longer has."""
    kept = {(node.op, node.outputs): node.attributes for node in after.nodes}
    for node in before.nodes:
        now = kept.get((node.op, node.outputs), node.attributes)
        for name in UNSEEN:
            if node.attributes.get(name) and not now.get(name):
                yield f"{node.op} loses its attribute {name}"


def _work(graph: Graph) -> int:
    return sum(row.work(graph, node) if (row := rows().get(node.op)) and row.work else
               sum(prod(graph.shape(t)) for t in node.outputs) for node in graph.nodes)  # fmt: skip


class _Answers:
    """The answers of a graph before and after passes to the same values, and how far they move."""

    def __init__(self, graph: Graph, fed: dict[int, Array] | None) -> None:
        self.graph, self.fed = graph, fed
        self.limits: dict[int, float] = {}
        self.others: list[dict[int, Array]] = []
        self.memos = {False: graphs.Memo(), True: graphs.Memo()}
        self.known: dict[tuple[int, bool], dict[int, Array]] = {}
        self.kept: list[Graph] = []  # whose ids are keys

    def of(self, graph: Graph, rounded: bool = False) -> dict[int, Array]:
        """Returns the values of the outputs of a form of the graph."""
        key = id(graph), rounded
        if key not in self.known:
            with rounding(rounded):
                self.known[key] = self._evaluated(graph, self.memos[rounded])
            self.kept.append(graph)
        return self.known[key]

    def _evaluated(self, graph: Graph, memo: graphs.Memo) -> dict[int, Array]:
        if self.fed is None:
            self.fed = feeds.of_graph(self.graph)
            try:
                return graphs.evaluate(graph, self.fed, memo=memo)
            except IndexError:  # integers are indices, of one element at most
                self.fed = feeds.of_graph(self.graph, most=1)
        given = {t: _paired(value, graph, t) for t, value in self.fed.items()}
        given = {t: self._restored(value, t, self.graph, graph) for t, value in given.items()}
        made = graphs.evaluate(graph, given, memo=memo)
        return {t: self._restored(value, t, graph, self.graph) for t, value in made.items()}

    @staticmethod
    def _restored(value: Array, tensor: int, one: Graph, other: Graph) -> Array:
        """Returns the values that a port's stored numbers have after a pass, which may give them
        another quantization."""
        held, there = (graph.tensors[tensor].quantization for graph in (one, other))
        if held == there or held is None or there is None or len(held.scale) != 1:
            return value
        stored = value / held.scale[0] + held.zero_point[0]
        return np.asarray((stored - there.zero_point[0]) * there.scale[0])

    def near(self, tensor: int) -> float:
        """Returns the least tolerance of an output."""
        value = self.of(self.graph)[tensor]
        finite = np.abs(value[np.isfinite(value)]) if value.dtype.kind in "fc" else np.zeros(0)
        return float(CLOSE * finite.max(initial=0.0) + STEP * _step(self.graph, tensor) + FLOOR)

    def limit(self, tensor: int) -> float:
        """Returns the tolerance of an output, from how far its values move."""
        value = self.of(self.graph)[tensor]
        if value.dtype.kind not in "fc":
            return 0.0
        if not self.others:
            assert self.fed is not None
            with np.errstate(invalid="ignore"):
                self.others = [
                    graphs.evaluate(self.graph, feeds.moved(self.fed, k)) for k in range(TRIALS)
                ]
        with np.errstate(invalid="ignore"):
            shifts = [np.abs(value - other[tensor]) for other in self.others]
        shifts = [each[np.isfinite(each)].max(initial=0.0) for each in shifts]
        return float(self.near(tensor) + MOVED * max(shifts))


def _step(graph: Graph, tensor: int) -> float:
    held = graph.tensors[tensor]
    if quantization.real(held) and held.quantization is not None:
        return max(held.quantization.scale)
    return 0.0


def _paired(value: Array, graph: Graph, tensor: int) -> Array:
    """Returns complex numbers in the form that the graph has."""
    if np.iscomplexobj(value) and graph.tensors[tensor].dtype != COMPLEX:
        return np.stack([value.real, value.imag], -1)
    return value


def _differences(answers: _Answers, stages: Sequence[_Stage]) -> list[Finding]:
    """Returns passes whose answer differs from the one before them, each output once."""
    found = []
    for before, after in pairwise(stages):
        first, second = answers.of(before.graph), answers.of(after.graph)
        for tensor, value in first.items():
            if value.size == 0:
                continue
            text = _compared(value, second[tensor], answers.near(tensor))
            text = text and _compared(value, second[tensor], answers.limit(tensor))
            if text and not _rounds(answers, before.graph, after.graph, tensor):
                found.append(Finding(after.name, f"output {tensor} {list(value.shape)}: {text}"))
    return found


def _compared(value: Array, found: Array, limit: float) -> str:
    """Returns the error of a result as text; "" if it is within the tolerance."""
    if np.iscomplexobj(value) != np.iscomplexobj(found):
        value, found = (
            np.stack([v.real, v.imag], -1) if np.iscomplexobj(v) else v for v in (value, found)
        )
    if value.shape != found.shape:
        return f"shape {found.shape}"
    same = (value == found) | (_is_nan(value) & _is_nan(found))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(np.subtract(found, value, dtype=_wide(value))))
    error = np.where(np.isnan(error), np.inf, error)
    worst = float(error.max(initial=0.0))
    if worst <= limit:
        return ""
    place = tuple(int(k) for k in np.unravel_index(int(error.argmax()), error.shape))
    share = float((error > limit).mean())
    return (
        f"{value[place]:.6g} becomes {found[place]:.6g} at {place}; {share:.1%} are off by more "
        f"than {limit:.2g}"
    )


def _wide(value: Array) -> type:
    return np.complex128 if np.iscomplexobj(value) else np.float64


def _is_nan(value: Array) -> Array:
    return np.isnan(value) if value.dtype.kind in "fc" else np.zeros(value.shape, bool)


def _rounds(answers: _Answers, before: Graph, after: Graph, tensor: int) -> bool:
    """Whether answers agree when every step of quantization rounds: all but few, and these by few
    levels. Without rounding, limits that are no levels make a difference."""
    held = [t for t in before.tensors.values() if quantization.real(t)]
    if not held:
        return False
    value, found = (answers.of(graph, rounded=True)[tensor] for graph in (before, after))
    if value.shape != found.shape or value.dtype.kind != "f":
        return False
    step = _step(before, tensor) or float(np.abs(value).max(initial=0.0)) / 128
    off = np.abs(value - found)
    allowed = answers.limit(tensor) + step / 2
    return bool((off > allowed).mean() <= FEW and off.max(initial=0.0) <= LEVELS * step)
