"""RMS normalization in the launch that reads its result: a product of few rows sums the squares of
its input beside its products, and divides each result by the root of their mean. So a decoder's
normalizations need no launches. (A normalization that subtracts the mean keeps its launch: the
difference of two long sums would lose precision.)"""

from __future__ import annotations

from dataclasses import dataclass

from tflgpu_plugin.ir import Node
from tflgpu_plugin.ir.choosing import chooses
from tflgpu_plugin.ops.lowering import Access, Launch, Lowering, Source

# Multiply-adds of a product on a software adapter up to which the work that is added, a fifth of
# it, takes less time than a launch.
MOST_WORK = 1 << 17


@dataclass(frozen=True)
class RowNorm:
    """The normalization of a product's input: of what, and the constant factor of each channel."""

    launch: Launch
    gains: Source | None

    @property
    def reads(self) -> dict[str, Source | Access]:
        """Returns the operands of the product's kernel: `x` and perhaps `gains`."""
        (x,) = (source for operand, source in self.launch.operands if operand.name == "x")
        return {"x": x} if self.gains is None else {"x": x, "gains": self.gains}

    @property
    def parameters(self) -> dict[str, object]:
        return {name: self.launch.parameters[name] for name in ("count", "epsilon")}


def taken(low: Lowering, node: Node, work: int) -> RowNorm | None:
    """Returns the RMS normalization that makes the first input of a product of this many
    multiply-adds, if the product can normalize its input itself; else None. The launch of the
    normalization is dropped where nothing else reads its result."""
    made = _writer(low, low.root(node.operand()))
    if made is None or made.kernel != "normalization" or made.when is not None:
        return None
    variant, steps = made.variant, made.epilogue.get("out", ())
    if variant["centred"] or variant["groups"] or variant["parts"] or len(steps) > 1:
        return None
    if low.geometry(node.operand()) != low.geometry(made.node.outputs[0]):
        return None
    if any(each.op != "mul" or each.spread != "channel" for each in steps):
        return None
    operands = {operand.name: source for operand, source in made.operands}
    later = _writer(low, low.root(operands["x"]))
    if later is not None and low.launches.index(later) > low.launches.index(made):
        return None  # the input was updated in place
    gains = next((operands[each.operand] for each in steps), None)
    bound = 4 + sum(each.tensor is not None for each in node.epilogue)  # x, gains, w, y
    if bound > low.target.max_storage_buffers or not _pays(low, work):
        return None
    return RowNorm(made, gains)


def _writer(low: Lowering, root: Source) -> Launch | None:
    """Returns the last launch that writes a source."""
    return next((one for one in reversed(low.launches) if root in map(low.root, one.writes)), None)


@chooses
def _pays(low: Lowering, work: int) -> bool:
    return not low.target.software or work <= MOST_WORK
