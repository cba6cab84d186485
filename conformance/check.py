"""Compares one case with the host's reference kernels: through our delegate, or directly as a
one-node graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conformance import direct as one_node, host, tolerance
from conformance.cases import Case, listed
from conformance.host import Array, Feed, Outputs
from conformance.models import tflite as models
from conformance.plugin.record import FAIL, PASS, REFUSED
from conformance.references import truth
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.importer import support
from tflgpu_plugin.ir import Target, quantization
from tflgpu_plugin.providers.tflite.ops import HOST_OPS
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

ONNX = "onnxruntime"  # as an oracle


@dataclass(frozen=True)
class Result:
    """Whether the case is as it must be, and a line of explanation. `share`: worst error over
    tolerance, `ulp`: that error in units in the last place, `sentence`: why the plugin refused."""

    case: Case
    passed: bool
    text: str
    share: float = 0.0
    ulp: float = 0.0
    sentence: str = ""

    @property
    def outcome(self) -> str:
        """Returns PASS, FAIL or REFUSED, whether or not the case expects a refusal."""
        if self.sentence:
            return REFUSED
        return PASS if self.passed else FAIL


class HostRefuses(Exception):
    """An error for a model that the host's own CPU kernels do not run; the text is a sentence."""


def family_cases(family: str) -> list[Case]:
    """Returns the cases of one family."""
    return listed(family, "CASES")


def accuracy(host_op: str) -> str:
    """Returns the accuracy class of the op that a TFLite operator becomes."""
    return ops.rows()[HOST_OPS[host_op].op].accuracy


def bounds(case: Case, feeds: Sequence[Feed], oracle: str = "") -> list[list[tolerance.Bound]]:
    """Returns the tolerance of every run and output of a case: its op's class around the answers in
    float64, each element by its own condition. ONNX Runtime (`oracle`) keeps no variables."""
    rule = accuracy(case.op)
    if rule == "exact" or case.output_type != "f32":
        return [[tolerance.bound("exact", np.zeros(0), np.zeros(0))] * case.outputs for _ in feeds]
    true = truth.of_case(case, feeds, onnx=oracle == ONNX)
    return [
        [tolerance.bound(rule, *pair, true.terms) for pair in zip(values, moved, strict=True)]
        for values, moved in zip(true.values, true.moved, strict=True)
    ]


def judge(
    case: Case,
    feeds: Sequence[Feed],
    expected: Sequence[Outputs],
    got: Sequence[Outputs],
    allowance: float = 1.0,
    oracle: str = "",
    allowed: Sequence[Sequence[tolerance.Bound]] = (),
) -> Result:
    """Compares the outputs of every run; errors up to `allowance` times the tolerance pass.
    `expected` are the results of a host's kernels (those of `oracle`), and the reference where
    nothing is rounded; elsewhere they are only a second opinion. `allowed` avoids computing the
    bounds again."""
    worst = tolerance.Verdict(True, 0.0)
    text = ""
    allowed = allowed or bounds(case, feeds, oracle)
    for run, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
            where = f"run {run} output {k}"
            if reason := unconfirmed(case, a, allowed[run][k], oracle):
                return Result(case, False, f"{where}: {reason}", np.inf)
            verdict = tolerance.compare(a, b, allowed[run][k])
            if verdict.share >= worst.share:
                worst, text = verdict, f"{where} {verdict}"
            if not verdict.passed and not verdict.share <= allowance:
                text = f"{where} {list(a.shape)}: {verdict}"
                return Result(case, False, text, verdict.share, verdict.ulp)
    return Result(case, True, text, worst.share, worst.ulp)


