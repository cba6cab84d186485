"""Cases of internal ops that no TFLite operator becomes: one node, run as a separate graph and
compared with numpy in float64.

A family's case file lists them as `NODES`; `conformance.references.nodes` holds what each op means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance import host, tolerance
from conformance.cases import Input, listed
from conformance.references import nodes as references, truth
from conformance.references.rounding import Change
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.importer import support
from tflgpu_plugin.ir import COMPLEX, NUMPY_DTYPES, Array, Graph, Node, Target, Tensor
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program


@dataclass(frozen=True)
class NodeCase:
    """One node: internal `op`, its `inputs` (None: absent) and `attributes`.

    `terms` is how many products or summands an output element has (for the tolerance), `refused`
    says that the table must say no."""

    name: str
    op: str
    inputs: tuple[Input | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    output_type: str = "f32"
    terms: int = 1
    refused: bool = False
    output_types: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """Returns the type of each output."""
        return self.output_types or (self.output_type,) * self.outputs


def family_nodes(family: str) -> list[NodeCase]:
    """Returns the node cases of one family; none when its file lists none."""
    return listed(family, "NODES")


def graph(case: NodeCase) -> Graph:
    """Returns the one-node graph of a case; tensor k is input k, then come the outputs."""
    tensors = {
        k: Tensor(f"input_{k}", value.shape, value.dtype, value.data)
        for k, value in enumerate(case.inputs)
        if value is not None
    }
    reads = tuple(k if k in tensors else None for k in range(len(case.inputs)))
    outputs = tuple(len(case.inputs) + k for k in range(case.outputs))
    types = dict(zip(outputs, case.types, strict=True))
    tensors |= {t: Tensor(f"output_{t}", (), types[t]) for t in outputs}
    node = Node(0, case.op, reads, outputs, case.attributes, case.name, sources=(0,))
    fed = tuple(
        k for k, value in enumerate(case.inputs) if value is not None and value.data is None
    )
    bare = Graph(tensors, (node,), fed, outputs)
    if case.refused:
        return bare
    shapes = ops.rows()[case.op].shapes(bare, node)
    made = {
        t: Tensor(f"output_{t}", tuple(shape), types[t])
        for t, shape in zip(outputs, shapes, strict=True)
    }
    return Graph({**tensors, **made}, (node,), fed, outputs)


def feeds(case: NodeCase) -> list[Array]:
    """Returns values of the inputs that are not constant, seeded from the case's name."""
    given = [i for i in case.inputs if i is not None and i.data is None]
    seed = int.from_bytes(f"{case.op} {case.name}".encode(), "little") % 2**32
    return [host.random_array(_paired(value), [seed, k]) for k, value in enumerate(given)]


def _paired(value: Input) -> Input:
    """Returns complex numbers as pairs of floats on an additional axis."""
    return replace(value, shape=(*value.shape, 2), dtype="f32") if value.dtype == COMPLEX else value


def answers(case: NodeCase, values: list[Array], change: Change = np.asarray) -> list[Array]:
    """Returns numpy's answers in float64; `change` is applied to every float input."""
    waiting = iter(values)
    given = [
        None if i is None else (next(waiting) if i.data is None else i.data) for i in case.inputs
    ]
    wide = [
        change(a.astype(np.float64)) if a is not None and a.dtype == np.float32 else a
        for a in given
    ]
    wide = [
        a[..., 0] + 1j * a[..., 1] if i is not None and a is not None and i.dtype == COMPLEX else a
        for i, a in zip(case.inputs, wide, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = references.REFERENCES[case.op](*wide, **case.attributes)
    results = found if isinstance(found, tuple) else (found,)
    return [
        np.stack([r.real, r.imag], -1) if np.iscomplexobj(r) else np.asarray(r) for r in results
    ]


def expected(case: NodeCase, values: list[Array]) -> list[Array]:
    """Returns the answers, rounded to the output's type at the end."""
    results = answers(case, values)
    with np.errstate(all="ignore"):
        return [
            r.astype(NUMPY_DTYPES.get(t, "float32"))
            for r, t in zip(results, case.types, strict=True)
        ]


@dataclass(frozen=True)
class Finding:
    """The result of a node case: a sentence when it is wrong, the sentence of a refusal, and the
    worst error over its tolerance."""

    problem: str = ""
    refusal: str = ""
    share: float = 0.0
    ulp: float = 0.0


def check(case: NodeCase, targets: Mapping[str, Target], wanted: str | None = None) -> str | None:
    """Returns a sentence when the case is wrong, on the plan of any of the targets."""
    return examine(case, targets, wanted).problem or None


def examine(case: NodeCase, targets: Mapping[str, Target], wanted: str | None = None) -> Finding:
    """Runs a case on every distinct plan of the targets, and compares."""
    partition = graph(case)
    device = adapter.open_device(adapter.select(wanted))
    refusal = support.support(partition, partition.nodes[0], device.target) or ""
    if case.refused:
        missing = "not refused, but the case says it must be"
        return Finding("" if refusal else missing, refusal)
    if refusal:
        return Finding(f"refused: {refusal}", refusal)
    values = feeds(case)
    allowed, right = bounds(case, values), expected(case, values)
    seen, worst = set(), Finding()
    for name, target in targets.items():
        plan = compiler.compile(partition, target)
        key = (plan.pipelines, plan.dispatches, plan.uniforms)
        if key in seen:
            continue
        seen.add(key)
        got = Instance(Program(plan, device.handle, device.pipelines)).run(values, [])
        for k, (answer, found) in enumerate(zip(right, got, strict=True)):
            verdict = tolerance.compare(answer, found, allowed[k])
            if not verdict.passed:
                text = f"{name} output {k} {list(answer.shape)}: {verdict}"
                return Finding(text, "", verdict.share, verdict.ulp)
            worst = max(worst, Finding("", "", verdict.share, verdict.ulp), key=lambda f: f.share)
    return worst


def bounds(case: NodeCase, values: list[Array]) -> list[tolerance.Bound]:
    """Returns the tolerance of each output of a case: its op's class, and the condition of each
    element."""
    rule = ops.rows()[case.op].accuracy
    if rule == "exact":
        return [tolerance.bound(rule, np.zeros(0), np.zeros(0))] * case.outputs
    true = truth.measure(lambda change: [answers(case, values, change)], case.terms)
    pairs = zip(true.values[0], true.moved[0], strict=True)
    return [tolerance.bound(rule, *pair, true.terms) for pair in pairs]
