"""A row of the op table, and its traits: all that other rooms must know of an op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ir.target import Target

if TYPE_CHECKING:
    from tflgpu_plugin.ops.decompose import Steps
    from tflgpu_plugin.ops.lowering import Lowering

Refusal = str | None


@dataclass(frozen=True)
class Op:
    """One row. `refuse(graph, node, target)` returns a sentence, or None when the node can run.

    `shapes(graph, node)` gives the output shapes from input shapes (and values of constant
    inputs). `accuracy` names a class of `conformance.tolerance`: exact, elementwise,
    function, transcendental, accumulate or reduction. `types` are the dtypes of the value inputs
    and outputs; `max_rank` is the highest rank of one. `work` estimates multiply-adds per run for
    the pays-off rule (None: one per output element). `fuses`: the lowering applies `node.posts`
    where it stores its first output, so passes may give it some. `expand` replaces the node by
    others before it is lowered (see `ops.decompose`); it returns whether it did. `states` pairs the
    position of an input that is state with that of the output whose value it takes. `in_8_bits`
    says how near int8 and uint8 results are to those of TFLite's reference kernels: exact (the very
    numbers), step (of few values, one step of the grid) or steps (several, over a sequence).
    """

    name: str
    refuse: Callable[[Graph, Node, Target], Refusal]
    shapes: Callable[[Graph, Node], list[Shape]]
    lower: Callable[[Lowering, Node], None]
    accuracy: str
    types: tuple[str, ...] = ("f32",)
    work: Callable[[Graph, Node], int] | None = None
    fuses: bool = False
    max_rank: int = 5
    expand: Callable[[Steps, Node], bool] | None = None
    states: tuple[tuple[int, int], ...] = ()
    family: str = ""
    in_8_bits: str = "exact"
