"""Moves elementwise ops from after a reshape to before it, where they can become epilogue ops of
the producer. Reshapes then follow each other, and are joined."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter


def sink_reshapes(graph: Graph) -> Graph:
    """Moves elementwise ops from after reshapes to before them, if nothing else reads the reshapes
    and their producer can take the ops as epilogue ops."""
    e = Rewriter(graph)
    uses = DefUse(e)
    place = {node.id: k for k, node in enumerate(e.nodes)}
    for k, node in enumerate(graph.nodes):
        moved = next((t for t in node.inputs if uses.made_by(t, "reshape")), None)
        moves = _chain(uses, moved)
        if moved is None or not moves or not uses.plain(node):
            continue
        source = moves[0].operand()
        maker = uses.producer.get(source)
        if maker is None or not _takes_steps(maker) or not _commutes(e.now, node, moved, source):
            continue
        made = e.tensor(e.shape(source), like=node.outputs[0])
        inputs = tuple(source if t == moved else t for t in node.inputs)
        slots = [*(place[move.id] for move in moves), k]
        moves[0] = replace(moves[0], inputs=(made, *moves[0].inputs[1:]))
        moves[-1] = replace(moves[-1], outputs=node.outputs)
        later = [replace(node, inputs=inputs, outputs=(made,)), *moves]
        for slot, each in zip(slots, later, strict=True):
            e.nodes[slot], place[each.id] = each, slot
            uses.producer[each.outputs[0]] = each
        uses.readers[made] = moves[:1]
    return e.finish() if e.nodes != list(graph.nodes) else graph


def _takes_steps(maker: Node) -> bool:
    """Whether a producer takes epilogue ops. A movement would, too, but is joined with the
    reshapes."""
    row = ops.rows()[maker.op]
    return row.fuses and row.kind != "movement"


def _chain(uses: DefUse, tensor: int | None) -> list[Node]:
    """Returns the consecutive reshapes before a tensor; an empty list if another node reads one of
    them or their first input."""
    found = list[Node]()
    while (move := uses.made_by(tensor, "reshape")) is not None:
        found.insert(0, move)
        tensor = move.operand()
    read = [t for move in found for t in (move.operand(), move.outputs[0])]
    return found if None not in map(uses.reader, read) else []


def _commutes(graph: Graph, node: Node, moved: int, source: int) -> bool:
    """Whether an op computes the same values from `moved`, a reshape of `source`, as from
    `source`."""
    same = graph.shape(moved) == graph.shape(node.outputs[0])
    if not same or ops.rows()[node.op].as_epilogue is None:
        return False
    others = [t for t in node.reads if t != moved]
    kinds = {(spread(graph, t, moved), spread(graph, t, source)) for t in others}
    constant = all(graph.constant(t) is not None for t in others)
    return constant and kinds <= {("scalar", "scalar"), ("channel", "channel")}
