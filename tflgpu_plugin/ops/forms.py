"""Forms: the ways to compute a family, in order of preference. Target.without, the option
`without`, TFLGPU_WITHOUT and `ir.quirks` name forms; a node is computed by the first form that
suits and is not refused. Tuning only changes the preference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.quirks import none_left, refusal
from tflgpu_plugin.ops.lowering import Lowering

Problem = TypeVar("Problem")
Other = TypeVar("Other")


def always(problem: Any) -> bool:
    """Returns True: as `suits` or `pays`, it holds for every node of the family."""
    return True


@dataclass(frozen=True)
class Form(Generic[Problem]):
    """One way to compute a node. `suits` says whether its result is right, `pays` whether it is
    expected to be faster than the forms after it; `lower` records its launches."""

    name: str
    suits: Callable[[Problem], bool]
    lower: Callable[[Problem], None]
    pays: Callable[[Problem], bool] = always

    def adapted(self, view: Callable[[Other], Problem | None]) -> Form[Other]:
        """Returns this form for another family; `view` translates a problem of that family to one
        of this, or to None where the form does not suit."""

        def seen(problem: Other) -> Problem:
            found = view(problem)
            assert found is not None
            return found

        return Form(
            self.name,
            lambda problem: view(problem) is not None and self.suits(seen(problem)),
            lambda problem: self.lower(seen(problem)),
            lambda problem: self.pays(seen(problem)),
        )


@dataclass(frozen=True)
class Forms(Generic[Problem]):
    """The `lower` function of an op with several forms. `problem` collects the properties of a node
    that the forms look at."""

    problem: Callable[[Lowering, Node], Problem]
    rows: tuple[Form[Problem], ...]

    def __call__(self, low: Lowering, node: Node) -> None:
        """Records the node's launches in the form that is chosen. Raises Unsupported if none is
        left."""
        problem = self.problem(low, node)
        form = self.chosen(problem, low, node)
        low.form = form.name
        form.lower(problem)

    def chosen(self, problem: Problem, low: Lowering, node: Node) -> Form[Problem]:
        """Returns the form in which a node is computed: the first one that suits and pays (or is
        preferred by tuning), else the first that suits. A form that tuning avoids is considered
        last. Raises Unsupported if none is left."""
        reasons: dict[str, Refusal] = {}
        slower: Form[Problem] | None = None
        avoided: Form[Problem] | None = None
        for form in self.rows:
            if not form.suits(problem):
                continue
            if reason := refusal(form.name, low.graph, node, low.target):
                reasons[form.name] = reason
            elif low.target.tuning.get(form.name) == "never":
                avoided = avoided or form
            elif low.target.prefers(form.name) or heuristic(form.pays)(problem):
                return form
            else:
                slower = slower or form
        if left := slower or avoided:
            return left
        *_, last = reasons.values()  # a form suits each node that the op does not refuse
        raise Unsupported(none_left(node.op, reasons, last), node.id, *node.sources)

    def any_left(self, graph: Graph, node: Node, target: Target) -> bool:
        """Whether a form that is not refused suits the node."""
        low = Lowering(graph, target)
        try:
            self.chosen(self.problem(low, node), low, node)
        except Unsupported:
            return False
        return True
