"""`tflgpu demo`: shows on this machine that the GPU gives the answers of the CPU, without a
download.

It builds MobileNet v1 with seeded weights (or takes your model), runs it on the host's CPU kernels
and on the GPU, and compares outputs and intermediate results. The demo's own network runs in both
hosts, TensorFlow Lite and ONNX Runtime, where they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tflgpu_plugin.demo import network, onnx_file
from tflgpu_plugin.harness import hosts, inputs, onnx, subjects
from tflgpu_plugin.harness.compare import Array, Comparison, Subject, compare
from tflgpu_plugin.harness.hosts import NoHost
from tflgpu_plugin.harness.inputs import BadInput, Given
from tflgpu_plugin.harness.tflite import TfliteModel

__all__ = ["BadInput", "NoHost", "Request", "Result", "run"]

TFLITE, ONNX = "TensorFlow Lite", "ONNX Runtime"
GUESS = (
    "scaled by a guess: the preprocessing of this model is unknown. If it was trained with "
    "another, its answers are wrong on the CPU, too; --mean and --std name it"
)


@dataclass(frozen=True)
class Request:
    """The arguments of a demo, with options of the plugin; without a model it is the demo's own
    network, which takes no inputs. `named` says that the user has named the scale of pictures."""

    model: Path | None = None
    given: Given = subjects.PLAIN
    labels: Path | None = None
    host: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    runs: int = 10
    named: bool = False


@dataclass(frozen=True)
class Result:
    """The result: the comparison in each host that ran, and the best classes where labels were
    given or the model is ours. `missing` has the reason for each host that did not run, except for
    hosts that do not read the user's model. `guessed` says that a float model got a picture in a
    scale that nobody has named. `unlabelled` is a sentence where classes have no label."""

    title: str
    tflite: Comparison | None
    onnx: Comparison | None
    classes: list[tuple[str, float]]
    missing: Mapping[str, str] = field(default_factory=dict)
    guessed: bool = False
    unlabelled: str | None = None

    @property
    def comparisons(self) -> list[Comparison]:
        """Returns the comparison of each host that ran."""
        return [comparison for comparison in (self.tflite, self.onnx) if comparison]

    @property
    def ok(self) -> bool:
        return all(comparison.ok for comparison in self.comparisons)

    def lines(self, comparison: Comparison) -> list[str]:
        """Returns the summary of one host for a reader."""
        found, adapter = comparison.lines(), comparison.report.adapter
        if comparison is self.comparisons[0]:
            name = f"{adapter.name}, {adapter.backend}" if adapter else "none"
            found.insert(0, f"adapter   {name}")
            if self.guessed:
                found.append(f"picture   {GUESS}")
            if self.unlabelled:
                found.append(f"labels    {self.unlabelled}")
        else:
            same = self.shared_kernels()
            here, there = (len(one.kernels()) for one in self.comparisons)
            found.append(
                f"kernels   {here} through TFLite, {there} through ONNX Runtime, {len(same)} the "
                f"same WGSL: {', '.join(name.rpartition('-')[0] for name in same)}"
            )
        return [*found, comparison.verdict()]

    def missing_lines(self) -> list[str]:
        return [f"{host} is left out: {reason}" for host, reason in self.missing.items()]

    def shared_kernels(self) -> list[str]:
        """Returns the pipelines that both hosts use."""
        if not (self.tflite and self.onnx):
            return []
        other = self.onnx.kernels()
        return [name for name in self.tflite.kernels() if name in other]

    def as_json(self) -> dict[str, Any]:
        """Returns the first host's numbers, and under `onnxruntime` those of that host."""
        first = self.comparisons[0]
        other: dict[str, Any] | None = None
        if self.onnx:
            other = self.onnx.as_json() | {"shared_kernels": self.shared_kernels()}
        elif ONNX in self.missing:
            other = {"missing": self.missing[ONNX]}
        return {
            "model": self.title,
            **first.as_json(),
            "agrees": self.ok,
            "adapter": asdict(first.report.adapter) if first.report.adapter else None,
            "classes": [{"label": label, "score": score} for label, score in self.classes],
            "onnxruntime": other,
            "missing": dict(self.missing),
        }


def run(request: Request) -> Result:
    """Runs the comparison. Raises BadInput or NoHost with a sentence; RuntimeError and ValueError
    come from the host."""
    names = inputs.labels(request.labels) if request.labels else None
    if request.model is None:
        given = request.given
        if given.image or given.files or given.shapes or request.labels:
            raise BadInput("Inputs and labels need a model: pass the model, too.")
        return _own(request)
    subject = subjects.opened(request.model, request.host, request.given)
    found = compare(subject, request.options, request.runs)
    scores = class_scores(subject.real(found.outputs), names) if names else None
    if names and scores is None:
        raise BadInput(
            f"{request.labels} has {len(names)} labels, and no output of the model has one score "
            "for each."
        )
    here, there = (None, found) if isinstance(subject, onnx.OnnxModel) else (found, None)
    guessed = request.given.image is not None and not request.named and takes_floats(subject)
    classes = inputs.top(scores, names) if names and scores is not None else []
    short = inputs.unlabelled(scores, names) if names and scores is not None else None
    return Result(request.model.name, here, there, classes, guessed=guessed, unlabelled=short)


def takes_floats(subject: Subject) -> bool:
    """Whether the first input that takes a picture takes floats."""
    pictures = (value for value in subject.given().values() if inputs.is_image(value.shape))
    return next(pictures).dtype.kind == "f"


def _own(request: Request) -> Result:
    """Returns the result of the demo's network in both hosts, or in the one that is asked for."""
    options = request.options
    title, made, missing = "MobileNet v1 1.0 224, seeded weights", network.build(), {}
    tflite = other = None
    if request.host != onnx.HOST:
        try:
            host, model = hosts.host(request.host), network.to_tflite(made)
            subject = TfliteModel(host, model, [network.picture()])
            tflite = compare(subject, options, request.runs, network.probes(model))
        except NoHost as error:
            if request.host:
                raise
            missing[TFLITE] = str(error)
    if reason := onnx.missing():
        missing[ONNX] = reason
    else:
        feeds = {"image": network.picture().transpose(0, 3, 1, 2)}
        whole = onnx.OnnxModel(onnx.File(onnx_file.to_onnx(made)), feeds)
        other = compare(whole, options, request.runs, ())
    result = Result(title, tflite, other, [], missing)
    if not result.comparisons:
        raise NoHost(". ".join(reason.rstrip(".") for reason in missing.values()) + ".")
    best = tflite.outputs[0] if tflite else result.comparisons[0].outputs[-1]
    return Result(title, tflite, other, inputs.top(best, None), missing)


def class_scores(outputs: list[Array], names: list[str]) -> Array | None:
    """Returns the first output that has one score per class, or None; floats are preferred."""
    fitting = [value for value in outputs if inputs.are_scores(value, len(names))]
    scores = [value for value in fitting if value.dtype.kind == "f"] or fitting
    return scores[0] if scores else None
