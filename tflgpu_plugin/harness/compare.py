"""Runs a model on a host's CPU kernels and through this plugin, and compares outputs and
intermediate results."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.frontend.reports import GPU, Report, many
from tflgpu_plugin.harness.agreement import SPREAD, TOLERANCE, Agreement, agree
from tflgpu_plugin.harness.built import ELSEWHERE
from tflgpu_plugin.harness.inputs import shapes_sentence
from tflgpu_plugin.harness.parts import Nodes
from tflgpu_plugin.options import parse

Array = npt.NDArray[Any]
T = TypeVar("T")

HALF = 0.02  # a tolerance for float16: real models are off by up to 0.01
SHOWN = 4  # tensors that a message lists
EMPTY = "Nothing was compared: the results have no elements."
MAX_PROBES = 24  # intermediate results of a user's model that are compared
# CPU kernels, by the names of TFLite: the default ones of a host, and its own two sets.
FASTEST, OPTIMIZED, REFERENCE = "AUTO", "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "BUILTIN_REF"
# Reference kernels in a TFLite host, with their names for a reader: the first that have every
# operator of the model.
JUDGES = {REFERENCE: "reference", OPTIMIZED: "optimized", FASTEST: "default"}
ONE_SET = "CPU"  # the reference in a host that has one set of CPU kernels


@dataclass(frozen=True)
class HostNode:
    """A node that a host computed on the CPU: its operator and name, and its begin and end, in
    nanoseconds since the host began the inference."""

    operator: str
    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class HostRun:
    """An inference by the clock of the host: its time in nanoseconds, and its nodes on the CPU. The
    time of a loop contains those of its body."""

    taken: int
    nodes: tuple[HostNode, ...]


@dataclass(frozen=True)
class Running:
    """A model that is ready to run. `run` does one inference and returns the outputs, whose names
    are `names`; `report` returns the report of its nodes. `host_runs` ends the host's profile, if
    there is one, and returns all inferences in order."""

    names: list[str]
    run: Callable[[], list[Array]]
    report: Callable[[], Report]
    host_runs: Callable[[], list[HostRun]] = list


class Subject(Protocol):
    """A model in a host (its name and version), with values for its inputs. `cpu` describes its
    fastest CPU kernels; `judges` names the CPU kernels that may be the reference, the first choice
    first; `chosen_shapes` are the shapes given to inputs that have dynamic extents in the model."""

    @property
    def host(self) -> str: ...
    @property
    def cpu(self) -> str: ...
    @property
    def judges(self) -> Mapping[str, str]: ...
    @property
    def chosen_shapes(self) -> Mapping[str, list[int]]: ...

    def start(
        self, options: Mapping[str, Any] | None, kernels: str = FASTEST, profiled: bool = False
    ) -> Running:
        """Prepares the model on CPU kernels, or with options through this plugin; `profiled`: with
        the host's profile, if it has one."""

    def fixed(self) -> Subject:
        """Returns the model with static shapes: those of the values of its inputs."""

    def given(self) -> Mapping[Any, Array]:
        """Returns the values of the model's inputs, by the probes of these inputs."""

    def real(self, outputs: Sequence[Array]) -> list[Array]:
        """Returns the model's outputs, with quantized ones as the numbers that they stand for."""

    def probes_of(self, names: Mapping[int, str]) -> Mapping[int, Any]:
        """Returns the probes of those tensors of an imported graph, given with their names, that
        depend on inputs and that the model has in its main graph, inputs included."""

    @property
    def file(self) -> str:
        """Returns the name of the model's file in a folder of its own."""

    @property
    def content(self) -> bytes:
        """Returns the model as bytes."""

    @property
    def program(self) -> str:
        """Returns lines of Python that set `got` to the output of the model in the folder HERE, for
        INPUTS and the plugin's OPTIONS."""

    def nodes(self) -> Nodes[Any]:
        """Returns what each node of the main graph reads and writes, as probes."""

    def part(self, sources: Collection[Any], result: Any) -> Subject:
        """Returns the part of the model (with static shapes) that computes `result` from `sources`
        (all probes), or from further back; its inputs have the values that the reference kernels
        compute. Raises BadInput where a value cannot be an input."""

    def probed(self, probes: Sequence[Any] | None) -> Subject:
        """Returns the model with these intermediate results as additional outputs, after its own.
        None selects some of those that depend on inputs, since hosts do not compute others that
        nothing reads."""


