"""Chooses products that are summed in float16, on devices whose float16 arithmetic is precise
enough: runs of a few adjacent terms, two runs at a time, whose sum is added in float32.

Both operands must be stored as float16, the weights constant, and the layer large enough to gain.
Weights are multiplied by a power of two, and sums divided by it at the end: the largest weight
times the number of terms is then below 1, so that no finite input makes a sum overflow float16.
Products below 2^-14 lose precision: those of inputs below about 2^-8 with ordinary weights.

A run of n terms is rounded n times, at magnitudes that grow with the square root of the terms so
far. In squares of one rounding of a term, that is (n + 1) / 2, and 1 more for the sum of two runs,
per term. `precision` decides for how many layers the outputs tolerate this."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import frexp
from typing import Any

import numpy as np

from tflgpu_plugin import kernels, ops
from tflgpu_plugin.compile import error_sensitivity, precision
from tflgpu_plugin.compile.precision import Memory
from tflgpu_plugin.ir import Array, Node, Pack
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops.lowering import Constant, Launch, Lowering

RUN = 8  # terms that are added sequentially
TERMS = 2 * RUN  # terms that are summed in float16
MIN_WORK = 1 << 23  # multiply-adds of a layer; smaller ones are bound by memory
MANY = 64  # pixels; converting a weight for each takes longer than reading it as float32
GROWTH = (RUN + 1) / 2 + 1
ROOM = 1.01  # margin for rounding errors of a sum


def candidates(low: Lowering, memory: Memory) -> dict[int, tuple[object, Constant]]:
    """Returns the launches (by index) whose kernels support float16 sums, with their input's memory
    and their weights."""
    never = low.target.tuning.get("half_products") == "never"
    if never or not low.target.half or low.target.halves != "native":
        return {}
    logged = precision.before_logs(low.graph)
    found = {}
    for place, launch in enumerate(low.launches):
        sources = {operand.name: source for operand, source in launch.operands}
        if _able(launch) and _pays(low, launch.node) and logged.isdisjoint(launch.node.outputs):
            weights = low.root(sources["w"])
            if isinstance(weights, Constant) and weights.half:
                found[place] = precision.key(memory(sources["x"])), weights
    return found


def _able(launch: Launch) -> bool:
    exact = kernels.sums_integers(launch.node.epilogue)
    return launch.variant.get("run") is not None and not launch.variant["shared"] and not exact


def _pays(low: Lowering, node: Node) -> bool:
    work = ops.traits(node.op).work
    return work is not None and work(low.graph, node) >= MIN_WORK


def chosen(
    low: Lowering, found: Mapping[int, tuple[object, Constant]], stored: set[object]
) -> dict[int, int]:
    """Returns the candidates to sum in float16, each with the exponent of the power of two that
    scales its weights. Weights are scaled for all launches that read them, or for none."""
    both = {k: w for k, (x, w) in found.items() if x in stored and w.key in stored}
    outputs = {place: low.launches[place].node.outputs[0] for place in both}
    wide = {place for place, tensor in outputs.items() if low.graph.tensors[tensor].keep_f32}
    sensitivities = error_sensitivity.sensitivities(low.graph) if both else {}
    errors = {place: GROWTH * sensitivities.get(t, 0.0) for place, t in outputs.items()}
    unbearable: set[int] = set(precision.worst(errors))
    left = both.keys() - wide - unbearable
    other = {
        root.key
        for place, launch in enumerate(low.launches)
        for _, source in launch.operands
        if place not in left and isinstance(root := low.root(source), Constant)
    }
    return {
        place: shift(both[place].data) for place in sorted(left) if both[place].key not in other
    }


def in_float16(launch: Launch, power: int) -> Launch:
    """Returns a launch that multiplies in float16, with weights scaled by 2 to the power. Workgroup
    memory holds at least two rows of weights: the index of an only row would be a constant, and the
    same in all lanes."""
    variant: dict[str, Any] = dict(launch.variant)
    parameters: dict[str, Any] = dict(launch.parameters)
    variant["run"], parameters["unscale"] = RUN, 2.0**-power
    if variant["memory"]:
        variant["ahead"] = ahead = _ahead(variant, parameters["steps"])
        variant["stage"] = parameters["stage"] = max(variant["stage"], 2 * ahead)
    return replace(launch, variant=variant, parameters=parameters)


@heuristic
def _ahead(variant: Mapping[str, Any], steps: Any) -> int:
    """Returns for how many iterations inputs are loaded together: for twice as many as in float32
    if two runs are complete only then, and no more of the `steps` are left over at the end."""
    ahead: int = variant["ahead"]
    short = 1 < ahead <= RUN // variant["step"]
    return 2 * ahead if short and steps % (2 * ahead) == steps % ahead else ahead


def widened(low: Lowering, halved: Collection[int]) -> set[object]:
    """Returns keys of weights to keep as float32: in a float32 product over many pixels every lane
    would convert them repeatedly, while a GPU could keep them in registers. `halved`: indices of
    launches that multiply in float16."""
    return {
        root.key
        for place, launch in enumerate(low.launches)
        if place not in halved and _widens(low, launch)
        for operand, source in launch.operands
        if operand.name == "w" and isinstance(root := low.root(source), Constant)
    }


def _widens(low: Lowering, launch: Launch) -> bool:
    """Whether each lane of a compute-bound launch loads its own weights, for many pixels or, if it
    walks along columns, for a few."""
    alone = not launch.variant.get("shared", True) and not launch.variant.get("memory")
    pixels = launch.parameters.get("pixels", MANY)
    many = isinstance(pixels, int) and pixels >= MANY
    return low.target.halves == "native" and alone and many and _pays(low, launch.node)


def shift(data: Array | None) -> int:
    """Returns the exponent of the power of two that scales `TERMS` times the largest number below
    1."""
    largest = 0.0 if data is None else float(np.max(np.abs(data), initial=0.0))
    return -frexp(largest * TERMS * ROOM)[1]


def shifted(pack: Pack, power: int) -> Iterator[Array]:
    """Yields a packed constant times 2 to the power, piece by piece."""
    packed = pack()
    for piece in (packed,) if isinstance(packed, np.ndarray) else packed:
        yield np.ldexp(piece, power)
