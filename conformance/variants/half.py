"""The float32 cases with everything that may be stored as float16 stored so: weights, inputs and
outputs of the one node, whatever their size.

Inputs and constants are numbers that float16 has, so the host computes on the same ones; what
is left is the float32 error of the kernel and one rounding of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import pytest

from conformance import check, direct, host, node_cases, tolerance
from conformance.cases import Case, Input, all_cases
from conformance.models import tflite as models
from conformance.node_cases import NodeCase
from conformance.variants.half_storage import rounded
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler, half_products, precision
from tflgpu_plugin.ir import MAX_FLOAT16, Graph, Node, Plan, Target
from tflgpu_plugin.ops import io_layout
from tflgpu_plugin.ops.lowering import Lowering, Raw
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import Device
from tflgpu_plugin.runtime.program import Instance, Program


def cases() -> Iterator[tuple[str, Case]]:
    """Returns (family, case) for every case that computes floats from floats."""
    for family, found in all_cases().items():
        for case in found:
            given = {value.dtype for value in case.inputs if value}
            if not case.refused and {*case.types} == {"f32"} and "f32" in given:
                yield family, representable(case)


def representable(case: Case) -> Case:
    """Returns the same case with constants rounded to float16."""
    return replace(case, inputs=_rounded(case.inputs))


def _rounded(inputs: Sequence[Input | None]) -> tuple[Input | None, ...]:
    return tuple(
        replace(value, data=rounded(value.data)) if value and value.data is not None else value
        for value in inputs
    )


@contextmanager
def everything() -> Iterator[None]:
    """Stores small tensors, inputs, outputs and error-sensitive tensors as float16, too, inside of
    the block."""
    pack = io_layout.pack

    def into_storage(low: Lowering, node: Node, raw: Raw, tensor: int) -> None:
        pack(low, node, raw, tensor)
        low.hosted.clear()  # kernels do not read the host's buffer

    with (
        patch.object(precision, "CACHED_VECTORS", 0),
        patch.object(precision, "BEARABLE", 1e30),
        patch.object(half_products, "MIN_WORK", 0),
        patch.object(precision, "inputs_and_outputs", lambda graph: set()),
        patch.object(io_layout, "SAME", ()),
        patch.object(io_layout, "pack", into_storage),
    ):
        yield


@dataclass(frozen=True)
class Reference:
    """The answers of a host's CPU kernels to a case whose inputs float16 represents."""

    graph: Graph
    feed: host.Feed
    expected: host.Outputs
    host: str


def reference(case: Case) -> Reference:
    """Raises RuntimeError or ValueError where the host has no CPU kernels for the case."""
    model, graph = models.build(case), direct.graph(case)
    feeds = [[rounded(array) for array in feed] for feed in host.case_feeds(case, 1)]
    name, kernels = host.oracle(model)
    (expected,) = host.cached_on_cpu(model, feeds, name, kernels)
    return Reference(graph, feeds[0], expected, name)


NATIVE = {"half": "native", "weights": "global", "ahead": "8"}


def ways(device: Device) -> list[Target]:
    """Returns targets that store float16: packed, as the device does it, and as a native type if it
    has one, which GPUs use, and in which products are then summed."""
    words = replace(device.target, half=True)
    able = "shader-f16" in device.target.features
    return [words, replace(words, tuning=NATIVE)] if able else [words]


@contextmanager
def as_on_gpus(wanted: str | None = None) -> Iterator[None]:
    """Makes the device plan as for GPUs whose float16 arithmetic is correct."""
    device = adapter.open_device(adapter.select(wanted))
    own = device.target
    if "shader-f16" not in own.features:
        pytest.skip("the adapter has no shader-f16")
    device.target = replace(own, tuning=NATIVE)
    try:
        yield
    finally:
        device.target = own


def _widened(family: str, plan: Plan, allowed: tolerance.Bound) -> tolerance.Bound:
    """Returns the tolerance, widened for what is stored as float16, and for what this plan sums in
    float16."""
    if not any("half_x(" in pipeline.wgsl for pipeline in plan.pipelines):
        return _cut_bound(family, tolerance.as_half(allowed))
    largest = max(
        float(np.abs(w.data).max()) for w in plan.weights if w.half and w.data is not None
    )
    wider = tolerance.multiplied_in_half(allowed, largest, half_products.RUN)
    return _cut_bound(family, wider)