@dataclass(frozen=True)
class Comparison:
    """The result for a model in one host. `cpu` describes its fastest CPU kernels, `judge` is one
    of JUDGES, or ONE_SET, and says which kernels gave the expected results; `outputs` holds the
    model's own outputs from the GPU; times are medians in milliseconds. `chosen_shapes` are the
    shapes given to inputs that have dynamic extents in the model. `tolerance` is relative to the
    largest magnitude of a tensor. `half`: the GPU may have stored values as float16."""

    host: str
    cpu: str
    agreements: list[Agreement]
    outputs: list[Array]
    report: Report
    cpu_ms: float
    gpu_ms: float
    judge: str = JUDGES[REFERENCE]
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)
    tolerance: float = TOLERANCE
    half: bool = False

    @property
    def ok(self) -> bool:
        """Whether all tensors agree, and numbers that the GPU computed are among them."""
        return self.agrees and not self.nothing

    @property
    def agrees(self) -> bool:
        return bool(self.agreements) and all(a.ok for a in self.agreements)

    @property
    def nothing(self) -> str:
        """Returns a sentence where no number that the GPU computed was compared, else ""."""
        if not self.report.count(GPU):
            return "Nothing ran on the GPU; `tflgpu check MODEL` says why."
        if not self.report.runs:
            return ELSEWHERE
        return "" if any(not a.empty for a in self.agreements) else EMPTY

    def lines(self) -> list[str]:
        """Returns the summary as lines for a reader."""
        report, on_gpu = self.report, self.report.count(GPU)
        nodes, partitions = len(report.nodes), len(report.partitions)
        lines = [
            f"nodes     {on_gpu} of {nodes} on the GPU, partitions: {partitions}",
            f"latency   CPU ({self.cpu}) {self.cpu_ms:.1f} ms, GPU {self.gpu_ms:.1f} ms (medians)",
        ]
        if self._not_reference:
            lack = "the host has no reference kernels for an operator of this model"
            lines.append(f"judge     the {self.judge} CPU kernels: {lack}")
        if self.chosen_shapes:
            lines.append(f"shapes    {shapes_sentence(self.chosen_shapes)}")
        return lines

    def verdict(self) -> str:
        bad = [a.name for a in self.agreements if not a.ok]
        if bad:
            more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
            return (
                f"DISAGREES in {len(bad)} of {len(self.agreements)} with {self._kernels_that_judge}"
                '. "Where answers differ" in docs/conformance.md lists intended differences, such '
                f"as {self._by_design}; report others with the file of `tflgpu bugreport MODEL`. "
                f"Tensors: {', '.join(bad[:SHOWN])}{more}."
            )
        if self.nothing:
            return self.nothing
        count = sum(not a.empty for a in self.agreements)
        empty = len(self.agreements) - count
        more = f" {many(empty, 'other')} had no elements." if empty else ""
        if held := self.report.host_runs:
            runs = self.report.runs + held
            more += f" But {held} of {runs} runs of partitions were on the host's own kernels."
        more += self._of_nan()
        return f"The tensor agrees.{more}" if count == 1 else f"All {count} tensors agree.{more}"

    def _of_nan(self) -> str:
        """Returns a sentence on the tensors with NaN on both sides; "" where there are none."""
        found = [f"{a.name} ({a.nan:,} of {a.size:,})" for a in self.agreements if a.nan]
        if not found:
            return ""
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        return f" NaN on both sides, which is no difference: {', '.join(found[:SHOWN])}{more}."

    def basis(self) -> str:
        """Returns the sentence that says how the tensors were judged."""
        return (
            f"Compared with {self._kernels_that_judge}: a tensor agrees within {self.tolerance:g} "
            f"of its largest value, or within {SPREAD:g} times the difference that the host's own "
            "optimizations make."
        )

    @property
    def _not_reference(self) -> bool:
        """Whether the GPU was compared with other CPU kernels of the host although it has reference
        kernels."""
        return self.judge not in (JUDGES[REFERENCE], ONE_SET)

    @property
    def _kernels_that_judge(self) -> str:
        if self.judge == ONE_SET:
            return f"{self.host.partition(' ')[0]}'s CPU kernels"
        return f"the host's {self.judge} kernels"

    @property
    def _by_design(self) -> str:
        """Returns examples of differences between hosts and GPU that are intended and no errors."""
        if self.half:
            return f"float16, for which `tflgpu compare --rtol {HALF:g}` is a tolerance"
        if self.judge == ONE_SET:
            return "InstanceNormalization, whose sums are less exact on the CPU"
        rounding = ", and 8-bit results of kernels that are not the reference"
        return f"8-bit weights with float activations{rounding if self._not_reference else ''}"

    def kernels(self) -> list[str]:
        """Returns the pipelines of all partitions."""
        partitions = self.report.partitions
        return list(dict.fromkeys(name for partition in partitions for name in partition.kernels))

    def as_json(self) -> dict[str, Any]:
        tensors = [asdict(a) | {"ok": a.ok} for a in self.agreements]
        return {
            "host": self.host,
            "agrees": self.ok,
            "verdict": self.verdict(),
            "tensors": tensors,
            "nodes": len(self.report.nodes),
            "nodes_on_gpu": self.report.count(GPU),
            "partitions": len(self.report.partitions),
            "cpu_ms": self.cpu_ms,
            "gpu_ms": self.gpu_ms,
            "judge": self.judge,
            "tolerance": self.tolerance,
            "chosen_shapes": dict(self.chosen_shapes),
            "kernels": self.kernels(),
        }


