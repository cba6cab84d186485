"""Graphs by hand as the importer hands them over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tflgpu_plugin import engine, ops
from tflgpu_plugin.importer.imported import Imported, Table
from tflgpu_plugin.importer.importer import judged
from tflgpu_plugin.importer.model import HostModel
from tflgpu_plugin.ir import Graph, Shape
from tflgpu_plugin.options import parse


def imported(graph: Graph) -> Imported:
    """Returns the import of a graph of a host without operators of its own."""
    return Imported(model=HostModel((), {}, ()), table=Table({}), graph=graph)


def claimed(graph: Graph, options: Mapping[str, object] | None = None) -> engine.Claim:
    """Returns the graph as it is claimed with these options of a user."""
    return engine.claim(judged(imported(graph), engine.judge(parse(options))))


def resized(graph: Graph, shapes: Sequence[Shape]) -> Graph:
    """Returns the graph for inputs of these shapes."""
    tensors = dict(graph.tensors)
    for index, shape in zip(graph.inputs, shapes, strict=True):
        tensors[index] = replace(tensors[index], shape=shape)
    for node in graph.nodes:
        made = ops.rows()[node.op].shapes(Graph.over(tensors, node), node)
        for index, shape in zip(node.outputs, made, strict=True):
            tensors[index] = replace(tensors[index], shape=tuple(shape))
    return replace(graph, tensors=tensors)
