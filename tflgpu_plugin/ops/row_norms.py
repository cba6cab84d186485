"""Normalization of rows in the launch that reads its result: a product of few rows multiplies the
differences from the mean, sums their squares beside the products, and divides each result by their
root mean square. So a decoder's normalizations need no launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tflgpu_plugin.ir import Array, Node
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops.lowering import Access, Launch, Lowering, Source

# Multiply-adds of a product up to which the work that is added takes less time than a launch: it is
# a fifth of the product on software adapters, and on GPUs a tenth where memory does not hide it.
MAX_WORK, MAX_WORK_OF_GPUS = 1 << 17, 1 << 23


@dataclass(frozen=True)
class RowNorm:
    """The normalization of a product's input: of what, and the constant factor of each channel.
    `shifts`: what the constants that it adds to channels add to the product's results."""

    launch: Launch
    gains: Source | None
    shifts: Source | None

    @property
    def reads(self) -> dict[str, Source | Access]:
        """Returns the operands of the product's kernel: `x`, and perhaps `gains` and `shifts`."""
        (x,) = (source for operand, source in self.launch.operands if operand.name == "x")
        found = {"x": x, "gains": self.gains, "shifts": self.shifts}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def parameters(self) -> dict[str, object]:
        return {name: self.launch.parameters[name] for name in ("count", "epsilon")}

    @property
    def variant(self) -> dict[str, object]:
        return {"normed": "centred" if self.launch.variant["centred"] else "rms",
                "gains": self.gains is not None, "shifts": self.shifts is not None}  # fmt: skip


PLAIN: Mapping[str, object] = {"normed": "", "gains": False, "shifts": False}


def taken(low: Lowering, node: Node, work: int, weights: int | None = None) -> RowNorm | None:
    """Returns the normalization that makes the first input of a product of this many multiply-adds,
    if the product can normalize its input itself; else None. The launch of the normalization is
    dropped where nothing else reads its result. Without `weights` [O, I], the product's kernel
    supports only RMS normalization, which adds nothing to channels."""
    made = _writer(low, low.root(node.operand()))
    if made is None or made.kernel != "normalization" or made.when is not None:
        return None
    variant, steps = made.variant, made.epilogue.get("out", ())
    centred, ops = bool(variant["centred"]), [each.op for each in steps]
    if variant["groups"] or variant["parts"] or ops not in ([], ["mul"], ["add"], ["mul", "add"]):
        return None
    if low.geometry(node.operand()) != low.geometry(made.node.outputs[0]):
        return None
    if any(each.spread != "channel" for each in steps):
        return None
    if (centred or "add" in ops) and (weights is None or not low.target.teams):
        return None
    operands = {operand.name: source for operand, source in made.operands}
    later = _writer(low, low.root(operands["x"]))
    if later is not None and low.launches.index(later) > low.launches.index(made):
        return None  # the input was updated in place
    added = [each.tensor for each in made.node.epilogue if each.op == "add"]
    shifts = _shifts(low, weights, added[0]) if added else None
    if added and shifts is None:
        return None
    gains = next((operands[f"{each.operand}"] for each in steps if each.op == "mul"), None)
    bound = 3 + len(ops) + sum(each.tensor is not None for each in node.epilogue)  # x, w, y
    if bound > low.target.max_storage_buffers or not _pays(low, 2 * work if centred else work):
        return None
    return RowNorm(made, gains, shifts)


def _shifts(low: Lowering, weights: int | None, added: int | None) -> Source | None:
    """Returns the product of constant weights [O, ..., I] and a constant for each input, or None if
    one of them is not constant. Weights must be finite: an infinite one makes the results infinite,
    but two products that it takes part in may add to NaN."""
    constant, matrix = low.graph.constant(added), low.graph.constant(weights)
    if constant is None or matrix is None or weights is None or not np.isfinite(matrix).all():
        return None
    outputs, numbers = matrix.shape[0], constant.reshape(-1).astype(np.float64)
    vectors = -(-outputs // 4)

    def pack(data: Array) -> Array:
        made = data.reshape(outputs, -1).astype(np.float64) @ numbers
        with np.errstate(over="ignore"):
            return np.pad(made, (0, 4 * vectors - outputs)).astype(np.float32)

    return low.constant(weights, "shifts", low.digest(added), vectors=vectors, pack=pack)


def _writer(low: Lowering, root: Source) -> Launch | None:
    """Returns the last launch that writes a source."""
    return next((one for one in reversed(low.launches) if root in map(low.root, one.writes)), None)


@heuristic
def _pays(low: Lowering, work: int) -> bool:
    return work <= (MAX_WORK if low.target.software else MAX_WORK_OF_GPUS)