def compare(
    subject: Subject,
    options: Mapping[str, Any],
    runs: int = 10,
    probes: Sequence[Any] | None = None,
    tolerance: float = TOLERANCE,
) -> Comparison:
    """Compares outputs and intermediate results (`probes`, or a selection) with the reference CPU
    kernels. `tolerance` is relative to the largest magnitude of a tensor.

    The tolerance grows with the difference between these and the host's next faster kernels, so
    that a model that amplifies rounding is not reported as wrong. Latency and outputs are those of
    the unchanged model. Raises what `start` and `probed` raise."""
    rich = subject if probes is not None and not probes else subject.probed(probes)
    reference, judge, faster = judged(rich)
    expected = reference.run()
    cpu, gpu = subject.start(None), subject.start(options, faster)
    others, results = subject.start(None, faster).run(), gpu.run()
    own, ours = len(results), results
    if rich is not subject:
        others += rich.start(None, faster).run()[own:]
        ours = results + rich.start(options, faster).run()[own:]
    found = agree(reference.names, expected, others, ours, tolerance)
    times = latency(cpu.run, runs), latency(gpu.run, runs)
    return Comparison(
        subject.host, subject.cpu, found[own:] + found[:own], results, gpu.report(), *times, judge,
        subject.chosen_shapes, tolerance, parse(options).half,
    )  # fmt: skip


def judged(subject: Subject) -> tuple[Running, str, str]:
    """Returns (running, kernels, faster): the model, ready to run on the first CPU kernels of
    `judges` that have all of its operators, their name, and that of the next faster kernels. Raises
    what the last kernels raise."""
    for kernels, faster in pairwise((*subject.judges, FASTEST)):
        try:
            return subject.start(None, kernels), subject.judges[kernels], faster
        except (ValueError, RuntimeError):
            if kernels == FASTEST:
                raise
    raise AssertionError("there are no kernels")


def latency(run: Callable[[], object], runs: int) -> float:
    """Returns the median time of an inference in milliseconds, after one that is not counted."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times) * 1e3)


def thinned(inner: list[T]) -> list[T]:
    """Returns a few of the items at equal distances, counted from the end so that the last one (the
    logits) is included."""
    step = max(1, -(-len(inner) // MAX_PROBES))
    return inner[::-step][::-1]