def unconfirmed(case: Case, expected: Array, allowed: tolerance.Bound, oracle: str) -> str:
    """Returns a sentence where the host's kernels do not confirm the answer in float64."""
    if allowed.truth is None:
        return ""
    if allowed.truth.shape != expected.shape:
        return f"float64 has the shape {list(allowed.truth.shape)}, not {list(expected.shape)}"
    floor = tolerance.HOST_FLOORS.get((oracle, case.op), 0.0)
    own = replace(allowed, absolute=np.maximum(allowed.absolute, floor / tolerance.WITNESS))
    verdict = tolerance.compare(expected, expected, own)
    if verdict.share <= tolerance.WITNESS:
        return ""
    return f"the host's own kernels are not near the answer in float64, {verdict}"


def delegate_works() -> bool:
    """Whether `load_delegate` can be used here."""
    try:
        host.load_delegate()
    except Exception:  # whatever is missing, the caller has another way
        return False
    return True


def direct(
    case: Case, plans: Mapping[str, Target] | None = None, wanted: str | None = None
) -> Result:
    """Runs a case as a graph of one node on the device, and compares its first run, or with states
    all runs. `plans` are the targets to plan for, by name (default: the device's own); each
    distinct plan is run. `wanted` selects the adapter."""
    graph = one_node.graph(case)
    device = adapter.open_device(adapter.select(wanted))
    if case.refused:
        sentence = support.support(graph, graph.nodes[0], device.target)
        missing = "not refused, but the case says it must be"
        return Result(case, sentence is not None, sentence or missing, sentence=sentence or "")
    feeds = host.case_feeds(case, 0 if graph.states else 1)
    model = models.build(case)
    expected = host.cached_on_cpu(model, feeds, *host.oracle(model))
    allowed = bounds(case, feeds)
    seen, worst = set(), Result(case, True, "")
    for name, target in (plans or {"": device.target}).items():
        plan = compiler.compile(graph, target)
        key = (plan.pipelines, plan.dispatches, plan.uniforms)
        if key in seen:
            continue
        seen.add(key)
        held = [graph.tensors[before] for before, _ in graph.states]
        states = [quantization.initial(tensor, tensor.shape) for tensor in held]
        partition = Instance(Program(plan, device.handle, device.pipelines))
        got = [partition.run(feed, states) for feed in feeds]
        result = judge(case, feeds, expected, got, allowed=allowed)
        if not result.passed or result.share >= worst.share:
            worst = replace(result, text=f"{name} {result.text}".strip())
        if not worst.passed:
            break
    return worst


def through_host(
    case: Case,
    name: str | None = None,
    options: Mapping[str, object] | None = None,
    allowance: float = 1.0,
    version: int | None = None,
) -> Result:
    """Runs a case twice in a host through our delegate and compares. The node must run on the
    device both times, or be refused if the case says so. `version` writes another op version into
    the model. Raises HostRefuses if this host cannot run the model at all."""
    feeds = host.case_feeds(case)
    model = models.build(case, version=version)
    told, kernels = host.oracle(model, name)
    name = name or told
    try:
        expected = host.cached_on_cpu(model, feeds, told, kernels)
    except (RuntimeError, ValueError) as error:
        raise HostRefuses(f"{name} refuses this model: {' '.join(str(error).split())}") from error
    if case.refused and told != name:
        return _refusal(case, host.placed(model, name, options))
    run = host.run_on_gpu(model, feeds, name, options, kernels)
    placement = run.placement
    if case.refused:
        return _refusal(case, placement)
    if placement.on_gpu != 1 or placement.runs != (len(feeds),) or placement.failures:
        why = " ".join(placement.sentences)
        text = f"the node did not run on the GPU: {why or placement}"
        return Result(case, False, text, sentence="" if placement.on_gpu else why)
    return judge(case, feeds, expected, run.outputs, allowance)


def _refusal(case: Case, placement: host.Placement) -> Result:
    if placement.on_gpu:
        return Result(case, False, "not refused, but the case says it must be")
    if len(placement.sentences) != 1 or not placement.sentences[0].endswith("."):
        return Result(case, False, f"refused without a sentence: {placement.sentences}")
    sentence = placement.sentences[0]
    return Result(case, True, f"refused: {sentence}", sentence=sentence)
