"""Plans a graph for many targets at once: the passes, a third of the work, run once for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from conformance.variants import half
from tflgpu_plugin.compile.compiler import Assembly
from tflgpu_plugin.compile.launches import lower
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Plan, Target
from tflgpu_plugin.ir.quirks import refuses_some
from tflgpu_plugin.passes import pipeline


def plans(graph: Graph, targets: Sequence[Target]) -> Iterator[Plan | Unsupported]:
    """Yields for each target in turn what `compiler.compile` returns or raises; targets that store
    values as float16 do so wherever they can."""
    shared: Graph | None = None  # passes look at a target only for what it refuses
    for target in targets:
        if refuses_some(target):
            rewritten = pipeline.run(graph, target)
        else:
            rewritten = shared = shared or pipeline.run(graph, target)
        try:
            with half.everything() if target.half else nullcontext():
                plan = Assembly(graph, rewritten, lower(rewritten, target)).plan()
        except Unsupported as refused:
            yield refused
        else:
            yield plan
