"""Forms: the ways to compute a family, as rows in order of preference.

Target.without, the option `without`, TFLGPU_WITHOUT, tuning and `ir.quirks` name forms: one that is
refused is passed over, and the next that suits computes the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ir.quirks import none_left, refusal
from tflgpu_plugin.ops.lowering import Lowering

Problem = TypeVar("Problem")
Other = TypeVar("Other")


def always(problem: Any) -> bool:
    """Whether a form suits, or pays, that does so for every node of its family."""
    return True


@dataclass(frozen=True)
class Form(Generic[Problem]):
    """One way to compute a node. `suits` says whether its result is right, `pays` whether it is
    also expected to be faster than the forms after it; `lower` records its launches."""

    name: str
    suits: Callable[[Problem], bool]
    lower: Callable[[Problem], None]
    pays: Callable[[Problem], bool] = always

    def within(self, view: Callable[[Other], Problem | None]) -> Form[Other]:
        """Returns this form for another family, of whose problems `view` makes one of this family;
        it suits none for which that is None."""

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
    """The `lower` of an op with several forms: `problem` is what these need to know of a node."""

    problem: Callable[[Lowering, Node], Problem]
    rows: tuple[Form[Problem], ...]

    def __call__(self, low: Lowering, node: Node) -> None:
        """Record the launches of the node in the first form that suits and pays. Raises Unsupported
        where none is left."""
        problem = self.problem(low, node)
        form = self.chosen(problem, low, node)
        low.form = form.name
        form.lower(problem)

    def chosen(self, problem: Problem, low: Lowering, node: Node) -> Form[Problem]:
        """Returns the first form that suits and pays (or is preferred), else the first that suits.
        Raises Unsupported."""
        reasons = {
            form.name: reason
            for form in self.rows
            if (reason := refusal(form.name, low.graph, node, low.target))
        }
        slower = None
        for form in self.rows:
            if form.name in reasons or not form.suits(problem):
                continue
            if low.target.prefers(form.name) or form.pays(problem):
                return form
            slower = slower or form
        if slower is None:
            raise Unsupported(self._refusal(problem, reasons, node), node.id, *node.sources)
        return slower

    def any_left(self, graph: Graph, node: Node, target: Target) -> bool:
        """Whether a form that is not refused suits the node."""
        low = Lowering(graph, target)
        try:
            self.chosen(self.problem(low, node), low, node)
        except Unsupported:
            return False
        return True

    def _refusal(self, problem: Problem, reasons: dict[str, Refusal], node: Node) -> Refusal:
        """The refusal of a node all of whose forms are refused, as the last of them is."""
        suiting = [form.name for form in self.rows if form.name in reasons and form.suits(problem)]
        return none_left(node.op, suiting, reasons[suiting[-1]])
