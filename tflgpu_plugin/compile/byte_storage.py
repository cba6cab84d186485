"""Chooses the tensors of 8 bits that are stored in bytes: the inputs of layers that multiply bytes
(see `ops.byte_products`), if all launches that write to their memory write whole vec4, and all
tensors in it hold rounded values of the same quantization. Other inputs of such layers are copied
to bytes, and so are those in memory to which the layer writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tflgpu_plugin import kernels, ops
from tflgpu_plugin.compile.precision import Memory
from tflgpu_plugin.ir import COUNTS, Graph, quantization
from tflgpu_plugin.kernels import Operand
from tflgpu_plugin.ops.levels import Level, level
from tflgpu_plugin.ops.lowering import Launch, Lowering, Source

VECTOR = 4  # lanes
FOLDED, PAD = 4, 1  # parameters of a folded dispatch, and of an operand whose words are read


def levels(low: Lowering, memory: Memory) -> dict[object, Level]:
    """Returns what the bytes of memory stand for that holds bytes. Removes the launches that copy
    tensors which are in bytes themselves. `memory` gives the memory that holds a source."""
    if not low.in_bytes:
        return {}
    wanted = {memory(x) for x in low.in_bytes.values()}
    kept = [*(t for pair in low.graph.states for t in pair), *low.homes, *_unrounded(low.graph)]
    wide: set[object] = {memory(t) for t in kept}
    found: dict[object, Level] = {}
    for operand, source in (each for launch in low.launches for each in launch.operands):
        place = memory(source)
        if place not in wanted or place in wide:
            continue
        held = level(low, source) if isinstance(source, int) and source >= 0 else None
        reads = operand.access == "r" and operand.view > 0
        able = reads or (operand.access == "w" and operand.view == VECTOR)
        if held is None or not able or found.setdefault(place, held) != held:
            wide.add(place)
    for launch in low.launches:
        wide |= _without_room(low, launch, memory, found)
    found = {place: held for place, held in found.items() if place not in wide}
    for made, x in low.in_bytes.items():
        if memory(x) in found and not _meets(low, memory, made, memory(x)):
            low.alias(made, x)
        elif (held := level(low, x)) is not None:
            found[made] = held
    low.launches = [one for one in low.launches if not _is_elided(low, one)]
    return found


def _unrounded(graph: Graph) -> Iterator[int]:
    """Yields the results that have elements of tensors with another quantization. Where they only
    leave the partition, the conversion for the host is what rounds and saturates them."""
    for node in graph.nodes:
        if not ops.rows()[node.op].keeps or node.epilogue:
            continue
        given = [graph.tensors[t] for t in node.inputs if t is not None]
        values = [each for each in given if each.dtype not in COUNTS]
        for tensor in node.outputs:
            result = graph.tensors[tensor]
            if quantization.real(result) and not all(
                quantization.alike(each, result) for each in values
            ):
                yield tensor


def is_raw(low: Lowering, operand: Operand, source: Source) -> bool:
    """Whether a launch reads the words of an operand, not the values that they represent."""
    return operand.access == "r" and isinstance(source, int) and source in low.in_bytes


def _without_room(
    low: Lowering, launch: Launch, memory: Memory, found: Collection[object]
) -> set[object]:
    """Returns the memory of a launch's operands that the launch cannot convert, because its uniform
    block has no room for all of the numbers."""
    places = [memory(source) for _, source in launch.operands]
    converted = [
        place for place, (operand, source) in zip(places, launch.operands, strict=True)
        if place in found and not is_raw(low, operand, source)
    ]  # fmt: skip
    written = sum(operand.access != "r" for operand, _ in launch.operands)
    words = len(launch.parameters) + len(places) + written + FOLDED + PAD + 2 * len(converted)
    return set(converted) if 4 * words > kernels.UNIFORM_BYTES else set()


def _meets(low: Lowering, memory: Memory, copy: int, place: object) -> bool:
    """Whether a launch that reads a copy writes to this memory: it cannot read that, too."""
    return any(
        any(low.root(x) == copy for x in launch.reads)
        and any(memory(x) == place for x in launch.writes)
        for launch in low.launches
    )


def _is_elided(low: Lowering, launch: Launch) -> bool:
    """Whether a launch copies a tensor that is in bytes itself."""
    made = launch.writes[0]
    return isinstance(made, int) and made in low.in_bytes and made in low.aliases
