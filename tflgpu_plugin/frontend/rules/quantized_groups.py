"""Quantized groups: an operator between nodes that dequantize what it reads and nodes that quantize
what it makes, which a host runs as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tflgpu_plugin.ir.graph import Graph

INCOMPLETE = "It belongs to a quantized group of which another node stays on the CPU."


@dataclass
class _HostNode:
    """A node of the host, whose work several nodes may do."""

    bounds: str
    nodes: list[int] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """An operator of ONNX between DequantizeLinear and QuantizeLinear runs here with all of these
    or not at all, since the CPU runs such a group as one.
    """
    if not any(node.row and node.row.bounds == "opens" for node in graph.nodes):
        return {}
    hosts = _hosts(graph)
    opened = {t for host in hosts if host.bounds == "opens" for t in host.writes}
    writers = {t: host for host in hosts for t in host.writes}
    readers: dict[int, list[_HostNode]] = {}
    for host in hosts:
        for tensor in host.reads:
            readers.setdefault(tensor, []).append(host)

    away = set(refused)

    def here(host: _HostNode) -> bool:
        return away.isdisjoint(host.nodes)

    def grouped(host: _HostNode) -> bool:
        return not opened.isdisjoint(host.reads)

    def incomplete(host: _HostNode) -> bool:
        after = [reader for t in host.writes for reader in readers.get(t, ())]
        before = [writers[t] for t in host.reads if t in writers]
        if host.bounds == "opens":
            return host.writes.isdisjoint(graph.outputs) and not all(map(here, after))
        if host.bounds == "closes":
            return any(grouped(maker) and not here(maker) for maker in before)
        if not grouped(host):
            return False
        ends = [one for one in after if one.bounds == "closes"]
        ends += [one for one in before if one.bounds == "opens"]
        return not all(map(here, ends))

    while more := {n for h in hosts if here(h) and incomplete(h) for n in h.nodes}:
        away |= more
    return dict.fromkeys(away - set(refused), INCOMPLETE)


def _hosts(graph: Graph) -> list[_HostNode]:
    found: dict[int, _HostNode] = {}
    for node in graph.nodes:
        bounds = node.row.bounds if node.row else ""
        host = found.setdefault((*node.sources, node.id)[0], _HostNode(bounds))
        host.nodes.append(node.id)
        host.reads.update(set(node.reads) - host.writes)
        host.writes.update(node.outputs)
    return list(found.values())
