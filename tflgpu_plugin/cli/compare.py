"""`tflgpu compare MODEL`: compares the outputs of the CPU and the GPU, and finds the launch that
makes a difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tflgpu_plugin import engine
from tflgpu_plugin.cli.given import inputs, options
from tflgpu_plugin.frontend.reports import many
from tflgpu_plugin.harness import bisect, repro, subjects
from tflgpu_plugin.harness.agreement import TOLERANCE
from tflgpu_plugin.harness.bisect import Bisection, Wrong
from tflgpu_plugin.harness.compare import Comparison, Subject, compare
from tflgpu_plugin.harness.inputs import Given, shapes_sentence
from tflgpu_plugin.harness.repro import Repro
from tflgpu_plugin.options import parse

PASSED = 1  # timed runs; the times are not shown
ROUNDS = 8  # searches for a workaround
OUTPUTS_AGREE = "The outputs agree nevertheless: this error does not show in them."


@dataclass(frozen=True)
class Request:
    """The arguments: a model with its inputs, in a host, with options of the plugin. `workaround`
    runs the model without the forms that `bisection` lists; `repro` is the folder to which the
    first wrong part of the model is written."""

    model: Path
    given: Given
    options: Mapping[str, str]
    host: str | None = None
    tolerance: float = TOLERANCE
    bisection: bool = False
    workaround: bool = False
    repro: Path | None = None


@dataclass(frozen=True)
class Found:
    """The result: the comparison of the outputs; the bisection, if one was requested and a
    partition ran on the GPU; for forms that the model was run without (joined by commas), whether
    the outputs agree then; and the part of the model that was written."""

    model: str
    comparison: Comparison
    bisection: Bisection | None
    tried: Mapping[str, bool]
    repro: Repro | None = None

    def as_json(self) -> dict[str, Any]:
        found = None if self.bisection is None else asdict(self.bisection)
        return {"model": self.model, **self.comparison.as_json(), "bisection": found,
                "agrees_without": dict(self.tried),
                "repro": None if self.repro is None else asdict(self.repro)}  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Yields the lines below the table of outputs: how it was compared, verdict, bisection and
        workarounds."""
        yield self.comparison.basis()
        if self.comparison.chosen_shapes:
            yield shapes_sentence(self.comparison.chosen_shapes)
        yield self.comparison.verdict()
        if self.bisection is not None:
            yield ""
            yield from _of_bisection(self.bisection)
            if self.bisection.wrong and self.comparison.agrees:
                yield OUTPUTS_AGREE
        for forms, agrees in self.tried.items():
            without = f"Without {forms.replace(',', ', ')}"
            if agrees:
                yield (
                    f"{without} all outputs agree. Until it is fixed, set "
                    f"TFLGPU_WITHOUT={forms}, or the option without={forms}."
                )
            else:
                yield f"{without} the outputs still differ."
        if self.repro is not None:
            yield self.repro.line()


def request(model: Path, arguments: Mapping[str, Any]) -> Request:
    """Returns the request of the command-line arguments. Raises BadInput."""
    get = arguments.__getitem__
    tolerance = TOLERANCE if get("rtol") is None else get("rtol")
    search = get("bisect") or get("workaround") or get("repro") is not None
    return Request(model, inputs(arguments), options(arguments), get("host"), tolerance, search,
                   get("workaround"), get("repro"))  # fmt: skip


def compared(request: Request) -> Found:
    """Returns the comparison of a model's outputs and, if requested, its bisection and the
    workarounds that were tried. Raises BadInput, NoHost, or what the host raises."""
    if request.repro is not None:
        repro.refuse(request.repro, request.model)
    subject = subjects.opened(request.model, request.host, request.given)
    engine.judge(parse(request.options))  # options that no node can run with are no difference
    found = _outputs(subject, request)
    if not request.bisection or not found.report.runs:
        return Found(request.model.name, found, None, {})
    bisection = _bisected(subject, request)
    tried = _worked_around(subject, request, bisection) if request.workaround else {}
    return Found(request.model.name, found, bisection, tried, _written(subject, request, bisection))


def _written(subject: Subject, request: Request, found: Bisection) -> Repro | None:
    wrong = next((each for each in found.wrong if each.cut), None)
    if request.repro is None or wrong is None:
        return None
    return repro.write(request.repro, subject, wrong, request.options, request.tolerance)


def _bisected(subject: Subject, request: Request) -> Bisection:
    return bisect.bisect(subject, request.options, request.tolerance)


def _worked_around(subject: Subject, request: Request, found: Bisection) -> dict[str, bool]:
    """Runs the model without each form that the bisection lists, and then without all of them,
    bisects again, since the fault may have moved to another form, and so on, until the outputs
    agree. Returns the result of each run."""
    tried: dict[str, bool] = {}

    def agree(forms: Sequence[str]) -> bool:
        name = ",".join(forms)
        if name not in tried:
            tried[name] = _outputs(subject, _without(request, forms)).agrees
        return tried[name]

    refused: list[str] = []
    for _ in range(ROUNDS):
        new = [form for form in found.forms if form not in refused]
        for form in new:
            if agree([*refused, form]):
                return tried
        refused += new
        if not new or agree(refused):
            break
        found = _bisected(subject, _without(request, refused))
    return tried


def _outputs(subject: Subject, request: Request) -> Comparison:
    return compare(subject, request.options, PASSED, (), request.tolerance)


def _without(request: Request, forms: Iterable[str]) -> Request:
    """Returns the request with these forms added to its option `without`."""
    before = request.options.get("without", "")
    options = {**request.options, "without": ",".join(filter(None, (before, *forms)))}
    return replace(request, options=options)


def _of_bisection(found: Bisection) -> Iterator[str]:
    launches = many(found.launches, "GPU launch", "GPU launches")
    if not found.compared:
        yield f"No intermediate result of {launches} could be compared."
        return
    results = many(found.compared, "intermediate result")
    yield f"Compared {results}; the model has {launches} in all."
    for wrong in found.wrong:
        yield from _of_wrong(wrong)
    if not found.wrong:
        yield "All of them agree when each partition is fed the values that the CPU computed."


def _of_wrong(wrong: Wrong) -> Iterator[str]:
    tensor = wrong.agreement
    yield (
        f"First wrong result in partition {wrong.partition}: {tensor.name}, which differs by up to "
        f"{tensor.difference:.1e} ({tensor.allowed:.1e} is allowed) where the largest value is "
        f"{tensor.magnitude:.3g}."
    )
    if wrong.inputs:
        agreeing = ", ".join(one.name for one in wrong.inputs)
        yield f"  Its inputs agree: {agreeing}."
    yield "  It was computed by:"
    yield from (f"    {one.line()}" for one in wrong.suspects)
