"""Templates that are made while a test runs."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin import engine
from tflgpu_plugin.compile.template import Template
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.ir.extent import Trace


def traced(patch: Any) -> list[Template]:
    """Returns a list that gets each template that is made from now on."""
    found: list[Template] = []
    usual = engine.Partition.template

    def watched(self: engine.Partition, graph: Graph, trace: Trace) -> Template:
        found.append(usual(self, graph, trace))
        return found[-1]

    patch.setattr(engine.Partition, "template", watched)
    return found
