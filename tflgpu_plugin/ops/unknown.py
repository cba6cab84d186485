"""Numbers of int64 beyond int32, which the GPU cannot represent. A run that produces one is
flagged, unless a later choice (`where`) may discard it: then it becomes a special value that is
propagated like NaN, and the run is flagged if that is chosen."""

from __future__ import annotations

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node

UNKNOWN = "vec4i(-2147483647 - 1)"  # WGSL of the special value
PASSES, CHOOSES = "passes", "chooses"  # values of `Op.unknown`


def unflagged(graph: Graph) -> frozenset[int]:
    """Returns the int64 tensors that may hold the special value: all readers propagate it to such a
    tensor, or choose between it and another value."""
    found: set[int] = set()
    readers = graph.consumers()
    ends = {*graph.outputs, *(after for _, after in graph.states)}
    for node in reversed(graph.nodes):
        for tensor in node.outputs:
            known = readers.get(tensor, ()) if tensor not in ends else ()
            if known and graph.tensors[tensor].dtype == "i64" and not node.epilogue:
                if all(_takes(reader, tensor, found) for reader in known):
                    found.add(tensor)
    return frozenset(found)


def _takes(reader: Node, tensor: int, found: set[int]) -> bool:
    row = ops.rows()[reader.op]
    if reader.epilogue or tensor not in reader.inputs:
        return False
    if row.unknown == CHOOSES:
        return True
    return (row.unknown == PASSES or row.moves) and found.issuperset(reader.outputs)


def where_unknown(values: list[str]) -> str:
    """Returns WGSL (vec4 of bool) for where one of these int32 values is the special one."""
    return " | ".join(f"({value} == {UNKNOWN})" for value in values)
