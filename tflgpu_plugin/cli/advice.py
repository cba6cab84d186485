"""Advice for models on GPUs: channels in fours, inputs of four channels, fewer nodes that rearrange
data. Each comes with the layers that it concerns, and what they cost as planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.cli.shared import megabytes
from tflgpu_plugin.frontend.reports import Report, many
from tflgpu_plugin.harness.built import Built, moved, part_of, placed
from tflgpu_plugin.importer.partition import work
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.runtime.recording import operators

SLICE = 4  # channels that are stored together
MIN_SHARE = 0.001  # part of the multiply-adds of all partitions: less is not worth a line
SHOWN = 6  # layers in a line


@dataclass(frozen=True)
class Advice:
    """`kind` is channels, input or rearranging. `layers` are the host's nodes as operator and
    number, or the input's name. They cost `launches` that move `bytes`, or multiply-adds with
    zeros: `wasted` is about their number, by those that all partitions need."""

    kind: str
    text: str
    layers: tuple[str, ...]
    launches: int = 0
    bytes: int = 0
    wasted: float = 0.0

    def line(self) -> str:
        """Returns the advice with its first layers."""
        listed = ", ".join(self.layers[:SHOWN])
        more = len(self.layers) - SHOWN
        return f"{self.text} ({listed}{f' and {more} more' if more > 0 else ''})"


def advise(built: Built, report: Report) -> list[Advice]:
    """Returns the advice for the partitions of a report as they are planned here."""
    if not report.partitions:
        return []
    pairs = [(partition, instance) for _, partition, instance in placed(built, report)]
    return [*_channels(pairs), *_inputs(pairs), *_rearranging(pairs)]


def _channels(built: Built) -> Iterator[Advice]:
    """Yields the advice about layers with other channels than multiples of four."""
    total = sum(work(partition.graph) for partition, _ in built)
    layers, wasted = list[str](), 0.0
    for partition, _ in built:
        graph, words = partition.graph, operators(partition.graph)
        for node in graph.nodes:
            more = work(replace(graph, nodes=(node,))) * (_padded(graph, node) - 1)
            if total and more / total >= MIN_SHARE:
                wasted += more / total
                given, made = graph.shape(node.operand())[-1], graph.shape(node.outputs[0])[-1]
                counts = str(made) if given == made else f"{given} to {made}"
                for source in node.sources or (node.id,):
                    layers.append(f"{words[source]}: {counts}")
    if layers:
        text = (
            f"Channels are stored in fours: {many(len(layers), 'layer')} with other numbers of "
            f"them do about {wasted:.1%} more multiply-adds, with zeros"
        )
        yield Advice("channels", text, tuple(layers), wasted=wasted)


def _padded(graph: Graph, node: Node) -> float:
    """Returns the factor by which the multiply-adds of an image layer grow because its channels are
    rounded up to multiples of four."""
    row = ops.rows()[node.op]
    shapes = [graph.shape(node.operand()), graph.shape(node.outputs[0])]
    if row.kind not in ("product", "window") or any(len(shape) != 4 for shape in shapes):
        return 1.0
    counted = shapes if row.weights and row.weights.flattens else shapes[1:]
    channels = [shape[-1] for shape in counted]
    return prod(-(-n // SLICE) * SLICE / n for n in channels if n > 0)


def _inputs(built: Built) -> Iterator[Advice]:
    """Yields the advice about pictures of three channels that a launch of their own rearranges."""
    for _, instance in built:
        first = [made for made in instance.plan.dispatches if not made.nodes]
        for port in instance.plan.inputs:
            if port.shape[3:] != (3,) or not any(port.buffer in made.buffers for made in first):
                continue
            text = (
                f"The input {port.name} has 3 channels, so that a launch rearranges its "
                f"{megabytes(port.bytes)} in each run; one of 4 (RGBA) is read as it is"
            )
            yield Advice("input", text, (port.name,), 1, port.bytes)


def _rearranging(built: Built) -> Iterator[Advice]:
    """Yields the advice about nodes for which launches only move data."""
    layers, launches, total = list[str](), 0, 0
    for partition, instance in built:
        words = operators(partition.graph)
        for made in instance.plan.dispatches:
            part = part_of(partition.graph, made)
            kinds = {ops.rows()[node.op].kind for node in part.nodes}
            if "movement" not in kinds or not kinds <= {"movement", "elementwise"}:
                continue
            launches, total = launches + 1, total + moved(part)
            moving = (n for n in part.nodes if ops.rows()[n.op].kind == "movement")
            sources = dict.fromkeys(s for n in moving for s in (n.sources or (n.id,)))
            layers += [words[source] for source in sources]
    if layers:
        text = (
            f"Nodes that rearrange data cost {many(launches, 'launch', 'launches')} and move "
            f"{megabytes(total)} in each run"
        )
        yield Advice("rearranging", text, tuple(dict.fromkeys(layers)), launches, total)
