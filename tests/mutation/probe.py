"""The cases of a family as a check: those whose plans a mutant changes are run.

A plan is all that a run depends on, so a case whose plans are the same has the same answer; of a
family of a hundred cases mostly a few are left. Imported in a child only."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from conformance import check, direct, host, node_cases
from conformance.cases import Case
from conformance.models import tflite as models
from conformance.node_cases import NodeCase
from conformance.test_variants import variant_targets
from conformance.variants import quantized as quantized_cases
from tests.mutation.sandbox import Stillborn
from tests.support.harness import device_of
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import support
from tflgpu_plugin.ir import Plan, Target
from tflgpu_plugin.passes.verifier import BrokenGraph

QUICK = 30  # cases that are run at most, unless the check is thorough
IMAGE = 1 << 20  # bytes of a constant whose packed values are compared

MANY_FORMS = ("conv", "depthwise", "transpose_conv", "fully_connected", "conv_3d")
FEW = ("as on hardware without shuffles", "as on a software adapter", "with folded dispatches")

SHAPES = "shapes"
QUANTIZED, TWINS = "quantized", 4  # 8-bit twins as a family; one in this many is taken

AnyCase = Case | NodeCase
Plans = dict[str, dict[str, str]]  # by case and target, what its plan is


def record(family: str) -> str:
    """Records the plans of a family for `passes`, and returns them."""
    return json.dumps(_plans(family))


def passes(family: str, recorded: Path, thorough: bool, wgsl: bool) -> bool:
    """Whether no case goes wrong. Prints which does. With `wgsl`, code that no driver takes is no
    mutant. Raises Stillborn."""
    before: Plans = json.loads(recorded.read_text())
    try:
        now = _plans(family)
    except Exception:
        traceback.print_exc()
        print("-- planning fails")
        return False
    changed = {name for name, plans in now.items() if plans != before[name]}
    print(f"{len(changed)} of {len(now)} cases of {family} have other plans")
    targets = _chosen(family)
    if misshapen := [name for name in changed if next(iter(now[name].values())).startswith(SHAPES)]:
        print(f"-- {misshapen[0]}: the shape function differs from the host")
        return False
    chosen = _spread([name for name in now if name in changed], now)
    for name in chosen if thorough else chosen[:QUICK]:
        others = {t: targets[t] for t in targets if now[name][t] != before[name][t]}
        try:
            problem = _problem(_cases(family)[name], others)
        except Exception:
            if wgsl and "Shader validation error" in traceback.format_exc():
                raise Stillborn(traceback.format_exc()) from None
            traceback.print_exc()
            problem = "the run fails"
        if problem:
            print(f"-- {name}: {problem}")
            return False
    return True


def _chosen(family: str) -> dict[str, Target]:
    """Returns the targets for which a family is planned: if its kernels have many forms, all
    targets."""
    every = variant_targets(None)
    if family == QUANTIZED:
        return {"own": device_of().target}
    return every if family in MANY_FORMS else {name: every[name] for name in FEW}


def _cases(family: str) -> dict[str, AnyCase]:
    if family == QUANTIZED:
        return _twins()
    found: Sequence[AnyCase] = [*check.family_cases(family), *node_cases.family_nodes(family)]
    return {f"{type(case).__name__} {case.op} {case.name}": case for case in found}


def _spread(names: Sequence[str], plans: Plans) -> list[str]:
    """Returns the cases in an order that puts those with different code first."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(" ".join(p[:8] for p in plans[name].values()), []).append(name)
    rows = [list(group) for group in groups.values()]
    return [row[k] for k in range(max(map(len, rows), default=0)) for row in rows if k < len(row)]


@cache
def _twins() -> dict[str, AnyCase]:
    """Returns some of the 8-bit twins of each family."""
    found: dict[str, AnyCase] = {}
    for family, case in list(quantized_cases.twins())[::TWINS]:
        with suppress(ValueError):
            found[f"{QUANTIZED} {family} {case.op} {case.name}"] = quantized_cases.quantize(case)
    return found


def _twin_problem(twin: Case) -> str:
    """Returns the problem of a twin, "" if there is none, judged as in the conformance suite: in
    the host, with its exact kernels."""
    model, feeds = models.build(twin), host.case_feeds(twin, 1)
    name, kernels = host.oracle(model)
    expected = host.cached_on_cpu(model, feeds, name, kernels)
    run = host.run_on_gpu(model, feeds, name, {}, kernels)
    if run.placement.failures or run.placement.on_gpu != run.placement.total:
        return " ".join(run.placement.sentences) or "it fails"
    verdict = quantized_cases.judge(twin, expected[0], run.outputs[0])
    return "" if verdict.passed else str(verdict)


def _problem(case: AnyCase, targets: Mapping[str, Target]) -> str:
    if isinstance(case, Case) and any(case is twin for twin in _twins().values()):
        return _twin_problem(case)
    if isinstance(case, NodeCase):
        return node_cases.check(case, targets) or ""
    graph = direct.graph(case)
    for target in targets.values():
        refusal = support.support(graph, graph.nodes[0], target)
        if refusal and not case.refused:
            return f"refused: {refusal}"
    result = check.direct(case, targets)
    return "" if result.passed else result.text


def _plans(family: str) -> Plans:
    targets = _chosen(family)
    found: Plans = {}
    for name, case in _cases(family).items():
        plans: dict[str, str] = {}
        found[name] = plans
        try:
            graph = node_cases.graph(case) if isinstance(case, NodeCase) else direct.graph(case)
        except Exception as error:  # what a host refuses is no graph
            plans |= dict.fromkeys(targets, repr(error))
            continue
        (node,) = graph.nodes
        wanted = [graph.shape(t) for t in node.outputs]
        shapes = [] if case.refused else ops.rows()[node.op].shapes(graph, node)
        if not case.refused and [tuple(shape) for shape in shapes] != wanted:
            plans |= dict.fromkeys(targets, f"{SHAPES} {shapes}")
            continue
        for label, target in targets.items():
            refusal = support.support(graph, graph.nodes[0], target)
            try:
                plans[label] = refusal or digest(compiler.compile(graph, target))
            except (Unsupported, BrokenGraph) as refused:
                plans[label] = f"refused: {refused}"
    return found


def digest(plan: Plan) -> str:
    """Returns the digest of a plan: first of its code, then of everything else."""
    code = sha256("".join(p.wgsl for p in plan.pipelines).encode()).hexdigest()[:8]
    return code + sha256(b"".join(_parts(plan))).hexdigest()[:24]


def _parts(plan: Plan) -> Iterator[bytes]:
    ports = (plan.inputs, plan.outputs, plan.states)
    yield repr((plan.pipelines, plan.dispatches, plan.buffers, ports)).encode()
    yield plan.uniforms
    for weight in plan.weights:
        yield repr((weight.buffer, weight.offset, weight.bytes, weight.half)).encode()
        if weight.bytes <= IMAGE:
            yield weight.image().tobytes()