def run(family: str, case: Case, cpu: Reference, wanted: str | None = None) -> check.Result:
    """Runs a case as a graph of one node on the device that `wanted` names, and compares it with
    the host; returns the worst of all ways to store float16."""
    device = adapter.open_device(adapter.select(wanted))
    results = [_run(family, case, cpu, device, target) for target in ways(device)]
    return max(results, key=lambda result: (not result.passed, result.share))


def _run(family: str, case: Case, cpu: Reference, device: Device, target: Target) -> check.Result:
    graph, expected = cpu.graph, cpu.expected
    with everything():
        plan = compiler.compile(graph, target)
    stored = any("halves(" in pipeline.wgsl for pipeline in plan.pipelines)
    # What goes from one buffer of the host to another has no storage of its own.
    keeps = any(buffer.role in ("pool", "state", "weights") for buffer in plan.buffers)
    if keeps and not stored and any(array.size for array in expected):
        return check.Result(case, False, "nothing of it is stored as float16")
    states = [np.zeros(graph.shape(before), np.float32) for before, _ in graph.states]
    got = Instance(Program(plan, device.handle, device.pipelines)).run(cpu.feed, states)
    worst = tolerance.Verdict(True, 0.0)
    (bounds,) = check.bounds(case, [cpu.feed])
    for k, (want, have) in enumerate(zip(expected, got, strict=True)):
        allowed = _widened(family, plan, bounds[k])
        verdict = tolerance.compare(_cut(family, want), have, allowed)
        if verdict.share >= worst.share:
            worst = verdict
        if not verdict.passed:
            text = f"output {k} {list(want.shape)}: {verdict}"
            return check.Result(case, False, text, verdict.share, verdict.ulp)
    return check.Result(case, True, str(worst), worst.share, worst.ulp)


def nodes(family: str) -> list[NodeCase]:
    """Returns node cases of a family that compute floats; those that only move values have float16
    values (which not every index is)."""
    found = [n for n in node_cases.family_nodes(family) if not n.refused]
    floats = [representable_node(node) for node in found if node.output_type == "f32"]
    return [node for node in floats if _computed(node) or _representable(node)]


def _computed(case: NodeCase) -> bool:
    return ops.rows()[case.op].accuracy != "exact"


def _representable(case: NodeCase) -> bool:
    """Whether float16 has all answers, and no input with a step is rounded to the middle between
    two multiples, for example to between two entries of a table."""
    values = [rounded(value) for value in node_cases.feeds(case)]
    fed = [value for value in case.inputs if value and value.data is None]
    if any(given.step and _between(v, given.step) for given, v in zip(fed, values, strict=True)):
        return False
    answers = node_cases.expected(case, values)
    return all(np.array_equal(rounded(a), a, equal_nan=True) for a in answers)


def _between(values: host.Array, step: float) -> bool:
    """Whether a value is closer to the middle between two multiples of the step than to them."""
    multiples = values.astype(np.float64) / step
    return bool(np.any(np.abs(multiples - np.rint(multiples)) > 0.25))


def representable_node(case: NodeCase) -> NodeCase:
    """Returns the same node with constants rounded to float16."""
    return replace(case, inputs=_rounded(case.inputs))


def run_node(family: str, case: NodeCase, wanted: str | None = None) -> tolerance.Verdict:
    """Runs a node on the device that `wanted` names and compares it with numpy in float64; returns
    the worst output."""
    device = adapter.open_device(adapter.select(wanted))
    values = [rounded(value) for value in node_cases.feeds(case)]
    expected = [_cut(family, value) for value in node_cases.expected(case, values)]
    verdicts = []
    for target in ways(device):
        with everything():
            plan = compiler.compile(node_cases.graph(case), target)
        got = Instance(Program(plan, device.handle, device.pipelines)).run(values, [])
        bounds = [_widened(family, plan, b) for b in node_cases.bounds(case, values)]
        verdicts += [tolerance.compare(*each) for each in zip(expected, got, bounds, strict=True)]
    return max(verdicts, key=lambda verdict: verdict.share)


SUMS = ("reduce", "spectrum")  # what compile/precision.py keeps wide wherever its cases have it


def _cut_bound(family: str, allowed: tolerance.Bound) -> tolerance.Bound:
    return allowed if allowed.truth is None else replace(allowed, truth=_cut(family, allowed.truth))


def _cut(family: str, expected: host.Array) -> host.Array:
    """Clamps to the largest float16, which results that are too large become; sums stay float32."""
    if family in SUMS or expected.dtype.kind != "f":
        return expected
    limit = np.float32(MAX_FLOAT16)
    return np.where(np.isfinite(expected), np.clip(expected, -limit, limit), expected)
