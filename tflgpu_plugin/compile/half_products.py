"""Which products are added up in float16, on devices that do so as they should: runs of a few
neighbours, and two such runs, whose sum goes on in float32.

Both operands must be stored as float16, the weights be known, and the layer be large enough to gain
by it. Weights are multiplied by a power of two, the sums divided by it at the end: the largest then
times the terms of a sum is below 1, so that no sum passes what float16 holds, whatever finite input
they meet. Products below 2^-14 lose digits: of inputs below about 2^-8, where weights are ordinary.

A run of n terms is rounded n times, at magnitudes that grow with the root of the terms so far. Of
the square of a term's magnitude that is (n + 1) / 2 squares of one rounding per term, one more for
the sum of two runs, and so much of the square of the sum: `precision` decides how many layers the
outputs bear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import frexp

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.compile import error_sensitivity, precision
from tflgpu_plugin.compile.precision import Memory
from tflgpu_plugin.ir import Array, Node, Pack
from tflgpu_plugin.ops.lowering import Constant, Launch, Lowering

RUN = 8  # products that are added up one after the other
TERMS = 2 * RUN  # that are added up in float16
MIN_WORK = 1 << 23  # multiply-adds of a layer; smaller ones wait for memory, not for arithmetic
MANY = 64  # pixels; widening a weight for each of them takes longer than reading it as float32
GROWTH = (RUN + 1) / 2 + 1
ROOM = 1.01  # for what rounding adds to a sum


def candidates(low: Lowering, memory: Memory) -> dict[int, tuple[object, Constant]]:
    """Launches, by their place, whose kernels can, with what holds their inputs and weights."""
    if not low.target.half or low.target.halves != "native":
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
    exact = any(s.spread == "rows" for some in launch.epilogue.values() for s in some)
    return launch.variant.get("run") is not None and not launch.variant["shared"] and not exact


def _pays(low: Lowering, node: Node) -> bool:
    row = ops.row(node.op)
    work = row.work(low.graph, node) if row and row.work else 0
    return work >= MIN_WORK


def chosen(
    low: Lowering, found: Mapping[int, tuple[object, Constant]], stored: set[object]
) -> dict[int, int]:
    """Returns the candidates that are added up so, each with the power of two that its weights
    are multiplied by. Weights are multiplied for all launches that read them, or for none."""
    both = {k: w for k, (x, w) in found.items() if x in stored and w.key in stored}
    outputs = {place: low.launches[place].node.outputs[0] for place in both}
    wide = {place for place, tensor in outputs.items() if low.graph.tensors[tensor].wide}
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


def widened(low: Lowering, halved: Collection[int]) -> set[object]:
    """Keys of weights that stay float32: what multiplies many pixels in float32 would be widened by
    each lane, where a GPU has it in registers for all of them otherwise. `halved`: places of
    launches that multiply in float16."""
    return {
        root.key
        for place, launch in enumerate(low.launches)
        if place not in halved and _widens(low, launch)
        for operand, source in launch.operands
        if operand.name == "w" and isinstance(root := low.root(source), Constant)
    }


def _widens(low: Lowering, launch: Launch) -> bool:
    """Each lane loads weights of its own, for many pixels or, walking along columns, for a few, in
    a layer that waits for arithmetic."""
    alone = not launch.variant.get("shared", True) and not launch.variant.get("memory")
    pixels = launch.parameters.get("pixels", MANY)
    many = isinstance(pixels, int) and pixels >= MANY
    return low.target.halves == "native" and alone and many and _pays(low, launch.node)


def shift(data: Array | None) -> int:
    """The power of two that leaves `TERMS` of the largest of these numbers below 1."""
    largest = 0.0 if data is None else float(np.max(np.abs(data), initial=0.0))
    return -frexp(largest * TERMS * ROOM)[1]


def shifted(pack: Pack, power: int) -> Iterator[Array]:
    """A packed constant times 2 to the power, piece by piece."""
    packed = pack()
    for piece in (packed,) if isinstance(packed, np.ndarray) else packed:
        yield np.ldexp(piece, power)
