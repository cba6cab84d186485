"""A case's answers in float64, and how much they move when every number that goes in is
off by one rounding: the condition of each output element, from which its tolerance follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from conformance import direct
from conformance.cases import Case, Input
from conformance.references import layers as references_layers, nodes as references, rounding
from conformance.references.rounding import Change
from conformance.tolerance import UNIT
from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, Graph, Node, Tensor, quantization
from tflgpu_plugin.ops import transpose_conv
from tflgpu_plugin.ops.blocks import windows
from tflgpu_plugin.ops.reduce_forms import reduced_axes
from tflgpu_plugin.ops.window import bounded, spans
from tflgpu_plugin.passes.decompose import decompose

# ONNX Runtime counts the places of an interpolation in another order than TFLite.
IN_ONNX = {"resize_bilinear": {"as_counted": False}}
TRIALS = 8  # of random roundings
REFERENCES = {**references_layers.REFERENCES, **references.REFERENCES}
Runs = list[list[Array]]  # outputs per run


@dataclass(frozen=True)
class Truth:
    """Per run and output: values in float64, and the largest shift of each element when every float
    that goes in moves by up to one unit roundoff of itself. `terms`: how many terms an element
    sums."""

    values: Runs
    moved: Runs
    terms: int


def measure(answers: Callable[[Change], Runs], terms: int) -> Truth:
    """Measures how outputs react to rounding; `answers(change)` returns the outputs of every run
    after applying `change` to each array of floats that is an input."""
    with np.errstate(all="ignore"):
        values = answers(np.asarray)
        moved = [[np.zeros(a.shape) for a in run] for run in values]
        for trial in range(TRIALS):
            change = _off(trial)
            with rounding.by(change):
                others = answers(change)
            for run, wanted, found in zip(moved, values, others, strict=True):
                for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
                    shift = np.abs(np.subtract(a, b, dtype=np.float64))
                    run[k] = np.fmax(run[k], np.where(np.isfinite(shift), shift, 0.0))
    return Truth(values, moved, max(1, terms))


def _off(trial: int) -> Change:
    """Returns every number times 1 plus or minus a half to a whole unit roundoff."""
    random = np.random.default_rng(trial)

    def change(array: Array) -> Array:
        part = random.uniform(-0.5, 0.5, array.shape)
        return np.asarray(array * (1.0 + UNIT * (part + np.copysign(0.5, part))))

    return change


def of_case(case: Case, feeds: Sequence[Sequence[Array]], onnx: bool = False) -> Truth:
    """Returns the truth of a TFLite case whose variables start as zeros and persist, but not where
    it runs as an ONNX model. Weights in 8 bits are widened. Raises KeyError for an op that no
    reference knows."""
    graph = direct.graph(replace(case, inputs=tuple(map(_widened, case.inputs))))
    if any(node.op not in REFERENCES for node in graph.nodes):
        graph = decompose(graph)

    def answers(change: Change) -> Runs:
        known = {t: _wide(v.data, change) for t, v in graph.tensors.items() if v.data is not None}
        known |= {before: np.zeros(graph.shape(before)) for before, _ in graph.states}
        runs = []
        for feed in feeds:
            fed = zip(graph.inputs, feed, strict=True)
            known |= {t: _wide(_real(value, graph.tensors[t], case), change) for t, value in fed}
            for node in graph.nodes:
                more = IN_ONNX.get(node.op, {}) if onnx else {}
                known |= dict(zip(node.outputs, _run(graph, node, known, more), strict=False))
            runs.append([known[t] for t in graph.outputs])
            known |= {a: rounding.rounded(known[b]) for a, b in graph.states if not onnx}
        return runs

    return measure(answers, max(terms(graph, node) for node in graph.nodes))


def _scanned(graph: Graph, node: Node) -> int:
    (axis,) = reduced_axes(graph, node) or (0,)
    return graph.shape(node.operand())[axis]


def _updates(graph: Graph, node: Node) -> int:
    """Returns how many updates may be added to one element."""
    indices = graph.shape(node.operand(1))
    if node.attributes["reduction"] == "none":
        return 1
    return prod(indices[:-1]) if node.op == "scatter_nd" else indices[int(node.attributes["axis"])]


# Summands of ops whose number does not follow from their work.
TERMS: Mapping[str, Callable[[Graph, Node], int]] = {
    "cumprod": _scanned,
    "cumsum": _scanned,
    "gather_blocks": lambda graph, node: 1,
    "matmul_blocks": lambda graph, node: graph.shape(node.operand())[-1],
    "rotary": lambda graph, node: 2,
    "scatter_elements": _updates,
    "scatter_nd": _updates,
}


def terms(graph: Graph, node: Node) -> int:
    """Returns how many products or summands an output element has."""
    if node.op in TERMS:
        return TERMS[node.op](graph, node)
    work = ops.rows()[node.op].work
    return work(graph, node) // max(1, prod(graph.shape(node.outputs[0]))) if work else 1


def _widened(value: Input | None) -> Input | None:
    if value is None or value.quantization is None or value.data is None:
        return value
    data = quantization.dequantize(value.data, value.quantization)
    return replace(value, dtype="f32", data=data, quantization=None)


def _real(value: Array, tensor: Tensor, case: Case) -> Array:
    """Returns the real values of a run's numbers, where the results are floats."""
    if tensor.quantization is None or "f32" not in case.types:
        return value
    return quantization.dequantize(value, tensor.quantization)


def _wide(value: Array, change: Change) -> Array:
    return change(value.astype(np.float64)) if value.dtype.kind == "f" else value


def _run(graph: Graph, node: Node, known: Mapping[int, Array],
         more: Mapping[str, Any]) -> list[Array]:  # fmt: skip
    given = [None if t is None else known[t] for t in node.inputs]
    settings = {**node.attributes, **more}
    inside = bool(ops.rows()[node.op].states)  # what is kept from run to run is not activated
    activation = "none" if inside else settings.pop("activation", "none")
    if isinstance(settings.get("padding"), str):
        settings |= padding(graph, node)
    if node.op == "transpose_conv" and len(given) == 3:
        given.append(np.array(graph.shape(node.outputs[0])))
    found = REFERENCES[node.op](*given, **settings)
    results = list(found) if isinstance(found, tuple) else [np.asarray(found)]
    if activation == "none":
        return results
    return [REFERENCES[activation](result) for result in results]


def padding(graph: Graph, node: Node) -> dict[str, tuple[int, ...]]:
    """Returns the padding by name as (top, bottom, left, right), increased by dilations."""
    if node.op == "transpose_conv_3d":
        return {}  # its meaning is said by the shape of the result
    x, y = graph.shape(node.inputs[0] or 0), graph.shape(node.outputs[0])
    if node.op == "transpose_conv":
        kernel, strides = graph.shape(node.inputs[1] or 0)[1:3], node.attributes["strides"]
        before = [
            transpose_conv.padding_before(k, y[k + 1], kernel[k], strides[k], node) for k in (0, 1)
        ]
        return {"padding": (before[0], 0, before[1], 0)}
    if window := node.attributes.get("window"):
        sides = [bounded(side) for side in spans(x, window, node.attributes)]
    else:
        sides = windows(graph, node)
    found: list[int] = []
    for side in sides:
        reached = (side.positions - 1) * side.stride + side.reach
        found += [side.before, max(0, reached - side.extent - side.before)]
    dilated = (
        {"dilations": tuple(s.dilation for s in sides)} if "dilations" in node.attributes else {}
    )
    return {"padding": tuple(found), **dilated}
